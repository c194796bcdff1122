"""Step on demand and answer with the time of every step: ``NAME TASK``."""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
import time
from importlib.metadata import PackageNotFoundError, version

from bench.peers.steppers import Step, Task

_WARM_UP = 30


def _measure(step: Step, steps: int, hz: float, seconds: float) -> list[int]:
    now, sleep = time.perf_counter_ns, time.sleep
    samples: list[int] = []
    begun = time.monotonic()
    for _ in range(min(_WARM_UP, steps)):
        step()
    gc.collect()
    gc.disable()
    due = time.monotonic()
    end = now() + int(1e9 * (seconds - (due - begun)))
    while len(samples) < steps:
        if hz:
            due += 1 / hz
            sleep(max(0.0, due - time.monotonic()))
        start = now()
        step()
        done = now()
        samples.append(done - start)
        if done > end:
            break
    gc.enable()
    return samples


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:  # used from its sources
        return str(getattr(importlib.import_module(package), "__version__", "unknown"))


def main() -> None:
    name, options = sys.argv[1], json.loads(sys.argv[2])
    if options.get("cores") is not None:
        options["cores"] = tuple(options["cores"])
    answers = os.fdopen(os.dup(1), "w")  # frameworks print: keep stdout for the answers
    os.dup2(2, 1)
    try:
        peer = importlib.import_module(f"bench.peers.steppers.{name}")
        task = Task(**options)
        task.pin_trainer()  # before it begins: threads stay where they were made
        step = peer.begin(task)
        step()
    except Exception as error:  # whatever a framework raises: it is listed with its reason
        print(json.dumps({"failed": f"{type(error).__name__}: {error}"[:300]}), file=answers)
        answers.flush()
        os._exit(0)
    about = {"version": _version(peer.PACKAGE), "calls": peer.CALLS}
    print(json.dumps(about), file=answers, flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        samples = _measure(step, asked["steps"], asked["hz"], asked["seconds"])
        print(json.dumps(samples), file=answers, flush=True)
    os._exit(0)  # some leave threads and processes behind that take their time


if __name__ == "__main__":
    main()
