"""The journal and its checkpoint on disk."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from small_disk import small_disk_at

from lanekit.errors import InvalidEvent, SpoolInUse, TelemetryError
from lanekit.slow.sending import journal as journal_module
from lanekit.slow.sending.spool import Checkpoint, Spool
from patience import patience


def segments(directory: Path) -> list[str]:
    """The journal's files, without the streams in their names."""
    return sorted(path.name.rpartition("-")[0] for path in directory.glob("journal-*"))


def streams(directory: Path) -> set[str]:
    return {path.stem.rpartition("-")[2] for path in directory.glob("journal-*")}


def read_all(spool: Spool, begin: int = 0) -> bytes:
    parts = []
    while part := spool.journal.read(begin, 1000) if begin < spool.journal.end else b"":
        parts.append(part)
        begin += len(part)
    return b"".join(parts)


@pytest.fixture
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "SEGMENT_BYTES", 100)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of half a MiB."""
    with small_disk_at(tmp_path / "disk", "512k") as disk:
        yield disk


@pytest.mark.usefixtures("small_segments")
def test_a_journal_is_cut_into_segments_between_any_bytes(tmp_path: Path) -> None:
    data = random.Random(1).randbytes(1234)
    with Spool.create(tmp_path / "s", "r") as spool:
        for begin in range(0, len(data), 77):
            spool.journal.append_patiently(data[begin : begin + 77])
        assert read_all(spool) == data
        names = segments(spool.directory)
        assert names[:2] == ["journal-0000000000000000", "journal-0000000000000100"]
        assert len(names) == 13
        assert streams(spool.directory) == {spool.journal.own_stream}
    with Spool.open(tmp_path / "s") as spool:
        assert read_all(spool) == data
        spool.journal.append_patiently(b"more")
        assert read_all(spool, 1200) == data[1200:] + b"more"


@pytest.mark.usefixtures("small_segments")
def test_segments_behind_the_checkpoint_are_deleted(tmp_path: Path) -> None:
    with Spool.create(tmp_path / "s", "r") as spool:
        spool.journal.append_patiently(b"x" * 350)
        spool.save(Checkpoint(offset=199))
        assert segments(spool.directory)[0] == "journal-0000000000000100"
        spool.save(Checkpoint(offset=200))
        assert segments(spool.directory)[0] == "journal-0000000000000200"
        assert spool.unsent_bytes == 150
        spool.save(Checkpoint(offset=350))
        assert segments(spool.directory) == ["journal-0000000000000300"]
    with Spool.open(tmp_path / "s") as spool:
        assert spool.checkpoint.offset == spool.journal.end == 350
        spool.save(replace(spool.checkpoint, finished=True))
        assert segments(spool.directory) == []
    with Spool.open(tmp_path / "s") as spool:
        assert spool.journal.end == 350
        spool.journal.append_patiently(b"again\n")
        assert read_all(spool, 350) == b"again\n"


@pytest.mark.usefixtures("small_segments")
def test_bytes_move_from_a_pipe_in_one_piece(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    data = random.Random(2).randbytes(1000)
    os.write(writer, data)
    os.close(writer)
    with Spool.create(tmp_path / "s", "r") as spool:
        moved = 0
        while part := spool.journal.splice(reader):
            assert part <= 100
            moved += part
        assert moved == 1000
        assert read_all(spool) == data
    os.close(reader)


def test_a_source_that_can_not_be_spliced_is_read(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"line\n" * 1000)
    with Spool.create(tmp_path / "s", "r") as spool, source.open("rb") as file:
        while spool.journal.splice(file.fileno()):
            pass
        assert read_all(spool) == b"line\n" * 1000


def test_a_second_process_is_told_who_has_the_spool(tmp_path: Path) -> None:
    with Spool.create(tmp_path / "s", "r"):
        with pytest.raises(SpoolInUse, match=f"process {os.getpid()} sends from"):
            Spool.create(tmp_path / "s", "r")
        script = (
            f"from lanekit.slow.sending.spool import Spool; Spool.open({str(tmp_path / 's')!r})"
        )
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
        assert b"SpoolInUse" in done.stderr
    Spool.open(tmp_path / "s").close()


def test_a_forked_child_does_not_hold_the_lock(tmp_path: Path) -> None:
    script = f"""
import os, sys, time
from lanekit.slow.sending.spool import Spool
spool = Spool.create({str(tmp_path / "s")!r}, "r")
if os.fork() == 0:
    time.sleep(5)
    os._exit(0)
print(os.getpid(), flush=True)
os._exit(0)
"""
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    process.wait(patience())
    Spool.open(tmp_path / "s").close()
    process.stdout.close()


def test_a_spool_belongs_to_one_run_and_one_worker(tmp_path: Path) -> None:
    with Spool.create(tmp_path / "s", "r", "w") as spool:
        journal = spool.journal_id
    with Spool.create(tmp_path / "s", "r") as spool:
        assert (spool.journal_id, spool.worker_id) == (journal, "w")
    with pytest.raises(TelemetryError, match="belongs to run 'r', not 'other'"):
        Spool.create(tmp_path / "s", "other")
    with pytest.raises(TelemetryError, match="belongs to worker 'w', not 'v'"):
        Spool.create(tmp_path / "s", "r", "v")
    for bad in ("../x", "a b", "", "x" * 129, "'; DROP TABLE runs"):
        with pytest.raises(InvalidEvent):
            Spool.create(tmp_path / "t", bad)
    assert not (tmp_path / "t").exists()


def test_damage_is_named(tmp_path: Path) -> None:
    with pytest.raises(TelemetryError, match="is no spool"):
        Spool.open(tmp_path)
    with Spool.create(tmp_path / "s", "r") as spool:
        spool.journal.append_patiently(b"x" * 10)
    (segment,) = (tmp_path / "s").glob("journal-*")
    segment.rename(
        segment.with_name(segment.name.replace("-0000000000000000-", "-0000000000000005-"))
    )
    with pytest.raises(TelemetryError, match="bytes from 0 to 5 are missing"):
        Spool.open(tmp_path / "s")
    (tmp_path / "s" / "checkpoint.json").write_text("{")
    with pytest.raises(TelemetryError, match=r"checkpoint.json can not be read"):
        Spool.open(tmp_path / "s")
    (tmp_path / "s" / "stream.json").write_text("{}")
    with pytest.raises(TelemetryError, match="must name run_id"):
        Spool.open(tmp_path / "s")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("checkpoint.json", "[]", "Remove it"),
        ("checkpoint.json", '{"offset": 3}', "Remove it"),
        ("checkpoint.json", "\0" * 512, "Remove it"),
        ("checkpoint.json", json.dumps({**asdict(Checkpoint()), "offset": "3"}), "Remove it"),
        ("checkpoint.json", json.dumps({**asdict(Checkpoint()), "next_seq": {}}), "Remove it"),
        ("stream.json", '{"run_id": "r", "journal_id": "s", "worker_id": 7}', "Put it back"),
        ("stream.json", "\xff", "Put it back"),
        ("journal-12.jsonl", "", "move it away"),
        ("journal-abcdefghijklmnop.jsonl", "", "move it away"),
        (f"journal-0000000000000000-{'0' * 32} (copy).jsonl", "", "move it away"),
    ],
)
def test_a_damaged_file_is_named_with_what_to_do(
    tmp_path: Path, name: str, content: str, said: str
) -> None:
    with Spool.create(tmp_path / "s", "r") as spool:
        spool.journal.append_patiently(b"x" * 10)
    (tmp_path / "s" / name).write_text(content, encoding="latin-1")
    with pytest.raises(TelemetryError, match=rf"{re.escape(name)}(.|\n)*{said}"):
        Spool.open(tmp_path / "s")
    with pytest.raises(TelemetryError, match=said):
        Spool.create(tmp_path / "s", "r")


def test_a_place_that_can_be_no_spool_is_refused(tmp_path: Path) -> None:
    (tmp_path / "s" / "lock").mkdir(parents=True)
    with pytest.raises(TelemetryError, match=r"lock can not be opened: Is a directory"):
        Spool.create(tmp_path / "s", "r")
    (tmp_path / "file").touch()
    with pytest.raises(TelemetryError, match="can not be made"):
        Spool.create(tmp_path / "file" / "s", "r")


def test_the_checkpoint_is_one_sector_of_json(tmp_path: Path) -> None:
    numbers = dict.fromkeys(("steps", "episodes", "events"), 2**40)
    before = {"stream_id": "e" * 32, **numbers}
    names = ("f" * 32, "a" * 32)
    big = Checkpoint(2**62, numbers, 2**62, 2**62, 2**62, True, *names, 2**62, before)
    with Spool.create(tmp_path / "s", "r") as spool:
        spool.save(big)
    file = tmp_path / "s" / "checkpoint.json"
    assert file.stat().st_size == 512
    assert json.loads(file.read_text())["finished"] is True
    with Spool.open(tmp_path / "s") as spool:
        assert spool.checkpoint == big


def test_a_journal_behind_its_checkpoint_begins_anew(tmp_path: Path) -> None:
    # After a power cut the disk may have forgotten bytes that were sent and acknowledged.
    with Spool.create(tmp_path / "s", "r") as spool:
        spool.journal.append_patiently(b"x" * 100)
        spool.save(Checkpoint(offset=100))
    (segment,) = (tmp_path / "s").glob("journal-*")
    os.truncate(segment, 60)
    with Spool.open(tmp_path / "s") as spool:
        assert spool.journal.end == 100
        (kept,) = spool.journal.set_aside
        assert kept.name == f"{segment.name}.damaged"
        assert kept.read_bytes() == b"x" * 60
        spool.journal.append_patiently(b"new")
        assert read_all(spool, 100) == b"new"


def test_the_rest_of_a_journal_can_be_sent_as_a_new_stream(tmp_path: Path) -> None:
    numbers = {"steps": 9, "episodes": 2, "events": 1}
    with Spool.create(tmp_path / "s", "r", "w") as spool:
        spool.journal.append_patiently(b"x" * 100)
        old = spool.journal.own_stream
        spool.save(Checkpoint(60, numbers, 5, 6, 7, stream_id=old))
    with Spool.open(tmp_path / "s", new_stream=True) as spool:
        new = spool.checkpoint.published_id
        assert new != old
    with Spool.open(tmp_path / "s") as spool:
        assert (spool.run_id, spool.worker_id) == ("r", "w")
        expected = Checkpoint(60, dict.fromkeys(numbers, 1), 5, 6, 0, False, old, new, 7)
        assert spool.checkpoint == expected
        assert spool.unsent_bytes == 40


def test_everybody_who_adds_to_a_journal_begins_a_stream_of_its_own(tmp_path: Path) -> None:
    with Spool.create(tmp_path / "s", "r") as spool:
        spool.journal.append_patiently(b"one\n")
        first = spool.journal.own_stream
    shutil.copytree(tmp_path / "s", tmp_path / "copy")
    owners = []
    for place in ("s", "copy", "s"):
        with Spool.open(tmp_path / place) as spool:
            assert spool.checkpoint.stream_id == first
            spool.journal.append_patiently(b"more\n")
            owners.append(spool.journal.own_stream)
    assert len({first, *owners}) == 4
    assert streams(tmp_path / "s") == {first, owners[0], owners[2]}
    with Spool.open(tmp_path / "s") as spool:
        assert read_all(spool) == b"one\nmore\nmore\n"
        journal = spool.journal
        assert journal.stream_end(first, 0) == 4
        assert journal.stream_after(first, 4) == owners[0]
        assert journal.stream_end(owners[2], 9) is None


@pytest.mark.parametrize(
    ("tail", "line_end"), [(b"", b""), (b"print", b"\n"), (b'{"event":"x"}', b"\x18\n")]
)
def test_a_line_that_somebody_else_began_never_becomes_whole_by_itself(
    tmp_path: Path, tail: bytes, line_end: bytes
) -> None:
    # The rest may be in another copy of the journal, and then the event is in the store already.
    with Spool.create(tmp_path / "s", "r") as spool:
        spool.journal.append_patiently(b"line\n" + tail)
        assert spool.journal.line_end() == (b"\n" if tail else b"")
    with Spool.open(tmp_path / "s") as spool:
        spool.go_on()
        assert read_all(spool) == b"line\n" + tail + line_end


def test_a_durable_spool_is_on_disk_with_its_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = []
    real = os.fsync

    def fsync(file: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{file}"))
        real(file)

    monkeypatch.setattr(os, "fsync", fsync)
    place = (tmp_path / "s").resolve()
    with Spool.create(place, "r") as spool:
        assert synced == []
        spool.keep_durable()
        assert set(synced) == {str(place / "stream.json"), str(place), str(place.parent)}
        synced.clear()
        spool.journal.append_patiently(b"x")
        spool.journal.append_patiently(b"y")
        assert synced == [str(place)]  # the journal's new file has its name
        assert spool.journal.readable == 0
        spool.journal.sync()
        assert spool.journal.readable == 2


@pytest.mark.usefixtures("small_segments")
def test_the_last_line_is_written_once_however_often(tmp_path: Path) -> None:
    with Spool.create(tmp_path / "s", "r") as spool:
        spool.journal.append_patiently(b"a" * 95 + b"\n")
        for _ in range(3):
            spool.journal.overwrite_tail(96, b"the last line\n")
        assert read_all(spool) == b"a" * 95 + b"\nthe last line\n"
        assert spool.journal.last_byte() == b"\n"


def test_a_full_disk_takes_what_fits_and_the_checkpoint_all_the_same(small_disk: Path) -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    os.set_blocking(reader, False)
    source = random.Random(3)
    sent = bytearray()
    with Spool.create(small_disk / "s", "r") as spool:
        stuck = 0
        while stuck < 3:
            data = source.randbytes(4096)
            with contextlib.suppress(BlockingIOError):
                sent += data[: os.write(writer, data)]
            try:
                spool.journal.splice(reader)
            except BlockingIOError:
                pass
            except OSError:
                stuck += 1
        assert 2**17 < spool.journal.end < 2**19
        (small_disk / "filler").write_bytes(b"")
        # Acknowledged bytes leave the disk, and that needs no free space.
        end = spool.journal.end
        assert read_all(spool) == sent[:end]
        spool.save(Checkpoint(offset=end))
        while True:
            try:
                spool.journal.splice(reader)
            except BlockingIOError:
                break
        assert read_all(spool, end) == sent[end:]
    os.close(reader)
    os.close(writer)
