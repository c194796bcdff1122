"""Reading a journal: the same numbers, log and rejects however it is cut, wherever one begins."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from recording_daemon import step_line

from lanekit.slow.batches import rows_to_steps
from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.sending import journal as journal_module
from lanekit.slow.sending import journal_reader, lines
from lanekit.slow.sending.journal_reader import JournalReader
from lanekit.slow.sending.spool import Checkpoint, Spool

LIMIT = 400
JOURNAL = b"".join(
    [
        step_line(0),
        b"a print\r\n\n\x00\xff\n",
        step_line(1, observation="y" * 300),  # too long
        b"p" * (LIMIT + 50) + b"\n",
        step_line(2, extra=1) + step_line(3),
        b'{"event_type":"step","cut',
        b"\n",
        b'{"event":"x"}\n{"event_type":"episode","episode_index":3,"time_ns":1}\n',
        b'{"event":"' + b"q" * (LIMIT + 1) + b'"}\n',
        step_line(4),
        b"\r\n",
    ]
)


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", LIMIT)
    monkeypatch.setattr(journal_reader, "MAX_LINE_BYTES", LIMIT)
    monkeypatch.setattr(journal_module, "SEGMENT_BYTES", 333)


def read_all(reader: JournalReader) -> tuple[dict[str, list[Any]], list[Checkpoint]]:
    """Return the rows of each kind with their numbers, and every position on the way."""
    rows: dict[str, list[Any]] = {"steps": [], "episodes": [], "events": []}
    positions = [reader.position]
    while reader.unread:
        for request in reader.read():
            found: list[Any]
            if request.kind == "steps":
                steps = pb.PublishRunStepsRequest.FromString(request.data)
                found, first = rows_to_steps(steps.columns, "r"), steps.first_seq
            elif request.kind == "episodes":
                episodes = pb.PublishRunEpisodesRequest.FromString(request.data)
                found, first = list(episodes.episodes), episodes.first_seq
            else:
                events = pb.PublishRunEventsRequest.FromString(request.data)
                found, first = list(events.events), events.first_seq
                for event in found:
                    event.wall_time_ns = 0  # stamped where it is read
            assert (request.first_seq, request.last_seq) == (first, first + len(found) - 1)
            rows[request.kind] += [(first + i, row) for i, row in enumerate(found)]
        if reader.position is not positions[-1]:
            positions.append(reader.position)
    return rows, positions


def aside(spool: Spool) -> tuple[bytes, bytes]:
    log = (spool.directory / "worker.log").read_bytes()
    return log, (spool.directory / "rejects.jsonl").read_bytes()


def whole(directory: Path) -> tuple[dict[str, list[Any]], tuple[bytes, bytes]]:
    with Spool.create(directory, "r") as spool:
        spool.journal.append_patiently(JOURNAL)
        reader = JournalReader(spool)
        rows, _ = read_all(reader)
        reader.close()
        return rows, aside(spool)


def test_the_journal_holds_what_it_should(tmp_path: Path) -> None:
    rows, (log, rejects) = whole(tmp_path / "s")
    assert [json.loads(step.action_json) for _, step in rows["steps"]] == [0, 2, 3, 4]
    assert [number for number, _ in rows["steps"]] == [1, 2, 3, 4]
    assert log == b"a print\r\n\n\x00\xff\n" + b"p" * (LIMIT + 50) + b"\n\r\n"
    assert len(rejects.splitlines()) == 3


@pytest.mark.parametrize("size", [*range(1, 12), 50, 97, 350, 401, 1000])
def test_any_size_of_pieces_gives_the_same(
    tmp_path: Path, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = whole(tmp_path / "whole")
    monkeypatch.setattr(journal_reader, "READ_BYTES", size)
    assert whole(tmp_path / "pieces") == expected


@pytest.mark.parametrize("size", [5, 64, 500])
def test_beginning_again_at_any_checkpoint_gives_the_same(
    tmp_path: Path, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected_rows, expected_aside = whole(tmp_path / "whole")
    monkeypatch.setattr(journal_reader, "READ_BYTES", size)
    with Spool.create(tmp_path / "s", "r") as spool:
        spool.journal.append_patiently(JOURNAL)
        reader = JournalReader(spool)
        _, positions = read_all(reader)
        reader.close()
        assert positions[-1].offset == len(JOURNAL)
        for position in positions:
            spool.checkpoint = position
            again = JournalReader(spool)
            rows, later = read_all(again)
            again.close()
            assert later[-1] == positions[-1]
            for kind, found in rows.items():
                assert found == expected_rows[kind][position.next_seq[kind] - 1 :]
            assert aside(spool) == expected_aside


def test_the_end_of_the_journal_moves_while_it_is_read(tmp_path: Path) -> None:
    expected_rows, expected_aside = whole(tmp_path / "whole")
    with Spool.create(tmp_path / "s", "r") as spool:
        reader = JournalReader(spool)
        rows: dict[str, list[Any]] = {"steps": [], "episodes": [], "events": []}
        for at in range(len(JOURNAL)):
            spool.journal.append_patiently(JOURNAL[at : at + 1])
            for kind, found in read_all(reader)[0].items():
                rows[kind] += found
        reader.close()
        assert (rows, aside(spool)) == (expected_rows, expected_aside)
