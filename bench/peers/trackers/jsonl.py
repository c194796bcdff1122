"""A file of JSON lines: what one writes without any tracker."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from bench.peers.trackers import Recorder
from bench.slow_events import Step, line

PACKAGE = None
CALLS = "json.dumps per step, one write and one fsync per 256"


def begin(directory: Path) -> Recorder:
    file = (directory / "steps.jsonl").open("ab", buffering=0)

    def record(steps: Sequence[Step]) -> None:
        with file:
            for start in range(0, len(steps), 256):
                lines = [line(step) + "\n" for step in steps[start : start + 256]]
                file.write("".join(lines).encode())
                os.fsync(file.fileno())

    return record
