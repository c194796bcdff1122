"""Build the program with the hot paths, run it under Callgrind, and compare."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

PATHS = ("publish", "read", "step", "command", "put")
TOLERANCE = 0.02
RECORD = Path(__file__).with_name("counts.json")

_HERE = Path(__file__).resolve().parent
_CORE = _HERE.parents[1] / "csrc"
_FLAGS = ("-std=c11", "-O3", "-DNDEBUG", "-D_GNU_SOURCE", "-pthread")
_COLLECTED = re.compile(r"Collected\s*:\s*(\d+)")
# Two runs of different length: what comes before and after the calls cancels out.
_FEW, _MANY = 1_000, 3_000


@dataclass(frozen=True)
class Recorded:
    """The counts that a change is compared with, and what they were compiled by."""

    compiler: str
    counts: dict[str, float]


def compiler() -> str:
    """Return which compiler this is: another one makes other instructions."""
    done = subprocess.run(["cc", "--version"], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[0]


def count_all() -> dict[str, float]:
    """Return the instructions of one call of each path."""
    with tempfile.TemporaryDirectory() as directory:
        program = Path(directory) / "hot_paths"
        sources = [*sorted(_CORE.glob("lk_*.c")), _HERE / "hot_paths.c"]
        command = ["cc", *_FLAGS, f"-I{_CORE}", *map(str, sources), "-o", str(program), "-lrt"]
        subprocess.run(command, check=True, timeout=300)
        return {path: _count(program, path) for path in PATHS}


def _count(program: Path, path: str) -> float:
    few, many = (_collected(program, path, calls) for calls in (_FEW, _MANY))
    return (many - few) / (_MANY - _FEW)


def _collected(program: Path, path: str, calls: int) -> int:
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
    try:
        done = subprocess.run(
            [*command, str(program), path, str(calls)],
            capture_output=True,
            text=True,
            timeout=300,
            check=True,
        )
    except FileNotFoundError:
        raise RuntimeError("no valgrind here: apt-get install valgrind") from None
    found = _COLLECTED.search(done.stderr)
    if found is None:
        raise RuntimeError(f"valgrind counted nothing: {done.stderr}")
    return int(found.group(1))


def load() -> Recorded:
    """Return what is written down."""
    return Recorded(**json.loads(RECORD.read_text(encoding="utf-8")))


def record(counts: dict[str, float]) -> None:
    """Write counts down."""
    recorded = Recorded(compiler(), {path: round(count, 1) for path, count in counts.items()})
    RECORD.write_text(json.dumps(asdict(recorded), indent=2) + "\n", encoding="utf-8")


def grown(recorded: dict[str, float], found: dict[str, float]) -> list[str]:
    """Return what has grown beyond the tolerance, one line each."""
    return [
        f"{path}: {found[path]:.1f} instructions instead of {recorded[path]:.1f}, "
        f"{found[path] / recorded[path] - 1:+.1%}; make it shorter, or record the new counts with "
        "`python -m bench.instructions --record` and say why"
        for path in PATHS
        if found[path] > recorded[path] * (1 + TOLERANCE)
    ]
