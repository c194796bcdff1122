"""Refuse what is no environment, in words that say how to make one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
from gymnasium.vector import VectorEnv

_EXAMPLE = "CartPole-v1"


def expect_env(env: Any) -> None:
    """Refuse all but one environment of Gymnasium's."""
    if isinstance(env, gymnasium.Env):
        return
    if isinstance(env, VectorEnv):
        raise TypeError(
            f"one environment is expected, not {_words(env)}; FastLaneVectorWrapper(env, run_id) "
            "watches a vector environment"
        )
    raise TypeError(
        f"an environment is expected, not {_words(env)}; make one first: "
        f"gymnasium.make({_id_of(env)!r}, render_mode='rgb_array')"
    )


def expect_vector_env(env: Any) -> None:
    """Refuse all but a vector environment of Gymnasium's."""
    if isinstance(env, VectorEnv):
        return
    if isinstance(env, gymnasium.Env):
        raise TypeError(
            f"a vector environment is expected, not {_words(env)}; "
            "FastLaneTelemetryWrapper(env, run_id) watches one environment"
        )
    raise TypeError(
        f"a vector environment is expected, not {_words(env)}; make one first: "
        f"gymnasium.make_vec({_id_of(env)!r}, num_envs=4, render_mode='rgb_array')"
    )


def expect_game(env: Any, kind: type, example: str) -> None:
    """Refuse what is plainly no environment of PettingZoo's; what behaves like one is let in."""
    if isinstance(env, kind) or (hasattr(env, "step") and hasattr(env, "reset")):
        return
    raise TypeError(
        f"an environment of PettingZoo's is expected ({kind.__name__}), not {_words(env)}; make "
        f"one first: {example}"
    )


def expect_env_fns(env_fns: Any) -> Sequence[Callable[[], Any]]:
    """Return the functions that each make an environment; refuse what can not be called."""
    wrong: list[Any] = [env_fns]
    if not isinstance(env_fns, str) and hasattr(env_fns, "__iter__"):
        env_fns = list(env_fns)
        wrong = [env_fn for env_fn in env_fns if not callable(env_fn)]
    if wrong:
        raise TypeError(
            f"functions that each make an environment are expected, not {_words(wrong[0])}; such "
            f"as [lambda: gymnasium.make({_id_of(wrong[0])!r}, render_mode='rgb_array')] * 4"
        )
    return env_fns  # type: ignore[no-any-return]


def _words(thing: Any) -> str:
    """Return how a message names something: with its value where that says what was meant."""
    if thing is None or isinstance(thing, str):
        return repr(thing)
    return f"an object of type {type(thing).__name__}"


def _id_of(thing: Any) -> str:
    return thing if isinstance(thing, str) and thing else _EXAMPLE
