"""What only a store on PostgreSQL has: several daemons, a server that goes away, passwords."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from daemon_process import DaemonProcess, event_names, publish_steps, register, run_of
from made_batches import RUN, STREAM, events, steps
from postgres_server import ESCAPED_PASSWORD, PASSWORD, PostgresServer

from lanekit.errors import RunExists, StoreBusy, StoreError, StoreTooNew
from lanekit.slow.local_daemon import _environment
from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.store.address import PostgresAddress, parse_store
from lanekit.slow.store.postgres import database
from lanekit.slow.store.postgres.migrations import MIGRATIONS
from lanekit.slow.store.postgres.postgres_store import TelemetryPostgresStore
from lanekit.slow.store.run_store import RunStore
from lanekit.slow.store.telemetry_store import Committed
from patience import patience, until

IN_USER = f"postgresql://someone:{ESCAPED_PASSWORD}@127.0.0.1:1/lanekit"
IN_QUERY = f"postgres://someone@127.0.0.1:1/lanekit?password={ESCAPED_PASSWORD}"
NOT_ESCAPED = f"postgresql://someone:{PASSWORD}@127.0.0.1:1/lanekit"


@pytest.fixture
def url(postgres_server: PostgresServer) -> str:
    return postgres_server.fresh_store()


@pytest.fixture
def store(url: str) -> Iterator[TelemetryPostgresStore]:
    with TelemetryPostgresStore.open(url, daemon="here") as opened:
        opened.register_stream(RUN, STREAM)
        yield opened


# --- several daemons -----------------------------------------------------------------------------


def test_two_daemons_with_one_run_in_common_keep_one_order_of_all_its_rows(
    store: TelemetryPostgresStore, url: str
) -> None:
    done: dict[str, list[object]] = {}

    def send(daemon: str) -> None:
        with TelemetryPostgresStore.open(url, daemon=daemon) as own:
            own.register_stream(RUN, daemon)
            done[daemon] = [
                answer
                for first in range(1, 400, 10)
                for answer in own.append([steps(first, 10, stream_id=daemon)])
            ]

    threads = [threading.Thread(target=send, args=(name,)) for name in ("one", "two", "three")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    answers = [answer for several in done.values() for answer in several]
    assert all(isinstance(answer, Committed) and answer.rows == 10 for answer in answers)
    positions = sorted(answer.position for answer in answers if isinstance(answer, Committed))
    assert positions == list(range(0, 1200, 10))
    with RunStore.open(url) as reader:
        found = reader.steps(RUN)
        assert len(found) == reader.counts(RUN).steps == 1200
        for name in done:
            assert found.seq[found.stream == name].tolist() == list(range(1, 401))


def test_a_sender_that_changes_to_another_daemon_goes_on_where_it_was(
    store: TelemetryPostgresStore, url: str
) -> None:
    with TelemetryPostgresStore.open(url, daemon="there") as other:
        assert store.append([steps(1, 3)]) == [Committed(3, 0, 3)]
        assert other.append([steps(2, 4)]) == [Committed(5, 3, 2)]
        assert store.append([steps(4, 3)]) == [Committed(6, 5, 1)]
        assert [stream.stream_id for stream in store.open_streams()] == [STREAM]
        other.register_stream(RUN, STREAM)
        assert [stream.stream_id for stream in other.open_streams()] == [STREAM]
        assert store.open_streams() == []


def test_the_streams_of_a_daemon_that_is_gone_are_looked_after_by_the_others(
    store: TelemetryPostgresStore, url: str, postgres_server: PostgresServer
) -> None:
    with TelemetryPostgresStore.open(url, daemon="there") as other:
        assert other.open_streams() == []
        with postgres_server.connect() as connection:
            connection.execute(
                "UPDATE lanekit.daemons SET seen = seen - make_interval(secs => %s)"
                " WHERE daemon = 'here'",
                (database.DAEMON_LOST_AFTER + 1,),
            )
        assert [stream.stream_id for stream in other.open_streams()] == [STREAM]
        store.open_streams()
        assert other.open_streams() == []


def test_a_daemon_only_fails_runs_that_it_made_itself(
    store: TelemetryPostgresStore, url: str
) -> None:
    store.create_run("mine", command=["train"])
    with TelemetryPostgresStore.open(url, daemon="there") as other:
        other.create_run("theirs", command=["train"])
        assert {run.run_id for run in store.own_runs()} == {RUN, "mine"}
        assert {run.run_id for run in other.own_runs()} == {"theirs"}
        assert len(other.runs()) == 3
        with pytest.raises(RunExists):
            other.create_run("mine")


def test_a_run_whose_rows_somebody_else_holds_is_busy_and_others_are_not(
    store: TelemetryPostgresStore, postgres_server: PostgresServer
) -> None:
    store.register_stream("free", STREAM)
    with postgres_server.connect() as other, other.transaction():
        other.execute("SELECT * FROM lanekit.runs WHERE run_id = %s FOR UPDATE", (RUN,))
        with pytest.raises(StoreBusy, match="locked"):
            store.append([steps(1, 2)])
        assert store.append([steps(1, 2, run_id="free")]) == [Committed(2, 0, 2)]
    assert store.append([steps(1, 2)]) == [Committed(2, 0, 2)]


def test_a_change_that_is_committed_late_is_not_missed_by_who_watches(
    store: TelemetryPostgresStore, url: str, postgres_server: PostgresServer
) -> None:
    store.create_run("late")
    with RunStore.open(url) as reader, postgres_server.connect() as other:
        seen = max(run.revision for run in reader.run_messages())
        with other.transaction():
            other.execute(
                "UPDATE lanekit.runs SET reason = 'late', revision ="
                " pg_current_xact_id()::text::bigint WHERE run_id = 'late'"
            )
            store.append([steps(1, 1)])  # begun later, committed first
            early = reader.run_messages(seen)
            assert [run.run_id for run in early] == [RUN]
            seen = max(run.revision for run in early)
        assert "late" in [run.run_id for run in reader.run_messages(seen)]


def test_two_daemons_serve_one_database_and_commands_reach_workers_of_both(
    url: str, make_daemon: Callable[..., DaemonProcess], short_directory: Path
) -> None:
    one = make_daemon(pulse__TICK=0.1)
    two = make_daemon(pulse__TICK=0.1)
    for name, daemon in (("one", one), ("two", two)):
        daemon.directory = short_directory / name
        daemon.directory.mkdir()
        daemon.store, daemon.socket = url, daemon.directory / "d.sock"
        daemon.log, daemon.options = daemon.directory / "log", (f"--state={daemon.directory}",)
        daemon.start()
    with one.connect() as first, two.connect() as second:
        publish_steps(first, "shared", 500, stream="s1")
        publish_steps(second, "shared", 700, stream="s2")
        for stub in (first, second):
            assert run_of(stub, "shared").steps == 1200
        beats: list[pb.HeartbeatRequest] = [
            pb.HeartbeatRequest(run_id="shared", stream_id="s2"),
        ]
        held = threading.Event()

        def alive() -> Iterator[pb.HeartbeatRequest]:
            yield from beats
            held.wait(patience())

        answers = second.Heartbeat(alive(), timeout=patience())
        assert not next(answers).HasField("command")
        asked = pb.ControlRunRequest(run_id="shared", action=pb.CONTROL_ACTION_PAUSE)
        first.ControlRun(asked, timeout=patience(30))
        told = next(answer for answer in answers if answer.HasField("command"))
        assert told.command.action == pb.CONTROL_ACTION_PAUSE
        held.set()
        assert register(second, "shared", "s1").committed_steps == 500
        assert event_names(first, "shared") == []


# --- a server that comes and goes ----------------------------------------------------------------


def test_sessions_that_broke_while_idle_are_renewed_unnoticed(
    store: TelemetryPostgresStore, url: str, postgres_server: PostgresServer
) -> None:
    with RunStore.open(url) as reader:
        assert store.append([steps(1, 2)]) == [Committed(2, 0, 2)]
        assert len(reader.steps(RUN)) == 2
        postgres_server.kill()
        with pytest.raises(StoreError, match="does not answer"):
            store.append([steps(3, 2)])
        with pytest.raises(StoreError, match="check that the server runs"):
            reader.steps(RUN)
        postgres_server.start()
        assert len(reader.steps(RUN)) == 2
        assert store.append([steps(1, 4)]) == [Committed(4, 2, 2)]
        postgres_server.kill()
        postgres_server.start()
        assert store.append([steps(5, 1)]) == [Committed(5, 4, 1)]
        assert len(reader.steps(RUN)) == 5


def test_what_the_server_does_not_take_is_refused_and_the_writer_goes_on(
    store: TelemetryPostgresStore,
) -> None:
    store.append([events(1, ("run_failed", b'{"error": "a \\u0000 b"}'))])
    assert store.run(RUN).reason == "a \ufffd b"
    assert store.append([steps(1, 2)]) == [Committed(2, 0, 2)]


# --- schema --------------------------------------------------------------------------------------


def test_a_newer_store_is_refused_by_writer_and_reader(
    url: str, postgres_server: PostgresServer
) -> None:
    TelemetryPostgresStore.open(url).close()
    with postgres_server.connect() as connection:
        connection.execute("UPDATE lanekit.version SET version = %s", (len(MIGRATIONS) + 1,))
    for open_it in (TelemetryPostgresStore.open, RunStore.open):
        with pytest.raises(StoreTooNew, match="update lanekit"):
            open_it(url)


def test_an_older_store_is_brought_up_to_date_once_however_many_daemons_start(url: str) -> None:
    with TelemetryPostgresStore.open(url) as store:
        store.register_stream(RUN, STREAM)
        store.append([steps(1, 3)])
    made = []

    def add_column(connection: database.PostgresConnection) -> None:
        connection.execute("ALTER TABLE runs ADD COLUMN note TEXT NOT NULL DEFAULT 'none'")
        made.append(1)

    newer = [*MIGRATIONS, add_column]
    threads = [
        threading.Thread(target=lambda: TelemetryPostgresStore.open(url, migrations=newer).close())
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == [1]
    with TelemetryPostgresStore.open(url, migrations=newer) as store:
        assert store.append([steps(2, 3)]) == [Committed(4, 3, 1)]


def test_a_migration_that_fails_leaves_the_store_as_it_was(url: str) -> None:
    TelemetryPostgresStore.open(url).close()

    def half(connection: database.PostgresConnection) -> None:
        connection.execute("DROP TABLE steps")
        raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):
        TelemetryPostgresStore.open(url, migrations=[*MIGRATIONS, half])
    with TelemetryPostgresStore.open(url) as store:
        store.register_stream(RUN, STREAM)
        assert store.append([steps(1, 1)]) == [Committed(1, 0, 1)]


def test_a_database_without_a_store_is_named_and_left_alone(
    url: str, postgres_server: PostgresServer
) -> None:
    with pytest.raises(StoreError, match="there is no store in"):
        RunStore.open(url)
    with postgres_server.connect() as connection:
        found = connection.execute("SELECT to_regnamespace('lanekit')").fetchone()
    assert found == (None,)


def test_every_commit_waits_for_the_servers_disk(url: str, postgres_server: PostgresServer) -> None:
    with postgres_server.connect() as connection:
        connection.execute("ALTER ROLE lanekit SET synchronous_commit = off")
    try:
        for durability, setting in (("normal", "local"), ("full", "on")):
            with TelemetryPostgresStore.open(url, durability=durability) as store:  # type: ignore[arg-type]
                shown = store._database.connection.execute("SHOW synchronous_commit").fetchall()
                assert shown == [(setting,)]
    finally:
        with postgres_server.connect() as connection:
            connection.execute("ALTER ROLE lanekit RESET synchronous_commit")
    with pytest.raises(ValueError, match="'normal' or 'full'"):
        TelemetryPostgresStore.open(url, durability="none")  # type: ignore[arg-type]


# --- passwords -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "secret_url"),
    [
        *[(command, IN_USER) for command in ("runs", "show", "export", "replay", "daemon")],
        *[("runs", IN_QUERY), ("runs", NOT_ESCAPED), ("daemon", NOT_ESCAPED)],
    ],
)
def test_no_command_ever_prints_a_password(
    command: str, secret_url: str, short_directory: Path
) -> None:
    options = {
        "runs": [],
        "show": [RUN],
        "export": [RUN, "--to=csv"],
        "replay": [RUN],
        "daemon": [f"--state={short_directory}", f"--socket={short_directory}/d.sock"],
    }[command]
    done = subprocess.run(
        [sys.executable, "-m", "lanekit", command, *options, "--store", secret_url],
        capture_output=True,
        text=True,
        check=False,
        timeout=patience(120),
    )
    said = done.stdout + done.stderr
    assert done.returncode == 1, said
    assert "postgresql://" in said
    assert PASSWORD not in said
    assert ESCAPED_PASSWORD not in said
    assert "not/to" not in said


def test_a_daemon_that_is_started_for_a_database_is_given_what_libpq_reads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    monkeypatch.setenv("PGSSLROOTCERT", "/etc/lab.pem")
    given = _environment(["--store", "postgresql://db.example/lanekit"])
    assert given["PGPASSWORD"] == PASSWORD
    assert given["PGSSLROOTCERT"] == "/etc/lab.pem"
    assert not {name for name in _environment(["--store", "/a.db"]) if name.startswith("PG")}


@pytest.mark.parametrize("secret_url", [IN_USER, IN_QUERY])
def test_an_address_shows_no_password(secret_url: str) -> None:
    address = parse_store(secret_url)
    assert isinstance(address, PostgresAddress)
    shown = f"{address} {address!r} {address.hide(f'tried {secret_url}, {PASSWORD}')}"
    assert PASSWORD not in shown
    assert ESCAPED_PASSWORD not in shown
    assert address.url == secret_url


def test_a_wrong_password_is_said_to_be_wrong_without_being_shown(
    url: str, postgres_server: PostgresServer
) -> None:
    TelemetryPostgresStore.open(url).close()
    with postgres_server.connect() as connection:
        connection.execute(f"ALTER ROLE lanekit PASSWORD '{PASSWORD}'")
    hba = postgres_server.data / "pg_hba.conf"
    before = hba.read_text()
    hba.write_text("local all all scram-sha-256\n")
    right = url.replace("lanekit@", f"lanekit:{ESCAPED_PASSWORD}@")
    try:
        with psycopg.connect(right) as connection:
            connection.execute("SELECT pg_reload_conf()")
        until(lambda: _is_refused(url))
        with RunStore.open(right) as reader:
            assert reader.runs() == []
        with pytest.raises(StoreError, match="password authentication failed") as refused:
            RunStore.open(url.replace("lanekit@", "lanekit:guessed-wrongly@"))
        assert "guessed-wrongly" not in str(refused.value)
    finally:
        hba.write_text(before)
        with psycopg.connect(right) as connection:
            connection.execute("SELECT pg_reload_conf()")
        until(lambda: not _is_refused(url))


def _is_refused(url: str) -> bool:
    try:
        psycopg.connect(url).close()
    except psycopg.OperationalError:
        return True
    return False
