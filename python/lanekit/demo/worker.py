"""The demo's worker: a PPO in numpy that trains, shows itself, and keeps what it showed.

``lanekit demo`` starts it, and so does ``lanekit run --worker demo --env Acrobot-v1``. Without a
daemon it is ``python -m lanekit.demo.worker --config FILE``: a worker as any other.
"""

from __future__ import annotations

import math
import time
from collections import deque
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lanekit import FastLaneConfig, FastLaneWriter, __version__
from lanekit.demo.parent import Parent
from lanekit.demo.ppo import Learner
from lanekit.demo.recording import Recording
from lanekit.demo.show import Show
from lanekit.demo.stages import CartPoleStage, Stage
from lanekit.demo.worlds import CartPoles, World
from lanekit.errors import MissingExtra
from lanekit.slow.emit import telemetry_of_this_run
from lanekit.worker import (
    DataclassConfig,
    WorkerCapabilities,
    WorkerMetadata,
    WorkerRuntime,
    worker_main,
)

CART_POLE = "cart-pole"
"""The environment that needs nothing but numpy: CartPole-v1's rules, with a picture of its own."""

CART_POLE_SOLVED = 475.0
"""What Gymnasium calls CartPole-v1 solved."""

JUDGED_EPISODES = 32
"""Episodes whose mean tells whether the task is solved."""


@dataclass(kw_only=True)
class Config(DataclassConfig):
    """The options of this worker."""

    env_id: str = field(
        default=CART_POLE,
        metadata={"help": "a Gymnasium environment; cart-pole is built in and needs no package"},
    )
    total_steps: int = field(
        default=200_000, metadata={"help": "environment steps; 0: until it is stopped"}
    )
    num_envs: int = field(default=16, metadata={"help": "environments that step side by side"})
    update_seconds: float = field(
        default=0.0,
        metadata={"help": "least time between two updates while somebody watches"},
    )
    record_megabytes: int = field(
        default=0, metadata={"help": "of pictures to keep in the store, for lanekit replay"}
    )
    wait_for_viewer: float = field(
        default=0.0, metadata={"help": "seconds that a viewer has to come before training begins"}
    )
    parent: int = field(default=0, metadata={"help": "stop when this process is gone; 0: none"})

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, least in (("total_steps", 0), ("num_envs", 1), ("update_seconds", 0)):
            if not least <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} is at least {least}, not {getattr(self, name)}")


class Runtime(WorkerRuntime[Config]):
    """Trains a PPO in numpy, and plays its newest policy to whoever looks."""

    def train(self) -> dict[str, Any]:
        """Train until the steps are done, or until somebody stops it."""
        config = self.config
        seed = 0 if config.seed is None else config.seed
        with ExitStack() as stack:
            parent = stack.enter_context(Parent(config.parent))
            world, stage, solved_at = _open(config, seed)
            stack.callback(stage.close)
            image = stage.picture()
            lane = FastLaneConfig(image.shape[1], image.shape[0], capacity=16, metadata_size=256)
            writer = stack.enter_context(FastLaneWriter.create(config.run_id, lane))
            patience = time.monotonic() + config.wait_for_viewer
            while self._wanted(parent) and not writer.watched and time.monotonic() < patience:
                time.sleep(0.01)
            show = Show(writer, stage, self._recording())
            return self._loop(Learner(world, seed), show, parent, solved_at)

    def _loop(
        self, learner: Learner, show: Show, parent: Parent, solved_at: float
    ) -> dict[str, Any]:
        config, total = self.config, self.config.total_steps or math.inf
        judged: deque[float] = deque(maxlen=JUDGED_EPISODES)
        solved = False
        update_due = time.monotonic()
        while self._wanted(parent) and learner.steps < total:
            visible = show.step(learner, solved=solved)
            self.progress(learner.steps, mean_return=learner.mean_return, updates=learner.updates)
            # Learn in the time that is left before the next frame.
            while (now := time.monotonic()) < show.due and self._wanted(parent):
                # A demo without an end has nothing to gain once the task is solved.
                resting = math.inf if solved and not config.total_steps else update_due
                if (visible or solved) and now < resting:
                    time.sleep(min(show.due - now, resting - now, 0.05))
                    continue
                before = learner.updates
                for ended in learner.work():
                    judged.append(ended.episode_return)
                    show.recording.learned(ended)
                if learner.steps >= total:
                    break
                if learner.updates != before:
                    update_due = now + config.update_seconds
                    enough = len(judged) == JUDGED_EPISODES
                    solved = solved or (enough and sum(judged) / len(judged) >= solved_at)
        self.progress(learner.steps, mean_return=learner.mean_return, updates=learner.updates)
        return {
            "steps": learner.steps,
            "episodes": learner.episodes,
            "mean_return": learner.mean_return,
            "solved": solved,
        }

    def _wanted(self, parent: Parent) -> bool:
        return self.keep_going() and not parent.gone

    def _recording(self) -> Recording:
        heard = telemetry_of_this_run() is not None
        return Recording(self.telemetry if heard else None, self.config.record_megabytes << 20)


def _open(config: Config, seed: int) -> tuple[World, Stage, float]:
    """Make the environments to learn in, the one to show, and say what counts as solved."""
    if config.env_id == CART_POLE:
        return CartPoles(config.num_envs, seed), CartPoleStage(seed), CART_POLE_SOLVED
    gymnasium_world = _gymnasium_world()
    stage = gymnasium_world.GymnasiumStage(config.env_id, seed)
    world = gymnasium_world.GymnasiumWorld(config.env_id, config.num_envs, seed)
    return world, stage, math.inf if stage.threshold is None else stage.threshold


def check_environment(env_id: str) -> None:
    """Raise a :class:`~lanekit.LanekitError` with a remedy if the demo can not train in it."""
    if env_id != CART_POLE:
        _gymnasium_world().check(env_id)


def _gymnasium_world() -> Any:
    try:
        from lanekit.demo import gymnasium_world
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"environments other than the built-in {CART_POLE} need Gymnasium ({error}): "
            "pip install 'lanekit[rl]'"
        ) from None
    return gymnasium_world


def get_worker_metadata() -> tuple[WorkerMetadata, WorkerCapabilities]:
    """Return what this worker is, and what it can do."""
    module = "lanekit.demo.worker"
    metadata = WorkerMetadata(
        name="PPO in numpy",
        version=__version__,
        description="trains a small PPO with numpy alone, and shows it in real time",
        author="The lanekit authors",
        upstream_library="numpy",
        upstream_version=np.__version__,
        license="Apache-2.0",
        module=module,
        config=f"{module}:Config",
    )
    return metadata, WorkerCapabilities(
        worker_type="demo",
        env_families=("built-in", "gymnasium"),
        action_spaces=("Box", "Discrete"),
        observation_spaces=("Box", "Dict", "Discrete", "MultiBinary", "MultiDiscrete", "Tuple"),
    )


if __name__ == "__main__":
    raise SystemExit(worker_main(Runtime, Config))
