"""Let one tracker record steps, and print how long it took: ``NAME COUNT DIRECTORY``."""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from importlib.metadata import version
from pathlib import Path

from bench.slow_events import steps


def _bytes_below(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


def main() -> None:
    name, count, directory = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    # Trackers print: keep stdout for the answer.
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    tracker = importlib.import_module(f"bench.peers.trackers.{name}")
    events = list(steps(count))
    record = tracker.begin(directory)
    started = time.perf_counter()
    record(events)
    seconds = time.perf_counter() - started
    found = {
        "events": count,
        "seconds": seconds,
        "bytes": _bytes_below(directory),
        "version": version(tracker.PACKAGE) if tracker.PACKAGE else "",
        "calls": tracker.CALLS,
    }
    print(json.dumps(found), file=answer, flush=True)
    # Some trackers leave threads and services behind that take their time; all is written by now.
    os._exit(0)


if __name__ == "__main__":
    main()
