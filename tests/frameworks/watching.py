"""Train with a framework under a real daemon, watch it from another process, and compare.

    watched = train_and_watch("sb3", tmp_path, total_steps=10_000)
    check_training(watched)
    check_pictures(watched)

A test that steers the run while it trains uses :class:`Training` itself.
"""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import threading
import uuid
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from lanekit.slow import DaemonClient, RunStore
from lanekit.slow.store.records import EventRecord, RunRecord
from lanekit.slow.store.results import Episodes, Steps

HERE = Path(__file__).resolve().parent
# Also in a framework's own processes, which know nothing of pytest's paths.
sys.path[:0] = [str(HERE.parent / "slow"), str(HERE.parent)]

from daemon_process import DaemonProcess  # noqa: E402

from patience import patience, until  # noqa: E402
from run_lanes import lanes_of  # noqa: E402

CARTPOLE = (400, 600, 3)
"""What CartPole renders."""

GRID = {"MOSAIC_FASTLANE_VIDEO_MODE": "grid", "MOSAIC_FASTLANE_GRID_LIMIT": "4"}
"""A launcher that asks for a picture of four environments."""


@dataclass(frozen=True)
class Watched:
    """A run that is over: what was seen of it, what was kept of it, what it says of itself."""

    run: RunRecord
    pixels: np.ndarray
    """Pictures that a viewer saw, RGB: (number, height, width, 3); each differs from the last."""
    pictures_seen: int
    """How many the viewer saw, of which `pixels` has the first and the last."""
    picture_steps: np.ndarray
    """Which step of its environment each picture shows."""
    renderings: list[str]
    """How each picture was drawn: "shadow" or "in-process"."""
    steps: Steps
    episodes: Episodes
    events: list[EventRecord]
    summary: dict[str, Any]
    """What the worker said at its end: the payload of run_completed."""
    errors: str
    """The worker's stderr."""


class Training:
    """A worker that a daemon of its own started, and a viewer of its pictures in a third process.

    `command` replaces the worker's, and `environment` is added to its variables. The daemon, the
    worker and the viewer do not outlive the block.
    """

    def __init__(
        self,
        worker: str,
        directory: Path,
        *,
        command: list[str] | None = None,
        environment: Mapping[str, str] | None = None,
        **config: Any,
    ) -> None:
        self.run_id = config.setdefault("run_id", f"{worker}-{os.getpid()}-{uuid.uuid4().hex[:8]}")
        self._command = command or [sys.executable, "-m", f"lanekit.integrations.workers.{worker}"]
        self._config = config
        self._environment = {"JAX_PLATFORMS": "cpu", **(environment or {})}
        self._pictures = directory / "pictures.npz"
        self._directory = directory
        self.daemon = DaemonProcess(directory)

    def __enter__(self) -> Self:
        self.daemon.start()
        self.client = DaemonClient(self.daemon.target)
        self._viewer = Viewer(self.run_id, self._pictures)
        try:
            self.client.submit_run(
                self._command,
                run_id=self.run_id,
                environment=self._environment,
                working_directory=str(self._directory),
                config_json=json.dumps(self._config).encode(),
            )
        except BaseException:
            self._end_all()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is not None:
            error.add_note(self.worker_errors()[-4000:])
        self._end_all()

    def run(self) -> RunRecord:
        """The run as it is now."""
        return RunRecord.from_message(self.client.run(self.run_id))

    def control(self, action: str) -> None:
        """As ``lanekit control`` does."""
        self.client.control_run(self.run_id, action)

    def until_seen(self, pictures: int) -> None:
        """Wait until the viewer has seen so many pictures."""
        until(
            lambda: self._viewer.seen >= pictures or self.run().state.is_over,
            "pictures",
            240,
        )
        assert self._viewer.seen >= pictures, f"{self._viewer.seen} pictures, then: {self.run()}"

    def until_state(self, state: str) -> None:
        """Wait until the run is in a state."""
        until(lambda: self.run().state == state or self.run().state.is_over, state, 240)
        assert self.run().state == state, self.run()

    def until_steps(self, steps: int) -> None:
        """Wait until so many steps are in the store."""
        until(lambda: self.run().steps >= steps or self.run().state.is_over, "steps", 240)
        assert self.run().steps >= steps, self.run()

    def end(self) -> Watched:
        """Wait for the run's end, and return all that is known of it."""
        until(lambda: self.run().state.is_over, "the end of the run", 240)
        seen = self._viewer.end()
        with RunStore.open(self.daemon.store) as store:
            events = store.events(self.run_id)
            return Watched(
                run=store.run(self.run_id),
                pixels=seen["pixels"],
                pictures_seen=int(seen["different"]),
                picture_steps=seen["step"],
                renderings=[str(word) for word in seen["rendering"]],
                steps=store.steps(self.run_id),
                episodes=store.episodes(self.run_id),
                events=events,
                summary=next((e.payload for e in events if e.name == "run_completed"), {}),
                errors=self.worker_errors(),
            )

    def worker_errors(self) -> str:
        """The worker's stderr so far."""
        files = self.daemon.spools.glob("*/worker.err")
        return "".join(path.read_text("utf-8", "replace") for path in files)

    def _end_all(self) -> None:
        self._viewer.kill()
        self.client.close()
        self.daemon.close()
        self.daemon.end_children()


class Viewer:
    """The process of ``viewer.py``."""

    def __init__(self, run_id: str, path: Path) -> None:
        self._path = path
        self.seen = 0
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "viewer.py"), run_id, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._counting = threading.Thread(target=self._count, daemon=True)
        self._counting.start()

    def end(self) -> Any:
        """Tell it to end, and return what it saw."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait(patience()) == 0
        self._counting.join()
        return np.load(self._path)

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
        self._counting.join()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()

    def _count(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.seen = int(line)


def train_and_watch(worker: str, directory: Path, **config: Any) -> Watched:
    """Train from start to end; see :class:`Training`."""
    with Training(worker, directory, **config) as training:
        return training.end()


# --- what must hold for every framework -----------------------------------------------------------


def check_training(watched: Watched) -> None:
    """The run completed, and the slow lane has the same episodes as the framework itself."""
    assert watched.run.state == "completed", (watched.run, watched.errors[-4000:])
    assert watched.summary["status"] == "completed"
    assert watched.run.rejected_lines == 0
    check_returns(watched)
    check_lanes_are_gone(watched.run.run_id)


def check_returns(watched: Watched) -> None:
    """Rewards of the steps sum up to the episodes' returns, and these are the framework's own."""
    sums: dict[tuple[str, int], float] = defaultdict(float)
    lengths: dict[tuple[str, int], int] = defaultdict(int)
    for step in watched.steps:
        assert step.reward is not None
        sums[step.agent_id, step.episode] += step.reward
        assert step.step == lengths[step.agent_id, step.episode], (
            "a step is missing or out of order"
        )
        lengths[step.agent_id, step.episode] += 1
    told = {(e.agent_id, e.episode): e.episode_return for e in watched.episodes}
    assert len(told) == len(watched.episodes) > 0
    for episode in watched.episodes:
        key = (episode.agent_id, episode.episode)
        assert episode.episode_return is not None
        assert math.isclose(episode.episode_return, sums[key]), key
        assert episode.length == lengths[key]
    own = watched.summary["episode_returns"]
    assert watched.summary["episodes"] == len(own) == len(told), "train fewer episodes in a test"
    assert np.allclose(sorted(own), sorted(told.values()))
    assert watched.summary["steps"] == len(watched.steps)


def check_pictures(watched: Watched, *, tiles: int = 1, at_least: int = 5) -> None:
    """The pictures show a CartPole that moves, or a near-square grid of several."""
    rows = math.ceil(math.sqrt(tiles))
    columns = math.ceil(tiles / rows)
    height, width, channels = CARTPOLE
    assert watched.pictures_seen >= at_least, watched.errors[-4000:]
    assert watched.pixels.shape[1:] == (rows * height, columns * width, channels)
    assert (np.diff(watched.picture_steps) >= 0).all()
    for tile in range(tiles):
        top, left = tile // columns * height, tile % columns * width
        places = []
        for picture in watched.pixels:
            one = picture[top : top + height, left : left + width]
            if one.any():  # a grid's tile is black until its environment has published
                places.append(check_cartpole(one))
        assert len(set(places)) >= min(3, at_least), f"tile {tile} stands still"


def check_cartpole(picture: np.ndarray) -> tuple[int, int]:
    """A black cart on a white ground, with a pole on it; returns where both are."""
    assert (picture == 255).all(axis=2).mean() > 0.9
    black = (picture == 0).all(axis=2)
    assert not black[:270].any()
    assert not black[330:].any()
    cart = np.flatnonzero(black[290:310].sum(axis=0) > 10)
    assert 20 <= len(cart) <= 60, f"the cart is {len(cart)} pixels wide"
    pole = np.abs(picture.astype(int) - (202, 152, 101)).max(axis=2) < 8
    if 150 < cart.mean() < 450:  # else the pole may lean out of the picture
        assert pole.sum() > 500
        assert np.flatnonzero(pole.any(axis=1))[0] < 285, "the pole stands on the cart"
    return int(cart.mean()), int(np.nonzero(pole)[1].sum())


def check_steering(worker: str, directory: Path, **config: Any) -> None:
    """Pause, resume and stop reach the training, and it leaves nothing behind."""
    config.setdefault("total_steps", 10_000_000)
    with Training(worker, directory, **config) as training:
        training.until_seen(1)
        training.control("pause")
        training.until_state("paused")
        until(lambda: _stands_still(training))
        training.control("resume")
        training.until_state("running")
        training.until_steps(training.run().steps + 1)
        training.control("stop")
        watched = training.end()
    assert watched.run.state == "completed", (watched.run, watched.errors[-4000:])
    assert watched.summary["status"] == "stopped"
    assert watched.summary["steps"] < config["total_steps"]
    check_returns(watched)
    check_lanes_are_gone(watched.run.run_id)


def _stands_still(training: Training) -> bool:
    before = training.run().steps
    threading.Event().wait(0.5)
    return training.run().steps == before


def check_lanes_are_gone(run_id: str) -> None:
    """No segment of a run is left; the process that draws may take a moment to end."""
    until(lambda: not lanes_of(run_id), "its lanes to go")
