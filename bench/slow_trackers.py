"""The trackers beside the slow lane: their environment, and one recording by one of them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench import machine

_ROOT = Path(__file__).resolve().parent.parent

EVENTS = {
    # About how many events each records in two seconds.
    "trackio": 40_000,
    "tensorboard": 40_000,
    "wandb": 6_000,
    "mlflow": 4_000,
    "aim": 3_000,
    "jsonl": 200_000,
    "duckdb": 60_000,
}
NOT_A_TRACKER = frozenset({"jsonl", "duckdb"})
_TRACKER_PATIENCE = 60.0
_INSTALL_PATIENCE = 900.0


def python() -> str:
    """Return the Python of the trackers' own environment, made on first use."""
    try:
        made = subprocess.run(
            ("tools/bench_peers.sh",),
            cwd=_ROOT,
            stdout=subprocess.PIPE,
            text=True,
            timeout=_INSTALL_PATIENCE,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        # Each tracker is then listed as what it is here: a module that is not found.
        print(f"the trackers could not be installed: {error}", file=sys.stderr)
        return sys.executable
    return made.stdout.strip()


def record(python: str, name: str, events: int, directory: Path) -> dict[str, Any]:
    """Let a tracker record the same events; a failure is a result, too."""
    quiet = {"DO_NOT_TRACK": "1", "HF_HUB_OFFLINE": "1", "PYTHONWARNINGS": "ignore"}
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as said:
        process = subprocess.Popen(
            (python, "-m", "bench.peers.trackers", name, str(events), str(directory)),
            cwd=_ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
            env=os.environ | quiet,
            process_group=0,
        )
        try:
            answer, _ = process.communicate(timeout=_TRACKER_PATIENCE)
        except subprocess.TimeoutExpired:
            return {"failed": f"took more than {_TRACKER_PATIENCE:.0f} s"}
        finally:  # some leave services behind, which would disturb the next one
            machine.account_for_group(process.pid)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if process.returncode != 0:
            said.seek(0)
            return {"failed": (said.read().strip().splitlines() or ["no word why"])[-1][:200]}
    found: dict[str, Any] = json.loads(answer)
    found["rate"] = found["events"] / found["seconds"]
    return found
