"""One line in a training script: ``env = watch_env(env)``, or ``env = maybe_wrap_env(env)``.

A launcher decides what is shown, with the variables of :func:`lanekit.apply_fastlane_environment`.
Without them ``watch_env`` shows the first environment, and ``maybe_wrap_env`` none.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import gymnasium

from lanekit.fast import FastLaneEnvironment, read_fastlane_environment
from lanekit.integrations.gymnasium_env import FastLaneTelemetryWrapper
from lanekit.integrations.showing.expecting import expect_env, expect_env_fns
from lanekit.integrations.showing.publisher import Telemetry
from lanekit.integrations.showing.slots import SlotClaim, claim_slot
from lanekit.integrations.vector_env import EnvFn
from lanekit.slow.emit import telemetry_of_this_run

FASTLANE_PREFIXES = ("MOSAIC_FASTLANE_", "GYM_GUI_FASTLANE_")
_ASKING = ("SLOT", "VIDEO_MODE", "GRID_LIMIT")


def asked_for(environ: Mapping[str, str] | None = None) -> FastLaneEnvironment | None:
    """Return what a launcher asks this worker to show; None if it asks for nothing.

    It asks if it set ONLY to 1, or any of SLOT, VIDEO_MODE and GRID_LIMIT. ONLY=0 by itself, as
    from launchers that know it as an on/off switch, asks for nothing.
    """
    source = os.environ if environ is None else environ
    wanted = read_fastlane_environment(source)
    named = any(prefix + name in source for prefix in FASTLANE_PREFIXES for name in _ASKING)
    return wanted if (wanted.fastlane_only or named) and wanted.video_mode != "off" else None


def maybe_wrap_env(
    env: gymnasium.Env[Any, Any],
    run_id: str | None = None,
    *,
    slot: int | None = None,
    telemetry: Telemetry | None = None,
    **options: Any,
) -> gymnasium.Env[Any, Any]:
    """Wrap an environment if a launcher wants to see it.

    `slot` is the environment's index among those of the run; where it is not known it is found
    out, see :mod:`lanekit.integrations.showing.slots`. `telemetry` is left out when the launcher
    asks for the fast lane only. Further options are those of :class:`FastLaneTelemetryWrapper`.
    """
    wanted = asked_for()
    if wanted is None:
        return env
    return _wrap(env, run_id, slot, telemetry, wanted, options)


def watch_env(
    env: gymnasium.Env[Any, Any],
    run_id: str | None = None,
    *,
    slot: int | None = None,
    telemetry: Telemetry | Literal["auto"] | None = "auto",
    **options: Any,
) -> gymnasium.Env[Any, Any]:
    """Wrap an environment: pictures for whoever looks, steps and episodes for the slow lane.

    As :func:`maybe_wrap_env`, but environment 0 is shown if no launcher asks for another. The slow
    lane hears of every environment, under the agent id "env-0", "env-1", ..., if a telemetry proxy
    started this run; `telemetry` sends that elsewhere, or nowhere.
    """
    # A launcher that asks for video mode "off" is listened to: the default is for no launcher.
    wanted = read_fastlane_environment(os.environ)
    if telemetry == "auto":
        telemetry = telemetry_of_this_run()
    return _wrap(env, run_id, slot, telemetry, wanted, options)


def make_drawable(env_id: str, **arguments: Any) -> gymnasium.Env[Any, Any]:
    """Make an environment that can draw; one that refuses the render mode is made without."""
    if "render_mode" not in arguments:
        # If the render mode was not what it minds, it says so again without.
        with contextlib.suppress(Exception):
            return gymnasium.make(env_id, render_mode="rgb_array", **arguments)
    return gymnasium.make(env_id, **arguments)


def watch_env_fns(
    env_fns: Sequence[EnvFn], run_id: str | None = None, **options: Any
) -> list[EnvFn]:
    """Return functions that make the same environments, watched: number 0 has slot 0, and so on.

    For frameworks whose vector environments take a list of functions, in this process or in
    others. The options are those of :func:`watch_env`.
    """
    return [
        functools.partial(_make_watched, env_fn, run_id, slot, options)
        for slot, env_fn in enumerate(expect_env_fns(env_fns))
    ]


def _make_watched(
    env_fn: EnvFn, run_id: str | None, slot: int, options: dict[str, Any]
) -> gymnasium.Env[Any, Any]:
    return watch_env(env_fn(), run_id, slot=slot, **options)


def _wrap(
    env: gymnasium.Env[Any, Any],
    run_id: str | None,
    slot: int | None,
    telemetry: Telemetry | None,
    wanted: FastLaneEnvironment,
    options: dict[str, Any],
) -> gymnasium.Env[Any, Any]:
    expect_env(env)
    claim = claim_slot(env) if slot is None else slot
    index = claim.slot if isinstance(claim, SlotClaim) else claim
    heard = None if wanted.fastlane_only else telemetry
    shown = {
        "off": False,
        "single": index == wanted.fastlane_slot,
        "grid": index < wanted.grid_limit,
    }[wanted.video_mode]
    if not shown and heard is None:
        return env
    wrapped = FastLaneTelemetryWrapper(
        env,
        run_id,
        video_mode=wanted.video_mode if shown else "off",
        slot=index,
        grid_limit=wanted.grid_limit,
        telemetry=heard,
        **options,
    )
    wrapped.slot_claim = claim if isinstance(claim, SlotClaim) else None
    return wrapped
