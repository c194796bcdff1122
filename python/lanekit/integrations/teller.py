"""What a wrapper tells the slow lane: steps and episodes, numbered, of one agent."""

from __future__ import annotations

import warnings
from typing import SupportsFloat

from lanekit.integrations.showing.publisher import FastLaneWarning, Telemetry


class Teller:
    """Numbers steps and episodes, and hands them on."""

    def __init__(self, telemetry: Telemetry, agent_id: str) -> None:
        self._telemetry: Telemetry | None = telemetry
        self._agent_id = agent_id
        self._episode = 0
        self._steps = 0
        self._return = 0.0

    def begin_episode(self) -> None:
        """Start anew; an episode with steps but without an end keeps its number to itself."""
        if self._steps > 0:
            self._episode += 1
        self._steps = 0
        self._return = 0.0

    def after_step(self, reward: SupportsFloat, terminated: bool, truncated: bool) -> None:
        """Hand a step on, and the episode if that was its last one. Never ends a training."""
        if self._telemetry is None:
            return
        try:
            self._tell(self._telemetry, reward, terminated, truncated)
        except (OSError, ValueError) as error:  # nobody reads any more, a full disk, a closed file
            self._telemetry = None
            warnings.warn(
                f"steps of {self._agent_id} are no longer reported: {error} (training goes on; "
                "`lanekit run` and `lanekit proxy` keep what a worker reports)",
                FastLaneWarning,
                stacklevel=3,
            )

    def _tell(
        self, telemetry: Telemetry, reward: SupportsFloat, terminated: bool, truncated: bool
    ) -> None:
        number = float(reward)
        ends, cut = bool(terminated), bool(truncated)
        telemetry.step(
            self._episode,
            self._steps,
            reward=number,
            terminated=ends,
            truncated=cut,
            agent_id=self._agent_id,
        )
        self._steps += 1
        self._return += number
        if ends or cut:
            telemetry.episode(
                self._episode,
                episode_return=self._return,
                length=self._steps,
                terminated=ends,
                truncated=cut,
                agent_id=self._agent_id,
            )
            self.begin_episode()
