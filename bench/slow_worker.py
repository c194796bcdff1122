"""A worker in Python that prints its steps through `lanekit.slow.emit`: COUNT GO."""

from __future__ import annotations

import sys
from pathlib import Path

from bench.slow_events import steps
from lanekit.slow import emit


def main() -> None:
    events = list(steps(int(sys.argv[1])))
    Path(sys.argv[2]).read_text()  # a pipe: waits for the go
    for step in events:
        emit.step(
            step.episode,
            step.number,
            agent_id="agent-0",
            action=step.action,
            observation=step.observation,
            reward=step.reward,
            terminated=step.terminated,
        )


if __name__ == "__main__":
    main()
