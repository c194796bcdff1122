"""How long after its emission a step is acknowledged, under a light load."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any, Self

from bench import slow_events
from bench.slow_limits import Durability
from bench.slow_processes import Daemon
from lanekit.slow.sending.telemetry_client import TelemetryClient

_RUN = "bench"
_LIGHT_LOAD = 1000


class _Acknowledgements:
    """Notes, in a thread, when a client came to know of more committed steps."""

    def __init__(self, client: TelemetryClient) -> None:
        self._client = client
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.seen: list[tuple[int, float]] = []
        """The highest number committed, and when it was first seen."""

    def _watch(self) -> None:
        while not self._stop.wait(0.0005):
            self._look()

    def _look(self) -> None:
        committed = self._client.acknowledged["steps"]
        if not self.seen or committed > self.seen[-1][0]:
            self.seen.append((committed, time.perf_counter()))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._look()  # on a busy machine the thread may not have seen the last one

    def latencies(self, emitted: list[float]) -> list[float]:
        """Return the seconds from each step's emission to its acknowledgement."""
        waits, known = [], iter(self.seen)
        committed, at = 0, 0.0
        for number, since in enumerate(emitted, start=1):
            while committed < number:
                committed, at = next(known)
            waits.append(at - since)
        return waits


def _emit_evenly(client: TelemetryClient, events: int) -> list[float]:
    """Report steps at the pace of a light load; return when each was begun."""
    emitted = []
    due = time.perf_counter()
    for step in slow_events.steps(events):
        while (left := due - time.perf_counter()) > 0:
            time.sleep(left)
        due += 1 / _LIGHT_LOAD
        emitted.append(time.perf_counter())
        client.step(
            step.episode,
            step.number,
            agent_id="agent-0",
            action=step.action,
            observation=step.observation,
            reward=step.reward,
            terminated=step.terminated,
        )
    return emitted


def acknowledgement(durability: Durability, seconds: float, directory: Path) -> dict[str, Any]:
    """Report steps for so many seconds; return the percentiles of their waits."""
    with (
        Daemon(directory / "daemon", durability) as daemon,
        TelemetryClient(_RUN, target=daemon.target, spool=directory / "spool") as client,
    ):
        client.run_started()
        client.flush(30)
        with _Acknowledgements(client) as acknowledgements:
            started = time.perf_counter()
            emitted = _emit_evenly(client, int(seconds * _LIGHT_LOAD))
            taken = time.perf_counter() - started
            if not client.flush(30):
                raise RuntimeError(f"not acknowledged within 30 s: {client.refused}")
    waits = sorted(acknowledgements.latencies(emitted))
    return {
        "durability": durability,
        "events_per_second": len(emitted) / taken,
        "emitted": len(emitted),
        "acknowledged": len(waits),
        "p50_ms": waits[len(waits) // 2] * 1e3,
        "p99_ms": waits[len(waits) * 99 // 100] * 1e3,
        "max_ms": waits[-1] * 1e3,
    }
