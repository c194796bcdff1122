"""Trackio: a local SQLite file, written by a thread that collects what is logged."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from bench.peers.trackers import Recorder
from bench.slow_events import Step

PACKAGE = "trackio"
CALLS = "run.log({…}) per step, run.finish(); no system metrics"


def begin(directory: Path) -> Recorder:
    os.environ["TRACKIO_DIR"] = str(directory)
    import trackio

    run = trackio.init(project="bench", embed=False, auto_log_gpu=False, auto_log_cpu=False)

    def record(steps: Sequence[Step]) -> None:
        for i, step in enumerate(steps):
            run.log(
                {
                    "episode": step.episode,
                    "action": step.action,
                    "observation": step.observation,
                    "reward": step.reward,
                },
                step=i,
            )
        run.finish()

    return record
