"""Where one daemon and one store saturate, and how they behave there.

``python -m bench.scale --nodes 1 5 20 [--rate 1000] [--seconds 10] [--store postgresql|sqlite|URL]
[--away 5] [--frame 84]``. For each number of nodes: that many simulated nodes (the real way of a
worker's events: spool, sender, gRPC; several nodes in one process) send `--rate` events a second
each for `--seconds`. What the daemon can not take waits in the nodes' spools; afterwards the time
to catch up is taken, and every row in the store is compared with what was sent. `--away`: in the
middle the PostgreSQL server is killed, and started again after so many seconds. `--frame`: every
event carries a frame of that many pixels a side.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil

from bench import machine
from bench.slow_events import EPISODE_LENGTH
from bench.slow_processes import Daemon, scratch
from lanekit.slow.store.run_store import RunStore

if TYPE_CHECKING:
    from tests.slow.postgres_server import PostgresServer

NODES_PER_PROCESS = 25


@dataclass
class Outcome:
    """What one number of nodes did."""

    nodes: int
    offered: float
    """Events a second that the nodes reported while they sent."""
    taken: float
    """Events a second that were acknowledged meanwhile."""
    backlog: int
    """Events that waited in spools, at most."""
    catch_up: float
    """Seconds from the last event to the last acknowledgement."""
    rows: int
    """Rows compared in the end; none was missing, double or different."""
    cpu: dict[str, float]
    """Seconds of processor time a million events, by part."""
    row_bytes: float = 0.0
    """What the store grew by for each event, indices and all."""
    log_bytes: float = 0.0
    """What PostgreSQL's write-ahead log grew by for each event."""
    commits: float = 0.0
    """PostgreSQL's transactions a second, those that only read included."""
    course: list[tuple[float, int, int]] = field(default_factory=list)
    """Twice a second: seconds, events written, events acknowledged."""


@dataclass(frozen=True)
class Books:
    """What a store's own counters say at one moment."""

    size: int
    log: int = 0
    commits: int = 0

    @classmethod
    def read(cls, address: str) -> Books:
        """Look at them."""
        if "://" not in address:
            files = [Path(address), Path(f"{address}-wal")]
            return cls(sum(file.stat().st_size for file in files if file.exists()))
        import psycopg

        with psycopg.connect(address) as connection:
            ((size, log, commits),) = connection.execute(
                "SELECT pg_database_size(current_database()),"
                " pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint,"
                " (SELECT sum(xact_commit) FROM pg_stat_database)::bigint"
            ).fetchall()
        return cls(size, log, commits)


class Driver:
    """A process with some of the nodes, and what it said last."""

    def __init__(self, order: dict[str, Any]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "bench.scale.nodes"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.last: dict[str, Any] = {"written": 0, "taken": 0, "sending": True, "done": False}
        self.ready = threading.Event()
        self.totals: dict[str, int] | None = None
        self.say(json.dumps(order))
        threading.Thread(target=self._listen, daemon=True).start()

    def say(self, text: str) -> None:
        """Write a line to it."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{text}\n")
        self.process.stdin.flush()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for text in self.process.stdout:
            said = json.loads(text)
            if said.get("ready"):
                self.ready.set()
            elif "totals" in said:
                self.totals = said["totals"]
            else:
                self.last = said


def cpu_seconds(pids: list[int]) -> float:
    """Processor time of these processes and all below them, so far."""
    total = 0.0
    for pid in pids:
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(pid)
            for each in [process, *process.children(recursive=True)]:
                with contextlib.suppress(psutil.NoSuchProcess):
                    times = each.cpu_times()
                    total += times.user + times.system
    return total


def run(
    daemon: Daemon,
    server: PostgresServer | None,
    address: str,
    nodes: int,
    arguments: argparse.Namespace,
    directory: Path,
) -> Outcome:
    """Drive that many nodes, let them catch up, and compare."""
    names = [f"scale-{nodes}-{number}" for number in range(nodes)]
    order = {
        "target": daemon.target,
        "directory": str(directory / f"spools-{nodes}"),
        **{name: getattr(arguments, name) for name in ("rate", "seconds", "frame")},
    }
    drivers = [
        Driver({**order, "runs": names[first : first + NODES_PER_PROCESS]})
        for first in range(0, nodes, NODES_PER_PROCESS)
    ]
    for driver in drivers:
        while not driver.ready.wait(0.1):
            daemon.check_alive()
            if driver.process.poll() is not None:
                raise RuntimeError("a driver ended early; see above")
    parts = {"nodes": [d.process.pid for d in drivers], "daemon": [daemon.pid]}
    if server is not None and not arguments.away:
        parts["server"] = [server.pid]
    before = Books.read(address)
    used = {name: cpu_seconds(pids) for name, pids in parts.items()}
    started = time.monotonic()
    for driver in drivers:
        driver.say("go")
    away = Absence(server, arguments) if server is not None and arguments.away else None
    course: list[tuple[float, int, int]] = []
    sent_at = taken_then = None
    while not all(driver.last["done"] for driver in drivers):
        time.sleep(0.1)
        daemon.check_alive()
        now = time.monotonic() - started
        written = sum(driver.last["written"] for driver in drivers)
        taken = sum(driver.last["taken"] for driver in drivers)
        if not course or now >= course[-1][0] + 0.5:
            course.append((round(now, 2), written, taken))
        if sent_at is None and not any(driver.last["sending"] for driver in drivers):
            sent_at, taken_then = now, taken
        if away is not None:
            away.look(now)
    ended = time.monotonic() - started
    million = sum(driver.last["written"] for driver in drivers) / 1e6
    cpu = {name: (cpu_seconds(pids) - used[name]) / million for name, pids in parts.items()}
    for driver in drivers:
        driver.process.wait()
    after = Books.read(address)
    totals = {run_id: n for driver in drivers for run_id, n in (driver.totals or {}).items()}
    sent_at = sent_at or ended
    taken_then = million * 1e6 if taken_then is None else taken_then
    return Outcome(
        nodes=nodes,
        offered=sum(totals.values()) / arguments.seconds,
        taken=taken_then / sent_at,
        backlog=max((written - taken for _, written, taken in course), default=0),
        catch_up=ended - sent_at,
        rows=compare(address, totals),
        cpu=cpu,
        row_bytes=(after.size - before.size) / (million * 1e6),
        log_bytes=(after.log - before.log) / (million * 1e6),
        # A server that was killed has begun to count anew.
        commits=0.0 if arguments.away else (after.commits - before.commits) / ended,
        course=course,
    )


class Absence:
    """The server is killed in the middle, and comes back."""

    def __init__(self, server: PostgresServer, arguments: argparse.Namespace) -> None:
        self._server = server
        self._from = arguments.seconds / 3
        self._until = self._from + arguments.away
        self._state = "before"

    def look(self, now: float) -> None:
        """Do what is due."""
        if self._state == "before" and now >= self._from:
            self._server.kill()
            self._state = "away"
        elif self._state == "away" and now >= self._until:
            self._server.start()
            self._state = "back"


def compare(address: str, totals: dict[str, int]) -> int:
    """Compare every row of every node with what it sent; return how many there are."""
    rows = 0
    with RunStore.open(address) as store:
        for run_id, sent in totals.items():
            steps = store.steps(run_id)
            if not (
                np.array_equal(np.sort(steps.seq), np.arange(1, sent + 1))
                and np.array_equal(steps.reward * 8, steps.seq - 1)
                and np.array_equal(steps.episode * EPISODE_LENGTH + steps.step, steps.seq - 1)
            ):
                raise RuntimeError(f"{run_id}: {len(steps)} rows are not the {sent} that were sent")
            rows += len(steps)
    return rows


@contextlib.contextmanager
def place(kind: str, directory: Path) -> Iterator[tuple[Daemon, PostgresServer | None, str]]:
    """A daemon, its server if it has one of its own, and where its store is."""
    with contextlib.ExitStack() as held:
        server = None
        url: str | None = kind if "://" in kind else None
        if kind == "postgresql":
            from tests.slow.postgres_server import running_server

            server = held.enter_context(running_server(fsync="on", shared_buffers="128MB"))
            url = server.url()
        daemon = held.enter_context(Daemon(directory / "daemon", "normal", url))
        yield daemon, server, url or str(daemon.store)


def report(found: list[Outcome]) -> str:
    """The figures as a table."""
    lines = [
        "| nodes | offered/s | taken/s | waiting at most | catch-up | rows compared |"
        " CPU s a million: nodes | daemon | server | B a row | B of log a row | commits/s |",
        f"|{' ---: |' * 12}",
    ]
    lines += [
        f"| {each.nodes} | {each.offered:,.0f} | {each.taken:,.0f} | {each.backlog:,} |"
        f" {each.catch_up:.1f} s | {each.rows:,} | {each.cpu['nodes']:.1f} |"
        f" {each.cpu['daemon']:.1f} | {_or_dash(each.cpu.get('server'))} |"
        f" {each.row_bytes:.0f} | {each.log_bytes:.0f} | {each.commits:.0f} |"
        for each in found
    ]
    return "\n".join(lines)


def _or_dash(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.scale", description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=[1, 5, 20])
    parser.add_argument("--rate", type=float, default=1000.0, help="events a second of each node")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--store", default="postgresql", help="postgresql, sqlite, or a URL")
    parser.add_argument("--away", type=float, default=0.0, metavar="SECONDS")
    parser.add_argument("--frame", type=int, default=0, metavar="PIXELS")
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "results")
    arguments = parser.parse_args()
    neighbours = machine.Neighbours()
    found: list[Outcome] = []
    with scratch() as directory, place(arguments.store, directory) as (daemon, server, address):
        for nodes in arguments.nodes:
            found.append(run(daemon, server, address, nodes, arguments, directory))
            print(f"{nodes} nodes: done", file=sys.stderr, flush=True)
    record = {
        "machine": machine.describe(),
        "cores": os.cpu_count(),
        "arguments": {k: v for k, v in vars(arguments).items() if k not in ("out", "store")},
        "noise": round(neighbours.share(), 3),
        "results": [asdict(each) for each in found],
    }
    arguments.out.mkdir(parents=True, exist_ok=True)
    path = arguments.out / "scale.json"
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(report(found))
    print(
        f"others used {record['noise']:.0%} of the machine meanwhile; see {path}", file=sys.stderr
    )


if __name__ == "__main__":
    main()
