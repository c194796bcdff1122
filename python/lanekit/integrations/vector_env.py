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
from lanekit.integrations.showing.frames import Frame, UnusableRender, to_frame
from lanekit.integrations.showing.lanes import slot_lane_of
from lanekit.integrations.showing.painter import RenderingChoice, render_request, why_not_drawable
from lanekit.integrations.showing.publisher import CAPACITY, Plan, Publisher, View
from lanekit.integrations.showing.surfaces import tame_sdl
from lanekit.integrations.showing.tally import BatchTally

EnvFn = Callable[[], gymnasium.Env[Any, Any]]


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
    for index, env_fn in enumerate(env_fns):
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

    The options are those of :class:`FastLaneTelemetryWrapper`. Around an ``AsyncVectorEnv`` it only
    counts, and says so: there, use :func:`wrap_env_fns`.
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
    ) -> None:
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
        self.tally = BatchTally(env.num_envs)
        plan = functools.partial(_plan_for_vector, env, self.settings)
        self.publisher = Publisher(None if video_mode == "off" else plan, self.tally)

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step all, and show the result if somebody watches."""
        result = self.env.step(actions)
        shown = self.settings.slot if self.settings.video_mode == "single" else None
        self.tally.add(result[1], np.logical_or(result[2], result[3]), shown)
        self.publisher.look()
        return result

    def close(self, **kwargs: Any) -> None:
        """Leave the lane and close the environments. May be called twice."""
        if "publisher" not in vars(self):
            return  # being collected after a refusal in __init__
        self.publisher.close()
        if not self.env.unwrapped.closed:
            super().close(**kwargs)


def _plan_for_vector(env: VectorEnv[Any, Any, Any], settings: Settings) -> Plan:
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
    paint = None if why_not else functools.partial(_paint_batch, env, settings)
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


def _paint_batch(env: VectorEnv[Any, Any, Any], settings: Settings) -> Frame:
    rendered = env.render()
    if rendered is None or len(rendered) == 0:
        raise UnusableRender("render() returned nothing; make it with render_mode='rgb_array'")
    if settings.video_mode == "single":
        return to_frame(rendered[settings.slot])
    frames = [to_frame(one) for one in rendered[: settings.grid_limit]]
    return Frame(tile_frames([frame.pixels for frame in frames]), frames[0].pixel_format)
