"""An engine of sliding boxes, whose friction a reset may randomise. usage: sliding_engine.py RUN"""

from __future__ import annotations

import sys

import numpy as np

from lanekit.command import (
    Agent,
    CommandServer,
    Range,
    ResetAgentRequest,
    ResetAgentResponse,
    SimulationContract,
)
from lanekit.step import StepServer


class Boxes:
    """Each observes its speed and its friction; an action pushes it."""

    def __init__(self, lane: StepServer) -> None:
        self._lane = lane
        self._friction = np.full(lane.config.num_envs, 0.5, np.float32)
        self._speed = np.zeros_like(self._friction)

    def reset(self, request: ResetAgentRequest) -> ResetAgentResponse:
        boxes = request.env_ids if len(request.env_ids) else np.arange(len(self._speed))
        contract = request.simulation_contract or SimulationContract()
        span = contract.friction_range or Range(0.5, 0.5)
        if not 0 <= span.min <= span.max:
            raise ValueError(f"no friction is between {span.min} and {span.max}")
        numbers = np.random.default_rng(request.seed if request.seeded else None)
        self._friction[boxes] = numbers.uniform(span.min, span.max, len(boxes))
        self._speed[boxes] = 0
        return ResetAgentResponse(success=True, message=f"{len(boxes)} boxes")

    def step(self) -> None:
        self._speed = (self._speed + self._lane.actions[:, 0]) * (1 - self._friction)
        self._lane.obs[:, 0] = self._speed
        self._lane.obs[:, 1] = self._friction


def main() -> None:
    with StepServer.create(sys.argv[1], 64, 2, 1) as lane:
        boxes = Boxes(lane)
        server = CommandServer(lane.commands, {Agent.ResetAgent: boxes.reset})
        print("ready", flush=True)
        while True:
            if lane.wait_actions(timeout=0.005) is not None:
                boxes.step()
                lane.commit()
            server.pump()


if __name__ == "__main__":
    main()
