"""Journals that are put back as they were, or copied: each event is stored once all the same."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from daemon_process import DaemonProcess
from proxy_process import RUN, MakeProxy, ProxyProcess, script

from lanekit.errors import TelemetryError
from lanekit.slow import TelemetryClient
from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.sending.proxy import TrainerTelemetryProxy
from lanekit.slow.sending.spool import Spool
from lanekit.slow.store.address import StoreAddress
from lanekit.slow.store.run_store import RunStore
from patience import patience, until

MakeDaemon = Callable[..., DaemonProcess]


def daemon_on(make_daemon: MakeDaemon, address: StoreAddress) -> DaemonProcess:
    daemon = make_daemon()
    daemon.store = address  # type: ignore[assignment]
    return daemon.start()


def lines(numbers: Iterable[int]) -> bytes:
    parts = [
        {"event_type": "step", "episode_index": 0, "step_index": i, "action": i} for i in numbers
    ]
    return b"".join(json.dumps(part).encode() + b"\n" for part in parts)


def send(proxy: ProxyProcess, numbers: Iterable[int]) -> int:
    """Publish steps from a proxy's standard input; return the proxy's status."""
    reader, writer = os.pipe()
    proxy.start([], stdin=reader)
    os.close(reader)
    with os.fdopen(writer, "wb") as pipe:
        pipe.write(lines(numbers))
    return proxy.wait()


def stored(address: StoreAddress, run_id: str = RUN) -> list[int]:
    with RunStore.open(address) as store:
        return [json.loads(text) for text in store.steps(run_id).action_json]


def state(address: StoreAddress, run_id: str = RUN) -> str:
    with RunStore.open(address) as store:
        return str(store.run(run_id).state)


def shown(address: StoreAddress, run_id: str = RUN) -> str:
    command = [sys.executable, "-m", "lanekit", "show", run_id, "--store", str(address)]
    environment = {**os.environ, "LANEKIT_DAEMON": "unix:/nowhere"}
    return subprocess.run(
        command, capture_output=True, text=True, check=True, env=environment
    ).stdout


def test_a_journal_put_back_as_it_was_goes_on_as_a_new_stream(
    short_directory: Path, make_daemon: MakeDaemon, make_proxy: MakeProxy, address: StoreAddress
) -> None:
    daemon = daemon_on(make_daemon, address)
    proxy = make_proxy(daemon.target)
    assert send(proxy, range(100)) == 0
    shutil.copytree(proxy.spool, short_directory / "backup")
    assert send(proxy, range(100, 300)) == 0
    assert proxy.complaints() == ""
    shutil.rmtree(proxy.spool)
    shutil.copytree(short_directory / "backup", proxy.spool)
    assert send(proxy, range(300, 450)) == 0
    assert sorted(stored(address)) == list(range(450))
    until(lambda: state(address) == "lost")  # of a descriptor's end nobody knows how it came
    notice = "another copy of this journal went on"
    assert notice in proxy.complaints()
    assert notice in daemon.said()
    assert notice in shown(address)


def test_a_store_ahead_of_a_journal_takes_what_the_journal_adds(
    short_directory: Path, make_daemon: MakeDaemon, make_proxy: MakeProxy, address: StoreAddress
) -> None:
    daemon = daemon_on(make_daemon, address)
    body = """
    for i in range(200): emit.step(0, i, action=i)
    while not os.path.exists(sys.argv[1]): time.sleep(0.01)
    """
    go = short_directory / "go"
    proxy = make_proxy(daemon.target).start([*script(short_directory, body), str(go)])
    until(lambda: len(stored_if_any(address)) == 200)
    proxy.kill()
    go.touch()
    until((proxy.spool / "exit.json").exists)
    # A power cut: the disk has neither the newest bytes nor the newest checkpoint.
    (journal,) = proxy.spool.glob("journal-*")
    os.truncate(journal, journal.stat().st_size * 2 // 3)
    (proxy.spool / "checkpoint.json").unlink()
    assert proxy.adopt().wait() == 0
    assert sorted(stored(address)) == list(range(200))
    assert state(address) == "completed"  # `worker_exited` has the number of another event
    for said in (proxy.complaints(), daemon.said(), shown(address)):
        assert "the store is ahead of this journal" in said


def stored_if_any(address: StoreAddress) -> list[int]:
    with contextlib.suppress(TelemetryError):
        return stored(address)
    return []


def test_both_of_two_copies_are_stored(
    short_directory: Path, make_daemon: MakeDaemon, make_proxy: MakeProxy, address: StoreAddress
) -> None:
    daemon = daemon_on(make_daemon, address)
    proxy = make_proxy(daemon.target)
    assert send(proxy, range(50)) == 0
    copy = make_proxy(daemon.target, "copy")
    shutil.copytree(proxy.spool, copy.spool)
    assert send(proxy, range(100, 150)) == 0
    assert send(copy, range(200, 250)) == 0
    assert send(proxy, range(150, 170)) == 0
    assert send(copy, range(250, 270)) == 0
    expected = [*range(50), *range(100, 170), *range(200, 270)]
    assert sorted(stored(address)) == expected
    assert proxy.complaints() == ""
    assert "another copy of this journal went on" in copy.complaints()
    assert state(address) == "lost"


def test_a_copy_of_a_journal_in_use_is_stored_beside_it(
    short_directory: Path, make_daemon: MakeDaemon, make_proxy: MakeProxy
) -> None:
    daemon = make_daemon().start()
    reader, writer = os.pipe()
    proxy = make_proxy(daemon.target).start([], stdin=reader)
    os.close(reader)
    os.write(writer, lines(range(40)))
    until(lambda: len(stored_if_any(daemon.store)) == 40)
    copy = make_proxy(daemon.target, "copy")
    shutil.copytree(proxy.spool, copy.spool)
    assert send(copy, range(100, 120)) == 0
    os.write(writer, lines(range(40, 60)))
    os.close(writer)
    assert proxy.wait() == 0
    assert sorted(stored(daemon.store)) == [*range(60), *range(100, 120)]
    assert "copied while it was in use" in daemon.said()
    assert "copied while it was in use" in shown(daemon.store)
    until(lambda: state(daemon.store) == "lost")


def test_adopting_two_copies_of_what_was_never_sent_stores_it_once(
    short_directory: Path, make_daemon: MakeDaemon, make_proxy: MakeProxy, address: StoreAddress
) -> None:
    daemon = make_daemon()
    daemon.store = address  # type: ignore[assignment]
    proxy = make_proxy(daemon.target)
    reader, writer = os.pipe()
    proxy.start([], "--drain-timeout", "0.1", stdin=reader)
    os.close(reader)
    with os.fdopen(writer, "wb") as pipe:
        pipe.write(lines(range(500)))
    assert proxy.wait() == 75
    copies = [make_proxy(daemon.target, f"copy-{i}") for i in range(3)]
    for copy in copies:
        shutil.copytree(proxy.spool, copy.spool)
    daemon.start()
    for copy in (proxy, *copies):
        copy.adopt()
    assert [copy.wait() for copy in (proxy, *copies)] == [0] * 4
    assert stored(address) == list(range(500))
    with RunStore.open(address) as store:
        assert [event.name for event in store.events(RUN)] == ["worker_exited"]


def test_a_proxy_that_takes_over_says_nothing_and_leaves_one_worker(
    short_directory: Path, make_daemon: MakeDaemon, make_proxy: MakeProxy, address: StoreAddress
) -> None:
    daemon = daemon_on(make_daemon, address)
    body = """
    for i in range(300):
        emit.step(0, i, action=i)
        if i % 50 == 0: time.sleep(0.3)
    """
    proxy = make_proxy(daemon.target).start(script(short_directory, body))
    for count in (10, 100, 200):
        until(lambda: len(stored_if_any(address)) > count)  # noqa: B023
        proxy.kill()
        proxy.adopt()
    assert proxy.wait() == 0, proxy.complaints()
    assert stored(address) == list(range(300))
    assert proxy.complaints() == ""
    with RunStore.open(address) as store:
        run = store.run(RUN)
        assert (str(run.state), len(run.senders)) == ("completed", 1)
    assert "stream" not in daemon.said()


# --- at random -----------------------------------------------------------------------------------


class Copies:
    """Spools of one run that are written, copied, put back and cut off at random."""

    def __init__(self, directory: Path, daemon: DaemonProcess, run_id: str, seed: int) -> None:
        self.directory, self.daemon, self.run_id = directory, daemon, run_id
        self.chance = random.Random(seed)
        self.spools = [directory / "0"]
        self.made = 1
        self.written: list[int] = []
        self.destroyed: set[int] = set()
        """What was in bytes that were deleted: stored only if it was sent before."""
        self.done: Counter[str] = Counter()

    def turn(self) -> None:
        actions = [self.write] * 4 + [self.copy, self.put_back, self.cut_off, self.adopt]
        self.chance.choice(actions)()
        self.drop_torn_copies()

    def client(self, spool: Path) -> TelemetryClient:
        return TelemetryClient(
            self.run_id, target=self.daemon.target, spool=spool, report=lambda _: None
        )

    def write(self) -> None:
        """Add to a journal, and copy it meanwhile, file by file."""
        spool = self.chance.choice(self.spools)
        client = self.client(spool)
        copying: threading.Thread | None = None
        for _ in range(self.chance.randrange(1, 60)):
            number = len(self.written)
            self.written.append(number)
            client.step(0, number, action=number, observation=[number, "x" * (number % 50)])
            if copying is None and self.chance.random() < 0.03:
                pause = self.chance.choice([0.0, 0.01, 0.1])
                copying = threading.Thread(target=self.copy_later, args=(spool, pause))
                copying.start()
        # Not at all, a little, or until all is acknowledged.
        client.close(self.chance.choice([0.0, 0.05, 60.0]))
        if copying is not None:
            copying.join()
        self.done["writes"] += 1

    def copy_later(self, spool: Path, pause: float) -> None:
        time.sleep(pause)
        self.spools.append(self.copy_of(spool))
        self.done["copies in use"] += 1

    def copy(self) -> None:
        self.spools.append(self.copy_of(self.chance.choice(self.spools)))
        self.done["copies"] += 1

    def copy_of(self, spool: Path) -> Path:
        place = self.directory / str(self.made)
        self.made += 1
        place.mkdir()
        files = [path for path in spool.iterdir() if path.is_file() and path.name[0] != "."]
        random.Random(self.made).shuffle(files)
        for path in files:
            with contextlib.suppress(FileNotFoundError):
                shutil.copyfile(path, place / path.name)
        return place

    def drop_torn_copies(self) -> None:
        """Forget copies that lack files which were deleted meanwhile: those are refused."""
        for spool in self.spools[1:]:
            if not is_whole(spool):
                self.spools.remove(spool)
                self.done["torn copies refused"] += 1

    def put_back(self) -> None:
        """Replace a spool by an older state, or another copy, of itself."""
        backup, spool = (self.chance.choice(self.spools) for _ in range(2))
        if backup != spool:
            self.destroy(spool)
            shutil.rmtree(spool)
            self.copy_of(backup).rename(spool)
            self.done["restores"] += 1

    def cut_off(self) -> None:
        """Take a journal's newest bytes, as a power cut may; and perhaps its checkpoint."""
        spool = self.chance.choice(self.spools)
        journals = sorted(spool.glob("journal-*.jsonl"))
        if journals:
            self.destroy(spool)
            newest = journals[-1]
            os.truncate(newest, self.chance.randrange(newest.stat().st_size + 1))
            self.done["cuts"] += 1

    def destroy(self, spool: Path) -> None:
        for path in spool.glob("journal-*"):
            for line in path.read_bytes().splitlines():
                with contextlib.suppress(ValueError):
                    self.destroyed.add(json.loads(line)["step_index"])
                if b'"step_index"' in line:  # cut, or begun in another file
                    digits = line.partition(b'"step_index":')[2].strip().partition(b",")[0]
                    if digits.isdigit():
                        self.destroyed.add(int(digits))

    def adopt(self) -> None:
        spool = self.chance.choice(self.spools)
        self.drain(spool)
        self.done["adoptions"] += 1

    def drain(self, spool: Path) -> None:
        proxy = TrainerTelemetryProxy.adopt(
            spool, target=self.daemon.target, drain_timeout=patience(120), report=lambda _: None
        )
        assert proxy.run() in (0, 74)

    def compare(self) -> int:
        """Send what is left, and compare every row; return how many there are."""
        for spool in self.spools:
            self.drain(spool)
        with RunStore.open(self.daemon.store) as store:
            steps = store.steps(self.run_id)
        found = [json.loads(text) for text in steps.action_json]
        repeated = [number for number, count in Counter(found).items() if count > 1]
        assert not repeated, f"twice: {repeated}"
        lost = set(self.written) - set(found) - self.destroyed
        assert not lost, f"lost: {sorted(lost)}"
        assert set(found) <= set(self.written)
        for number, index, text in zip(found, steps.step, steps.observation_json, strict=True):
            assert number == index
            assert json.loads(text) == [number, "x" * (number % 50)]
        return len(found)


def is_whole(spool: Path) -> bool:
    try:
        Spool.open(spool).close()
    except TelemetryError as error:
        if "are missing" in str(error) or "is no spool" in str(error):
            return False
        raise
    return True


def run_copies(directory: Path, daemon: DaemonProcess, rounds: int, turns: int) -> Counter[str]:
    total: Counter[str] = Counter()
    for number in range(rounds):
        place = directory / f"round-{number}"
        place.mkdir()
        copies = Copies(place, daemon, f"round-{number}", number)
        copies.write()
        copies.drop_torn_copies()
        for _ in range(turns):
            copies.turn()
        total["rows compared"] += copies.compare()
        total["rounds"] += 1
        total += copies.done
        shutil.rmtree(place)
    return total


@pytest.mark.once
def test_copies_made_and_put_back_at_random_lose_and_repeat_nothing(
    short_directory: Path, make_daemon: MakeDaemon, address: StoreAddress
) -> None:
    daemon = daemon_on(make_daemon, address)
    rounds = int(os.environ.get("LANEKIT_COPY_ROUNDS", "8"))
    total = run_copies(short_directory, daemon, rounds, turns=12)
    print(dict(total))
    assert total["rows compared"] > 100 * rounds
    assert daemon.stop() == 0


def test_a_stream_may_not_continue_a_daemons_own(daemon: DaemonProcess) -> None:
    with daemon.connect() as stub:
        request = pb.RegisterWorkerRequest(
            run_id="r", stream_id="s", continues=pb.StreamPosition(stream_id="daemon")
        )
        with pytest.raises(Exception, match="daemon's own"):
            stub.RegisterWorker(request)
