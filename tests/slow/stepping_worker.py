"""A whole worker in one file: it steps a Gymnasium environment, as well as it is told to."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium

from lanekit.integrations import watch_env
from lanekit.worker import (
    DataclassConfig,
    WorkerCapabilities,
    WorkerMetadata,
    WorkerRuntime,
    worker_main,
)


@dataclass(kw_only=True)
class Config(DataclassConfig):
    """What it can be told."""

    env_id: str = "CartPole-v1"
    total_steps: int = 300
    pause: float = 0.0
    fail_at: int | None = None
    stubborn: bool = False
    note: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.total_steps < 1:
            raise ValueError(f"total_steps is at least 1, not {self.total_steps}")


class Runtime(WorkerRuntime[Config]):
    """Steps with random actions."""

    def train(self) -> Mapping[str, Any]:
        """Step until all is done, or as told."""
        config = self.config
        if config.stubborn:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        told = ("MOSAIC_FASTLANE_", "STEPPING_")
        heard = {name: value for name, value in os.environ.items() if name.startswith(told)}
        self.telemetry.event("environment", **heard)
        env = watch_env(gymnasium.make(config.env_id), config.run_id, telemetry=self.telemetry)
        env.action_space.seed(config.seed)
        env.reset(seed=config.seed)
        step = 0
        while step < config.total_steps and (self.keep_going() or config.stubborn):
            if step == config.fail_at:
                raise RuntimeError("the pole is broken\x1b[31m")
            _, _, terminated, truncated, _ = env.step(env.action_space.sample())
            step += 1
            self.progress(step)
            if terminated or truncated:
                env.reset()
            time.sleep(config.pause)
        env.close()
        return {"steps": step}


def describe() -> tuple[WorkerMetadata, WorkerCapabilities]:
    """Say what this worker is."""
    metadata = WorkerMetadata(
        name="Stepping", version="1.0", module="stepping_worker", config="stepping_worker:Config"
    )
    return metadata, WorkerCapabilities(worker_type="stepping")


if __name__ == "__main__":
    raise SystemExit(worker_main(Runtime, Config))
