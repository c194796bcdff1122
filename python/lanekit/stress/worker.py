"""A worker process: carries out rounds that it is given as lines of JSON on its standard input.

It answers with lines of JSON: the counts so far, several times a second, then the final ones. The
line ``stop`` ends the round under way; the end of the input ends everything, so that no worker
outlives the process that started it. One thread does it all: the parties of ``c-processes`` are
forked from here.
"""

from __future__ import annotations

import dataclasses
import json
import os
import select
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from lanekit import LanekitError
from lanekit.stress.parties import CParties, Tally, every, read, write
from lanekit.stress.plan import Round, Size
from lanekit.stress.verdict import Counts

_REPORT_EVERY = 0.1


class Orders:
    """The lines on standard input, looked at without waiting."""

    def __init__(self) -> None:
        self._buffer = b""
        self._lines: list[str] = []
        self.ended = False

    def next_round(self) -> dict[str, Any] | None:
        """Wait for a round; None when there will be no more."""
        while True:
            while self._lines:
                line = self._lines.pop(0)
                if line != "stop":  # of a round that ended by itself meanwhile
                    return dict(json.loads(line))
            if self.ended:
                return None
            self._receive(None)

    def stopped(self) -> bool:
        """Whether the round under way is to end."""
        self._receive(0)
        if "stop" in self._lines:
            self._lines.remove("stop")
            return True
        return self.ended

    def _receive(self, timeout: float | None) -> None:
        if self.ended or not select.select([0], [], [], timeout)[0]:
            return
        data = os.read(0, 65536)
        self.ended = not data
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        self._lines += [line.decode() for line in lines]


def report(counts: Counts, *, done: bool, problem: str | None = None) -> None:
    """Tell the session how far the round is."""
    message = {"counts": dataclasses.asdict(counts), "done": done, "problem": problem}
    print(json.dumps(message), flush=True)


def run_in_c(round_: Round, stopped: Callable[[], bool]) -> None:
    """Let parties in C do the round."""
    parties = CParties(round_)
    due = 0.0
    working = True
    while working and not stopped():
        time.sleep(0.01)
        counts, working = parties.poll()
        if time.monotonic() >= due:
            due = time.monotonic() + _REPORT_EVERY
            report(counts, done=False)
    parties.stop()
    counts, problem = parties.finish()
    report(counts, done=True, problem=problem)


def run_one_party(round_: Round, role: int, stopped: Callable[[], bool]) -> None:
    """Be one party: 0 is the writer, the others are readers."""
    tally = Tally()

    def look() -> bool:
        report(tally.counts(), done=False)
        return stopped()

    if role == 0:
        write(round_, tally, every(_REPORT_EVERY, look))
    else:
        read(round_, round_.reader_cores[role - 1], tally, every(_REPORT_EVERY, look))
    report(tally.counts(), done=True)


def run_in_threads(round_: Round, stopped: Callable[[], bool]) -> None:
    """Be all parties, a thread each."""
    end = threading.Event()
    problems: list[str] = []
    tallies = [Tally() for _ in range(1 + len(round_.reader_cores))]

    def party(role: int) -> None:
        try:
            if role == 0:
                write(round_, tallies[0], end.is_set)
            else:
                read(round_, round_.reader_cores[role - 1], tallies[role], end.is_set)
        except LanekitError as error:
            problems.append(str(error))
            end.set()

    threads = [threading.Thread(target=party, args=[role]) for role in range(len(tallies))]
    for thread in threads:
        thread.start()
    asked = every(_REPORT_EVERY, stopped)
    while not (end.is_set() or asked() or all(tally.done for tally in tallies[1:])):
        time.sleep(_REPORT_EVERY)
        report(sum((tally.counts() for tally in tallies), Counts()), done=False)
    end.set()
    for thread in threads:
        thread.join()
    total = sum((tally.counts() for tally in tallies), Counts())
    report(total, done=True, problem="; ".join(problems) or None)


def main() -> None:
    """Carry out rounds until there are no more."""
    orders = Orders()
    cores = os.sched_getaffinity(0)
    report(Counts(), done=True)  # ready
    while (order := orders.next_round()) is not None:
        role = order.pop("role")
        order["size"] = Size(**order["size"])
        order["reader_cores"] = tuple(order["reader_cores"])
        round_ = Round(**order)
        os.sched_setaffinity(0, cores)  # a party of the round before may have pinned this thread
        try:
            if round_.mode.startswith("c-"):
                run_in_c(round_, orders.stopped)
            elif round_.mode == "py-threads":
                run_in_threads(round_, orders.stopped)
            else:
                run_one_party(round_, role, orders.stopped)
        except LanekitError as error:
            report(Counts(), done=True, problem=str(error))


if __name__ == "__main__":
    try:
        main()
    except (BrokenPipeError, KeyboardInterrupt):
        os._exit(1)  # the session is gone: nobody reads what would be flushed
    sys.exit(0)
