"""Stores that cannot be written, or are damaged where they lie: noticed, said, and gone on with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from daemon_process import DaemonProcess, obeying_permissions
from made_batches import RUN, STREAM, steps

from lanekit.errors import DaemonUnavailable
from lanekit.slow import DaemonClient, RunStore, TelemetryClient
from lanekit.slow.store.sqlite_store import TelemetrySQLiteStore
from lanekit.slow.store.store_check import StoreCheck
from patience import until

PAGE = 4096


def lanekit(*arguments: str, target: str = "unix:/nowhere") -> tuple[int, str]:
    environment = {**os.environ, "LANEKIT_DAEMON": target}
    done = subprocess.run(
        [sys.executable, "-m", "lanekit", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def unwritable(daemon: DaemonProcess) -> DaemonProcess:
    """A daemon that was started on a store that it may not write."""
    with TelemetryClient(
        "before", target=daemon.target, spool=daemon.directory / "first"
    ) as client:
        client.step(0, 0)
    daemon.stop()
    daemon.store.chmod(0o400)
    daemon.prefix = obeying_permissions()
    return daemon.start()


def test_a_daemon_on_a_store_it_may_not_write_says_so_and_goes_on_once_it_may(
    unwritable: DaemonProcess, short_directory: Path
) -> None:
    daemon = unwritable
    until(lambda: "nothing can be stored for now" in daemon.said())
    said: list[str] = []
    client = TelemetryClient(
        "r", target=daemon.target, spool=short_directory / "s", report=said.append
    )
    with DaemonClient(daemon.target) as asker:
        for i in range(100):
            client.step(0, i, action=i)
        client.run_completed()
        assert not client.flush(1.0)
        assert str(daemon.store) in asker.store_problem()
        with pytest.raises(DaemonUnavailable):
            asker.control_run("before", "stop")
        status, shown = lanekit(
            "show", "before", "--store", str(daemon.store), target=daemon.target
        )
        assert status == 0
        assert "cannot store events now" in shown
        status, found = lanekit("doctor", "--json", target=daemon.target)
        (finding,) = [each for each in json.loads(found) if each["topic"] == "store"]
        assert (status, finding["state"]) == (1, "fail")
        assert str(daemon.store) in finding["found"]
        daemon.store.chmod(0o600)
        until(lambda: asker.store_problem() == "")
        assert client.flush(60)
        assert client.close().complete
    assert "storing again" in daemon.said()
    with RunStore.open(daemon.store) as store:
        assert [int(step) for step in store.steps("r").step] == list(range(100))
        assert str(store.run("r").state) == "completed"
    assert "cannot store" not in lanekit("show", "r", "--store", str(daemon.store))[1]


def test_a_store_that_becomes_unwritable_while_nothing_comes_is_noticed(
    daemon: DaemonProcess,
) -> None:
    import apsw  # not Python's own: it must see the daemon's locks

    with DaemonClient(daemon.target) as asker:
        holder = apsw.Connection(str(daemon.store))
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(DaemonUnavailable):
            asker.submit_run(["true"])
        assert "locked" in asker.store_problem()
        assert "nothing can be stored for now" in daemon.said()
        holder.execute("ROLLBACK")
        until(lambda: asker.store_problem() == "")
        assert asker.submit_run(["true"]).command == ["true"]
        holder.close()


# --- damage at rest ------------------------------------------------------------------------------


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    """A store of some hundred pages."""
    path = tmp_path / "store.db"
    with TelemetrySQLiteStore.open(path) as store:
        store.register_stream(RUN, STREAM, "worker")
        for first in range(1, 4001, 500):
            store.append([steps(first, 500)])
    return path


def spoil(path: Path, page: int) -> None:
    with path.open("r+b") as file:
        file.seek(page * PAGE)
        file.write(os.urandom(PAGE))


def test_a_sound_store_passes_also_while_it_is_written(filled: Path) -> None:
    assert StoreCheck(filled).run() == []
    with TelemetrySQLiteStore.open(filled) as store:
        store.append([steps(4001, 500)])
        assert StoreCheck(filled).run() == []
    status, found = lanekit("doctor", "--store", str(filled))
    assert status == 0
    assert "is sound" in found


def test_damaged_pages_are_found_by_doctor_with_what_to_do(filled: Path) -> None:
    pages = filled.stat().st_size // PAGE
    assert pages > 30
    for page in range(1, pages, pages // 8):
        before = filled.read_bytes()
        spoil(filled, page)
        status, found = lanekit("doctor", "--store", str(filled))
        assert status == 1, f"page {page}: {found}"
        assert "damaged" in found
        assert ".recover" in found
        assert "Traceback" not in found
        filled.write_bytes(before)
    status, found = lanekit("doctor", "--store", str(filled))
    assert status == 0, found


def test_rows_that_are_gone_are_found_too(filled: Path) -> None:
    import apsw

    connection = apsw.Connection(str(filled))
    connection.execute("DELETE FROM steps WHERE id IN (SELECT id FROM steps LIMIT 3)")
    connection.close()
    assert StoreCheck(filled).run() == ["there are 3997 steps, and the runs have 4000"]


@pytest.mark.parametrize("kind", ["none", "text", "directory"])
def test_what_is_no_store_is_named(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "store.db"
    if kind == "text":
        path.write_text("no database " * 1000)
    elif kind == "directory":
        path.mkdir()
    status, found = lanekit("doctor", "--store", str(path))
    assert status == 1
    assert str(path) in found
    assert "Traceback" not in found


def test_a_daemon_logs_at_its_start_whether_its_store_is_sound(daemon: DaemonProcess) -> None:
    with TelemetryClient("r", target=daemon.target, spool=daemon.directory / "s") as client:
        for i in range(20_000):
            client.step(0, i, observation=[0.5] * 20)
        assert client.flush(60)
    until(lambda: f"the store {daemon.store} is sound" in daemon.said())
    daemon.stop()
    pages = daemon.store.stat().st_size // PAGE
    for page in range(pages // 2, pages // 2 + 20):
        spoil(daemon.store, page)
    daemon.start()
    until(lambda: f"the store {daemon.store} is damaged" in daemon.said())
    assert ".recover" in daemon.said()
