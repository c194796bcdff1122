"""docs/layout.md is the interface: producers and consumers written from it alone work."""

from __future__ import annotations

import hashlib
import mmap
import os
import struct
from pathlib import Path

import numpy as np

from lanekit import TrajectoryReader, TrajectoryWriter
from patience import patience

SCHEMA = {"tokens": "int32[:]", "pair": "float64[2]", "extra": "uint8[:,3]?"}
ABSENT = 2**64 - 1


def round_up(size: int) -> int:
    return -(-size // 64) * 64


class LaneFromThePage:
    """Reads and writes a lane with nothing but the offsets of docs/layout.md."""

    def __init__(self, lane: str) -> None:
        digest = hashlib.sha256(lane.encode()).hexdigest()[:16]
        (path,) = Path("/dev/shm").glob(f"lanekit-traj-*-{digest}")
        with path.open("r+b") as file:
            self.memory = mmap.mmap(file.fileno(), 0)
        assert self.u32(0) == 0x5452414A
        self.ring_size, self.record_max = self.u64(528), self.u64(536)
        self.control, self.data = self.u64(552), self.u64(560)
        assert len(self.memory) == self.data + self.u32(512) * self.ring_size

    def u32(self, offset: int) -> int:
        return int(struct.unpack_from("<I", self.memory, offset)[0])

    def u64(self, offset: int) -> int:
        return int(struct.unpack_from("<Q", self.memory, offset)[0])

    def store(self, offset: int, value: int) -> None:
        struct.pack_into("<Q", self.memory, offset, value)

    def fields(self) -> dict[str, tuple[str, int, tuple[int, ...]]]:
        found = {}
        for i in range(self.u32(516)):
            at = self.u64(544) + 128 * i
            name = self.memory[at : at + 64].rstrip(b"\0").decode()
            dtype = self.memory[at + 64 : at + 72].rstrip(b"\0").decode()
            shape = struct.unpack_from("<5Q", self.memory, at + 88)[: self.u32(at + 80)]
            found[name] = (dtype, self.u32(at + 76), shape)
        return found

    def put(self, ring: int, arrays: list[np.ndarray | None], metadata: bytes) -> None:
        control = self.control + 256 * ring
        head, tail = self.u64(control), self.u64(control + 64)
        rows = [ABSENT if a is None else (len(a) if i != 1 else 1) for i, a in enumerate(arrays)]
        body = struct.pack(f"<{len(rows)}Q", *rows).ljust(round_up(8 * len(rows)), b"\0")
        for array in arrays:
            if array is not None:
                body += array.tobytes().ljust(round_up(array.nbytes), b"\0")
        body += metadata.ljust(round_up(len(metadata)), b"\0")
        place = head % self.ring_size
        if place + 64 + len(body) > self.ring_size:
            padding = struct.pack("<IIQ", 0x44444150, 0, head)
            self.memory[self.data + place : self.data + place + 16] = padding
            head += self.ring_size - place
            place = 0
        assert head + 64 + len(body) - tail <= self.ring_size
        number = self.u64(control + 16) + 1
        header = struct.pack(
            *("<IIQQQQQQQ", 0x44434552, os.getpid(), head, len(body)),
            *(self.u64(control + 8), number, 7, len(metadata), 0),
        )
        start = self.data + ring * self.ring_size + place
        self.memory[start : start + 64 + len(body)] = header + body
        self.store(control + 16, number)
        self.store(control, head + 64 + len(body))

    def take(self, ring: int) -> tuple[list[np.ndarray | None], bytes] | None:
        """Take and release the oldest record of a ring."""
        control = self.control + 256 * ring
        head, tail = self.u64(control), self.u64(control + 64)
        if head == tail:
            return None
        start = self.data + ring * self.ring_size
        if self.u32(start + tail % self.ring_size) == 0x44444150:
            tail += self.ring_size - tail % self.ring_size
        at = start + tail % self.ring_size
        assert (self.u32(at), self.u64(at + 8)) == (0x44434552, tail)
        count = self.u32(516)
        rows = struct.unpack_from(f"<{count}Q", self.memory, at + 64)
        place = at + 64 + round_up(8 * count)
        found: list[np.ndarray | None] = []
        for n, (dtype, flags, shape) in zip(rows, self.fields().values(), strict=True):
            if n == ABSENT:
                found.append(None)
                continue
            items = n * int(np.prod(shape, dtype=int))
            array = np.frombuffer(self.memory, dtype, items, place).copy()
            found.append(array.reshape((n, *shape) if flags & 1 else shape))
            place += round_up(array.nbytes)
        metadata = self.memory[place : place + self.u64(at + 48)]
        self.store(control + 64, tail + 64 + self.u64(at + 16))
        return found, metadata


def made(n: int) -> list[np.ndarray | None]:
    extra = np.full((n % 4, 3), n % 251, np.uint8) if n % 2 else None
    return [np.arange(n % 23, dtype=np.int32) + n, np.array([n, -n], np.float64), extra]


def test_a_consumer_written_from_the_page_alone_takes_records(lane: str) -> None:
    with TrajectoryReader.create(lane, SCHEMA, producers=2, ring_bytes=2048):
        with TrajectoryWriter.attach(lane) as writer:
            page = LaneFromThePage(lane)
            assert page.fields()["extra"] == ("|u1", 3, (3,))
            for n in range(1, 300):
                arrays = dict(zip(SCHEMA, made(n), strict=True))
                assert writer.put(arrays, f"record {n}".encode(), timeout=0) == n
                taken = page.take(0)
                assert taken is not None
                for found, expected in zip(taken[0], made(n), strict=True):
                    assert (found is None) == (expected is None)
                    if found is not None and expected is not None:
                        assert found.tolist() == expected.tolist()
                assert taken[1] == b"b" + f"record {n}".encode()
                assert page.take(0) is None


def test_a_producer_written_from_the_page_alone_is_understood(lane: str) -> None:
    with TrajectoryReader.create(lane, SCHEMA, producers=1, ring_bytes=2048) as reader:
        page = LaneFromThePage(lane)
        page.store(page.control + 8, 1)  # the ring's first session
        for n in range(1, 300):
            page.put(0, made(n), b"jtrue")
            record = reader.get(timeout=patience())
            assert record is not None
            for name, expected in zip(SCHEMA, made(n), strict=True):
                assert (name in record) == (expected is not None)
                if expected is not None:
                    assert record[name].tolist() == expected.tolist()
            assert (record.number, record.meta, record.timestamp_ns) == (n, True, 7)
            record.release()
        assert reader.try_get() is None
