"""Headers overwritten, files cut, garbage under the name: an error or a true frame, never a crash.

What can not be told from a correct writer's bytes is not expected to be noticed: the values of
metrics, times and pixels carry no checksum. What must hold is that no corruption makes a process
crash, hang, or take a frame that was never published for one that was.

The roles at the end of this file run in processes of their own: `python <this file> ROLE ...`. Each
notes in a file which case it is at, so that a crash names its case.
"""

from __future__ import annotations

import json
import os
import random
import resource
import struct
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lanekit
from lanekit.segments import scan_segments

WIDTH, HEIGHT, CAPACITY, METADATA_SIZE = 120, 100, 4, 100
CONFIG = lanekit.FastLaneConfig(
    WIDTH, HEIGHT, 1, "GRAY", capacity=CAPACITY, metadata_size=METADATA_SIZE
)
STRIDE = (CONFIG.segment_size - 4096) // CAPACITY
PUBLISHED = 6
WATCHDOG = 120

# Every byte that steers something: the header, then each slot's first 64 bytes.
OFFSETS = [
    *range(4096),
    *(4096 + slot * STRIDE + byte for slot in range(CAPACITY) for byte in range(64)),
]
DAMAGES = ("zero", "ones", "xor", "random")

Refusals = tuple[type[lanekit.LanekitError], ...]
# (first byte, one past the last, what attaching must answer if the byte changed; none: it works)
FIELDS: list[tuple[int, int, Refusals]] = [
    (0, 4, (lanekit.WrongSegmentKind,)),
    (4, 6, (lanekit.WrongSegmentVersion,)),
    (8, 12, (lanekit.BadSegmentGeometry,)),
    (16, 24, (lanekit.BadSegmentGeometry, lanekit.SegmentTruncated)),
    (64, 68, (lanekit.WrongSegmentKind,)),
    (128, 132, (lanekit.SegmentNotFound, lanekit.BadSegmentGeometry)),
    (512, 532, (lanekit.BadSegmentGeometry,)),
    (533, 536, (lanekit.BadSegmentGeometry,)),  # byte 532 can change without a contradiction
    (536, 568, (lanekit.BadSegmentGeometry,)),
]


def pixels_of(seq: int) -> np.ndarray:
    words = np.arange(WIDTH * HEIGHT // 8, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return (words + np.uint64(seq)).view(np.uint8).reshape(CONFIG.shape)


def metadata_of(seq: int) -> bytes:
    return seq.to_bytes(4, "little") * (METADATA_SIZE // 4)


def metrics_of(seq: int) -> lanekit.FastLaneMetrics:
    return lanekit.FastLaneMetrics(seq, seq * 2, seq * 3)


def publish(writer: lanekit.FastLaneWriter, seq: int) -> None:
    writer.publish(pixels_of(seq), metrics=metrics_of(seq), metadata=metadata_of(seq))


def path_of(run_id: str) -> str:
    return f"/dev/shm/{lanekit.segment_name('frame', run_id)}"


def image_of_a_dead_writer(run_id: str) -> bytes:
    """Return the bytes of a complete segment whose owner is dead; leaves no file."""
    script = (
        "import os, sys; sys.path.insert(0, os.path.dirname(sys.argv[1]));"
        "import test_fast_lane_corruption as t;"
        "writer = t.lanekit.FastLaneWriter.create(sys.argv[2], t.CONFIG);"
        "[t.publish(writer, seq) for seq in range(1, t.PUBLISHED + 1)];"
        "os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", script, __file__, run_id], timeout=WATCHDOG, check=False)
    path = Path(path_of(run_id))
    image = path.read_bytes()
    path.unlink()
    return image


def run(
    role: Callable[..., None], *arguments: object, note: Path, watchdog: float = WATCHDOG
) -> Any:
    """Run a role to its end; a crash or a hang fails with the case that the role noted last."""
    process = subprocess.Popen(
        [sys.executable, __file__, role.__name__, *map(str, arguments), str(note)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONFAULTHANDLER": "1"},
    )
    try:
        out, err = process.communicate(timeout=watchdog)
    except subprocess.TimeoutExpired:
        process.kill()
        _, err = process.communicate()
        pytest.fail(f"hangs at {note.read_text().strip()}\n{err}")
    case = note.read_text().strip() if note.exists() else "the start"
    assert process.returncode == 0, f"ended with {process.returncode} at {case}:\n{err}"
    return json.loads(out)


@pytest.fixture
def run_id() -> Iterator[str]:
    name = f"corruption-{uuid.uuid4().hex}"
    yield name
    path = Path(path_of(name))
    if path.is_symlink() or path.exists():
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()


@pytest.fixture
def note(tmp_path: Path) -> Path:
    return tmp_path / "note"


@pytest.fixture
def seed() -> int:
    """Differs from run to run; pytest shows it when a test fails."""
    return random.SystemRandom().getrandbits(32)


# --- overwritten bytes ----------------------------------------------------------------------------


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_reader_meets_any_overwritten_byte_with_an_error_or_a_true_frame(
    run_id: str, damage: str, seed: int, note: Path
) -> None:
    found = run(read_overwritten_bytes, run_id, damage, seed, note=note)
    assert found["cases"] == len(OFFSETS)
    assert found["frames"] > len(OFFSETS)  # most bytes are reserved: reading goes on


def test_a_writer_meets_any_overwritten_byte_with_an_error_or_goes_on(
    run_id: str, seed: int, note: Path
) -> None:
    assert run(write_over_overwritten_bytes, run_id, seed, note=note)["cases"] == len(OFFSETS)


def test_create_and_forced_reclaim_cope_with_any_overwritten_byte(
    run_id: str, seed: int, note: Path
) -> None:
    found = run(create_over_overwritten_bytes, run_id, seed, note=note)
    assert found["cases"] == 4096
    assert found["created"] > 3000
    assert not os.path.exists(path_of(run_id))


def test_many_overwritten_bytes_at_once_do_not_crash_a_reader(
    run_id: str, seed: int, note: Path
) -> None:
    assert run(read_random_headers, run_id, seed, note=note)["cases"] == 2000


def test_a_reader_that_came_while_the_head_was_garbage_sees_the_frames_that_follow(
    run_id: str,
) -> None:
    with lanekit.FastLaneWriter.create(run_id, CONFIG) as writer:
        publish(writer, 1)
        with open(path_of(run_id), "r+b") as file:
            file.seek(576)
            file.write(struct.pack("<Q", 1 << 40))
        with lanekit.FastLaneReader.attach(run_id) as reader:
            for seq in (2, 3, 4):  # the writer knows its own count and puts the head right
                publish(writer, seq)
            assert reader.wait(1)
            frame = reader.latest_frame(fresh=True)
            assert frame is not None
            assert frame.seq == 4
            publish(writer, 5)
            frame = reader.next_frame()
            assert frame is not None
            assert frame.seq == 5


def test_a_spoiled_slot_does_not_hide_the_frames_after_it(run_id: str) -> None:
    with (
        lanekit.FastLaneWriter.create(run_id, CONFIG) as writer,
        lanekit.FastLaneReader.attach(run_id) as reader,
    ):
        for seq in (1, 2, 3, 4):
            publish(writer, seq)
        with open(path_of(run_id), "r+b") as file:
            file.seek(4096 + STRIDE)  # frame 2
            file.write(struct.pack("<Q", 77))
        seen = []
        for _ in range(10):
            try:
                frame = reader.next_frame()
            except lanekit.SegmentCorrupt:
                continue
            if frame is not None:
                seen.append(frame.seq)
        assert seen == [1, 3, 4]


# --- what else may lie under the name -------------------------------------------------------------


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
        lambda image: header_with(image, 4, "<H", 2),
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
    found = run(use_what_is_no_file, run_id, note=note, watchdog=20)
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
    script = "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.flock(f, 2); print(1, flush=1)"
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


# --- files cut short ------------------------------------------------------------------------------

CUTS: dict[str, Callable[[int], int]] = {
    "to nothing": lambda size: 0,
    "inside the header": lambda size: 2048,
    "to the header": lambda size: 4096,
    "to half": lambda size: size // 2 // 4096 * 4096,
    "by one byte": lambda size: size - 1,
}


@pytest.mark.parametrize("cut", CUTS)
def test_a_reader_survives_its_segment_being_cut_and_finds_the_next_writer(
    run_id: str, cut: str, note: Path
) -> None:
    found = run(read_a_cut_segment, run_id, cut, note=note)
    assert found["recovered"]
    assert set(found["answers"]) <= {"true frame", "nothing", "SegmentTruncated", "SegmentCorrupt"}
    if cut == "by one byte":
        assert set(found["answers"]) <= {"true frame", "nothing"}
    if cut in ("to nothing", "to the header"):
        assert "SegmentTruncated" in found["answers"]


@pytest.mark.parametrize("cut", CUTS)
def test_a_writer_survives_its_segment_being_cut_and_can_start_anew(
    run_id: str, cut: str, note: Path
) -> None:
    found = run(write_a_cut_segment, run_id, cut, note=note)
    assert found["recovered"]
    expected = "published" if cut == "by one byte" else "SegmentTruncated"
    assert set(found["answers"]) == {expected}


def test_cutting_segments_under_busy_readers_and_writers_kills_nobody(
    run_id: str, seed: int, note: Path
) -> None:
    peers = [
        subprocess.Popen(
            [sys.executable, __file__, role.__name__, run_id, str(note)],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONFAULTHANDLER": "1"},
        )
        for role in (publish_whatever_happens, read_whatever_happens, read_whatever_happens)
    ]
    chance = random.Random(seed)
    cuts = 0
    deadline = time.monotonic() + WATCHDOG
    try:
        while cuts < 300 and all(peer.poll() is None for peer in peers):
            assert time.monotonic() < deadline, "the writer does not come back"
            time.sleep(0.002 + chance.random() * 0.01)
            try:
                if os.path.getsize(path_of(run_id)) == CONFIG.segment_size:
                    page = chance.randrange(CONFIG.segment_size // 4096)
                    os.truncate(path_of(run_id), page * 4096)
                    cuts += 1
            except FileNotFoundError:
                pass
        for peer in peers:
            _, err = peer.communicate(timeout=WATCHDOG)  # they end when their stdin does
            assert peer.returncode == 0, err
    finally:
        for peer in peers:
            peer.kill()
            peer.communicate()
    assert cuts == 300


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_cut_segment_is_survived_also_with_faulthandler_enabled(
    run_id: str, when: str, note: Path
) -> None:
    assert run(read_with_faulthandler, run_id, when, note=note)["answer"] == "SegmentTruncated"


# --- roles ----------------------------------------------------------------------------------------


class Notebook:
    """Where a role writes which case it is at."""

    def __init__(self, path: str) -> None:
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT)

    def write(self, text: str) -> None:
        os.pwrite(self.fd, text.encode().ljust(100), 0)


def damaged(byte: int, damage: str, chance: random.Random) -> int:
    return {"zero": 0, "ones": 0xFF, "xor": byte ^ 0x5A, "random": chance.randrange(256)}[damage]


def expect_true(frame: lanekit.FastLaneFrame | None, newest: int, offset: int = -1) -> int:
    """Assert that a frame was really published; `offset` is the byte that was overwritten."""
    if frame is None:
        return 0
    assert 1 <= frame.seq <= newest, f"frame {frame.seq} was never published"
    assert frame.data == pixels_of(frame.seq).tobytes(), f"frame {frame.seq} has other pixels"
    byte = (offset - 4096) % STRIDE if offset >= 4096 else -1
    if byte not in range(16, 40):
        assert frame.metrics == metrics_of(frame.seq)
    if byte not in range(40, 48):
        assert frame.metadata == metadata_of(frame.seq)
    return 1


def read_every_way(reader: lanekit.FastLaneReader, newest: int, offset: int) -> int:
    """Use all of a reader; each call answers with a true frame or a LanekitError."""
    buffer = np.zeros(CONFIG.shape, np.uint8)

    def peek() -> int:
        look = reader.peek()
        if look.array is None:
            return 0
        same = np.array_equal(look.array, pixels_of(look.seq))
        assert same or not look.valid, f"frame {look.seq}, looked at in place, has other pixels"
        return 1

    def read_into() -> int:
        seq = reader.read_into(buffer)
        assert not seq or np.array_equal(buffer, pixels_of(seq))
        return min(seq, 1)

    def metrics() -> int:
        found = reader.metrics()
        if offset not in range(704, 736):
            assert found == metrics_of(newest)
        return 0

    ways: list[Callable[[], int]] = [
        lambda: expect_true(reader.latest_frame(), newest, offset),
        *[lambda: expect_true(reader.next_frame(), newest, offset)] * (CAPACITY + 1),
        lambda: expect_true(reader.latest_frame(fresh=True), newest, offset),
        peek,
        read_into,
        metrics,
        lambda: reader.wait(0) and 0,
        lambda: reader.connected and 0,
        lambda: (reader.stats(), 0)[1],
    ]
    frames = 0
    for way in ways:
        try:
            frames += way()
        except lanekit.LanekitError:
            continue
    return frames


def expect_refusal(
    error: lanekit.LanekitError | None, offset: int, run_id: str, changed: bool
) -> None:
    expected: Refusals = ()
    for first, end, refusals in FIELDS:
        if first <= offset < end:
            expected = refusals
    if 136 <= offset < 136 + len(run_id):
        expected = (lanekit.SegmentNotFound,)
    if offset == 532:
        assert error is None or isinstance(error, lanekit.BadSegmentGeometry)
    elif expected and changed:
        assert type(error) in expected, f"byte {offset}: {error!r}, not one of {expected}"
    else:
        assert error is None, f"byte {offset}: {error!r}"


def read_overwritten_bytes(run_id: str, damage: str, seed: str, note: str) -> None:
    notebook, chance = Notebook(note), random.Random(int(seed))
    frames = 0
    with (
        lanekit.FastLaneWriter.create(run_id, CONFIG) as writer,
        open(path_of(run_id), "r+b", buffering=0) as file,
    ):
        for seq in range(1, PUBLISHED + 1):
            publish(writer, seq)
        for offset in OFFSETS:
            with lanekit.FastLaneReader.attach(run_id) as before:
                whole = os.pread(file.fileno(), CONFIG.segment_size, 0)
                bad = damaged(whole[offset], damage, chance)
                notebook.write(f"byte {offset}: {whole[offset]:#04x} -> {bad:#04x}")
                os.pwrite(file.fileno(), bytes([bad]), offset)
                frames += read_every_way(before, PUBLISHED, offset)
                os.pwrite(file.fileno(), whole[:4096], 0)
                os.pwrite(file.fileno(), bytes([bad]), offset)
                refusal = None
                try:
                    with lanekit.FastLaneReader.attach(run_id) as after:
                        frames += read_every_way(after, PUBLISHED, offset)
                except lanekit.LanekitError as error:
                    refusal = error
                expect_refusal(refusal, offset, run_id, bad != whole[offset])
                os.pwrite(file.fileno(), whole[:4096], 0)
                os.pwrite(file.fileno(), whole[offset : offset + 1], offset)
    print(json.dumps({"cases": len(OFFSETS), "frames": frames}))


def write_over_overwritten_bytes(run_id: str, seed: str, note: str) -> None:
    notebook, chance = Notebook(note), random.Random(int(seed))
    seq = 0
    writer = lanekit.FastLaneWriter.create(run_id, CONFIG)
    reader = lanekit.FastLaneReader.attach(run_id)
    with open(path_of(run_id), "r+b", buffering=0) as file:
        for offset in OFFSETS:
            (good,) = os.pread(file.fileno(), 1, offset)
            bad = damaged(good, chance.choice(DAMAGES), chance)
            notebook.write(f"byte {offset}: {good:#04x} -> {bad:#04x}")
            os.pwrite(file.fileno(), bytes([bad]), offset)
            published = False
            try:
                publish(writer, seq + 1)
                published = True
                seq += 1
                _ = writer.watched
                writer.heartbeat()
            except lanekit.LanekitError:
                pass
            if published:  # overwrote what matters: the newest frame is there and true
                frame = reader.latest_frame()
                assert frame is not None
                assert frame.seq == seq
                expect_true(frame, seq)
            if os.pread(file.fileno(), 1, offset) == bytes([bad]):
                os.pwrite(file.fileno(), bytes([good]), offset)
    reader.close()
    writer.close()
    writer.unlink()
    print(json.dumps({"cases": len(OFFSETS)}))


def create_over_overwritten_bytes(run_id: str, seed: str, note: str) -> None:
    notebook, chance = Notebook(note), random.Random(int(seed))
    image = image_of_a_dead_writer(run_id)
    path, name = Path(path_of(run_id)), lanekit.segment_name("frame", run_id)
    created = 0
    for offset in range(4096):
        bad = damaged(image[offset], chance.choice(DAMAGES), chance)
        notebook.write(f"byte {offset}: {image[offset]:#04x} -> {bad:#04x}")
        spoiled = image[:offset] + bytes([bad]) + image[offset + 1 :]
        path.write_bytes(spoiled)
        refusal = ""
        try:
            with lanekit.FastLaneWriter.create(run_id, CONFIG) as writer:
                publish(writer, 1)
            created += 1
        except lanekit.SegmentError as error:
            refusal = str(error)
        if refusal:
            assert name in refusal
            lanekit.reclaim_segment(name, force=True)
        assert not path.exists()
        if offset % 8 == 0:
            path.write_bytes(spoiled)
            lanekit.reclaim_segment(name, force=True)
            assert not path.exists()
    print(json.dumps({"cases": 4096, "created": created}))


def read_random_headers(run_id: str, seed: str, note: str) -> None:
    """Spoil many bytes at once; the words below are random, but never far from believable."""
    notebook, chance = Notebook(note), random.Random(int(seed))
    words = [0, 1, 2, 3, PUBLISHED, 2 * PUBLISHED, 2**31, 2**32 - 1, 2**62, 2**63, 2**64 - 1]
    with (
        lanekit.FastLaneWriter.create(run_id, CONFIG) as writer,
        open(path_of(run_id), "r+b", buffering=0) as file,
    ):
        for seq in range(1, PUBLISHED + 1):
            publish(writer, seq)
        for case in range(2000):
            with lanekit.FastLaneReader.attach(run_id) as before:
                whole = os.pread(file.fileno(), CONFIG.segment_size, 0)
                for offset in chance.sample(OFFSETS[::8], chance.randrange(2, 200)):
                    word = struct.pack("<Q", chance.choice([*words, chance.getrandbits(64)]))
                    notebook.write(f"case {case} of seed {seed}")
                    os.pwrite(file.fileno(), word, offset)
                for reader in (before, None):
                    try:
                        reader = reader or lanekit.FastLaneReader.attach(run_id)
                        with reader:
                            buffer = np.zeros(reader.config.shape, np.uint8)
                            for way in (
                                reader.latest_frame,
                                *[reader.next_frame] * CAPACITY,
                                reader.metrics,
                                lambda reader=reader: reader.wait(0),
                                lambda reader=reader, buffer=buffer: reader.read_into(buffer),
                            ):
                                try:
                                    way()
                                except lanekit.LanekitError:
                                    continue
                    except lanekit.LanekitError:
                        continue
                os.pwrite(file.fileno(), whole, 0)
    print(json.dumps({"cases": 2000}))


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


def answers_of(ways: list[Callable[[], Any]]) -> list[str]:
    answers = []
    for way in ways:
        try:
            answers.append(way())
        except lanekit.LanekitError as error:
            answers.append(type(error).__name__)
    return answers


def read_a_cut_segment(run_id: str, cut: str, note: str) -> None:
    notebook = Notebook(note)
    writer = lanekit.FastLaneWriter.create(run_id, CONFIG)
    for seq in range(1, PUBLISHED + 1):
        publish(writer, seq)
    reader = lanekit.FastLaneReader.attach(run_id)
    looked_at = reader.peek()
    fresh_view = lanekit.FastLaneReader.attach(run_id).peek()  # its pages are not touched yet
    os.truncate(path_of(run_id), CUTS[cut](CONFIG.segment_size))

    def answer(frame: lanekit.FastLaneFrame | None) -> str:
        return "true frame" if expect_true(frame, PUBLISHED) else "nothing"

    def wait() -> str:
        reader.wait(0.01)
        return answer(reader.latest_frame())

    notebook.write("views")
    for look in (looked_at, fresh_view):
        assert look.array is not None
        look.array.sum()
    notebook.write("calls")
    answers = answers_of(
        [
            lambda: answer(reader.latest_frame()),
            lambda: answer(reader.next_frame()),
            wait,
            lambda: reader.metrics() and answer(reader.latest_frame()),
            lambda: answer(reader.latest_frame(fresh=True) or reader.latest_frame()),
        ]
    )
    _ = reader.connected, reader.stats()
    for look in (looked_at, fresh_view):
        look.array.sum()  # type: ignore[union-attr]
    notebook.write("recovery")
    writer.close()
    writer.unlink()
    recovered = False
    with lanekit.FastLaneWriter.create(run_id, CONFIG) as writer:
        publish(writer, 1)
        publish(writer, 2)
        while not recovered:  # the watchdog ends this if it never comes true
            try:
                reader.wait(0.05)
                frame = reader.latest_frame()
            except lanekit.LanekitError:
                continue
            recovered = reader.stats().reattached == 1 and frame is not None and frame.seq == 2
    notebook.write("closing")
    reader.close()
    print(json.dumps({"answers": answers, "recovered": recovered}))


def write_a_cut_segment(run_id: str, cut: str, note: str) -> None:
    notebook = Notebook(note)
    writer = lanekit.FastLaneWriter.create(run_id, CONFIG)
    for seq in range(1, PUBLISHED + 1):
        publish(writer, seq)
    reservation = writer.reserve()
    os.truncate(path_of(run_id), CUTS[cut](CONFIG.segment_size))
    notebook.write("reserved slot")
    reservation.array[:] = 7
    assert reservation.array.sum() in (0, 7 * WIDTH * HEIGHT)
    answers = answers_of([lambda: reservation.commit() and "published"])
    notebook.write("calls")

    def publish_a_lap() -> str:
        for _ in range(2 * CAPACITY):
            writer.publish(pixels_of(1), metadata=b"x" * METADATA_SIZE)
        return "published"

    answers_of([lambda: (publish_a_lap(), "")[1]])  # by now it knows
    answers += answers_of(
        [
            publish_a_lap,
            lambda: writer.update_metrics(metrics_of(1)) or "published",
            lambda: writer.heartbeat() or "published",
            lambda: writer.reserve().abandon() or "published",
        ]
    )
    if cut in ("to half", "inside the header"):
        answers = answers[1:]  # the reserved slot may have been on this side of the cut
    notebook.write("recovery")
    writer.close()
    writer.unlink()
    assert not os.path.exists(path_of(run_id))
    with lanekit.FastLaneWriter.create(run_id, CONFIG) as writer:
        publish(writer, 1)
        with lanekit.FastLaneReader.attach(run_id) as reader:
            recovered = expect_true(reader.latest_frame(), 1) == 1
    print(json.dumps({"answers": answers, "recovered": recovered}))


def stdin_ended() -> bool:
    """Whether the test has closed our standard input, without waiting for it."""
    os.set_blocking(0, False)
    try:
        return os.read(0, 1) == b""
    except BlockingIOError:
        return False


def publish_whatever_happens(run_id: str, note: str) -> None:
    while not stdin_ended():
        with lanekit.FastLaneWriter.create(run_id, CONFIG) as writer:
            seq = 0
            try:
                while not stdin_ended():
                    seq += 1
                    publish(writer, seq)
            except lanekit.SegmentTruncated:
                continue


def read_whatever_happens(run_id: str, note: str) -> None:
    reader = None
    ways: list[Callable[[lanekit.FastLaneReader], Any]] = [
        lambda reader: expect_true(reader.latest_frame(), 2**62),
        lambda reader: expect_true(reader.next_frame(), 2**62),
        lambda reader: reader.wait(0.001),
        lambda reader: reader.metrics(),
        lambda reader: reader.peek().array is None,
    ]
    while not stdin_ended():
        try:
            if reader is None:
                reader = lanekit.FastLaneReader.attach(run_id)
            random.choice(ways)(reader)
        except lanekit.LanekitError:
            if random.random() < 0.05 and reader is not None:
                reader.close()
                reader = None


def read_with_faulthandler(run_id: str, when: str, note: str) -> None:
    import faulthandler

    faulthandler.disable()
    if when == "before":
        faulthandler.enable()
    with lanekit.FastLaneWriter.create(run_id, CONFIG) as writer:
        publish(writer, 1)
        reader = lanekit.FastLaneReader.attach(run_id)
        if when == "after":
            faulthandler.enable()
        os.truncate(path_of(run_id), 0)
        (answer,) = answers_of([reader.latest_frame])
    print(json.dumps({"answer": answer}))


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
