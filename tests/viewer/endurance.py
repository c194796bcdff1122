"""A day in front of the window, as fast as the machine allows.

``python -m tests.viewer.endurance [--hours 24]``. A real tab in a real window gets a new frame at
each tick, 60 for every second that is simulated, and paints each of them. Meanwhile it is hidden
and shown, workers come back with frames of another size and format, some are killed, other tabs of
the run are opened and closed, films and screenshots are taken. Now and then everything that could
grow is counted; at the end nothing may have grown.
"""

from __future__ import annotations

import os

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
os.environ.setdefault("QT_QUICK_BACKEND", "software")

import argparse
import ctypes
import gc
import itertools
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import psutil
from PyQt6 import sip
from PyQt6.QtCore import QEvent
from PyQt6.QtWidgets import QApplication

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[1])]

from known_frames import config_of, in_format, known_rgb  # noqa: E402
from writers import WritingProcess  # noqa: E402

from lanekit import FastLaneMetrics, FastLaneWriter, segment_name  # noqa: E402
from lanekit.segments import reclaim_segment, segment_path  # noqa: E402
from lanekit.viewer.fastlane.tab import FastLaneTab  # noqa: E402
from patience import Watchdog  # noqa: E402

RATE = 60
GEOMETRIES = ((64, 48, "RGB"), (96, 72, "BGRX"), (64, 48, "GRAY"), (33, 20, "RGBA"))
FILM_FRAMES = 120


@dataclass(frozen=True)
class Rhythm:
    """Every how many simulated minutes something happens."""

    hidden: int
    new_worker: int
    other_tab: int
    killed_worker: int
    film: int
    counted: int


DAY = Rhythm(hidden=1, new_worker=10, other_tab=10, killed_worker=60, film=60, counted=60)
CROWDED = Rhythm(hidden=1, new_worker=1, other_tab=1, killed_worker=5, film=5, counted=3)
"""A few minutes in which as much happens as in hours."""


@dataclass(frozen=True)
class Sizes:
    """What could grow."""

    resident: int
    private: int
    descriptors: int
    threads: int
    mappings: int
    objects: int

    def __str__(self) -> str:
        return (
            f"{self.resident / 2**20:5.1f} MB  {self.private / 2**20:5.1f} MB  "
            f"{self.descriptors:11}  {self.threads:7}  {self.mappings:8}  {self.objects:7}"
        )

    @classmethod
    def now(cls) -> Sizes:
        """Count."""
        gc.collect()
        _give_back()
        process = psutil.Process()
        status = Path("/proc/self/status").read_text(encoding="ascii")
        private = next(line for line in status.splitlines() if line.startswith("RssAnon"))
        return cls(
            resident=process.memory_info().rss,
            private=int(private.split()[1]) * 1024,
            descriptors=process.num_fds(),
            threads=process.num_threads(),
            mappings=Path("/proc/self/maps").read_text(encoding="utf-8").count("\n"),
            objects=len(gc.get_objects()),
        )


def _give_back() -> None:
    """Return to the system what the allocator only keeps for later: after a film, megabytes."""
    ctypes.CDLL(None).malloc_trim(0)


MAY_GROW = Sizes(
    resident=4 << 20, private=4 << 20, descriptors=0, threads=0, mappings=8, objects=600
)
"""Memory is given in pieces, and an allocator's pieces move; a leak in every tick, or in everything
that happens once a minute, is larger than this after some hours. Of the objects, two or three for
each tab that was opened are known: PyQt keeps the emptied Python part of an item that QML made, and
the reference to it. That is some 330 in a day of 144 tabs."""


class Window:
    """One tab, and the worker that it watches."""

    def __init__(self, application: QApplication, directory: Path, run_id: str) -> None:
        self._application = application
        self._directory = directory
        self.run_id = run_id
        self._now = 0.0
        self._geometries = itertools.cycle(GEOMETRIES)
        self.ticks = 0
        self.frames = 0
        self.paints = 0
        self.tab = FastLaneTab(run_id, "", capture_directory=directory)
        self.tab.resize(320, 240)
        self.tab.consumer.frame_ready.connect(self._count_frame)
        self.tab.frame.painted.connect(self._count_paint)
        # Time passes when we say so.
        self.tab.consumer._clock = self._clock
        self.tab.model._hidden_timer.setInterval(0)
        self.tab.show()
        self._until("its first look", lambda: self.tab.consumer._timer.active)
        self.tab.consumer._timer.stop()
        self._begin_worker()

    def _clock(self) -> float:
        return self._now

    def _count_frame(self) -> None:
        self.frames += 1

    def _count_paint(self) -> None:
        self.paints += 1

    def _until(self, what: str, condition: Callable[[], bool]) -> None:
        watchdog = Watchdog(what)
        while not condition():
            watchdog.check()
            self._application.processEvents()

    def _begin_worker(self) -> None:
        width, height, pixel_format = next(self._geometries)
        rgb = [known_rgb(width, height, number) for number in range(2)]
        self._pictures = [in_format(each, pixel_format) for each in rgb]
        self._writer = FastLaneWriter.create(self.run_id, config_of(width, height, pixel_format))
        self.tick()

    def tick(self) -> None:
        """Let a sixtieth of a second pass."""
        self._writer.publish(
            self._pictures[self.ticks % 2],
            metrics=FastLaneMetrics(1.0, float(self.ticks % 1000), 60.0),
            metadata=b'{"step": %d}' % self.ticks,
        )
        self._look()

    def _look(self) -> None:
        self._now += 1 / RATE
        self.ticks += 1
        self.tab.consumer.tick()

    def minute(self) -> None:
        """Watch for a minute."""
        for _ in range(60):
            for _ in range(RATE):
                self.tick()
            self.tab.quick.grabFramebuffer()  # paints now, not when a screen would be ready
            self._application.processEvents()

    def hide_and_show(self) -> None:
        """Let nobody see the tab for two seconds."""
        self.tab.hide()
        self._until("the end of reading", lambda: self.tab.consumer.suspended)
        assert not self.tab.consumer.attached
        for _ in range(4):  # as often as it looks from afar in that time
            self._look()
        self.tab.show()
        self._until("the begin of reading", lambda: not self.tab.consumer.suspended)
        self.tick()

    def change_worker(self) -> None:
        """Let another worker come, whose frames look different."""
        self._writer.close()
        self._begin_worker()
        self._catch_up()

    def kill_worker(self) -> None:
        """Let a worker of another process be killed, and a new one come."""
        self._writer.close()
        worker = WritingProcess(self.run_id, 80, 60, "RGB", RATE)
        self._until_status("connected")
        worker.kill()
        self._until_status("reconnecting")
        self._begin_worker()
        self._catch_up()

    def _catch_up(self) -> None:
        before = self.frames
        watchdog = Watchdog("the new worker's frames")
        while self.frames == before or self.tab.consumer.status != "connected":
            watchdog.check()
            self.tick()

    def _until_status(self, status: str) -> None:
        def has_it() -> bool:
            self._look()
            return self.tab.consumer.status == status

        self._until(status, has_it)

    def open_another(self) -> None:
        """Open a second tab of the run, with an evaluation's summary, and close it."""
        tab = FastLaneTab(self.run_id, "", run_mode="policy_eval", eval_directory=self._directory)
        tab.show()
        self._until("the other tab's picture", lambda: tab.shown is not None)
        self._destroy(tab)

    def _destroy(self, tab: FastLaneTab) -> None:
        tab.close()
        tab.deleteLater()
        self._application.sendPostedEvents(tab, QEvent.Type.DeferredDelete.value)
        assert sip.isdeleted(tab)

    def film(self, kind: str) -> None:
        """Record two seconds, and save a picture."""
        model, captures = self.tab.model, self.tab.captures
        model.act(kind)
        for _ in range(FILM_FRAMES):
            self.tick()
            self._application.processEvents()
        model.act(kind)
        self._until("the film", lambda: captures.recording is None)
        model.say("")
        model.act("screenshot")
        self._until("the picture", lambda: "Saved" in model.notice)
        made = sorted(path.suffix for path in self._directory.iterdir())
        assert made == sorted([".png", ".mp4" if kind == "record" else ".gif"]), made
        for path in self._directory.iterdir():
            path.unlink()

    def close(self) -> None:
        """Leave nothing behind."""
        self._writer.close()
        self._destroy(self.tab)
        name = segment_name("frame", self.run_id)
        if segment_path(name).exists():
            reclaim_segment(name)


def live(window: Window, minutes: int, rhythm: Rhythm) -> Iterator[tuple[int, Sizes]]:
    """Let minutes pass; yield what was counted, and after how many of them."""
    kinds = itertools.cycle(("record", "record_gif"))
    for minute in range(1, minutes + 1):
        window.minute()
        if minute % rhythm.hidden == 0:
            window.hide_and_show()
        if minute % rhythm.new_worker == 0:
            window.change_worker()
        if minute % rhythm.other_tab == 0:
            window.open_another()
        if minute % rhythm.killed_worker == 0:
            window.kill_worker()
        if minute % rhythm.film == 0:
            window.film(next(kinds))
        if minute % rhythm.counted == 0:
            yield minute, Sizes.now()


def least(counted: Sequence[Sizes]) -> Sizes:
    """Return the least of each: what tabs and films leave goes, but not always before the count."""
    names = [field.name for field in fields(Sizes)]
    return Sizes(**{name: min(getattr(sizes, name) for sizes in counted) for name in names})


def growth(first: Sizes, last: Sizes) -> dict[str, int]:
    """Return what has grown by more than it may, and by how much."""
    names = [field.name for field in fields(Sizes)]
    grown = {name: getattr(last, name) - getattr(first, name) for name in names}
    return {name: by for name, by in grown.items() if by > getattr(MAY_GROW, name)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=int, default=24)
    hours = parser.parse_args().hours
    if hours < 8:
        parser.error("at least 8 hours: in the first two, what is made once is made")
    application = QApplication([])
    counted: list[Sizes] = []
    with tempfile.TemporaryDirectory(prefix="lk-") as directory:
        window = Window(application, Path(directory), f"endurance-{os.getpid()}-{uuid.uuid4().hex}")
        print("hour  resident   private  descriptors  threads  mappings  objects", flush=True)
        for minute, sizes in live(window, hours * 60, DAY):
            counted.append(sizes)
            print(f"{minute // 60:4}  {sizes}", flush=True)
        window.close()
    print(f"{window.ticks:,} ticks, {window.frames:,} frames, {window.paints:,} painted")
    grown = growth(least(counted[1:4]), least(counted[-3:]))
    print(f"has grown: {grown}" if grown else "nothing has grown since the second hour")
    return 1 if grown else 0


if __name__ == "__main__":
    sys.exit(main())
