"""A process that trains in one mode, a turn at a time: ``python -m bench.overhead.child``.

The driver writes a :class:`Task` to its standard input, then a line whenever the training may go on
for a turn, and reads lines of JSON from its standard output: "begun" before the first step of a
training, what each turn took, and "ended".
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import signal
import sys
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any

from bench import machine
from bench.overhead.modes import FRAMEWORKS, IN_PROCESS, JAX, MODES, TURN_STEPS, Mode
from bench.overhead.pacing import Pace, Took
from bench.overhead.watching import PictureClock
from lanekit.integrations.showing.publisher import Publisher


@dataclass(frozen=True)
class Task:
    """What a child shall do."""

    framework: str
    mode: str
    run_id: str
    seed: int
    turns: int


def main() -> None:
    # Ending by SIGTERM must unwind, too: lanes and the processes that draw are ended on the way.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    # What frameworks print is not for the driver, and what it says not for them.
    with (
        os.fdopen(os.dup(0), encoding="utf-8") as commands,
        os.fdopen(os.dup(1), "w", encoding="utf-8") as answers,
        open(os.devnull, "rb") as nothing,
    ):
        os.dup2(nothing.fileno(), 0)
        os.dup2(2, 1)
        Trainee(Task(**json.loads(commands.readline())), commands, answers).work()


class Trainee:
    """Trains with one framework in one mode."""

    def __init__(self, task: Task, commands: IO[str], answers: IO[str]) -> None:
        self._task = task
        self._commands = commands
        self._answers = answers
        self._mode: Mode = next(mode for mode in MODES if mode.label == task.mode)
        self._pace = Pace(TURN_STEPS, self._between)
        self._clock = PictureClock()

    def work(self) -> None:
        """Train, and say so."""
        from gymnasium.envs.classic_control.cartpole import CartPoleEnv

        if self._task.framework in JAX:
            machine.pin(machine.WRITER_CORE)  # before it counts the cores it has
        worker = importlib.import_module(f"lanekit.integrations.workers.{self._task.framework}")
        framework = FRAMEWORKS[self._task.framework]
        self._pace.govern(CartPoleEnv)
        if self._mode is IN_PROCESS:
            self._clock.govern(Publisher)
        self._pace.start(self._task.turns)
        self._train(worker, framework.options)
        self._answer("ended", version=f"{framework.library} {version(framework.library)}")

    def _train(self, worker: Any, options: dict[str, Any]) -> None:
        config = worker.Config(
            run_id=self._task.run_id,
            seed=self._task.seed + 1,  # the same for all modes: the same training
            total_steps=(self._task.turns + 1) * TURN_STEPS,  # one more ends the last turn
            telemetry="off",
            threads=1,
            **options,
            **self._mode.options,
        )
        gc.collect()
        worker.Runtime(config).train()

    def _between(self, took: Took | None) -> None:
        if took is None:
            self._answer("begun")
        else:
            pictures = self._clock.report() if self._mode is IN_PROCESS else {}
            self._answer("turn", **took._asdict(), **pictures)
        if self._task.framework in JAX:
            _give_children_the_other_core()
        if not self._commands.readline():
            raise SystemExit("the driver has gone")

    def _answer(self, what: str, **content: Any) -> None:
        print(json.dumps({"what": what, **content}), file=self._answers, flush=True)


def _give_children_the_other_core() -> None:
    """Free the process that draws, which was started from here, from this process's own core."""
    here = os.getpid()
    core = machine.cores()[machine.READER_CORE % len(machine.cores())]
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it may end at any time
        for child in Path(f"/proc/{here}/task/{here}/children").read_text("ascii").split():
            for thread in Path(f"/proc/{child}/task").iterdir():
                os.sched_setaffinity(int(thread.name), {core})


if __name__ == "__main__":
    main()
