"""How many events a live tab follows, and whether the window still answers meanwhile.

usage: python -m bench.viewer_live offer TARGET RUN STEPS_PER_SECOND
       python -m bench.viewer_live watch TARGET RUN SECONDS
"""

from __future__ import annotations

import json
import os
import select
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

RATES = (1_000, 10_000, 50_000)
STEPS_PER_EPISODE = 20
BATCH_SECONDS = 0.02
PULSE = 0.005
RUN = "live"


class Effort(Protocol):
    """How much is measured."""

    @property
    def seconds(self) -> float:
        """How long one round watches."""

    @property
    def rounds(self) -> int:
        """How often."""


def live(effort: Effort, rate: int) -> dict[str, Any]:
    """Watch a run whose worker takes so many steps a second, with an episode every 20 steps."""
    from bench.slow_processes import Daemon, scratch

    found = []
    with scratch() as directory:
        for number in range(effort.rounds):
            daemon = Daemon(directory / str(number), "normal")
            with daemon, _offered(daemon.target, rate):
                arguments = ("watch", daemon.target, RUN, str(effort.seconds))
                done = subprocess.run(
                    _command(*arguments), capture_output=True, text=True, check=True
                )
                found.append(json.loads(done.stdout))
    medians = {key: statistics.median(each[key] for each in found) for key in found[0]}
    return {"offered": rate, **medians}


@contextmanager
def _offered(target: str, rate: int) -> Iterator[None]:
    sender = subprocess.Popen(
        _command("offer", target, RUN, str(rate)), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert sender.stdout is not None
        sender.stdout.readline()
        yield
    finally:
        sender.communicate()


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "bench.viewer_live", *arguments]


def offer(target: str, run_id: str, rate: int) -> None:
    """Publish steps and episodes at a steady rate until standard input ends."""
    import grpc

    from lanekit.slow.proto import telemetry_pb2 as pb
    from lanekit.slow.proto.telemetry_pb2_grpc import TrainerServiceStub

    rows = round(rate * BATCH_SECONDS)
    columns = pb.StepColumns(
        rows=rows,
        reward=[1.0] * rows,
        episode=[index // STEPS_PER_EPISODE for index in range(rows)],
        step=[index % STEPS_PER_EPISODE for index in range(rows)],
        action_json=[b"1"] * rows,
        observation_json=[b"[0.0273956,-0.0061122,0.0358571,0.0197368]"] * rows,
    )
    ended = rows // STEPS_PER_EPISODE
    episodes = [pb.Episode(episode_return=20.0, length=STEPS_PER_EPISODE) for _ in range(ended)]

    def batches(size: int) -> Iterator[int]:
        due, first = time.monotonic(), 1
        while not over.wait(max(0.0, due - time.monotonic())):
            yield first
            due, first = due + BATCH_SECONDS, first + size

    def send_episodes() -> None:
        requests = (
            pb.PublishRunEpisodesRequest(
                run_id=run_id, stream_id="s", first_seq=first, episodes=episodes
            )
            for first in batches(ended)
        )
        for _ in stub.PublishRunEpisodes(requests):
            pass

    def send_steps() -> None:
        requests = (
            pb.PublishRunStepsRequest(
                run_id=run_id, stream_id="s", first_seq=first, columns=columns
            )
            for first in batches(rows)
        )
        for _ in stub.PublishRunSteps(requests):
            pass

    over = threading.Event()
    with grpc.insecure_channel(target) as channel:
        stub = TrainerServiceStub(channel)
        stub.RegisterWorker(pb.RegisterWorkerRequest(run_id=run_id, stream_id="s"))
        senders = [threading.Thread(target=send_steps)]
        if ended:
            senders.append(threading.Thread(target=send_episodes))
        for sender in senders:
            sender.start()
        print("offering", flush=True)
        select.select([sys.stdin], [], [])
        over.set()
        for sender in senders:
            sender.join()


def watch(target: str, run_id: str, seconds: float) -> dict[str, float]:
    """Show the run, and return what was followed and how long the event loop took to answer."""
    import numpy as np
    from PyQt6.QtCore import QObject, QTimer, pyqtSignal
    from PyQt6.QtWidgets import QApplication

    from lanekit.slow.daemon_client import DaemonClient
    from lanekit.viewer.live.controller import ALL_AGENTS, LiveTelemetryController
    from lanekit.viewer.live.tab import LiveTelemetryTab

    class Pulse(QObject):
        """Asks the event loop for its attention."""

        beat = pyqtSignal(object)

    application = QApplication([])
    controller = LiveTelemetryController(lambda: DaemonClient(target))
    tab = LiveTelemetryTab(run_id, ALL_AGENTS, controller)
    tab.resize(1080, 760)
    tab.show()
    delays: list[int] = []
    pulse = Pulse()
    pulse.beat.connect(lambda sent: delays.append(time.perf_counter_ns() - sent))
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(PULSE):
            pulse.beat.emit(time.perf_counter_ns())

    def now() -> dict[str, float]:
        history = controller.history(run_id)
        return {
            "wall": time.monotonic(),
            "cpu": time.process_time(),
            "steps": history.steps,
            "episodes": history.episodes,
            "shown": tab.status.shown,
            "drawn": tab.returns.drawn,
        }

    moments: list[dict[str, float]] = []

    def begin() -> None:
        moments.append(now())
        threading.Thread(target=beat, daemon=True).start()

    def end() -> None:
        moments.append(now())
        application.quit()

    settled = 1500 if seconds > 1 else 300  # when everything that is made once is made
    QTimer.singleShot(settled, begin)
    QTimer.singleShot(settled + round(seconds * 1000), end)
    application.exec()
    ended.set()
    tab.close()
    controller.close()
    first, last = moments
    passed = last["wall"] - first["wall"]
    rates = {name: (last[name] - first[name]) / passed for name in first if name != "wall"}
    return {
        "steps_per_second": rates["steps"],
        "episodes_per_second": rates["episodes"],
        "shown_per_second": rates["shown"],
        "drawn_per_second": rates["drawn"],
        "cpu_share": rates["cpu"],
        "loop_p50_ms": float(np.percentile(delays, 50)) / 1e6,
        "loop_p99_ms": float(np.percentile(delays, 99)) / 1e6,
    }


def main() -> None:
    kind, target, run_id, amount = sys.argv[1:]
    if kind == "offer":
        offer(target, run_id, int(amount))
    else:
        print(json.dumps(watch(target, run_id, float(amount))))


if __name__ == "__main__":
    main()
