"""The worker for SBX: the algorithms of Stable-Baselines3, and some more, on JAX."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from lanekit.integrations.workers.sb3 import VecEnvConfig, learn
from lanekit.integrations.workers.training import describe
from lanekit.worker import WorkerCapabilities, WorkerMetadata, WorkerRuntime, worker_main


@dataclass(kw_only=True)
class Config(VecEnvConfig):
    """The options of this worker; JAX chooses its threads and its device by itself."""

    algorithm: Literal["CrossQ", "DDPG", "DQN", "PPO", "SAC", "TD3", "TQC"] = field(
        default="PPO", metadata={"help": "which algorithm"}
    )


class Runtime(WorkerRuntime[Config]):
    """Trains with SBX."""

    def train(self) -> dict[str, Any]:
        """Train, and return what it came to."""
        import sbx
        import torch

        torch.set_num_threads(self.config.threads)  # Stable-Baselines3 has torch run along
        return learn(self, self.config, getattr(sbx, self.config.algorithm))


def get_worker_metadata() -> tuple[WorkerMetadata, WorkerCapabilities]:
    """Return what this worker is, and what it can do."""
    return describe(
        "sbx",
        "sbx-rl",
        "SBX",
        "Config",
        action_spaces=("Box", "Discrete", "MultiBinary", "MultiDiscrete"),
        observation_spaces=("Box",),
    )


if __name__ == "__main__":
    raise SystemExit(worker_main(Runtime, Config))
