"""Start a child for each framework and seed, and keep what it finds as soon as it finds it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench import machine
from bench.overhead.child import Task

METHOD = (
    "One process per framework and seed imports the framework, warms up, and trains in all modes "
    "by turns, with the same random numbers within a turn. Only the framework's learning is timed. "
    "A ratio is time per step divided by bare time per step in the same turn. The viewer is "
    "another process that reads at 60 Hz; nothing is pinned to a core."
)
_ROOT = Path(__file__).resolve().parents[2]
_LAST_WORDS = 2_000
# JAX compiles anew for each training of a process, which is not what is to be measured: the cache
# is filled by the warm-up. One thread, as the others have.
_JAX = {
    "JAX_PLATFORMS": "cpu",
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}
_PATIENCE = 30.0


@dataclass(frozen=True)
class Effort:
    """How much to train; only samples of the same effort may stand in one file."""

    steps: int
    """Per framework, seed and mode, all turns together."""
    turns: int
    every_step_steps: int


class Record:
    """The file with all samples: whole after every turn, so that an interrupted run goes on."""

    def __init__(self, path: Path, effort: Effort) -> None:
        self.path = path
        self.content: dict[str, Any] = {
            "machine": machine.describe(),
            "method": METHOD,
            "effort": asdict(effort),
            "children": [],
            "failed": {},
            "turns": [],
        }
        if path.exists():
            found = load(path)
            if found["effort"] != asdict(effort):
                raise ValueError(
                    f"{path} has samples of another effort ({found['effort']}): name another "
                    "directory with --out, or remove the file"
                )
            self.content = found

    def missing(self, framework: str, seed: int) -> list[int]:
        """Return the turns that are not yet taken. Their numbers go on from seed to seed."""
        turns = self.content["effort"]["turns"]
        taken = {
            turn["turn"]
            for turn in self.content["turns"]
            if (turn["framework"], turn["seed"]) == (framework, seed)
        }
        return [turn for turn in range(seed * turns, (seed + 1) * turns) if turn not in taken]

    def add_turn(self, turn: dict[str, Any]) -> None:
        """Keep all samples of one turn."""
        self.content["turns"].append(turn)
        self.content["failed"].pop(turn["framework"], None)
        self._write()

    def add_child(self, **facts: Any) -> None:
        """Keep what is known about a process that has ended."""
        self.content["children"].append(facts)
        self._write()

    def add_failure(self, framework: str, reason: str) -> None:
        """Keep why a framework can not be measured."""
        self.content["failed"][framework] = reason
        self._write()

    def _write(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        new = self.path.with_suffix(".new")
        text = json.dumps(self.content, indent=1, ensure_ascii=False) + "\n"
        new.write_text(text, encoding="utf-8")
        os.replace(new, self.path)


def load(path: Path) -> dict[str, Any]:
    """Return what a file of samples contains."""
    content = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(content, dict) or not {"effort", "turns"} <= content.keys():
        raise ValueError(f"{path} was not written by python -m bench.overhead")
    return content


def run(record: Record, frameworks: Iterable[str], seeds: int, noise: float) -> None:
    """Train what is missing, seed by seed, so that an early end leaves few of each."""
    effort = record.content["effort"]
    frameworks = list(frameworks)
    broken: set[str] = set()
    for seed in range(seeds):
        for framework in frameworks:
            turns = record.missing(framework, seed)
            if not turns or framework in broken:
                continue
            steps = -(-effort["steps"] // effort["turns"])
            every = -(-effort["every_step_steps"] // effort["turns"])
            begin, neighbours = time.monotonic(), machine.Neighbours()
            failure = _run_child(Task(framework, seed, turns, steps, every, noise), record)
            seconds, others = time.monotonic() - begin, neighbours.share()
            record.add_child(
                framework=framework, seed=seed, seconds=round(seconds, 1), others=round(others, 3)
            )
            how = "done" if failure is None else f"failed: {failure.splitlines()[-1]}"
            print(
                f"{framework}, seed {seed}: {how}, {seconds:.0f} s, others used {others:.0%} of "
                "the machine meanwhile",
                file=sys.stderr,
            )
            if failure is not None:
                broken.add(framework)
                record.add_failure(framework, failure)


def _run_child(task: Task, record: Record) -> str | None:
    """Have a child do its task; return its last words if it failed."""
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as words,
        tempfile.TemporaryDirectory() as compiled,
    ):
        child = subprocess.Popen(
            [sys.executable, "-m", "bench.overhead.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=words,
            text=True,
            cwd=_ROOT,
            env={**os.environ, **_JAX, "JAX_COMPILATION_CACHE_DIR": compiled},
        )
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            child.stdin.write(json.dumps(asdict(task)))
            child.stdin.close()
            for line in child.stdout:
                record.add_turn(json.loads(line))
            if child.wait() == 0:
                return None
        finally:
            _end(child)
            child.stdout.close()
        words.seek(0)
        said = words.read().strip()[-_LAST_WORDS:]
        return said or f"ended with status {child.returncode}"


def _end(child: subprocess.Popen[str]) -> None:
    child.terminate()
    try:
        child.wait(_PATIENCE)
    except subprocess.TimeoutExpired:  # a framework may be deaf to SIGTERM
        child.kill()
        child.wait()
