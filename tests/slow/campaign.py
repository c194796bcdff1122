"""Kill workers, proxies, the daemon and viewers at random under load; then compare every row.

``python -m tests.slow.campaign [--kills N] [--seed S] [--durability MODE] [--store KIND]``. With
``--store postgresql`` the store's server is killed and started again, too. Each round submits a
run whose worker's output is known byte for byte (numbered_worker.py), kills somebody every few
dozen milliseconds while it flows, lets everything settle, and compares: steps, episodes and events
in the store, prints in the worker's log, bad lines in the reject file, and what a viewer, itself
killed and restarted, has seen.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import numbered_worker  # noqa: E402

from lanekit.errors import DaemonError  # noqa: E402
from lanekit.slow.daemon_client import DaemonClient  # noqa: E402
from lanekit.slow.store.run_store import RunStore  # noqa: E402
from patience import until  # noqa: E402

if TYPE_CHECKING:
    from postgres_server import PostgresServer


@dataclass
class House:
    """One daemon with its own state directory, restarted whenever it is killed."""

    directory: Path
    durability: str = "normal"
    store_directory: Path | None = None
    server: PostgresServer | None = None
    kills: Counter[str] = field(default_factory=Counter)
    daemon: subprocess.Popen[bytes] | None = None

    @property
    def socket(self) -> Path:
        return self.directory / "daemon.sock"

    @property
    def store(self) -> Path | str:
        if self.server is not None:
            return self.server.url()
        return (self.store_directory or self.directory) / "lanekit.db"

    @property
    def target(self) -> str:
        return f"unix:{self.socket}"

    def start_daemon(self) -> None:
        """Start the daemon; it may still be reading its store when this returns."""
        with (self.directory / "daemon.log").open("ab") as log:
            self.daemon = subprocess.Popen(
                [
                    *(sys.executable, "-m", "lanekit", "daemon", f"--socket={self.socket}"),
                    *(f"--store={self.store}", f"--state={self.directory}"),
                    f"--durability={self.durability}",
                ],
                stdout=log,
                stderr=log,
                env={**os.environ, "LANEKIT_STATE": str(self.directory)},
            )

    def client(self) -> DaemonClient:
        """Return a client, once the daemon answers."""
        client = DaemonClient(self.target)

        def answers() -> bool:
            assert self.daemon is not None
            if self.server is not None and self.daemon.poll() == 1:
                self.start_daemon()  # as whoever looks after it would: the server was away
            assert self.daemon.poll() is None, (self.directory / "daemon.log").read_text()
            try:
                client.list_runs()
            except DaemonError:
                return False
            return True

        until(answers, "the daemon to answer")
        return client

    def processes(self, role: str, run_id: str) -> list[psutil.Process]:
        """Find the run's processes: role is proxy, numbered_worker.py or follower.py."""
        found = []
        for process in psutil.process_iter(["cmdline"]):
            words = process.info["cmdline"] or []
            line = " ".join(words)
            if str(self.directory) in line and run_id in line and is_role(words, role):
                found.append(process)
        return found

    def kill_daemon(self) -> None:
        """Kill the daemon and start another."""
        assert self.daemon is not None
        self.daemon.kill()
        self.daemon.wait()
        self.kills["daemon"] += 1
        self.start_daemon()

    def kill_server(self, away: float) -> None:
        """Kill the store's server, and start it again after so many seconds."""
        assert self.server is not None
        self.server.kill()
        self.kills["server"] += 1
        time.sleep(away)
        self.server.start()

    def kill(self, role: str, run_id: str) -> bool:
        """Kill one of the run's processes, if there is one."""
        for process in self.processes(role, run_id)[:1]:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                return False
            self.kills[role] += 1
            return True
        return False

    def close(self) -> None:
        """End everything that belongs to this house."""
        for process in psutil.process_iter(["cmdline"]):
            if str(self.directory) in " ".join(process.info["cmdline"] or []):
                with_no_complaint(process)
        if self.daemon is not None:
            self.daemon.wait()


def with_no_complaint(process: psutil.Process) -> None:
    """Kill a process that may have gone already."""
    if process.pid != os.getpid():
        with suppress(psutil.NoSuchProcess):
            process.kill()


def is_role(words: list[str], role: str) -> bool:
    """Tell a proxy from the worker it runs: both name the worker's script."""
    if role == "proxy":
        return "proxy" in words[:5]
    return len(words) > 1 and words[1].endswith(role)


@contextmanager
def house(
    durability: str = "normal",
    store_directory: Path | None = None,
    server: PostgresServer | None = None,
) -> Iterator[House]:
    """Have a house in a new directory with a short path (sockets allow no long ones)."""
    with tempfile.TemporaryDirectory(prefix="lk-", ignore_cleanup_errors=True) as name:
        made = House(Path(name), durability, store_directory, server)
        made.start_daemon()
        try:
            yield made
        finally:
            made.close()


@dataclass
class Viewer:
    """A follower that writes down the number of each step it sees, and goes on where it was."""

    house: House
    run_id: str
    process: subprocess.Popen[bytes] | None = None

    @property
    def seen(self) -> Path:
        return self.house.directory / f"seen-{self.run_id}"

    def start(self) -> None:
        with (self.house.directory / "viewer.log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, str(HERE / "follower.py")),
                    *(self.house.target, self.run_id, str(self.seen)),
                ],
                stderr=log,
            )

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        self.house.kills["viewer"] += 1
        self.start()

    def numbers(self) -> list[int]:
        data = self.seen.read_bytes() if self.seen.exists() else b""
        return [n for (n,) in struct.iter_unpack("<q", data)]

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()


@dataclass
class Verdict:
    """What one round compared."""

    steps: int = 0
    episodes: int = 0
    events: int = 0
    prints: int = 0
    rejects: int = 0


def expected(count: int, written: int) -> dict[str, list[str]]:
    """Return the lines, by kind, that are whole within the first `written` bytes."""
    found: dict[str, list[str]] = {
        kind: [] for kind in ("step", "episode", "event", "print", "bad")
    }
    size = 0
    for kind, line in numbered_worker.lines(count):
        size += len(line.encode()) + 1
        if size > written:
            break
        found[kind].append(line)
    return found


def compare(store: Path | str, run_id: str, count: int, written: int, *, whole: bool) -> Verdict:
    """Compare a run's rows with what its worker wrote; `whole`: it lived to write everything."""
    certain = expected(count, written)
    # A killed worker may have written part of one more piece than it could count.
    possible = certain if whole else expected(count, written + 60_000)
    opened = RunStore.open(store)
    steps = opened.steps(run_id)
    # Each proxy that the worker had began a stream of its own: one after the other, without gaps.
    numbers: dict[str, list[int]] = {}
    for stream, seq in zip(steps.stream, steps.seq, strict=True):
        numbers.setdefault(stream, []).append(int(seq))
    assert all(seqs == list(range(1, len(seqs) + 1)) for seqs in numbers.values())
    assert [seq for seqs in numbers.values() for seq in seqs] == [int(seq) for seq in steps.seq]
    assert len(certain["step"]) <= len(steps) <= len(possible["step"])
    for i in range(len(steps)):
        line = json.loads(possible["step"][i])
        raw = possible["step"][i]
        assert steps.agent[i] == line["agent_id"]
        assert int(steps.episode[i]) == line["episode_index"]
        assert int(steps.step[i]) == line["step_index"]
        assert float(steps.reward[i]) == line["reward"]
        assert int(steps.wall_time_ns[i]) == line["time_ns"]
        # Byte for byte, spaces and escapes included.
        assert f'"action":{steps.action_json[i].decode()},' in raw
        assert f'"observation":{steps.observation_json[i].decode()},' in raw
        assert f'"info":{steps.info_json[i].decode()},' in raw
    episodes = opened.episodes(run_id)
    assert len(certain["episode"]) <= len(episodes) <= len(possible["episode"])
    assert sorted(int(number) for number in episodes.episode) == list(range(len(episodes)))
    names = [event.name for event in opened.events(run_id)]
    told = [name for name in names if name in ("run_started", "run_completed")]
    sent = [json.loads(line)["event"] for line in possible["event"]]
    assert told == sent[: len(told)]
    assert len(told) >= len(certain["event"])
    return Verdict(len(steps), len(episodes), len(told))


def compare_files(spool: Path, count: int, written: int, verdict: Verdict, *, whole: bool) -> None:
    """Compare the worker's log and reject file with what it wrote."""
    certain = expected(count, written)
    possible = certain if whole else expected(count, written + 60_000)
    log = (spool / "worker.log").read_text().splitlines()
    prints = [line for line in log if line.startswith("epoch ")]
    # The log may end with a print that the worker's death cut short.
    whole_prints = prints if whole else prints[:-1]
    assert whole_prints == possible["print"][: len(whole_prints)]
    assert len(prints) >= len(certain["print"])
    rejects = (spool / "rejects.jsonl").read_text().splitlines() if certain["bad"] else []
    assert len(certain["bad"]) <= len(rejects) <= len(possible["bad"]) + (not whole)
    verdict.prints, verdict.rejects = len(prints), len(rejects)


def settled(spool: Path) -> bool:
    """Whether a sender has nothing left to send: its journal is empty."""
    return not any(file.stat().st_size for file in spool.glob("journal-*"))


def one_round(
    house: House, run_id: str, count: int, rate: float, kills: int, chance: random.Random
) -> Verdict:
    """Run one worker through `kills` kills and compare what is left with what it wrote."""
    tally = house.directory / f"tally-{run_id}"
    tally.write_bytes(bytes(8))
    client = house.client()
    command = [sys.executable, str(HERE / "numbered_worker.py"), str(count), str(rate), str(tally)]
    client.submit_run(run_id=run_id, command=command)
    viewer = Viewer(house, run_id)
    viewer.start()
    kill_worker = chance.random() < 0.25
    killed_worker = False
    total = len(numbered_worker.output(count))

    def written() -> int:
        return int(struct.unpack("<Q", tally.read_bytes())[0])

    until(lambda: written() > 0, "the worker's first bytes")
    done = 0
    while done < kills:
        time.sleep(chance.uniform(0.0, 0.25))
        victims = ["proxy", "daemon", "viewer", *(["server"] if house.server else [])]
        victim = chance.choice(victims)
        if victim == "server":
            house.kill_server(chance.uniform(0.0, 0.5))
        elif victim == "daemon":
            house.kill_daemon()
        elif victim == "viewer":
            viewer.kill()
        elif not house.kill("proxy", run_id):
            # The daemon has not replaced the last one yet.
            continue
        done += 1
        if kill_worker and done > kills / 2 and house.kill("numbered_worker.py", run_id):
            kill_worker, killed_worker = False, True
    gone = lambda: not house.processes("numbered_worker.py", run_id)  # noqa: E731
    until(gone, "the worker to end")
    client.close()
    client = house.client()
    terminal = {"COMPLETED", "FAILED", "LOST"}
    store = RunStore.open(house.store)
    until(lambda: store.run(run_id).state.upper() in terminal, "the run to end")
    spool = next((house.directory / "spool").glob(f"{run_id}-*"))
    until(lambda: settled(spool), "the spool to empty")
    until(lambda: not house.processes("proxy", run_id), "the proxy to end")
    whole = not killed_worker
    assert not whole or written() == total
    verdict = compare(house.store, run_id, count, written(), whole=whole)
    compare_files(spool, count, written(), verdict, whole=whole)
    until(lambda: len(viewer.numbers()) >= verdict.steps, "the viewer to see everything")
    assert viewer.numbers() == list(range(verdict.steps))
    viewer.close()
    client.close()
    return verdict


def run_campaign(
    kills: int,
    seed: int,
    durability: str,
    *,
    count: int = 60_000,
    rate: float = 15_000,
    server: PostgresServer | None = None,
) -> tuple[Counter[str], Verdict]:
    """Kill until enough were killed; return the kills by role and the rows compared."""
    chance = random.Random(seed)
    total = Verdict()
    with house(durability, server=server) as home:
        number = 0
        while home.kills.total() < kills:
            left = kills - home.kills.total()
            found = one_round(home, f"round-{number}", count, rate, min(left, 15), chance)
            for name, value in vars(found).items():
                setattr(total, name, getattr(total, name) + value)
            number += 1
            print(f"round {number}: {dict(home.kills)}, compared {vars(total)}", flush=True)
        return home.kills, total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--durability", choices=["normal", "full"], default="normal")
    parser.add_argument("--store", choices=["sqlite", "postgresql"], default="sqlite")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    print(f"seed {args.seed}", flush=True)
    with ExitStack() as held:
        server = None
        if args.store == "postgresql":
            from postgres_server import running_server

            server = held.enter_context(running_server(fsync="on"))
        kills, compared = run_campaign(args.kills, args.seed, args.durability, server=server)
    print(f"kills: {dict(kills)}; compared, nothing lost, nothing twice: {vars(compared)}")


if __name__ == "__main__":
    main()
