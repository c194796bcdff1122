"""Recorded runs of real environments, for the scenes that look at them again."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from lanekit.slow.human.session_controller import SessionController
from lanekit.slow.human.store_recorder import StoreRecorder
from lanekit.slow.human.telemetry_service import TelemetryService
from lanekit.slow.run_bus import RunBus
from lanekit.slow.store.db_sink import TelemetryDBSink
from lanekit.viewer.human.stage import Pictures, Stage
from lanekit.viewer.window.theme import ThemeControl


@contextmanager
def home() -> Iterator[Path]:
    """A home directory with nothing in it."""
    with tempfile.TemporaryDirectory(prefix="ada-") as directory:
        gone = {name: "" for name in ("LANEKIT_STATE", "XDG_STATE_HOME", "XDG_RUNTIME_DIR")}
        with mock.patch.dict(os.environ, {**gone, "LANEKIT_DAEMON": "", "HOME": directory}):
            yield Path(directory)


@contextmanager
def theme(*, dark: bool) -> Iterator[None]:
    """All windows in one theme, as the main window sets it."""
    control = ThemeControl()
    control.choose("dark" if dark else "light")
    try:
        yield
    finally:
        control.choose("dark")


def record_lander(path: Path, run_id: str, *, pictures: Pictures = Pictures.FULL) -> None:
    """Record landings by the pilot that comes with the environment."""
    from gymnasium.envs.box2d.lunar_lander import heuristic

    stage = Stage("LunarLander-v3", pictures)
    bare: Any = stage.env.unwrapped
    policy: Callable[[Any], int] = lambda seen: int(heuristic(bare, seen))  # noqa: E731
    with (
        TelemetryDBSink(path, RunBus()) as sink,
        TelemetryService({"store": StoreRecorder(sink, run_id)}) as telemetry,
        SessionController(
            stage, telemetry, run_id=run_id, agent_id="pilot", worker_id="", record_frames=True
        ) as session,
    ):
        for seed in (3, 5):
            seen = session.begin_episode(seed=seed)
            while not session.episode_over:
                session.act(policy(seen))
                seen = session.observation
    stage.close()
