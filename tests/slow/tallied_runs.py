"""Runs whose worker keeps a tally of what it has written, to be compared with what has arrived."""

from __future__ import annotations

import struct
import sys
from pathlib import Path

from campaign import HERE, House, compare, compare_files, settled

from patience import until


def begin(home: House, run_id: str, count: int, rate: float) -> tuple[list[str], Path]:
    """Return a worker's command and its tally."""
    tally = home.directory / f"tally-{run_id}"
    tally.write_bytes(bytes(8))
    script = str(HERE / "numbered_worker.py")
    return [sys.executable, script, str(count), str(rate), str(tally)], tally


def written(tally: Path) -> int:
    return int(struct.unpack("<Q", tally.read_bytes())[0])


def finish(home: House, run_id: str, count: int, tally: Path) -> None:
    """Wait for a run's end and compare it."""
    spool = next((home.directory / "spool").glob(f"{run_id}-*"))
    until(lambda: not home.processes("proxy", run_id), "the proxy to end")
    until(lambda: settled(spool), "the spool to empty")
    verdict = compare(home.store, run_id, count, written(tally), whole=True)
    compare_files(spool, count, written(tally), verdict, whole=True)
