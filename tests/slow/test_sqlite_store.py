"""The store's files: old, new, broken and locked."""

from __future__ import annotations

import os
from pathlib import Path

import apsw
import pytest
from made_batches import RUN, STREAM, actions, steps

from lanekit.errors import StoreBusy, StoreError, StoreTooNew
from lanekit.slow.batches import Batch, steps_batch
from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.store.run_store import RunStore
from lanekit.slow.store.sqlite_store import MIGRATIONS, Committed, TelemetrySQLiteStore


def test_a_new_store_is_its_owners_only_and_an_old_one_keeps_its_mode(path: Path) -> None:
    umask = os.umask(0o022)
    try:
        with TelemetrySQLiteStore.open(path) as store:
            store.register_stream(RUN, STREAM, "worker")
            modes = {file.name: file.stat().st_mode & 0o777 for file in path.parent.iterdir()}
            assert modes == dict.fromkeys(
                [path.name, f"{path.name}-wal", f"{path.name}-shm"], 0o600
            )
        path.chmod(0o640)
        TelemetrySQLiteStore.open(path).close()
        assert path.stat().st_mode & 0o777 == 0o640
    finally:
        os.umask(umask)


def test_a_file_locked_by_another_process_is_busy_and_nothing_has_changed(
    file_store: TelemetrySQLiteStore, path: Path
) -> None:
    file_store.append([steps(1, 2)])
    other = apsw.Connection(str(path))
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(StoreBusy, match="held by another process"):
        file_store.append([steps(3, 2)])
    other.execute("ROLLBACK")
    other.close()
    assert file_store.append([steps(3, 2)]) == [Committed(4, 2, 2)]


def test_an_older_file_is_brought_up_to_date_and_keeps_its_rows(path: Path) -> None:
    with TelemetrySQLiteStore.open(path) as store:
        store.register_stream(RUN, STREAM)
        store.append([steps(1, 3)])

    def add_column(connection: apsw.Connection) -> None:
        connection.execute("ALTER TABLE runs ADD COLUMN note TEXT NOT NULL DEFAULT 'none'")

    newer = [*MIGRATIONS, add_column]
    with TelemetrySQLiteStore.open(path, migrations=newer) as store:
        assert store.append([steps(2, 3)]) == [Committed(4, 3, 1)]
    connection = apsw.Connection(str(path))
    assert connection.pragma("user_version") == len(newer)
    assert connection.execute("SELECT note FROM runs").get == "none"
    assert connection.execute("SELECT count(*) FROM steps").get == 4
    connection.close()


def test_a_store_of_the_first_version_is_brought_up_to_date_and_goes_on(path: Path) -> None:
    with TelemetrySQLiteStore.open(path) as store:
        store.register_stream(RUN, STREAM, "worker")
        store.append([steps(1, 5)])
    connection = apsw.Connection(str(path))
    connection.execute("ALTER TABLE tracks DROP COLUMN episodes_in_order; PRAGMA user_version = 1")
    for column in ("journal_id", "continues", "notice"):
        connection.execute(f"ALTER TABLE streams DROP COLUMN {column}")
    connection.close()
    with pytest.raises(StoreError, match=r"version 1.*lanekit daemon"):
        RunStore.open(path)
    with TelemetrySQLiteStore.open(path) as store:
        store.append([steps(6, 5)])
    assert [seq for _, seq, _ in actions(path)] == list(range(1, 11))
    with RunStore.open(path) as reader:
        assert len(reader.steps(RUN, episode=0)) == 9


def test_a_migration_that_fails_leaves_the_file_as_it_was(path: Path) -> None:
    TelemetrySQLiteStore.open(path).close()

    def half(connection: apsw.Connection) -> None:
        connection.execute("DROP TABLE steps")
        raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):
        TelemetrySQLiteStore.open(path, migrations=[*MIGRATIONS, half])
    with TelemetrySQLiteStore.open(path) as store:
        store.register_stream(RUN, STREAM)
        assert store.append([steps(1, 1)]) == [Committed(1, 0, 1)]


def test_a_newer_file_is_refused_by_writer_and_reader(path: Path) -> None:
    TelemetrySQLiteStore.open(path).close()
    connection = apsw.Connection(str(path))
    connection.pragma("user_version", len(MIGRATIONS) + 1)
    connection.close()
    for open_it in (TelemetrySQLiteStore.open, RunStore.open):
        with pytest.raises(StoreTooNew, match="update lanekit"):
            open_it(path)


def test_a_file_that_is_no_database_is_refused_with_a_remedy(path: Path) -> None:
    path.write_bytes(b"not a database, but long enough to be looked at. " * 100)
    for open_it in (TelemetrySQLiteStore.open, RunStore.open):
        with pytest.raises(StoreError, match="move it away"):
            open_it(path)


@pytest.mark.parametrize("version", [0, 1])
def test_another_programs_database_is_refused_and_left_alone(path: Path, version: int) -> None:
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE bookmarks (url)")
    connection.pragma("user_version", version)
    connection.close()
    before = path.read_bytes()
    for open_it in (TelemetrySQLiteStore.open, RunStore.open):
        with pytest.raises(StoreError, match="another program"):
            open_it(path)
    assert path.read_bytes() == before


def test_a_damaged_file_is_refused_with_a_remedy(path: Path) -> None:
    with TelemetrySQLiteStore.open(path) as store:
        store.register_stream(RUN, STREAM)
        store.append([steps(1, 2000)])
    data = bytearray(path.read_bytes())
    data[4096 * 3 :] = b"\xa5" * (len(data) - 4096 * 3)
    path.write_bytes(data)
    with pytest.raises(StoreError, match=r"damaged.*move it away"):
        with TelemetrySQLiteStore.open(path) as store:
            store.append([steps(1, 3000)])
    with pytest.raises(StoreError, match="damaged"):
        with RunStore.open(path) as reader:
            reader.steps(RUN)


def test_a_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="directory exists"):
        TelemetrySQLiteStore.open(tmp_path / "absent" / "store.db")


def test_durability_is_one_of_two(path: Path) -> None:
    with pytest.raises(ValueError, match="'normal' or 'full'"):
        TelemetrySQLiteStore.open(path, durability="none")  # type: ignore[arg-type]
    with TelemetrySQLiteStore.open(path, durability="full") as store:
        assert store._database.connection.pragma("synchronous") == 2


def test_the_log_is_moved_into_the_file_while_writing_and_gone_at_the_end(path: Path) -> None:
    log = Path(f"{path}-wal")
    with TelemetrySQLiteStore.open(path) as store:
        store.register_stream(RUN, STREAM)
        for first in range(1, 200_001, 4_000):
            store.append([steps_of_size(first, 4_000)])
        # Some 15,000 pages were written: the log began anew several times.
        assert log.stat().st_size < 6_500 * 4_096
        assert path.stat().st_size > 20 * 2**20
    assert not log.exists()


def steps_of_size(first: int, rows: int) -> Batch:
    columns = pb.StepColumns(rows=rows, observation_json=[b'"' + b"x" * 200 + b'"'] * rows)
    return steps_batch(
        pb.PublishRunStepsRequest(run_id=RUN, stream_id=STREAM, first_seq=first, columns=columns)
    )
