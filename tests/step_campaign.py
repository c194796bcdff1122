"""The step lane over millions of steps and thousands of kills, every result compared.

``python -m tests.step_campaign [--steps N] [--kills N] [--seed S]``: what tests/test_step_kills.py
does in seconds, for as long as it takes.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from lanekit import StepClient
from patience import patience
from role_processes import Processes
from test_step_kills import (
    SequenceWord,
    kill_many_clients,
    kill_many_servers,
    path_of,
    serve_a_ledger,
    step_a_ledger,
)


@contextmanager
def _house() -> Iterator[tuple[Processes, str]]:
    processes, lane = Processes(), f"step-campaign-{uuid.uuid4().hex}"
    try:
        yield processes, lane
    finally:
        processes.end()
        path_of(lane).unlink(missing_ok=True)


def _steps(steps: int, pipelined: bool) -> str:
    with _house() as (processes, lane):
        processes.start(serve_a_ledger, lane, "hybrid", int(pipelined))
        with StepClient.attach(lane, timeout=patience(250)) as client:
            step_a_ledger(client, SequenceWord(lane), steps)
    return f"{steps:,} steps{', pipelined' * pipelined}: each exactly once"


def _client_kills(kills: int, seed: int, pipelined: bool) -> str:
    with _house() as (processes, lane):
        found = kill_many_clients(processes, lane, kills, seed, pipelined)
    assert found["server"]["exchanges"] == found["killer"]["exchanges"]
    return (
        f"{kills:,} clients killed{', pipelined' * pipelined}: "
        f"{found['server']['exchanges']:,} exchanges, each whole and stepped once"
    )


def _server_kills(kills: int, seed: int) -> str:
    with _house() as (processes, lane):
        found = kill_many_servers(processes, lane, kills, seed)
    return f"{kills:,} servers killed: {found['client']['steps']:,} steps, no result half-written"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.step_campaign", description=__doc__)
    parser.add_argument("--steps", type=int, default=2_000_000)
    parser.add_argument("--kills", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(32))
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}")
    steps, kills, seed = arguments.steps, arguments.kills, arguments.seed
    parts: list[Callable[[], str]] = [
        lambda: _steps(steps, False),
        lambda: _steps(steps, True),
        lambda: _client_kills(kills, seed, False),
        lambda: _client_kills(kills, seed, True),
        lambda: _server_kills(kills // 4, seed),
    ]
    for part in parts:
        started = time.monotonic()
        print(f"{part()} ({time.monotonic() - started:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
