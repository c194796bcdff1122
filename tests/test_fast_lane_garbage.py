"""Whatever else may lie under a frame lane's name: refused for the right reason, never a crash.

The roles at the end of this file run in processes of their own; see spoilt_lanes.py.
"""

from __future__ import annotations

import json
import os
import resource
import struct
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import lanekit
from lanekit.segments import scan_segments
from spoilt_frame_lane import CONFIG, image_of_a_dead_writer, path_of, publish
from spoilt_lanes import Notebook, run


@pytest.fixture
def run_id(spoilt_run_id: str) -> str:
    return spoilt_run_id


def header_with(image: bytes, offset: int, layout: str, value: int) -> bytes:
    changed = bytearray(image)
    struct.pack_into(layout, changed, offset, value)
    return bytes(changed)


GARBAGE: dict[str, tuple[Callable[[bytes], bytes], type[lanekit.LanekitError]]] = {
    "an empty file": (lambda _: b"", lanekit.SegmentNotReady),
    "1 byte": (lambda _: b"x", lanekit.SegmentTruncated),
    "100 bytes": (lambda _: os.urandom(100), lanekit.SegmentTruncated),
    "4095 bytes": (lambda _: os.urandom(4095), lanekit.SegmentTruncated),
    "a page of zeros": (lambda _: bytes(4096), lanekit.SegmentNotReady),
    "a page of noise": (lambda _: os.urandom(4096), lanekit.WrongSegmentKind),
    "a MiB of noise": (lambda _: os.urandom(1 << 20), lanekit.WrongSegmentKind),
    "a segment not ready": (
        lambda image: header_with(image, 64, "<I", 0),
        lanekit.SegmentNotReady,
    ),
    "another magic": (
        lambda image: header_with(image, 0, "<I", 0x4C41424C),
        lanekit.WrongSegmentKind,
    ),
    "another major version": (
        lambda image: header_with(image, 4, "<H", 3),
        lanekit.WrongSegmentVersion,
    ),
    "half a segment": (lambda image: image[: len(image) // 2], lanekit.SegmentTruncated),
    "all but the last byte": (lambda image: image[:-1], lanekit.SegmentTruncated),
    "a header alone": (lambda image: image[:4096], lanekit.SegmentTruncated),
    "no width": (lambda image: header_with(image, 512, "<I", 0), lanekit.BadSegmentGeometry),
    "a width of 2**32-1": (
        lambda image: header_with(image, 512, "<I", 2**32 - 1),
        lanekit.BadSegmentGeometry,
    ),
    "a capacity of 2**32-1": (
        lambda image: header_with(image, 528, "<I", 2**32 - 1),
        lanekit.BadSegmentGeometry,
    ),
    "slots beyond the end": (
        lambda image: header_with(image, 552, "<Q", 2**63),
        lanekit.BadSegmentGeometry,
    ),
}


@pytest.fixture(scope="module")
def dead_run() -> Iterator[tuple[str, bytes]]:
    """A run whose writer died, and what it left; an image made once serves many tests."""
    run_id = f"corruption-{uuid.uuid4().hex}"
    yield run_id, image_of_a_dead_writer(run_id)
    Path(path_of(run_id)).unlink(missing_ok=True)


@pytest.mark.parametrize("what", GARBAGE)
def test_garbage_under_the_name_is_refused_for_the_right_reason(
    dead_run: tuple[str, bytes], what: str
) -> None:
    make, reason = GARBAGE[what]
    run_id, image = dead_run
    name = lanekit.segment_name("frame", run_id)
    Path(path_of(run_id)).write_bytes(make(image))  # replaces what a failed test left
    with pytest.raises(reason, match=name) as refusal:
        lanekit.FastLaneReader.attach(run_id)
    assert type(refusal.value) is reason
    if reason is not lanekit.BadSegmentGeometry:  # which only those who read frames look at
        with pytest.raises(reason, match=name):
            lanekit.inspect_segment(name)
    if reason is lanekit.WrongSegmentKind:  # nobody knows whose it is
        with pytest.raises(lanekit.WrongSegmentKind, match=name):
            lanekit.FastLaneWriter.create(run_id, CONFIG)
        lanekit.reclaim_segment(name, force=True)
    else:
        with lanekit.FastLaneWriter.create(run_id, CONFIG) as writer:
            publish(writer, 1)
    assert not os.path.exists(path_of(run_id))


@pytest.mark.parametrize("what", ["a pipe", "a directory", "a symbolic link", "a dead link"])
def test_something_that_is_no_file_under_the_name_is_refused(
    run_id: str, what: str, tmp_path: Path, note: Path
) -> None:
    path = Path(path_of(run_id))
    target = tmp_path / "target"
    if what == "a pipe":
        os.mkfifo(path)
    elif what == "a directory":
        path.mkdir()
    else:
        path.symlink_to(target)
    if what == "a symbolic link":
        target.write_bytes(image_of_a_dead_writer(f"{run_id}-other"))
    found = run(use_what_is_no_file, run_id, note=note, seconds=20)
    for action in ("attach", "create", "inspect", "reclaim"):
        assert found[action] != "worked", f"{action} took {what} for a segment"
    if what == "a symbolic link":
        assert target.exists()


def test_reclaim_leaves_the_shared_memory_of_other_programs_alone() -> None:
    other = Path(f"/dev/shm/not-ours-{uuid.uuid4().hex}")
    for content in (b"", b"a semaphore, say", bytes(8192)):
        other.write_bytes(content)
        try:
            with pytest.raises((lanekit.LanekitError, ValueError)):
                lanekit.reclaim_segment(other.name)
            assert other.exists()
        finally:
            other.unlink(missing_ok=True)


def test_a_file_that_somebody_keeps_locked_is_not_blamed_on_process_0(run_id: str) -> None:
    script = (
        "import fcntl, struct, sys; f = open(sys.argv[1], 'w'); fcntl.fcntl(f, fcntl.F_OFD_SETLK, "
        "struct.pack('@hhqqi4x', fcntl.F_WRLCK, 0, 0, 1, 0)); print(1, flush=True)"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", f"{script}; sys.stdin.read()", path_of(run_id)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        with pytest.raises(lanekit.SegmentError) as refusal:
            lanekit.FastLaneWriter.create(run_id, CONFIG)
        holder.communicate()
    assert "process 0 " not in str(refusal.value)


def test_scanning_passes_over_garbage(dead_run: tuple[str, bytes]) -> None:
    names = []
    run_id, image = dead_run
    try:
        for number, (make, _) in enumerate(GARBAGE.values()):
            names.append(f"lanekit-frame-{run_id}-{number}")
            Path(f"/dev/shm/{names[-1]}").write_bytes(make(image))
        listed = {found[0] if isinstance(found, tuple) else found.name for found in scan_segments()}
        assert listed >= set(names)
    finally:
        for name in names:
            os.unlink(f"/dev/shm/{name}")


def test_a_huge_sparse_segment_costs_no_memory(run_id: str, note: Path) -> None:
    found = run(attach_to_a_huge_segment, run_id, note=note)
    assert found["size"] > 1 << 40
    assert found["frames"] == [None, 1]
    assert found["resident_growth"] < 64 << 20
    assert found["shared_memory_used"] < 16 << 20


# --- roles ----------------------------------------------------------------------------------------


def use_what_is_no_file(run_id: str, note: str) -> None:
    name = lanekit.segment_name("frame", run_id)
    actions: dict[str, Callable[[], Any]] = {
        "attach": lambda: lanekit.FastLaneReader.attach(run_id),
        "create": lambda: lanekit.FastLaneWriter.create(run_id, CONFIG),
        "reclaim": lambda: lanekit.reclaim_segment(name),
        "inspect": lambda: lanekit.inspect_segment(name),
    }
    found = {}
    for action, do in actions.items():
        Notebook(note).write(action)
        try:
            do()
            found[action] = "worked"
        except lanekit.LanekitError as error:
            found[action] = type(error).__name__
    print(json.dumps(found))


def attach_to_a_huge_segment(run_id: str, note: str) -> None:
    header = bytearray(image_of_a_dead_writer(run_id)[:4096])
    huge = lanekit.FastLaneConfig(1024, 1024, 1, "GRAY", capacity=1 << 20)
    payload, stride = 1024 * 1024, (huge.segment_size - 4096) >> 20
    struct.pack_into("<Q", header, 16, huge.segment_size)
    struct.pack_into("<6I", header, 512, 1024, 1024, 1, 4, 1 << 20, 0)
    struct.pack_into("<4Q", header, 536, payload, stride, 4096, 64 + payload)
    struct.pack_into("<Q", header, 576, 0)
    path = path_of(run_id)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    frames: list[int | None] = []
    with open(path, "w+b") as file:
        file.write(header)
        file.truncate(huge.segment_size)
    for head in (0, 1):
        with open(path, "r+b") as file:
            os.pwrite(file.fileno(), struct.pack("<Q", head), 576)
            os.pwrite(file.fileno(), struct.pack("<Q", 2 * head), 4096)
            os.pwrite(file.fileno(), struct.pack("<Q", 2**64 - 1), 4096 + 40)
        with lanekit.FastLaneReader.attach(run_id) as reader:
            frame = reader.latest_frame()
            frames.append(None if frame is None else frame.seq)
            reader.wait(0)
    found = {
        "size": os.stat(path).st_size,
        "frames": frames,
        "resident_growth": 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before),
        "shared_memory_used": 512 * os.stat(path).st_blocks,
    }
    with lanekit.FastLaneWriter.create(run_id, CONFIG):
        pass
    print(json.dumps(found))


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
