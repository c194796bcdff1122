"""Workers to submit, and where a submitted run's processes are."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from daemon_process import DaemonProcess, history, run_of

from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.proto.telemetry_pb2_grpc import TrainerServiceStub
from patience import patience, until

MakeDaemon = Callable[..., DaemonProcess]

PRELUDE = """
import json, os, signal, sys, time
def say(**line):
    print(json.dumps(line), flush=True)
def step(number):
    say(event_type="step", episode_index=0, step_index=number, reward=1.0, action=number)
"""
A_SHORT_LIFE = """
say(event="run_started")
for number in range(500):
    step(number)
print("a print that is no telemetry")
say(event="run_completed")
"""
STEPS_UNTIL_TOLD = """
say(event="run_started")
number = 0
while not os.path.exists(sys.argv[1]):
    step(number)
    number += 1
    time.sleep(0.001)
print(number, file=open(sys.argv[1] + ".count", "w"))
say(event="run_completed")
"""
DEAF = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
say(event="run_started")
while True:
    time.sleep(1)
"""


def submit(stub: TrainerServiceStub, script: str, *arguments: str, **more: Any) -> Any:
    command = [sys.executable, "-c", PRELUDE + script, *arguments]
    request = pb.SubmitRunRequest(command=command, **more)
    return stub.SubmitRun(request, timeout=patience()).run


def wait_for(stub: TrainerServiceStub, run: str, *states: Any) -> Any:
    def there() -> Any:
        found = run_of(stub, run)
        return found if found.state in states else None

    return until(there, seconds=90)


def spool_of(daemon: DaemonProcess, run: str) -> Path:
    (spool,) = daemon.spools.glob(f"{run}-*")
    return spool


def proxy_of(spool: Path) -> int:
    """The process that sends from a spool now."""
    return int(until(lambda: (spool / "lock").exists() and (spool / "lock").read_text().strip()))


def worker_of(spool: Path) -> int:
    until((spool / "worker.json").exists)
    return int(json.loads((spool / "worker.json").read_text())["pid"])


def alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def step_numbers(stub: TrainerServiceStub, run: str) -> list[int]:
    return [step.step for step in history(stub, run)]


def submit_steps(stub: TrainerServiceStub, stop: Path) -> None:
    """Submit run "r", which steps until there is a file `stop`; return when it is under way."""
    submit(stub, STEPS_UNTIL_TOLD, str(stop), run_id="r")
    until(lambda: run_of(stub, "r").steps > 10)


def check_all_arrives(stub: TrainerServiceStub, stop: Path) -> Any:
    """Let run "r" stop, and see that each of its steps has arrived once; return the run."""
    stop.touch()
    run = wait_for(stub, "r", pb.RUN_STATE_COMPLETED)
    count = int(until(lambda: Path(f"{stop}.count").read_text()))
    until(lambda: run_of(stub, "r").steps >= count)
    assert step_numbers(stub, "r") == list(range(count))
    return run
