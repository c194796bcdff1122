"""Where an event's time goes: each stage of the way alone, by the lane's own functions."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from bench import slow_events
from bench.slow_limits import Durability
from lanekit.slow.batches import Batch, steps_batch
from lanekit.slow.limits import SEND_BATCH_ROWS
from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.sending.lines import LineParser
from lanekit.slow.sending.publish_requests import RequestBuilder
from lanekit.slow.sending.spool import Spool
from lanekit.slow.store.sqlite_store import TelemetrySQLiteStore

_RUN, _STREAM = "bench", "bench"
_REQUEST = pb.PublishRunStepsRequest
_GROUP = 4
"""Batches in a transaction, about what a busy store takes in at once."""


class _Clock:
    """Adds up the time spent in each stage, and how much of it the processor worked."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = {}

    def __call__(self, stage: str, work: Callable[..., Any], *arguments: Any) -> Any:
        started, busy = time.perf_counter(), time.thread_time()
        done = work(*arguments)
        spent = self.seconds.setdefault(stage, [0.0, 0.0])
        spent[0] += time.perf_counter() - started
        spent[1] += time.thread_time() - busy
        return done


def _journal(lines: Path, directory: Path, clock: _Clock) -> None:
    """Move a worker's output into a journal and read it back, as the proxy does."""
    with Spool.create(directory, _RUN) as spool:
        worker = subprocess.Popen(("cat", str(lines)), stdout=subprocess.PIPE)
        with worker:
            assert worker.stdout is not None
            source = worker.stdout.fileno()

            def move() -> None:
                while True:
                    try:
                        if not spool.journal.splice(source):
                            return
                    except BlockingIOError:
                        time.sleep(0)

            clock("proxy: pipe to journal", move)

        def read_back() -> None:
            offset = 0
            while offset < spool.journal.end:
                offset += len(spool.journal.read(offset, 2**18))

        clock("proxy: journal to memory", read_back)


def _one_round(
    chunks: list[bytes], lines: Path, directory: Path, durability: Durability
) -> dict[str, list[float]]:
    clock = _Clock()
    _journal(lines, directory / "spool", clock)
    parser, builder = LineParser(_RUN), RequestBuilder(_RUN, _STREAM, "")
    first_seq = 1
    group: list[Batch] = []
    with TelemetrySQLiteStore.open(directory / "stages.db", durability=durability) as store:
        store.register_stream(_RUN, _STREAM)
        for chunk in chunks:
            rows = clock("proxy: lines to rows", parser.parse, chunk).steps
            request = clock("proxy: rows to a request", builder.steps, rows, {}, first_seq, 0)
            first_seq += len(rows)
            message = clock("daemon: request to columns", _REQUEST.FromString, request)
            group.append(clock("daemon: checks", steps_batch, message))
            if len(group) == _GROUP or chunk is chunks[-1]:
                clock("daemon: insert and commit", store.append, group)
                group = []
    return clock.seconds


def stages(events: int, rounds: int, scratch: Path) -> dict[str, dict[str, list[float]]]:
    """Return µs per event for each durability and stage, all and on the processor: medians."""
    lines = scratch / "events.jsonl"
    slow_events.write_lines(lines, events)
    with lines.open("rb") as file:
        texts = file.readlines()
    chunks = [
        b"".join(texts[start : start + SEND_BATCH_ROWS])
        for start in range(0, len(texts), SEND_BATCH_ROWS)
    ]
    modes: tuple[Durability, ...] = ("normal", "full")
    found: dict[str, list[dict[str, list[float]]]] = {mode: [] for mode in modes}
    for i in range(rounds):
        for mode in modes:
            directory = scratch / f"{mode}-{i}"
            directory.mkdir()
            found[mode].append(_one_round(chunks, lines, directory, mode))
    return {
        mode: {
            stage: [median(each[stage][i] for each in several) / events * 1e6 for i in range(2)]
            for stage in several[0]
        }
        for mode, several in found.items()
    }
