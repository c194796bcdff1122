"""Some simulated nodes in one process: each a worker's real way to the daemon, spool and all.

``python -m bench.scale.nodes`` reads its order from standard input: where, how many, how fast. It
says when all nodes are registered, waits for a line, sends for so many seconds, and goes on until
everything is acknowledged. Twice a second it prints what was written and what is acknowledged.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from bench.slow_events import EPISODE_LENGTH
from lanekit.slow.sending.telemetry_client import TelemetryClient

TICK = 0.05
REPORT_EVERY = 0.5


class Node:
    """One worker of one run."""

    def __init__(self, order: dict[str, Any], run_id: str) -> None:
        spool = Path(order["directory"]) / run_id
        self.client = TelemetryClient(run_id, target=order["target"], spool=spool)
        self.written = 0
        side = order["frame"]
        self._frame = np.zeros((side, side, 3), np.uint8) if side else None

    def write(self, upto: int) -> None:
        """Report the events up to a number, as many lines at once as there are."""
        if self._frame is not None:
            for n in range(self.written, upto):
                self._frame[:, :, 0] = n % 256
                episode, step = divmod(n, EPISODE_LENGTH)
                self.client.step(episode, step, reward=n / 8, frame=self._frame)
        elif upto > self.written:
            self.client.write_line("".join(map(line, range(self.written, upto))))
        self.written = max(self.written, upto)


def line(n: int) -> str:
    """Event number n: what is in it can be told from its number."""
    episode, step = divmod(n, EPISODE_LENGTH)
    return (
        f'{{"event_type":"step","episode_index":{episode},"step_index":{step},"action":{n % 2},'
        f'"observation":[{n % 977 / 977:.6f},0.0125,-0.5,0.25],"reward":{n / 8},"time_ns":1}}\n'
    )


def say(**facts: object) -> None:
    """Tell the parent."""
    print(json.dumps(facts), flush=True)


def main() -> None:
    order = json.loads(sys.stdin.readline())
    nodes = [Node(order, run_id) for run_id in order["runs"]]
    for node in nodes:
        node.write(1)
    while not all(node.client.flush(1.0) for node in nodes):
        pass
    say(ready=True)
    sys.stdin.readline()
    started = time.monotonic()
    reported = 0.0
    rate, seconds = order["rate"], order["seconds"]
    while True:
        passed = time.monotonic() - started
        sending = passed < seconds
        if sending:
            for node in nodes:
                node.write(1 + int(passed * rate))
        taken = sum(node.client.acknowledged["steps"] for node in nodes)
        written = sum(node.written for node in nodes)
        done = not sending and taken == written
        if done or passed >= reported + REPORT_EVERY:
            reported = passed
            say(written=written, taken=taken, sending=sending, done=done)
        if done:
            break
        time.sleep(max(0.0, TICK - (time.monotonic() - started - passed)))
    say(totals={node.client.spool.run_id: node.written for node in nodes})
    for node in nodes:
        node.client.close()


if __name__ == "__main__":
    main()
