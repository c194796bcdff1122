"""Aim: a local repository (RocksDB)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from bench.peers.trackers import Recorder
from bench.slow_events import Step

PACKAGE = "aim"
CALLS = "Run.track({6 metrics}) per step, Run.close(); no system metrics, no terminal capture"


def begin(directory: Path) -> Recorder:
    os.environ["HOME"] = str(directory)  # it keeps a profile of its user there
    from aim import Repo, Run

    repo = Repo.from_path(str(directory), init=True)
    run = Run(repo=repo, system_tracking_interval=None, capture_terminal_logs=False)

    def record(steps: Sequence[Step]) -> None:
        for i, step in enumerate(steps):
            first, second, third, fourth = step.observation
            run.track(
                {
                    "reward": step.reward,
                    "action": step.action,
                    "observation_0": first,
                    "observation_1": second,
                    "observation_2": third,
                    "observation_3": fourth,
                },
                step=i,
            )
        run.close()

    return record
