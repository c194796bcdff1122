"""The processes of the viewer's benchmark: writers of frames, and viewers that measure themselves.

usage: python -m bench.viewer_process write RUN WIDTH HEIGHT
       python -m bench.viewer_process tab|label SECONDS RUN ...
       python -m bench.viewer_process tick COUNT WIDTH HEIGHT
"""

from __future__ import annotations

import json
import os
import select
import sys
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

import numpy as np

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
os.environ.setdefault("QT_QUICK_BACKEND", "software")

from lanekit import FastLaneConfig, FastLaneReader, FastLaneWriter

RATE = 60.0
SIZE = 960, 540
PULSE = 0.005


def write(run_id: str, width: str, height: str) -> None:
    """Publish at 60 Hz until standard input ends."""
    config = FastLaneConfig(int(width), int(height), capacity=8)
    rng = np.random.default_rng(1)
    frames = [rng.integers(0, 256, config.shape, np.uint8) for _ in range(4)]
    with FastLaneWriter.create(run_id, config) as writer:
        print("publishing", flush=True)
        number, due = 0, time.monotonic()
        while not select.select([sys.stdin], [], [], max(0.0, due - time.monotonic()))[0]:
            writer.publish(frames[number % 4])
            number += 1
            due += 1 / RATE


def tick(count: str, width: str, height: str) -> dict[str, Any]:
    """Time a consumer's ticks alone: with a new frame, and without one."""
    from PyQt6.QtGui import QGuiApplication

    from lanekit.viewer.fastlane.consumer import FastLaneConsumer

    application = QGuiApplication([])
    config = FastLaneConfig(int(width), int(height), capacity=8)
    run_id = f"bench-{uuid.uuid4()}"
    frame = np.random.default_rng(1).integers(0, 256, config.shape, np.uint8)
    samples: dict[str, list[int]] = {"new": [], "nothing": []}
    with FastLaneWriter.create(run_id, config) as writer:
        consumer = FastLaneConsumer(run_id)
        for _ in range(int(count)):
            writer.publish(frame)
            for kind in samples:
                begun = time.perf_counter_ns()
                consumer.tick()
                samples[kind].append(time.perf_counter_ns() - begun)
        consumer.stop()
    del application
    return {
        kind: {"p50_us": _percentile(taken, 50) / 1e3, "p99_us": _percentile(taken, 99) / 1e3}
        for kind, taken in samples.items()
    }


def watch(kind: str, seconds: float, runs: list[str]) -> dict[str, Any]:
    """Show runs, and return what that cost and how old the pictures were."""
    from PyQt6.QtCore import QObject, QTimer, pyqtSignal
    from PyQt6.QtWidgets import QApplication, QWidget

    class Pulse(QObject):
        """Asks the event loop for its attention."""

        beat = pyqtSignal(object)

    application = QApplication([])
    ages: list[int] = []
    delays: list[int] = []
    computed: list[int] = []
    clock = time.pthread_getcpuclockid(threading.get_ident())

    def painted(timestamp_ns: int) -> None:
        QTimer.singleShot(0, lambda: ages.append(time.monotonic_ns() - timestamp_ns))

    make: Callable[[str], QWidget]
    make = tab_maker(painted) if kind == "tab" else label_maker(painted)
    windows = []
    for run_id in runs:
        window = make(run_id)
        window.resize(*SIZE)
        window.show()
        windows.append(window)
    pulse = Pulse()

    def answer(asked: tuple[int, int]) -> None:
        delays.append(time.perf_counter_ns() - asked[0])
        computed.append(time.clock_gettime_ns(clock) - asked[1])

    pulse.beat.connect(answer)
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(PULSE):
            pulse.beat.emit((time.perf_counter_ns(), time.clock_gettime_ns(clock)))

    begun: dict[str, float] = {}

    def begin() -> None:
        ages.clear()
        begun.update(cpu=time.process_time(), wall=time.monotonic())
        threading.Thread(target=beat, daemon=True).start()

    QTimer.singleShot(1500, begin)  # when everything that is made once is made
    QTimer.singleShot(1500 + round(seconds * 1000), application.quit)
    application.exec()
    cpu, wall = time.process_time() - begun["cpu"], time.monotonic() - begun["wall"]
    ended.set()
    result = {
        "cpu_share": cpu / wall,
        "frames_per_second": len(ages) / wall / len(runs),
        "age_p50_ms": _percentile(ages, 50) / 1e6,
        "age_p99_ms": _percentile(ages, 99) / 1e6,
        "loop_p50_ms": _percentile(delays, 50) / 1e6,
        "loop_p99_ms": _percentile(delays, 99) / 1e6,
        "loop_cpu_p99_ms": _percentile(computed, 99) / 1e6,
    }
    for window in windows:
        window.close()
    return result


def tab_maker(painted: Callable[[int], None]) -> Callable[[str], Any]:
    """Make tabs; `painted` gets the time of each frame that was painted."""
    from lanekit.viewer.fastlane.tab import FastLaneTab

    def make(run_id: str) -> FastLaneTab:
        tab = FastLaneTab(run_id, "agent-0")
        tab.frame.painted.connect(
            lambda: painted(tab.shown.info.timestamp_ns if tab.shown is not None else 0)
        )
        return tab

    return make


def label_maker(painted: Callable[[int], None]) -> Callable[[str], Any]:
    """Make what one writes first: a timer, a copy as bytes, a pixmap, scaled, in a label."""
    from PyQt6.QtCore import Qt, QTimer
    from PyQt6.QtGui import QImage, QPaintEvent, QPixmap
    from PyQt6.QtWidgets import QLabel

    class Label(QLabel):
        def __init__(self, run_id: str) -> None:
            super().__init__()
            self._reader = FastLaneReader.attach(run_id, timeout=5)
            self._timer = QTimer(self)
            self._timer.timeout.connect(self._look)
            self._timer.start(16)
            self._fresh = 0
            self._seen = 0

        def _look(self) -> None:
            frame = self._reader.latest_frame()
            if frame is None:
                return
            line = frame.width * frame.channels
            image = QImage(frame.data, frame.width, frame.height, line, QImage.Format.Format_RGB888)
            pixmap = QPixmap.fromImage(image)
            self.setPixmap(pixmap.scaled(self.size(), Qt.AspectRatioMode.KeepAspectRatio))
            if frame.seq != self._seen:
                self._seen, self._fresh = frame.seq, frame.timestamp_ns

        def paintEvent(self, event: QPaintEvent | None) -> None:  # noqa: N802 - Qt's name
            super().paintEvent(event)
            if self._fresh:
                painted(self._fresh)
                self._fresh = 0

    return Label


def _percentile(samples: list[int], share: float) -> float:
    return float(np.percentile(samples, share)) if samples else float("nan")


def main() -> None:
    kind, *arguments = sys.argv[1:]
    if kind == "write":
        write(*arguments)
    elif kind == "tick":
        print(json.dumps(tick(*arguments)))
    else:
        print(json.dumps(watch(kind, float(arguments[0]), arguments[1:])))


if __name__ == "__main__":
    main()
