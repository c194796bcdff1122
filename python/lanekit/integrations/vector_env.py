"""Watch Gymnasium's vector environments.

Where the environments live decides who draws. In this process (``SyncVectorEnv``): the wrapper here
does. In processes of their own (``AsyncVectorEnv``): each must be wrapped there, so that no pixel
goes through a pipe; :func:`wrap_env_fns` does that. Vectorised environments that are one object
draw all their environments at once with ``render()``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv, VectorEnv, VectorWrapper

from lanekit.fast.environment import VideoMode
from lanekit.fast.tiling import tile_frames
from lanekit.integrations.gymnasium_env import (
    FastLaneTelemetryWrapper,
    Settings,
    plan_for,
    run_id_of,
    view_of,
)
from lanekit.integrations.showing.demand import Demand
from lanekit.integrations.showing.expecting import expect_env_fns, expect_vector_env
from lanekit.integrations.showing.frames import Frame, UnusableRender, to_frame
from lanekit.integrations.showing.lanes import slot_lane_of
from lanekit.integrations.showing.painter import RenderingChoice, render_request, why_not_drawable
from lanekit.integrations.showing.publisher import CAPACITY, Plan, Publisher, Telemetry, View
from lanekit.integrations.showing.surfaces import tame_sdl
from lanekit.integrations.showing.tally import BatchTally
from lanekit.integrations.teller import Teller

EnvFn = Callable[[], gymnasium.Env[Any, Any]]
PicturesOf = Callable[[VectorEnv[Any, Any, Any], Sequence[int]], list[Any]]
Flags = npt.NDArray[np.bool_]
"""One for each environment."""


def wrap_env_fns(
    env_fns: Sequence[EnvFn],
    run_id: str,
    *,
    video_mode: VideoMode = "single",
    slot: int = 0,
    grid_limit: int = 4,
    **options: Any,
) -> list[EnvFn]:
    """Return functions that make the same environments, those that are shown with a wrapper.

    >>> envs = AsyncVectorEnv(wrap_env_fns([make_env] * 8, "run-1", video_mode="grid"))

    In video mode "single" environment number `slot` is shown, in "grid" the first `grid_limit`.
    """
    wrapped: list[EnvFn] = []
    for index, env_fn in enumerate(expect_env_fns(env_fns)):
        shown = index == slot if video_mode == "single" else index < grid_limit
        if video_mode == "off" or not shown:
            wrapped.append(env_fn)
        else:
            settings = dict(
                options, run_id=run_id, video_mode=video_mode, slot=index, grid_limit=grid_limit
            )
            wrapped.append(functools.partial(_make_wrapped, env_fn, settings))
    return wrapped


def _make_wrapped(env_fn: EnvFn, settings: dict[str, Any]) -> gymnasium.Env[Any, Any]:
    return FastLaneTelemetryWrapper(env_fn(), **settings)


class FastLaneVectorWrapper(VectorWrapper):  # not generic before gymnasium 1.4
    """Publishes one environment of a vector environment, or a grid of several.

    The options are those of :class:`FastLaneTelemetryWrapper`; `telemetry` hears of all
    environments, as agents "env-0", "env-1", ... Around an ``AsyncVectorEnv`` it shows nothing, and
    says so: there, use :func:`wrap_env_fns`.
    """

    def __init__(
        self,
        env: VectorEnv[Any, Any, Any],
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
        expect_vector_env(env)
        if slot >= env.num_envs:
            raise ValueError(f"slot {slot} does not exist: there are {env.num_envs} environments")
        super().__init__(env)
        self.settings = Settings(
            run_id or run_id_of(env),
            Demand(max_hz, every_step),
            rendering,
            video_mode,
            slot,
            grid_limit,
            capacity,
        )
        self.teller = None if telemetry is None else BatchTeller(telemetry, env.num_envs)
        self.tally = BatchTally(env.num_envs)
        plan = functools.partial(_plan_for_vector, env, self.settings, self.pictures_of)
        self.publisher = Publisher(None if video_mode == "off" else plan, self.tally)
        self._resets_at_next_step = _resets_at_next_step(env)
        self._to_be_reset: Flags | None = None

    @staticmethod
    def pictures_of(env: VectorEnv[Any, Any, Any], slots: Sequence[int]) -> list[Any]:
        """Render some of the environments; for vector environments that are one object."""
        rendered = env.render()
        if rendered is None or len(rendered) == 0:
            raise UnusableRender("render() returned nothing; make it with render_mode='rgb_array'")
        return [rendered[slot] for slot in slots]

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step all, and show the result if somebody watches."""
        result = self.env.step(actions)
        before, self._to_be_reset = self._to_be_reset, None
        if self._resets_at_next_step and (over := np.logical_or(result[2], result[3])).any():
            self._to_be_reset = over
        # A step that only resets an environment is none of its steps.
        self.count(result[1], result[2], result[3], None if before is None else ~before)
        self.publisher.look()
        return result

    def count(
        self, rewards: Any, terminated: Any, truncated: Any, took_a_step: Flags | None
    ) -> None:
        """Count what a step brought, and tell it on. `took_a_step`: who did, None for all."""
        shown = self.settings.slot if self.settings.video_mode == "single" else None
        taken = None if took_a_step is None else int(np.count_nonzero(took_a_step))
        self.tally.add(rewards, np.logical_or(terminated, truncated), shown, taken)
        if self.teller is not None:
            self.teller.after_step(rewards, terminated, truncated, took_a_step)

    def reset(
        self, *, seed: Any = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset all, or those of ``options["reset_mask"]``; episodes under way end unfinished."""
        self.begin_episodes((options or {}).get("reset_mask"))
        return self.env.reset(seed=seed, options=options)

    def begin_episodes(self, which: Any = None) -> None:
        """Count anew for those where `which` is true, None for all."""
        self.tally.begin_episodes(which)
        if self.teller is not None:
            self.teller.begin_episodes(which)
        if which is None or self._to_be_reset is None:
            self._to_be_reset = None
        else:
            self._to_be_reset = self._to_be_reset & ~np.asarray(which, bool)

    def close(self, **kwargs: Any) -> None:
        """Leave the lane and close the environments. May be called twice."""
        if "publisher" not in vars(self):
            return  # being collected after a refusal in __init__
        self.publisher.close()
        if not self.env.unwrapped.closed:
            super().close(**kwargs)


def _resets_at_next_step(env: VectorEnv[Any, Any, Any]) -> bool:
    """Whether the step after an episode's end is the reset, as it is where nothing is said."""
    mode = env.metadata.get("autoreset_mode")
    return mode is None or getattr(mode, "name", "") == "NEXT_STEP"


class BatchTeller:
    """Numbers the steps and episodes of many environments, and hands them on."""

    def __init__(self, telemetry: Telemetry, count: int) -> None:
        self._tellers = [Teller(telemetry, f"env-{slot}") for slot in range(count)]

    def after_step(
        self, rewards: Any, terminated: Any, truncated: Any, took_a_step: Flags | None
    ) -> None:
        """Hand on the step of each environment that took one; None: all did."""
        for slot, teller in enumerate(self._tellers):
            if took_a_step is None or took_a_step[slot]:
                teller.after_step(rewards[slot], terminated[slot], truncated[slot])

    def begin_episodes(self, which: Any = None) -> None:
        """Start anew where `which` is true, None for all."""
        for slot, teller in enumerate(self._tellers):
            if which is None or which[slot]:
                teller.begin_episode()


def _plan_for_vector(
    env: VectorEnv[Any, Any, Any], settings: Settings, pictures_of: PicturesOf
) -> Plan:
    bare = env.unwrapped
    if isinstance(bare, SyncVectorEnv):
        if settings.video_mode == "single":
            return plan_for(bare.envs[settings.slot], settings)
        return _plan_for_grid(list(bare.envs[: settings.grid_limit]), settings)
    if isinstance(bare, AsyncVectorEnv):
        why_not: str | None = (
            "the environments live in processes of their own; make them with "
            "AsyncVectorEnv(lanekit.integrations.wrap_env_fns(env_fns, run_id))"
        )
    else:
        why_not = why_not_drawable(env)
    tame_sdl()
    paint = None if why_not else functools.partial(_paint_batch, env, settings, pictures_of)
    return Plan(
        settings.run_id,
        (View(settings.run_id, paint, why_not or ""),),
        demand=settings.demand,
        capacity=settings.capacity,
    )


def _plan_for_grid(envs: list[gymnasium.Env[Any, Any]], settings: Settings) -> Plan:
    """Show several environments of this process: their states, or one picture drawn here."""
    lanes = [slot_lane_of(settings.run_id, slot) for slot in range(len(envs))]
    views = tuple(view_of(env, lane, settings) for env, lane in zip(envs, lanes, strict=True))
    painters = [view.paint for view in views if view.paint is not None]
    why_not = next((view.why_not for view in views if view.paint is None), "")
    grid = None if why_not else functools.partial(_paint_grid, painters)
    if all(view.state is not None for view in views):
        views = (replace(views[0], paint=grid, why_not=why_not), *views[1:])
        request = functools.partial(
            render_request,
            settings.run_id,
            lanes,
            sorted({view.stage for view in views}),
            max_hz=settings.demand.max_hz,
            capacity=settings.capacity,
        )
        return Plan(settings.run_id, views, request, settings.demand, settings.capacity)
    return Plan(
        settings.run_id,
        (View(settings.run_id, grid, why_not),),
        demand=settings.demand,
        capacity=settings.capacity,
    )


def _paint_grid(painters: list[Callable[[], Frame]]) -> Frame:
    tiles = []
    for paint in painters:
        frame = paint()
        tiles.append(frame.pixels.copy())  # some environments draw every picture into one array
    return Frame(tile_frames(tiles), frame.pixel_format)


def _paint_batch(
    env: VectorEnv[Any, Any, Any], settings: Settings, pictures_of: PicturesOf
) -> Frame:
    if settings.video_mode == "single":
        return to_frame(pictures_of(env, [settings.slot])[0])
    slots = range(min(settings.grid_limit, env.num_envs))
    frames = [to_frame(picture) for picture in pictures_of(env, slots)]
    return Frame(tile_frames([frame.pixels for frame in frames]), frames[0].pixel_format)
