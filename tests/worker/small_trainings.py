"""Trainings for the tests, each a real worker: ``python small_trainings.py KIND --config FILE``."""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from lanekit.worker import DataclassConfig, WorkerRuntime, runtime, termination, worker_main


@dataclass(kw_only=True)
class Config(DataclassConfig):
    total_steps: int = 10


class Runtime(WorkerRuntime[Config]):
    """Trains nothing, in several ways."""

    kind: ClassVar[str]

    def train(self) -> Mapping[str, Any] | None:
        return KINDS[self.kind](self)


def counts(run: Runtime) -> Mapping[str, Any]:
    """Count the steps, a millisecond each."""
    step = 0
    while step < run.config.total_steps and run.keep_going():
        step += 1
        run.progress(step, twice=2 * step)
        time.sleep(0.001)
    return {"counted": step}


def never_asks(run: Runtime) -> None:
    """Go on for ever."""
    run.telemetry.event("deaf")
    while True:
        time.sleep(0.01)


def fails(run: Runtime) -> None:
    raise RuntimeError("the cart fell over")


def exits(run: Runtime) -> None:
    sys.exit(0)


def forks(run: Runtime) -> Mapping[str, Any]:
    """Fork a process off and terminate it, as vector environments do."""
    child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,))
    child.start()
    child.terminate()
    child.join()
    return {"exitcode": child.exitcode, "asked": run.stopped}


def returns_a_number(run: Runtime) -> Any:
    return 5


def returns_an_object(run: Runtime) -> Mapping[str, Any]:
    return {"model": object(), "status": "splendid"}


def tells_an_object(run: Runtime) -> None:
    run.progress(3, model=object())


def loses_its_reader(run: Runtime) -> Mapping[str, Any]:
    """Go on until the reader of stdout is gone, and then some."""
    written = 0
    while not run.telemetry._lost:  # type: ignore[attr-defined]
        run.telemetry.event("more")
        written += 1
    for _ in range(100):
        run.telemetry.event("more")
        print("a print of its own")
    print(f"trained on after {written > 0}", file=sys.stderr)
    return {}


def waits_for_sigint(run: Runtime) -> None:
    run.telemetry.event("here")
    time.sleep(600)


KINDS: dict[str, Callable[[Runtime], Any]] = {
    kind.__name__: kind
    for kind in (
        *(counts, never_asks, fails, exits, forks, returns_a_number, returns_an_object),
        *(tells_an_object, loses_its_reader, waits_for_sigint),
    )
}

if __name__ == "__main__":
    if os.environ.get("QUICK_BEATS"):
        runtime.HEARTBEAT_SECONDS = 0.05
        termination.PATIENCE_SECONDS = 0.1
    Runtime.kind = sys.argv.pop(1)
    raise SystemExit(worker_main(Runtime, Config))
