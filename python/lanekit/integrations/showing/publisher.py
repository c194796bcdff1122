"""From an environment's steps to a picture that others see: the one place that decides what to do.

A publisher opens its lane on the first step, not before: frameworks build environments only to ask
for their spaces. Whatever goes wrong, training goes on; one warning says what, and what to do.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from lanekit import errors
from lanekit.integrations.shadow.state_codec import encode_state
from lanekit.integrations.showing.demand import Demand
from lanekit.integrations.showing.frame_note import FrameNote
from lanekit.integrations.showing.frames import Frame, UnusableRender
from lanekit.integrations.showing.helper_process import HelperFailed, StandIn
from lanekit.integrations.showing.lanes import PictureLane, State, StateLane, state_lane_of
from lanekit.integrations.showing.spec_file import SpecFile, digest_of
from lanekit.integrations.showing.tally import Tally

CAPACITY = 8
"""Frames in a ring: viewers want the newest one only."""

_NEVER = 1 << 62
_MOST_STEPS_UNSEEN = 64
_LONGEST_UNSEEN_NS = 1_000_000_000 // 60
_SECOND = 1_000_000_000
_now = time.monotonic_ns


class FastLaneWarning(UserWarning):
    """Training goes on, but can not be watched; the message says why, and what to do."""


class StateUnusable(errors.LanekitError):
    """An environment's state cannot be read, or cannot be sent to the process that should draw."""


class Telemetry(Protocol):
    """Where steps and episodes go besides, e.g. the slow lane: an object or a module."""

    def step(
        self,
        episode_index: int,
        step_index: int,
        *,
        reward: float,
        terminated: bool,
        truncated: bool,
        agent_id: str,
    ) -> object:
        """Take one step."""

    def episode(
        self,
        episode_index: int,
        *,
        episode_return: float,
        length: int,
        terminated: bool,
        truncated: bool,
        agent_id: str,
    ) -> object:
        """Take one finished episode."""


@dataclass(frozen=True)
class View:
    """How one environment is shown: on which lane, and by what."""

    lane: str
    """The run id of the lane that this environment fills."""
    paint: Callable[[], Frame] | None = None
    """Draws the environment in this process; None if that is not possible."""
    why_not: str = ""
    """Why it is not possible."""
    state: Callable[[], Any] | None = None
    """Takes the environment's state, for another process to draw; None: this process draws."""
    stage: bytes = b""
    """What that process needs to make a copy of the environment; never sent through a lane."""


@dataclass(frozen=True)
class Plan:
    """What a publisher shall do."""

    run_id: str
    views: tuple[View, ...]
    """The environments of this process that are shown, most often one."""
    request: Callable[[], bytes] | None = None
    """What to tell the process that fills the run's lane; None: this process fills it."""
    demand: Demand = field(default_factory=Demand)
    capacity: int = CAPACITY


class Publisher:
    """Shows a run's environments for as long as somebody watches.

    Call :meth:`after_step` after each step and :meth:`close` at the end. `plan` is asked for on the
    first step; without one, steps are counted and nothing is shown.
    """

    def __init__(self, plan: Callable[[], Plan] | None, tally: Tally | None = None) -> None:
        self.tally = tally or Tally()
        self._make_plan = plan
        self._plan: Plan | None = None
        self._pid = os.getpid()
        self._lanes: list[PictureLane | StateLane] = []
        self._stand_in: StandIn | None = None
        self.episode_return: Any = 0.0
        self.steps_left = self._steps_granted = 1
        self._counted_ns = 0
        self._due_ns = 0 if plan is not None else _NEVER
        self._next_beat_ns = 0
        self._taken_since_ns = 0
        self._taken: errors.SegmentExists | None = None
        self._warned: set[str] = set()
        self._closed = False

    # --- what a wrapper calls --------------------------------------------------------------------

    def after_step(self, reward: Any, over: bool) -> None:
        """Count a step, and show it if somebody watches and it is time to.

        Called on every step of a training, so it does next to nothing: even the clock is read only
        every few steps, as many as leave the picture in time. Where a call is too much, write it
        out, as :class:`FastLaneTelemetryWrapper` does.
        """
        self.episode_return += reward
        self.steps_left -= 1
        if over or self.steps_left <= 0:
            self.take_stock(reward, over)

    def take_stock(self, reward: Any, over: bool) -> None:
        """Do what is due after a step: look, or end the episode."""
        if self.steps_left <= 0:
            self._count_steps(reward)
        if over:
            self.tally.episode_return = self.episode_return
            self.tally.end_episode()
            self.episode_return = 0.0

    def begin_episode(self) -> None:
        """Start a new episode; one under way stays unfinished and does not count."""
        self.episode_return = 0.0

    def look(self) -> None:
        """Show the environments' current state if somebody watches and it is time to."""
        now_ns = _now()
        if now_ns < self._due_ns:
            return
        if self._pid != os.getpid():
            self._become_another_process()
        try:
            self._attend(now_ns)
        except errors.SegmentExists as error:
            self._wait_for_the_name(error, now_ns)
        except UnusableRender as error:
            self._complain("render", f"{error}", now_ns)
        except errors.SegmentInvalidated:
            self._let_go()  # somebody cleaned up by force: begin anew
        except StateUnusable as error:
            self._do_without_states(str(error), now_ns)
        except HelperFailed as error:
            self._do_without_helper(str(error), now_ns)
        except errors.LanekitError as error:
            self._let_go()
            self._complain("lane", f"{error}", now_ns)
        except Exception as error:  # whatever it is, it must not end a training
            self._let_go()
            self._complain("lane", f"{type(error).__name__}: {error}", now_ns)

    def close(self) -> None:
        """Leave the lanes and end what was started. May be called twice."""
        self._due_ns = _NEVER
        if not self._closed and self._taken is not None:
            self._complain("taken", str(self._taken), 0)
            self._due_ns = _NEVER
        self._closed = True
        self._let_go()

    @property
    def rendering(self) -> str:
        """How the run is drawn: "in-process", "shadow", or "off"; "" before the first step."""
        if self._plan is None:
            return ""
        if not self._lanes:
            return "off"
        return "shadow" if isinstance(self._lanes[0], StateLane) else "in-process"

    @property
    def helper_pid(self) -> int | None:
        """The process that draws, if there is one now."""
        return None if self._stand_in is None else self._stand_in.helper_pid

    # --- details ---------------------------------------------------------------------------------

    def _count_steps(self, reward: Any) -> None:
        """Count those since the last time, show the last of them, decide when to come again."""
        taken = self._steps_granted - self.steps_left
        tally = self.tally
        tally.steps += taken
        tally.last_reward = reward
        tally.episode_return = self.episode_return
        now_ns = _now()
        if now_ns >= self._due_ns:
            self.look()
        pace_ns = (now_ns - self._counted_ns) // taken
        self._counted_ns = now_ns
        # No further ahead than the pace, which may change, can be trusted.
        steps = min(self._due_ns - now_ns, _LONGEST_UNSEEN_NS) // (pace_ns + 1)
        self.steps_left = self._steps_granted = max(1, min(steps, _MOST_STEPS_UNSEEN))

    def _attend(self, now_ns: int) -> None:
        if not self._lanes:
            self._open()
        plan = self._plan
        assert plan is not None
        self._due_ns = plan.demand.next_look(now_ns)
        if self._stand_in is not None:
            self._stand_in.attend(now_ns)
        metrics = None
        for view, lane in zip(plan.views, self._lanes, strict=True):
            if not lane.watched:
                continue
            if metrics is None:
                metrics = self.tally.metrics(now_ns)
            if isinstance(lane, StateLane):
                lane.publish(self._state_of(view), metrics)
            elif view.paint is None:
                raise UnusableRender(view.why_not)
            else:
                note = FrameNote("in-process", self.tally.steps, self.tally.episodes)
                lane.publish(self._painted(view.paint), metrics, note)
        if metrics is None:
            self._due_ns = plan.demand.next_look(now_ns, watched=False)
        if now_ns >= self._next_beat_ns:
            self._next_beat_ns = now_ns + _SECOND
            for lane in self._lanes:
                lane.update_metrics(metrics or self.tally.metrics(now_ns))

    def _state_of(self, view: View) -> State:
        assert view.state is not None
        try:
            state = view.state()
        except Exception as error:
            raise StateUnusable(
                f"its state could not be read: {type(error).__name__}: {error}"
            ) from error
        try:
            data = encode_state(state)
        except Exception as error:
            raise StateUnusable(
                f"its state cannot go to another process: {type(error).__name__}: {error}"
            ) from error
        return State(self.tally.steps, self.tally.episodes, data)

    def _painted(self, paint: Callable[[], Frame]) -> Frame:
        try:
            return paint()
        except UnusableRender:
            raise
        except Exception as error:
            raise UnusableRender(f"render() failed: {type(error).__name__}: {error}") from error

    def _open(self) -> None:
        if self._plan is None:
            assert self._make_plan is not None
            self._plan = self._make_plan()
        plan = self._plan
        opened: list[PictureLane | StateLane] = []
        try:
            for view in plan.views:
                if view.state is not None:
                    opened.append(self._state_lane(view, plan))
                else:
                    opened.append(PictureLane(view.lane, plan.capacity))
            if plan.request is not None:
                self._stand_in = StandIn(plan.run_id, plan.request)
        except BaseException:
            for lane in opened:
                lane.close()
            raise
        self._lanes = opened
        self._taken = None
        for view in plan.views:
            if view.state is None and view.paint is None:
                raise UnusableRender(view.why_not)

    def _state_lane(self, view: View, plan: Plan) -> StateLane:
        """Open a lane of states, for this process's own helper or for another process's."""
        spec_file = None
        if plan.request is None:
            try:
                spec_file = SpecFile(view.stage)
            except (OSError, ValueError) as error:
                raise StateUnusable(f"its spec cannot go to another process: {error}") from error
        return StateLane(view.lane, digest_of(view.stage), spec_file)

    def _wait_for_the_name(self, error: errors.SegmentExists, now_ns: int) -> None:
        """Another process has the run's lane: a run that is just ending, or a mistake."""
        if self._taken is None:
            self._taken_since_ns = now_ns
        self._taken = error
        self._let_go()
        if now_ns - self._taken_since_ns >= _SECOND:
            self._complain("taken", str(error), now_ns)
        self._due_ns = now_ns + _SECOND // 4

    def _do_without_states(self, reason: str, now_ns: int) -> None:
        """An environment's state cannot be sent: draw here, a tile of a grid into its own lane."""
        assert self._plan is not None
        one_tile = self._plan.request is None or (
            len(self._plan.views) == 1
            and self._plan.views[0].lane != state_lane_of(self._plan.run_id)
        )
        if not one_tile:
            self._do_without_helper(reason, now_ns)
            return
        self._draw_here(reason, self._plan.views[0].lane, self._plan.request, now_ns)

    def _do_without_helper(self, reason: str, now_ns: int) -> None:
        """The process that should draw does not work: draw here, if that is possible."""
        assert self._plan is not None
        self._draw_here(reason, self._plan.run_id, None, now_ns)

    def _draw_here(
        self, reason: str, lane: str, request: Callable[[], bytes] | None, now_ns: int
    ) -> None:
        assert self._plan is not None
        self._let_go()
        first = self._plan.views[0]
        here = replace(first, lane=lane, state=None)
        self._plan = replace(self._plan, views=(here,), request=request)
        what_now = (
            "the training process draws instead, which takes some of its time"
            if first.paint is not None
            else f"and the training process can not draw: {first.why_not}"
        )
        self._complain("helper", f"{reason}; {what_now}", now_ns)
        self._due_ns = now_ns if first.paint is not None else _NEVER

    def _complain(self, kind: str, reason: str, now_ns: int) -> None:
        """Say once what is wrong, and try again in a second."""
        self._due_ns = now_ns + _SECOND
        if kind in self._warned:
            return
        self._warned.add(kind)
        run_id = self._plan.run_id if self._plan is not None else "?"
        warnings.warn(
            f"lanekit can not show run {run_id!r}: {reason} (training goes on)",
            FastLaneWarning,
            stacklevel=5,
        )

    def _become_another_process(self) -> None:
        """Forget what belongs to the process that this one was forked from."""
        self._pid = os.getpid()
        self._lanes = []
        self._stand_in = None

    def _let_go(self) -> None:
        if self._pid != os.getpid():
            self._become_another_process()
        if self._stand_in is not None:
            self._stand_in.close()
            self._stand_in = None
        lanes, self._lanes = self._lanes, []
        for lane in lanes:
            lane.close()

    def __reduce__(self) -> tuple[type[Publisher], tuple[Callable[[], Plan] | None, Tally]]:
        """Travel to another process with what was counted, but without what was opened."""
        return Publisher, (self._make_plan, self.tally)
