"""Watch a Gymnasium environment: ``env = FastLaneTelemetryWrapper(env, "my-run")``."""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass, replace
from typing import Any, SupportsFloat

import gymnasium
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils import RecordConstructorArgs

from lanekit.fast.environment import FastLaneEnvironment, VideoMode
from lanekit.integrations.showing.demand import Demand
from lanekit.integrations.showing.expecting import expect_env
from lanekit.integrations.showing.lanes import slot_lane_of, state_lane_of
from lanekit.integrations.showing.painter import (
    RenderingChoice,
    choose,
    painter_of,
    render_request,
    why_not_drawable,
)
from lanekit.integrations.showing.publisher import CAPACITY, Plan, Publisher, Telemetry, View
from lanekit.integrations.showing.slots import SlotClaim
from lanekit.integrations.teller import Teller

RUN_ID_VARIABLES = ("LANEKIT_RUN_ID", "MOSAIC_RUN_ID")
"""Where a launcher says which run its worker is."""


class FastLaneTelemetryWrapper(gymnasium.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Publishes an environment's pictures while somebody watches, and costs nothing otherwise.

    `run_id` is what viewers ask for; by default the variable LANEKIT_RUN_ID, or the environment's
    id. Pictures are made at most `max_hz` times a second, or of `every_step`. `rendering` says who
    draws: this process ("in-process"), another one from the environment's state ("shadow"), or
    whichever is better ("auto"). In `video_mode` "grid" this environment is tile number `slot` of
    the run's picture. `telemetry` gets each step and each finished episode as well.

    >>> env = gymnasium.make("CartPole-v1", render_mode="rgb_array")      # doctest: +SKIP
    >>> env = FastLaneTelemetryWrapper(env, "run-1")                      # doctest: +SKIP
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        run_id: str | None = None,
        *,
        max_hz: float = 60.0,
        every_step: bool = False,
        rendering: RenderingChoice = "auto",
        video_mode: VideoMode = "single",
        slot: int = 0,
        grid_limit: int = 4,
        capacity: int = CAPACITY,
        telemetry: Telemetry | None = None,
    ) -> None:
        expect_env(env)
        settings = Settings(
            run_id or run_id_of(env),
            Demand(max_hz, every_step),
            rendering,
            video_mode,
            slot,
            grid_limit,
            capacity,
        )
        RecordConstructorArgs.__init__(
            self,
            run_id=settings.run_id,
            max_hz=max_hz,
            every_step=every_step,
            rendering=rendering,
            video_mode=video_mode,
            slot=slot,
            grid_limit=grid_limit,
            capacity=capacity,
        )
        gymnasium.Wrapper.__init__(self, env)
        self.settings = settings
        self.slot_claim: SlotClaim | None = None
        self.teller = None if telemetry is None else Teller(telemetry, f"env-{slot}")
        shown = video_mode == "single" or (video_mode == "grid" and slot < grid_limit)
        # Now, not when somebody watches: a framework that makes environments through a name of its
        # own writes that name's spec over the one that can be made elsewhere.
        spec = getattr(env.unwrapped, "spec", None)
        plan = functools.partial(plan_for, env, settings, spec)
        self.publisher = Publisher(plan if shown else None)

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step, and show the result if somebody watches."""
        result = self.env.step(action)
        publisher = self.publisher  # its after_step(), written out
        publisher.episode_return += result[1]
        publisher.steps_left -= 1
        if result[2] or result[3] or publisher.steps_left <= 0:
            publisher.take_stock(result[1], result[2] or result[3])
        if self.teller is not None:
            self.teller.after_step(result[1], result[2], result[3])
        return result

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset; an episode under way ends unfinished."""
        self.publisher.begin_episode()
        if self.teller is not None:
            self.teller.begin_episode()
        return self.env.reset(seed=seed, options=options)

    def close(self) -> None:
        """Leave the lane and close the environment. May be called twice."""
        self.publisher.close()
        if self.slot_claim is not None:
            self.slot_claim.release()
        super().close()


@dataclass(frozen=True)
class Settings:
    """What a wrapper was asked for."""

    run_id: str
    demand: Demand = Demand()  # noqa: RUF009
    rendering: RenderingChoice = "auto"
    video_mode: VideoMode = "single"
    slot: int = 0
    grid_limit: int = 4
    capacity: int = CAPACITY

    def __post_init__(self) -> None:
        FastLaneEnvironment(
            fastlane_slot=self.slot, video_mode=self.video_mode, grid_limit=self.grid_limit
        )
        if self.rendering not in ("auto", "in-process", "shadow"):
            raise ValueError(
                f"rendering is 'auto', 'in-process' or 'shadow', not {self.rendering!r}"
            )
        if self.capacity < 1:
            raise ValueError(f"capacity must be at least 1, not {self.capacity}")


def run_id_of(env: Any) -> str:
    """Return the run id of an environment that was given none."""
    for variable in RUN_ID_VARIABLES:
        if os.environ.get(variable):
            return os.environ[variable]
    name = getattr(getattr(env, "spec", None), "id", None)  # not every spec is Gymnasium's
    return str(name or type(getattr(env, "unwrapped", env)).__name__)


def plan_for(env: gymnasium.Env[Any, Any], settings: Settings, spec: EnvSpec | None = None) -> Plan:
    """Decide how an environment is shown; `spec` makes another one like it, by default its own."""
    grid = settings.video_mode == "grid"
    lane = slot_lane_of(settings.run_id, settings.slot) if grid else settings.run_id
    view = view_of(env, lane, settings, spec)
    sources: list[str] = []
    if grid and settings.slot == 0:
        sources = [slot_lane_of(settings.run_id, slot) for slot in range(settings.grid_limit)]
    elif view.state is not None and not grid:
        view = replace(view, lane=state_lane_of(settings.run_id))
        sources = [view.lane]
    request = functools.partial(
        render_request,
        settings.run_id,
        sources,
        [view.stage] if view.stage else [],
        max_hz=settings.demand.max_hz,
        capacity=settings.capacity,
    )
    return Plan(
        settings.run_id,
        (view,),
        request if sources else None,
        settings.demand,
        settings.capacity,
    )


def view_of(
    env: gymnasium.Env[Any, Any], lane: str, settings: Settings, spec: EnvSpec | None = None
) -> View:
    """Return how one environment is shown: drawn here, or by another process."""
    why_not = why_not_drawable(env)
    shadow, reason = choose(env, spec, settings.rendering, every_step=settings.demand.every_step)
    if shadow is None and settings.rendering == "shadow":
        why_not = f"shadow rendering was asked for, but {reason}"
    paint = painter_of(env) if why_not is None else None
    if shadow is None:
        return View(lane, paint, why_not or "")
    return View(lane, paint, why_not or "", shadow.state, shadow.stage)
