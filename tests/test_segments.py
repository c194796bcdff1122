"""Names, inspection and reclaiming of segments."""

from __future__ import annotations

import fcntl
import hashlib
import os
import struct
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lanekit
from lanekit import (
    FastLaneConfig,
    FastLaneReader,
    FastLaneWriter,
    _core,
    create_fastlane_name,
    inspect_segment,
    reclaim_segment,
    segment_name,
)
from lanekit.segments import scan_segments, segment_path

CONFIG = FastLaneConfig(width=8, height=4, capacity=4)


def test_every_status_says_its_own_name() -> None:
    names = [name for name in dir(_core.lib) if name.startswith("LK_E_") or name == "LK_OK"]
    said = [_core.ffi.string(_core.lib.lk_status_name(getattr(_core.lib, n))) for n in names]
    assert len(names) > 25
    assert [name.decode() for name in said] == names


@given(st.text(min_size=1))
def test_a_name_is_readable_short_and_computable_from_the_run_id(run_id: str) -> None:
    name = segment_name("frame", run_id)
    encoded = run_id.encode("utf-8", "surrogatepass")
    prefix, kind, *slug, digest = name.split("-")
    assert (prefix, kind) == ("lanekit", "frame")
    assert digest == hashlib.sha256(encoded).hexdigest()[:16]
    assert len(name) <= 100
    assert name.isascii()
    assert "/" not in name
    assert "".join(slug)
    assert create_fastlane_name(run_id) == name


def test_ids_that_share_a_slug_do_not_share_a_name() -> None:
    ids = ["a/b", "a-b", "a b", "a--b", "a\u2013b", "-a-b-", "a\nb"]
    names = {segment_name("frame", run_id) for run_id in ids}
    assert len(names) == len(ids)
    assert {name.rsplit("-", 1)[0] for name in names} == {"lanekit-frame-a-b"}


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="known: frame"):
        segment_name("video", "x")  # type: ignore[arg-type]


def test_inspection_tells_who_owns_what(run_id: str) -> None:
    import os

    with FastLaneWriter.create(run_id, CONFIG) as writer:
        info = inspect_segment(writer.name)
        assert (info.kind, info.run_id, info.size) == ("frame", run_id, CONFIG.segment_size)
        assert (info.owner_pid, info.owner, info.invalidated) == (os.getpid(), "alive", False)
        assert not info.orphan
        assert info in list(scan_segments())
        writer.close()
        assert inspect_segment(writer.name).orphan
    with pytest.raises(lanekit.SegmentNotFound):
        inspect_segment(writer.name)


@pytest.mark.parametrize("name", ["../etc/passwd", "a/b", "x" * 500, ""])
def test_names_that_lead_elsewhere_are_refused(name: str) -> None:
    with pytest.raises(lanekit.LanekitError):
        inspect_segment(name)
    with pytest.raises(ValueError, match="not the name of a lanekit segment"):
        reclaim_segment(name, force=True)


def test_a_live_owners_segment_is_reclaimed_only_by_force_and_the_writer_learns(
    run_id: str,
) -> None:
    with FastLaneWriter.create(run_id, CONFIG) as writer:
        with FastLaneReader.attach(run_id) as reader:
            with pytest.raises(lanekit.SegmentExists):
                reclaim_segment(writer.name)
            reclaim_segment(writer.name, force=True)
            assert not segment_path(writer.name).exists()
            assert not reader.connected
            with pytest.raises(lanekit.SegmentInvalidated):
                writer.publish(bytes(96))


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"", lanekit.SegmentNotReady),
        (b"x" * 100, lanekit.SegmentTruncated),
        (bytes(8192), lanekit.SegmentNotReady),
        (b"x" * 8192, lanekit.WrongSegmentKind),
    ],
    ids=["empty", "short", "zeros", "garbage"],
)
def test_a_file_that_is_no_segment_is_refused_for_its_own_reason(
    run_id: str, content: bytes, error: type[Exception]
) -> None:
    path = segment_path(segment_name("frame", run_id))
    path.write_bytes(content)
    with pytest.raises(error):
        FastLaneReader.attach(run_id)
    path.unlink()


def test_a_half_created_segment_is_taken_over(run_id: str) -> None:
    """Its creator died before the ready word; alive, it would hold the file's lock."""
    for content in (b"", bytes(4096), b"x" * 100):
        segment_path(segment_name("frame", run_id)).write_bytes(content)
        with FastLaneWriter.create(run_id, CONFIG) as writer:
            assert writer.publish(bytes(96)) == 1


def test_a_segment_under_construction_is_left_alone(run_id: str) -> None:
    path = segment_path(segment_name("frame", run_id))
    with path.open("w") as file:
        lock = struct.pack("@hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, lock)
        with pytest.raises(lanekit.SegmentNotReady):
            reclaim_segment(path.name)
        with pytest.raises(lanekit.SegmentNotReady):
            FastLaneWriter.create(run_id, CONFIG)
    path.unlink()


def test_importing_lanekit_stays_light() -> None:
    code = """
import sys
before = set(sys.modules)
import lanekit
heavy = {"PyQt6", "grpc", "torch", "multiprocessing", "asyncio", "gymnasium", "mujoco"}
print(sorted(heavy & {name.split(".")[0] for name in set(sys.modules) - before}))
"""
    command: list[Any] = [sys.executable, "-c", code]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "[]\n"
