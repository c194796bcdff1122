"""``env = maybe_wrap_env(env)``: one line in a worker, and its launcher decides what is shown.

The launcher sets the variables of :func:`lanekit.apply_fastlane_environment`. Without them, and in
video mode "off", the environment comes back as it was.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import gymnasium

from lanekit.fast import FastLaneEnvironment, read_fastlane_environment
from lanekit.integrations.gymnasium_env import FastLaneTelemetryWrapper
from lanekit.integrations.publisher import Telemetry
from lanekit.integrations.slots import SlotClaim, claim_slot

_PREFIXES = ("MOSAIC_FASTLANE_", "GYM_GUI_FASTLANE_")
_ASKING = ("SLOT", "VIDEO_MODE", "GRID_LIMIT")


def asked_for(environ: Mapping[str, str] | None = None) -> FastLaneEnvironment | None:
    """Return what a launcher asks this worker to show; None if it asks for nothing.

    It asks if it set ONLY to 1, or any of SLOT, VIDEO_MODE and GRID_LIMIT. ONLY=0 by itself, as
    from launchers that know it as an on/off switch, asks for nothing.
    """
    source = os.environ if environ is None else environ
    wanted = read_fastlane_environment(source)
    named = any(prefix + name in source for prefix in _PREFIXES for name in _ASKING)
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
    out, see :mod:`lanekit.integrations.slots`. `telemetry` is left out when the launcher asks for
    the fast lane only. Further options are those of :class:`FastLaneTelemetryWrapper`.
    """
    wanted = asked_for()
    if wanted is None:
        return env
    claim = claim_slot(env) if slot is None else slot
    index = claim.slot if isinstance(claim, SlotClaim) else claim
    heard = None if wanted.fastlane_only else telemetry
    shown = (
        index == wanted.fastlane_slot
        if wanted.video_mode == "single"
        else index < wanted.grid_limit
    )
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
