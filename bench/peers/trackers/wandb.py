"""Weights & Biases, offline: a service of its own that appends to a transaction log."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from bench.peers.trackers import Recorder
from bench.slow_events import Step

PACKAGE = "wandb"
CALLS = "run.log({…}) per step, run.finish(); mode=offline, no system metrics"


def begin(directory: Path) -> Recorder:
    os.environ["WANDB_SILENT"] = "true"
    import wandb

    quiet = wandb.Settings(
        console="off", x_disable_stats=True, x_disable_meta=True, disable_git=True
    )
    run = wandb.init(project="bench", mode="offline", dir=directory, settings=quiet)

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
