"""From what a user names to a function that makes the environment, here or in another process."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Mapping
from typing import Any

import gymnasium
from gymnasium import error as gymnasium_errors
from gymnasium.envs.registration import EnvSpec
from gymnasium.wrappers import FlattenObservation

from lanekit.integrations.playing.quiet_engines import quiet_engines
from lanekit.integrations.stepping.env_rows import Env, EnvironmentFailed, EnvMaker, words_of

_NEAR_NAMES = 5


def maker_of(
    env: str | EnvMaker,
    *,
    image: bool = False,
    flatten: bool = False,
    make_kwargs: Mapping[str, Any] | None = None,
) -> tuple[EnvMaker, Env, str]:
    """Return a function that makes the environment, a first one made with it, and its name.

    env: the id of a registered environment, or a function that makes one.
    """
    if not isinstance(env, str):
        if not callable(env):
            raise TypeError(f"env is the id of an environment, or a function, not {env!r}")
        if make_kwargs:
            raise TypeError("make_kwargs are for gymnasium.make: give an id with them")
        maker = functools.partial(_finished, env, flatten)
        return maker, _made(maker, getattr(env, "__qualname__", "the environment")), ""
    options = dict(make_kwargs or {})
    if image:
        quiet_engines()
        options.setdefault("render_mode", "rgb_array")
    first = _made(functools.partial(gymnasium.make, env, **options), env)
    spec = first.unwrapped.spec
    # What this process knows under that id, another one may not: so its whole entry travels.
    entry: EnvSpec | str = env if spec is None else gymnasium.registry.get(spec.id, env)
    maker = functools.partial(_finished, functools.partial(_registered, entry, options), flatten)
    return maker, FlattenObservation(first) if flatten else first, env


def _registered(entry: EnvSpec | str, options: Mapping[str, Any]) -> Env:
    if "render_mode" in options:
        quiet_engines()
    return gymnasium.make(entry, **options)


def _finished(make: EnvMaker, flatten: bool) -> Env:
    env = make()
    return FlattenObservation(env) if flatten else env


def _made(maker: EnvMaker, name: str) -> Env:
    try:
        return maker()
    except gymnasium_errors.UnregisteredEnv as error:
        raise ValueError(f"no environment {name!r} is registered{near_names(name)}") from error
    except gymnasium_errors.DependencyNotInstalled as error:
        raise EnvironmentFailed(f"{name} can not be made: {error}") from error
    except Exception as error:  # of anybody's making
        raise EnvironmentFailed(f"{name} can not be made: {words_of(error)}") from error


def near_names(env_id: str) -> str:
    """Return which registered environments a mistyped id may have meant, as words."""
    wanted = env_id.rpartition(":")[2].lower()
    known = {name.lower(): name for name in gymnasium.registry}
    near = [known[name] for name in difflib.get_close_matches(wanted, known, _NEAR_NAMES)]
    hint = f"; near names: {', '.join(near)}" if near else ""
    return f"{hint}. That of a package is found as MODULE:ID, the module being what registers it"
