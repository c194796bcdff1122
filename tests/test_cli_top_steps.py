"""`lanekit top` counts the exchanges of a step lane."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid

from lanekit import StepClient, StepServer
from patience import patience


def test_top_counts_exchanges_and_what_they_carry() -> None:
    name = f"top-{uuid.uuid4().hex}"
    with (
        StepServer.create(name, 4, 3, 2, obs_dtype="float64", command_ring=0) as server,
        StepClient.attach(name) as client,
    ):
        for _ in range(5):
            client.send()
            assert server.wait_actions(0) is not None
            server.commit()
            client.recv(0)
        client.send()
        command = [sys.executable, "-m", "lanekit", "top", "--once", "--json", "--interval", "0.05"]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=patience(120), check=True
        )
    printed = json.loads(done.stdout)
    lanes = printed["lanes"] if isinstance(printed, dict) else printed
    (found,) = [lane for lane in lanes if lane["run"] == name]
    assert (found["kind"], found["unit"], found["count"]) == ("step", "exchanges", 5)
    assert found["bytes"] == 5 * 4 * (3 * 8 + 2 * 4)
    assert (found["peers"], found["places"], found["depth"]) == (1, 1, 1)
