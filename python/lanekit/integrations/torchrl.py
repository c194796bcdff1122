"""Watch a TorchRL training, and let it be paused and stopped; one line each.

    make_env = watched(lambda: gymnasium.make("CartPole-v1", render_mode="rgb_array"), "my-run")
    env = ParallelEnv(4, make_env, create_env_kwargs=slots(4))
    ...
    for batch in while_going(collector): ...         # or: controlled(trainer).train()

Environments are hooked in where TorchRL takes them, as a function that makes them. ``ParallelEnv``
and ``SerialEnv`` hand it the arguments of each environment; the slot is one of these.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from lanekit.integrations.launch import watch_env
from lanekit.integrations.steering import Steering
from lanekit.integrations.vector_env import EnvFn

try:
    from torchrl.envs import GymWrapper
except ModuleNotFoundError as error:
    if error.name != "torchrl":
        raise
    raise ModuleNotFoundError(
        f"{__name__} needs TorchRL: pip install 'lanekit[torchrl]'", name=error.name
    ) from None

Batch = TypeVar("Batch")
AnyTrainer = TypeVar("AnyTrainer")


def watched(env_fn: EnvFn, run_id: str | None = None, **options: Any) -> Callable[..., GymWrapper]:
    """Return a function that makes a watched TorchRL environment; it takes a ``slot``, or 0.

    `env_fn` makes the Gymnasium environment; the options are those of
    :func:`lanekit.integrations.watch_env`. For a ``GymWrapper`` with options of its own, write
    ``GymWrapper(watch_env(env, run_id, slot=slot), ...)`` instead.
    """
    return functools.partial(_make_watched, env_fn, run_id, options)


def _make_watched(
    env_fn: EnvFn, run_id: str | None, options: dict[str, Any], slot: int = 0
) -> GymWrapper:
    return GymWrapper(watch_env(env_fn(), run_id, slot=slot, **options))


def slots(num_envs: int) -> list[dict[str, int]]:
    """Return ``create_env_kwargs`` that tell each environment its slot.

    One function with different arguments: given a list of functions, TorchRL would take the
    environments for different ones, and treat them more slowly.
    """
    return [{"slot": slot} for slot in range(num_envs)]


def while_going(
    batches: Iterable[Batch], keep_going: Callable[[], bool] | None = None
) -> Iterator[Batch]:
    """Give a collector's batches until the training shall stop.

    `keep_going` is asked before each batch is collected. It stays away for as long as the training
    shall pause, and says False to stop it. By default it obeys ``lanekit control``.
    """
    steering = Steering(keep_going)
    collecting = iter(batches)
    while steering.keep_going():
        try:
            batch = next(collecting)
        except StopIteration:
            return
        yield batch


def controlled(trainer: AnyTrainer, keep_going: Callable[[], bool] | None = None) -> AnyTrainer:
    """Let a ``torchrl.trainers.Trainer`` be paused and stopped, after each batch; returns it.

    `keep_going` as in :func:`while_going`.
    """
    steering = Steering(keep_going)
    steered: Any = trainer

    def after_batch() -> None:
        if not steering.keep_going():
            steered.request_stop("asked to stop")

    steered.register_op("post_steps", after_batch)
    return trainer
