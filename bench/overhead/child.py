"""The process that trains: one framework, one seed, every mode by turns.

The driver starts it (``python -m bench.overhead.child``), writes a :class:`Task` to its standard
input and reads one line of JSON per turn from its standard output.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import signal
import sys
import time
from dataclasses import dataclass
from importlib.metadata import version
from typing import IO, Any

from bench import machine
from bench.companion import Companion
from bench.overhead.modes import (
    BARE,
    EVERY_STEP,
    FRAMEWORKS,
    IN_PROCESS,
    MODES,
    UNWATCHED,
    Mode,
    order,
)
from bench.overhead.watching import Seen, price_of_a_picture, view

_WARM_UP_STEPS = 2_000
_WARM_UP_PICTURES = 200
_PATIENCE = 20.0


@dataclass(frozen=True)
class Task:
    """What a child shall do."""

    framework: str
    seed: int
    turns: list[int]
    """Which turns to take; the number of a turn decides on its order and its random numbers."""
    steps: int
    """Of each training."""
    every_step_steps: int
    """Of a training that draws every step, which takes many times longer."""
    noise: float
    """Wait before each turn until others use at most this share of the machine; 1: do not."""


def main() -> None:
    # Ending by SIGTERM must unwind, too: lanes and the processes that draw are ended on the way.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    task = Task(**json.loads(sys.stdin.read()))
    # What frameworks print is not for the driver.
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answers:
        os.dup2(2, 1)
        with Companion(machine.READER_CORE, view, True) as viewer:
            _work(task, viewer, answers)


def _work(task: Task, viewer: Companion, answers: IO[str]) -> None:
    worker = importlib.import_module(f"lanekit.integrations.workers.{task.framework}")
    library = FRAMEWORKS[task.framework]
    _warm_up(task, worker, viewer)
    for turn in task.turns:
        if task.noise < 1:
            machine.wait_until_quiet(task.noise)
        samples = []
        for place, mode in enumerate(order(turn)):
            steps = task.every_step_steps if mode is EVERY_STEP else task.steps
            sample = train(worker, task, mode, turn, min(steps, task.steps), viewer)
            samples.append({"mode": mode.label, "place": place, **sample})
        answer = {
            "framework": task.framework,
            "version": f"{library} {version(library)}",
            "seed": task.seed,
            "turn": turn,
            "picture_seconds": _picture_price(viewer),
            "samples": samples,
        }
        print(json.dumps(answer), file=answers, flush=True)


def _warm_up(task: Task, worker: Any, viewer: Companion) -> None:
    """Compile, import and allocate beforehand what the first training of a kind would."""
    for mode in (BARE, UNWATCHED, *(mode for mode in MODES if mode.watched)):
        steps = _WARM_UP_PICTURES if mode is EVERY_STEP else _WARM_UP_STEPS
        train(worker, task, mode, -1, min(steps, task.steps), viewer)


def train(
    worker: Any, task: Task, mode: Mode, turn: int, steps: int, viewer: Companion
) -> dict[str, Any]:
    """Train once, watched if the mode says so, and return what it took."""
    run_id = f"overhead-{os.getpid()}"
    config = worker.Config(
        run_id=run_id,
        seed=1_000 * task.seed + turn + 1,  # the same for all modes of a turn: the same training
        total_steps=steps,
        telemetry="off",
        threads=1,
        **mode.options,
    )
    runtime = worker.Runtime(config)
    gc.collect()
    if mode.watched:
        viewer.tell(run_id)
    result = runtime.train()
    sample = {name: result[name] for name in ("steps", "train_seconds", "train_cpu_seconds")}
    if mode.watched:
        viewer.tell("enough")
        sample["seen"] = Seen(*viewer.answer())._asdict()
    return sample


def _picture_price(viewer: Companion) -> float:
    import gymnasium

    from lanekit.integrations import FastLaneTelemetryWrapper

    run_id = f"overhead-{os.getpid()}-picture"
    bare = gymnasium.make("CartPole-v1", render_mode="rgb_array")
    env = FastLaneTelemetryWrapper(bare, run_id, rendering=IN_PROCESS.options["rendering"])
    try:
        viewer.tell(run_id)
        env.reset(seed=1)
        end = time.monotonic() + _PATIENCE
        while not env.publisher._lanes or not env.publisher._lanes[0].watched:
            if time.monotonic() > end:
                raise TimeoutError("no viewer came to look at the picture that is to be timed")
            if any(env.step(env.action_space.sample())[2:4]):
                env.reset()
        return price_of_a_picture(env)
    finally:
        viewer.tell("enough")
        viewer.answer()
        env.close()


if __name__ == "__main__":
    main()
