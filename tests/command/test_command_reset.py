"""A reset through the command lane changes what the step lane shows afterwards."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from lanekit import RemoteError
from lanekit.command import Agent, CommandClient, Range, ResetAgentRequest, SimulationContract
from lanekit.step import StepClient
from patience import patience


@pytest.fixture
def engine(run_id: str) -> Iterator[str]:
    script = Path(__file__).with_name("sliding_engine.py")
    command = [sys.executable, str(script), run_id]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "ready\n"
        yield run_id
        running.terminate()


def randomised(low: float, high: float, **request: object) -> ResetAgentRequest:
    contract = SimulationContract(friction_range=Range(low, high))
    return ResetAgentRequest(simulation_contract=contract, **request)  # type: ignore[arg-type]


def test_domain_randomisation_applies_to_the_environments_that_were_reset(engine: str) -> None:
    pushes = np.ones((64, 1), np.float32)
    with (
        StepClient.attach(engine, timeout=patience()) as lane,
        CommandClient(lane.commands, timeout=patience()) as client,
    ):
        before = lane.step(pushes, timeout=patience()).obs.copy()
        assert (before == [0.5, 0.5]).all()
        chosen = np.arange(0, 64, 3)
        request = randomised(0.7, 0.9, env_ids=chosen, seed=5, seeded=True)
        assert client.call(Agent.ResetAgent, request).message == f"{len(chosen)} boxes"
        after = lane.step(pushes, timeout=patience()).obs.copy()
        reset = np.zeros(64, bool)
        reset[chosen] = True
        friction = after[:, 1]
        assert ((friction[reset] >= 0.7) & (friction[reset] <= 0.9)).all()
        assert len(set(friction[reset].tolist())) > 10  # each its own
        assert (friction[~reset] == 0.5).all()
        np.testing.assert_allclose(after[reset, 0], 1 - friction[reset], rtol=1e-6)
        assert (after[~reset, 0] == 0.75).all()  # their motion went on
        # The same seed gives the same draw, another reset without a contract the default again.
        client.call(Agent.ResetAgent, request)
        assert (lane.step(pushes, timeout=patience()).obs[:, 1] == friction).all()
        client.call(Agent.ResetAgent)
        assert (lane.step(pushes, timeout=patience()).obs[:, 1] == 0.5).all()


def test_a_contract_that_can_not_be_met_is_refused_and_changes_nothing(engine: str) -> None:
    with (
        StepClient.attach(engine, timeout=patience()) as lane,
        CommandClient(lane.commands, timeout=patience()) as client,
    ):
        with pytest.raises(RemoteError, match=r"ValueError: no friction is between 0.75"):
            client.call(Agent.ResetAgent, randomised(0.75, 0.25))
        result = lane.step(np.zeros((64, 1)), timeout=patience())
        assert (result.obs[:, 1] == 0.5).all()
