"""Watch and steer RLlib: one line for its environments, one for the algorithm.

    from lanekit.integrations.rllib import WatchCallback, watched

    register_env("watched", watched("CartPole-v1"))
    config = PPOConfig().environment("watched").callbacks(WatchCallback)

``watched`` shows pictures and reports steps and episodes, also from the processes of remote env
runners. The callback lets ``lanekit control`` pause and stop the training after each iteration, and
leaves evaluation out.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium

from lanekit.integrations.gymnasium_env import RUN_ID_VARIABLES, FastLaneTelemetryWrapper
from lanekit.integrations.launch import FASTLANE_PREFIXES, make_drawable, watch_env
from lanekit.integrations.showing.publisher import Publisher
from lanekit.integrations.showing.slots import SlotClaim, claim_slot
from lanekit.integrations.steering import Steering
from lanekit.slow.control import ControlInbox
from lanekit.slow.emit import expect_other_processes, telemetry_of_this_run

try:
    from ray.rllib.callbacks.callbacks import RLlibCallback
    from ray.rllib.env.env_context import EnvContext
except ModuleNotFoundError as error:
    if error.name != "ray":
        raise
    raise ModuleNotFoundError(
        f"{__name__} needs RLlib: pip install 'lanekit[rllib]'", name=error.name
    ) from None

Env = gymnasium.Env[Any, Any]

_HANDED_ON = (*RUN_ID_VARIABLES, "LANEKIT_TELEMETRY_FIFO")


def watched(
    env: str | Callable[[EnvContext], Env],
    run_id: str | None = None,
    *,
    watch: Callable[..., Env] = watch_env,
    **options: Any,
) -> Callable[[EnvContext], Env]:
    """Return an environment creator for ``register_env``, whose environments are watched.

    `env` is a creator, or the id of a Gymnasium environment, which gets RLlib's ``env_config`` as
    its arguments. `run_id` and the options are those of :func:`lanekit.integrations.watch_env`,
    which `watch` replaces. Environments of several env runners are counted in turn: of two runners,
    the first has the slots 0, 2, 4, ..., the second 1, 3, 5, ...
    """
    expect_other_processes()
    variables = {
        name: value
        for name, value in os.environ.items()
        if name in _HANDED_ON or name.startswith(FASTLANE_PREFIXES)
    }
    if run_id is not None:
        options["run_id"] = run_id
    return functools.partial(_make_watched, env, watch, options, variables)


def _make_watched(
    make: str | Callable[[EnvContext], Env],
    watch: Callable[..., Env],
    options: Mapping[str, Any],
    variables: Mapping[str, str],
    context: EnvContext,
) -> Env:
    if not isinstance(context, EnvContext):
        raise TypeError(
            "RLlib asks for a whole vector environment (gym_env_vectorize_mode="
            "'vector_entry_point'), which watched() does not make: use 'sync' or 'async', or "
            "lanekit.integrations.FastLaneVectorWrapper in a creator of your own"
        )
    os.environ.update(variables)  # Ray may have been started by somebody else
    env = make_drawable(make, **context) if isinstance(make, str) else make(context)
    # RLlib says which runner this is, but not which of its environments.
    claim = claim_slot(env)
    slot = claim.slot if isinstance(claim, SlotClaim) else claim
    if context.worker_index > 0:
        slot = slot * context.num_workers + context.worker_index - 1
    shown = watch(env, slot=slot, **options)
    if isinstance(shown, FastLaneTelemetryWrapper) and isinstance(claim, SlotClaim):
        shown.slot_claim = claim
    return shown


class WatchCallback(RLlibCallback):
    """Pauses the training between two iterations, and ends it when that is asked for.

    To end it, the iteration's result says ``done``: Tune obeys, and a loop around ``train()`` asks
    ``if result["done"]: break``. Environments that only evaluate are neither shown nor reported.
    """

    def on_algorithm_init(self, *, algorithm: Any, **kwargs: Any) -> None:
        """Listen, in the process that the algorithm is in."""
        # With Tune that is an actor, whose stdout goes to Ray.
        inbox = ControlInbox.from_environment(telemetry_of_this_run())
        self._steering = Steering(inbox.wait_while_paused)

    def on_train_result(self, *, algorithm: Any, result: dict[str, Any], **kwargs: Any) -> None:
        """Stay here while the run is paused; say so if it shall end."""
        if not self._steering.keep_going():
            result["done"] = True

    def on_environment_created(self, *, env_runner: Any, env: Any, **kwargs: Any) -> None:
        """Leave an evaluation's environments out: they have the same indices as the others."""
        if env_runner.config.in_evaluation:
            for each in getattr(env, "envs", ()):
                _leave_out(each)


def _leave_out(env: Env) -> None:
    while isinstance(env, gymnasium.Wrapper):
        if isinstance(env, FastLaneTelemetryWrapper):
            env.publisher.close()
            env.publisher = Publisher(None)
            env.teller = None
            if env.slot_claim is not None:
                env.slot_claim.release()
        env = env.env
