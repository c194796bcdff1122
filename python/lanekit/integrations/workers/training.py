"""What the ready-made workers have in common: their options, and how a training is summed up."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Literal

from lanekit import __version__
from lanekit.integrations.showing.publisher import Telemetry
from lanekit.slow.emit import Emitter, telemetry_of_this_run
from lanekit.worker import DataclassConfig, WorkerCapabilities, WorkerMetadata

if TYPE_CHECKING:
    import gymnasium


@dataclass(kw_only=True)
class TrainingConfig(DataclassConfig):
    """The options that every ready-made worker has; each adds its own."""

    env_id: str = field(default="CartPole-v1", metadata={"help": "the Gymnasium environment"})
    total_steps: int = field(default=100_000, metadata={"help": "environment steps, all together"})
    num_envs: int = field(default=1, metadata={"help": "environments that step side by side"})
    learning_rate: float = field(default=3e-4, metadata={"help": "of the optimiser"})
    frames: Literal["on_demand", "every_step", "off"] = field(
        default="on_demand", metadata={"help": "when pictures are made"}
    )
    max_hz: float = field(default=60.0, metadata={"help": "most pictures a second"})
    rendering: Literal["auto", "in-process", "shadow"] = field(
        default="auto", metadata={"help": "which process draws"}
    )
    telemetry: Literal["steps", "episodes", "off"] = field(
        default="steps", metadata={"help": "what the slow lane keeps"}
    )
    threads: int = field(default=1, metadata={"help": "CPU threads of the numerical library"})

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("total_steps", "num_envs", "threads"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is at least 1, not {getattr(self, name)}")

    def make_env(self, slot: int) -> gymnasium.Env[Any, Any]:
        """Make one environment, watched as this configuration says."""
        return self.watch(self.make_bare_env(), slot)

    def make_bare_env(self) -> gymnasium.Env[Any, Any]:
        """Make one environment that nobody watches yet, able to draw if it can be."""
        import gymnasium

        from lanekit.integrations.launch import make_drawable

        if self.frames == "off":
            return gymnasium.make(self.env_id)
        return make_drawable(self.env_id)

    def watch(self, env: gymnasium.Env[Any, Any], slot: int) -> gymnasium.Env[Any, Any]:
        """Have an environment watched as this configuration says."""
        from lanekit.integrations.gymnasium_env import FastLaneTelemetryWrapper
        from lanekit.integrations.launch import watch_env

        heard = self.heard_by()
        if self.frames == "off":
            if heard is None:
                return env
            return FastLaneTelemetryWrapper(
                env, self.run_id, video_mode="off", slot=slot, telemetry=heard
            )
        return watch_env(
            env,
            self.run_id,
            slot=slot,
            telemetry=heard,
            max_hz=self.max_hz,
            every_step=self.frames == "every_step",
            rendering=self.rendering,
        )

    @property
    def is_watched(self) -> bool:
        """Whether environments are shown or heard; if not, nothing is wrapped around them."""
        return self.frames != "off" or self.telemetry != "off"

    def heard_by(self) -> Telemetry | None:
        """Return what takes the steps and episodes of environments in this process."""
        if self.telemetry == "off":
            return None
        emitter = telemetry_of_this_run() or Emitter()
        return emitter if self.telemetry == "steps" else EpisodesOnly(emitter)


class EpisodesOnly:
    """Hands episodes on, and no steps."""

    def __init__(self, telemetry: Telemetry) -> None:
        self.episode = telemetry.episode

    def step(self, *position: int, **content: Any) -> None:
        """Leave a step out."""


@contextmanager
def measured(result: dict[str, Any]) -> Iterator[None]:
    """Put down what a training took: ``train_seconds``, ``train_cpu_seconds`` (this process)."""
    wall, cpu = time.perf_counter(), time.process_time()
    try:
        yield
    finally:
        result["train_seconds"] = time.perf_counter() - wall
        result["train_cpu_seconds"] = time.process_time() - cpu


def outcome(
    steps: int, episode_returns: Sequence[float], took: Mapping[str, float]
) -> dict[str, Any]:
    """Return what a training came to, in a framework's own count.

    The mean is of the last 100 episodes, and of more than 1,000 only the last returns are listed.
    """
    returns = [float(one) for one in episode_returns]
    newest = returns[-100:]
    return {
        "steps": steps,
        "episodes": len(returns),
        "mean_return": sum(newest) / len(newest) if newest else None,
        "episode_returns": returns[-1000:],
        **took,
    }


def require_discrete_actions(env_id: str, space: object) -> None:
    """Refuse an environment that a worker's network does not fit, in words."""
    if type(space).__name__ != "Discrete":
        raise ValueError(
            f"{env_id} has the actions {space}; this worker trains environments with discrete "
            "actions, `lanekit workers` lists what others can"
        )


def describe(
    worker_type: str, library: str, name: str, config_class: str, **capabilities: Any
) -> tuple[WorkerMetadata, WorkerCapabilities]:
    """Return what a ready-made worker says about itself; fails if its library is not installed."""
    module = f"lanekit.integrations.workers.{worker_type}"
    metadata = WorkerMetadata(
        name=name,
        version=__version__,
        description=f"trains Gymnasium environments with {name}",
        author="The lanekit authors",
        upstream_library=library,
        upstream_version=version(library),
        license="Apache-2.0",
        module=module,
        config=f"{module}:{config_class}",
    )
    return metadata, WorkerCapabilities(worker_type=worker_type, **capabilities)
