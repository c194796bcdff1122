"""Watch a Tianshou training, and let it be paused and stopped; one line each.

    envs = SubprocVectorEnv(watch_env_fns([make_env] * 8, "my-run"))
    ...
    algorithm.run_training(controlled(params))

Environments are hooked in where Tianshou takes them, as functions that make them; their place in
the list is their slot. Pause and stop come in through the trainer's parameters: Tianshou calls
``training_fn`` before it collects, and looks at its limits after each training step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from lanekit.integrations.launch import watch_env_fns
from lanekit.integrations.steering import Steering

try:
    from tianshou.trainer import TrainerParams
except ModuleNotFoundError as error:
    if error.name != "tianshou":
        raise
    raise ModuleNotFoundError(
        f"{__name__} needs Tianshou: pip install 'lanekit[tianshou]'", name=error.name
    ) from None

__all__ = ["controlled", "watch_env_fns"]

Params = TypeVar("Params", bound=TrainerParams)


def controlled(params: Params, keep_going: Callable[[], bool] | None = None) -> Params:
    """Let a training be paused and stopped; returns the same parameters.

    `keep_going` is asked before each training step. It stays away for as long as the training shall
    pause; when it says False, that step is the last one. By default it obeys ``lanekit control``.
    """
    steering = Steering(keep_going)
    before = params.training_fn

    def training_fn(epoch: int, env_step: int) -> None:
        if before is not None:
            before(epoch, env_step)
        if not steering.keep_going():
            # stop_fn would need test environments; the trainer reads these anew each time.
            params.max_epochs = 0
            params.epoch_num_steps = 0

    params.training_fn = training_fn
    return params
