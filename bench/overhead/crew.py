"""The processes of an experiment: one that trains in each mode, and the viewer of those watched."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack, suppress
from dataclasses import asdict
from pathlib import Path
from select import select
from types import TracebackType
from typing import Any, Self

from bench import machine
from bench.companion import Companion
from bench.overhead.child import Task
from bench.overhead.modes import BARE, JAX, MODES, Mode
from bench.overhead.watching import Seen, view

_ROOT = Path(__file__).resolve().parents[2]
_LAST_WORDS = 2_000
# What is compiled once serves all modes.
_JAX = {
    "JAX_PLATFORMS": "cpu",
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
}
_PATIENCE = 30.0
_LONGEST_SILENCE = 900.0


class ChildFailed(Exception):
    """A process that trains has ended before its time; its last words."""


class _Child:
    """One process that trains."""

    def __init__(self, task: Task, compiled: str) -> None:
        self._words = tempfile.TemporaryFile(  # noqa: SIM115  closed in end()
            "w+", encoding="utf-8", errors="replace"
        )
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.overhead.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._words,
            text=True,
            cwd=_ROOT,
            env={**os.environ, **_JAX, "JAX_COMPILATION_CACHE_DIR": compiled},
        )
        self._task = task

    def start(self) -> None:
        self._say(json.dumps(asdict(self._task)))

    def go_on(self) -> None:
        self._say("go on")

    def hear(self, what: str) -> dict[str, Any]:
        """Wait for the next message, which must be of this kind."""
        assert self._process.stdout is not None
        if not select([self._process.stdout], [], [], _LONGEST_SILENCE)[0]:
            raise ChildFailed(f"said nothing for {_LONGEST_SILENCE:.0f} s, nor {what!r}")
        line = self._process.stdout.readline()
        if not line:
            raise ChildFailed(self._last_words())
        message: dict[str, Any] = json.loads(line)
        if message.pop("what") != what:
            raise ChildFailed(f"said {line.strip()} where {what!r} was expected")
        return message

    def terminate(self) -> None:
        self._process.terminate()

    def wait(self) -> None:
        """Wait for its end, but not for long, and let go of all that was shared with it."""
        try:
            self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:  # a framework may be deaf to SIGTERM
            self._process.kill()
            self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._words):
            assert pipe is not None
            with suppress(BrokenPipeError):  # what it did not live to hear
                pipe.close()

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        try:
            print(line, file=self._process.stdin, flush=True)
        except BrokenPipeError:
            raise ChildFailed(self._last_words()) from None

    def _last_words(self) -> str:
        """Return how it ended; one that hangs on its way out is given up."""
        try:
            status = f"ended with status {self._process.wait(_PATIENCE)}"
        except subprocess.TimeoutExpired:
            status = "closed its end, but did not end"
        self._words.seek(0)
        return f"{status}\n{self._words.read().strip()[-_LAST_WORDS:]}".rstrip()


def have_compiled(framework: str, compiled: str) -> None:
    """Let a process that is not measured compile what a framework needs, into a directory.

    Otherwise the mode whose turn comes first would, and a process that has compiled trains slower
    afterwards than those that load the result: by 3 to 10 % with JAX 0.7.1.
    """
    run_id = f"overhead-{os.getpid()}-compiles"
    child = _Child(Task(framework, BARE.label, run_id, seed=0, turns=1), compiled)
    try:
        child.start()
        for message in ("begun", "turn"):
            child.hear(message)
            child.go_on()
        child.hear("ended")
    finally:
        child.terminate()
        child.wait()


class Crew:
    """A process for each mode, of which one trains at a time, and a viewer.

    `turns` says how many of them each mode's training has; `compiled` is a directory that may have
    what a framework compiles.
    """

    def __init__(self, framework: str, seed: int, turns: dict[str, int], compiled: str) -> None:
        self._runs = {mode: f"overhead-{os.getpid()}-{MODES.index(mode)}" for mode in MODES}
        self._tasks = {
            mode: Task(framework, mode.label, self._runs[mode], seed, turns[mode.label])
            for mode in MODES
        }
        self._compiled = compiled
        self._pinned = framework in JAX
        self._children: dict[Mode, _Child] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.callback(self._end_children)
            for mode, task in self._tasks.items():
                self._children[mode] = _Child(task, self._compiled)
            for child in self._children.values():
                child.start()
            watched = [self._runs[mode] for mode in MODES if mode.watched]
            self._viewer = stack.enter_context(
                Companion(machine.READER_CORE, view, watched, not self._pinned)
            )
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()

    def _end_children(self) -> None:
        for child in self._children.values():
            child.terminate()
        for child in self._children.values():
            child.wait()

    def begin(self) -> None:
        """Wait until all trainings are about to take their first step."""
        for child in self._children.values():
            child.hear("begun")

    def take_turn(self, mode: Mode) -> dict[str, Any]:
        """Let one training go on for a turn, and return what it took and what was seen of it."""
        child = self._children[mode]
        child.go_on()
        sample = {"mode": mode.label, **child.hear("turn")}
        if mode.watched:
            sample["seen"] = Seen(*self._viewer.ask(self._runs[mode]))._asdict()
        return sample

    def end(self) -> str:
        """Let all trainings come to their ends; return the framework's version."""
        version = ""
        for child in self._children.values():
            child.go_on()
            version = child.hear("ended")["version"]
        return version
