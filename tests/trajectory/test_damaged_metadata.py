"""Metadata that no producer of ours can have put: an error of lanekit's, and nothing else."""

from __future__ import annotations

import gzip
import json
import mmap
import random
import socket
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest

import lanekit
from lanekit import TrajectoryReader, TrajectoryRecord, TrajectoryWriter
from lanekit.segments import segment_name, segment_path
from lanekit.trajectory import atropos_transport
from lanekit.trajectory.atropos import ATROPOS_SCHEMA, ScoredGroup, encode_group
from lanekit.trajectory.atropos_transport import ScoredDataGateway
from lanekit.trajectory.landing import Landing
from lanekit.trajectory.metadata import NESTING_MOST, decode_metadata, encode_metadata
from patience import patience

SMALL = {"tokens": "int32[:]", "score": "float32"}

DAMAGED = {
    "no UTF-8": b"\xff\xfe{}",
    "cut UTF-8": b'"\xc3',
    "no JSON": b"{not json}",
    "nothing": b"",
    "lists without end": b"[" * 100_000,
    "objects without end": b'{"a":' * 100_000,
    "lists far too deep": b"[" * 100_000 + b"]" * 100_000,
    "lists too deep": b"[" * (NESTING_MOST + 1) + b"]" * (NESTING_MOST + 1),
    "a number without end": b"1" * 100_000,
}


@pytest.fixture(params=[1_000, 1_000_000], ids=["usual stack", "deep stack"])
def recursion_limit(request: pytest.FixtureRequest) -> Iterator[None]:
    """Programs raise the limit, and then Python's parser would run into the end of the stack."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, request.param))
    yield
    sys.setrecursionlimit(before)


def damaged_record(lane: str, reader: TrajectoryReader, content: bytes) -> TrajectoryRecord:
    """A record whose metadata, in the segment itself, was replaced by these bytes."""
    with TrajectoryWriter.attach(lane) as writer:
        marker = "m" * max(0, len(content) - 2)
        writer.put({"tokens": [1, 2, 3], "score": 1.0}, marker)
    with (
        segment_path(segment_name("traj", lane)).open("r+b") as file,
        mmap.mmap(file.fileno(), 0) as memory,
    ):
        place = memory.find(encode_metadata(marker))
        assert place > 0
        memory[place + 1 : place + 1 + len(content)] = content
    record = reader.get(timeout=patience())
    assert record is not None
    return record


@pytest.mark.parametrize("kind", [kind for kind in DAMAGED if len(DAMAGED[kind]) > 1])
@pytest.mark.usefixtures("recursion_limit")
def test_damaged_metadata_is_a_corrupt_record_whose_arrays_can_be_used(
    lane: str, kind: str
) -> None:
    with TrajectoryReader.create(lane, SMALL, producers=1, ring_bytes=1 << 21) as reader:
        record = damaged_record(lane, reader, DAMAGED[kind])
        with pytest.raises(lanekit.SegmentCorrupt, match="metadata"):
            record.meta  # noqa: B018
        assert record["tokens"].tolist() == [1, 2, 3]
        record.release()
        with TrajectoryWriter.attach(lane) as writer:
            writer.put({"tokens": [4], "score": 1.0}, {"fine": True})
        after = reader.get(timeout=patience())
        assert after is not None
        assert after.meta == {"fine": True}


@pytest.mark.parametrize("kind", DAMAGED)
@pytest.mark.usefixtures("recursion_limit")
def test_no_bytes_raise_anything_else(kind: str) -> None:
    with pytest.raises(lanekit.SegmentCorrupt):
        decode_metadata(b"j" + DAMAGED[kind])


def test_random_bytes_are_read_or_are_a_corrupt_record() -> None:
    noise = random.Random(3)
    good = encode_metadata({"text": "ä\n[[", "nested": [[1, 2.5, None], {"k": '\\"'}]})
    for _ in range(20_000):
        data = bytearray(good)
        for _ in range(noise.randint(1, 4)):
            data[noise.randrange(1, len(data))] = noise.randrange(256)
        try:
            decode_metadata(bytes(data))
        except lanekit.SegmentCorrupt:
            continue


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


def test_what_may_be_put_comes_back_and_the_rest_is_refused_when_it_is_put() -> None:
    deepest = nested(NESTING_MOST)
    assert decode_metadata(encode_metadata(deepest)) == deepest
    wide = {"text": '[[[[{{{{"\\' * 1000, "rows": [[i] for i in range(5000)]}
    assert decode_metadata(encode_metadata(wide)) == wide
    for depth in (NESTING_MOST + 1, 50_000):
        with pytest.raises(TypeError, match="JSON"):
            encode_metadata(nested(depth))


def test_a_landing_refuses_damaged_metadata_and_goes_on(lane: str, tmp_path: Path) -> None:
    with TrajectoryReader.create(lane, SMALL, producers=2) as reader:
        with Landing(lane, tmp_path / "book") as landing:
            admitted = landing.admit("elsewhere")
            arrays = {"tokens": np.array([7], np.int32), "score": np.array(1.0, np.float32)}

            def deliver(content: bytes) -> int:
                return landing.deliver(
                    admitted.lane, "elsewhere", admitted.epoch, 1, [(arrays, content)], patience=60
                )

            with pytest.raises(lanekit.SegmentCorrupt, match="metadata"):
                deliver(b"j" + DAMAGED["lists without end"])
            assert deliver(encode_metadata({"n": 1})) == 1
            record = reader.get(timeout=patience())
            assert record is not None
            assert record.meta == {"n": 1}


@pytest.mark.parametrize(
    "rest",
    [
        *DAMAGED.values(),
        b"[1]",
        b'{"\\u0000array":["<f4",[2],"AAAA"]}',
        b'{"\\u0000array":["<nonsense",[1],"AAAA"]}',
        b'{"\\u0000array":["O",[1],"AAAAAAAAAAA="]}',
        b'{"\\u0000array":[1]}',
        b'{"\\u0000bytes":"?"}',
        b'{"\\u0000bytes":7}',
        b'{"\\u0000lengths":[1]}',
        b'{"\\u0000lengths":{"tokens":"12"}}',
    ],
)
def test_a_record_that_holds_no_group_is_a_corrupt_record(lane: str, rest: bytes) -> None:
    with (
        TrajectoryReader.create(lane, ATROPOS_SCHEMA, producers=1, ring_bytes=1 << 21) as reader,
        TrajectoryWriter.attach(lane, schema=ATROPOS_SCHEMA) as writer,
    ):
        writer.put({}, rest)
        record = reader.get(timeout=patience())
        assert record is not None
        if not rest:
            assert ScoredGroup.of(record).size == 0
            return
        with pytest.raises(lanekit.SegmentCorrupt, match="group"):
            ScoredGroup.of(record)


def test_a_group_that_is_nested_too_deeply_is_refused_when_it_is_encoded() -> None:
    for depth in (NESTING_MOST + 1, 50_000):
        with pytest.raises(ValueError, match="nested"):
            encode_group({"tokens": [[1]], "messages": nested(depth)})


def post(url: str, body: bytes, **headers: str) -> int:
    request = urllib.request.Request(
        url, body, {k.replace("_", "-"): v for k, v in headers.items()}
    )
    try:
        with urllib.request.urlopen(request, timeout=patience()) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def test_the_gateway_answers_damaged_bodies(
    lane: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(atropos_transport, "_BODY_MOST", 1 << 20)
    with (
        TrajectoryReader.create(lane, ATROPOS_SCHEMA, producers=1, ring_bytes=1 << 18),
        ScoredDataGateway(lane, timeout=0.05) as gateway,
    ):
        url = f"{gateway.url}/scored_data"
        for content in DAMAGED.values():
            if content:
                assert post(url, content) == 422
        bomb = gzip.compress(b"[" + b" " * (1 << 24) + b"]")
        packed = gzip.compress(json.dumps({"tokens": [[1]]}).encode())
        assert post(url, bomb, Content_Encoding="gzip") == 422
        assert post(url, b"\x1f\x8b\x08garbage", Content_Encoding="gzip") == 422
        spoilt = packed[:12] + bytes(len(packed) - 12)
        assert post(url, spoilt, Content_Encoding="gzip") == 422
        place = urlsplit(gateway.url)
        for length in (b"-1", b"seven", b"9" * 30):
            with socket.create_connection(
                (place.hostname, place.port), timeout=patience()
            ) as client:
                client.sendall(b"POST /scored_data HTTP/1.0\r\nContent-Length: %s\r\n\r\n" % length)
                assert b" 400 " in client.makefile("rb").readline()
        assert post(url, packed, Content_Encoding="gzip") == 200
    assert "Traceback" not in capfd.readouterr().err
