"""How an environment is drawn: by which process, and by the quickest way that gives its pixels."""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import gymnasium
from gymnasium.envs.registration import EnvSpec
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker

from lanekit.integrations.shadow.adapters import StateAdapter, adapter_for
from lanekit.integrations.showing.frames import Frame, UnusableRender, to_frame
from lanekit.integrations.showing.surfaces import surface_painter, tame_sdl

RenderingChoice = Literal["auto", "in-process", "shadow"]
Painter = Callable[[], Frame]

# Their render() only checks, and passes on what the environment returns.
_PASS_ON = {gymnasium.Wrapper.render, OrderEnforcing.render, PassiveEnvChecker.render}


def why_not_drawable(env: Any) -> str | None:
    """Return why ``env.render()`` gives no picture; None if it should."""
    mode = getattr(env, "render_mode", "rgb_array")
    if mode in ("rgb_array", "rgb_array_list"):
        return None
    return (
        f"the environment was made with render_mode={mode!r}; make it with render_mode='rgb_array'"
    )


def painter_of(env: gymnasium.Env[Any, Any]) -> Painter:
    """Return what draws an environment's current state."""
    tame_sdl()
    quick = None if _changes_pictures(env) else surface_painter(env.unwrapped)

    def paint() -> Frame:
        nonlocal quick
        if quick is not None:
            try:
                return quick()
            except UnusableRender:
                quick = None
        return to_frame(env.render())

    return paint


def _changes_pictures(env: gymnasium.Env[Any, Any]) -> bool:
    """Whether a wrapper draws on, resizes or collects what the bare environment renders."""
    while isinstance(env, gymnasium.Wrapper):
        if type(env).render not in _PASS_ON:
            return True
        env = env.env
    return False


@dataclass(frozen=True)
class ShadowPlan:
    """All that another process needs to draw an environment's states."""

    stage: bytes
    """How to make a copy of the environment and set its state: its spec and adapter, pickled.

    For a child of this process, over its standard input, or for another process of this user
    (:mod:`.spec_file`). It never goes through a lane.
    """
    adapter: StateAdapter
    bare: Any
    """The environment itself, which stays here."""

    def state(self) -> Any:
        """Return what the environment is like now."""
        return self.adapter.get_state(self.bare)


def plan_shadow(env: gymnasium.Env[Any, Any], spec: EnvSpec | None = None) -> ShadowPlan | str:
    """Return how another process can draw this environment, or why it can not.

    It makes one like it from `spec`, by default from the environment's own.
    """
    bare = env.unwrapped
    adapter = adapter_for(bare)
    if adapter is None:
        return (
            f"no state adapter knows {type(bare).__name__}; "
            "lanekit.integrations.register_state_adapter adds one"
        )
    if _changes_pictures(env):
        return "a wrapper changes what render() returns"
    spec = spec or bare.spec
    if spec is None:
        return "the environment was not made by gymnasium.make"
    try:
        stage = pickle.dumps((spec, adapter))
        pickle.loads(stage)
    except Exception as error:
        return f"its spec or adapter can not go to another process: {error}"
    for part in (spec.entry_point, adapter):
        module = getattr(part, "__module__", None) or getattr(type(part), "__module__", "")
        if module == "__main__" or str(part).startswith("__main__:"):
            return "its class or adapter is defined in the script itself: move it to a module"
    return ShadowPlan(stage, adapter, bare)


def choose(
    env: gymnasium.Env[Any, Any],
    spec: EnvSpec | None,
    wanted: RenderingChoice,
    *,
    every_step: bool,
) -> tuple[ShadowPlan | None, str]:
    """Decide who draws: a plan for another process, or None and why this one does."""
    if wanted not in ("auto", "in-process", "shadow"):
        raise ValueError(f"rendering is 'auto', 'in-process' or 'shadow', not {wanted!r}")
    if wanted == "in-process":
        return None, "asked for"
    plan = plan_shadow(env, spec)
    if isinstance(plan, str):
        return None, plan
    if wanted == "auto":
        if every_step:
            return None, "every step is to be shown"
        if len(os.sched_getaffinity(0)) < 2:
            return None, "there is only one core"
    return plan, ""


def render_request(
    run_id: str,
    sources: list[str],
    stages: list[bytes],
    *,
    max_hz: float,
    capacity: int,
) -> bytes:
    """Return what ``python -m lanekit.integrations.shadow`` is told on its standard input.

    `stages` are those that it sets up before it takes over: all that this process has. Those of
    other processes follow as they are met, see :mod:`.spec_file`.

    Two pickles: where to look for modules, then the request, which may need them. Pickles, because
    a spec's arguments and an adapter may be any object; nobody but this process can write there.
    """
    request = {
        "worker_pid": os.getpid(),
        "run_id": run_id,
        "sources": sources,
        "stages": stages,
        "max_hz": max_hz,
        "capacity": capacity,
    }
    return pickle.dumps(sys.path) + pickle.dumps(request)
