"""docs/layout.md is the interface: its vectors are current, and a reader written from it works."""

from __future__ import annotations

import hashlib
import re
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from lanekit import FastLaneConfig, FastLaneMetrics, FastLaneWriter, segment_name
from lanekit.segments import segment_path
from patience import patience


def test_the_test_vectors_in_the_docs_are_current(root: Path) -> None:
    command = [sys.executable, str(root / "tools" / "layout_vectors.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=patience(), check=False)
    assert done.returncode == 0, done.stdout


def test_the_names_in_the_docs_are_right(root: Path) -> None:
    page = (root / "docs" / "layout.md").read_text(encoding="utf-8")
    examples = re.findall(r"^\| `(\S+)` \| `(lanekit-frame-\S+)` \|$", page, re.MULTILINE)
    assert len(examples) == 3
    for run_id, name in examples:
        assert segment_name("frame", run_id) == name


@pytest.mark.core
@pytest.mark.parametrize("order", ["LITTLE", "BIG", "PDP"])
def test_only_a_little_endian_build_is_accepted(root: Path, order: str) -> None:
    command = ["cc", "-std=c11", "-fsyntax-only", "-x", "c", str(root / "csrc" / "lk_layout.h")]
    command += ["-U__BYTE_ORDER__", f"-D__BYTE_ORDER__=__ORDER_{order}_ENDIAN__"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=patience(), check=False)
    if order == "LITTLE":
        assert done.returncode == 0, done.stderr
    else:
        assert done.returncode != 0
        assert "little-endian" in done.stderr


class ReaderFromThePage:
    """Decodes a segment with nothing but the offsets of docs/layout.md."""

    def __init__(self, run_id: str) -> None:
        digest = hashlib.sha256(run_id.encode()).hexdigest()[:16]
        (self.path,) = Path("/dev/shm").glob(f"lanekit-frame-*-{digest}")
        self.data = self.path.read_bytes()

    def u32(self, offset: int) -> int:
        return int(struct.unpack_from("<I", self.data, offset)[0])

    def u64(self, offset: int) -> int:
        return int(struct.unpack_from("<Q", self.data, offset)[0])

    def newest(self) -> tuple[int, bytes, tuple[float, ...], bytes | None]:
        assert self.u32(0) == 0x464C414E
        assert struct.unpack_from("<HH", self.data, 4) == (2, 0)
        assert self.u32(64) == 0x52454459
        assert self.u64(16) == len(self.data)
        head, capacity, stride = self.u64(576), self.u32(528), self.u64(544)
        assert len(self.data) == self.u64(552) + capacity * stride
        slot = self.u64(552) + (head - 1) % capacity * stride
        assert self.u64(slot) == 2 * head
        metrics = struct.unpack_from("<3d", self.data, slot + 16)
        pixels = self.data[slot + 64 : slot + 64 + self.u64(536)]
        size = self.u64(slot + 40)
        start = slot + self.u64(560)
        return head, pixels, metrics, None if size == 2**64 - 1 else self.data[start : start + size]


def test_a_reader_written_from_the_page_alone_reads_a_run(run_id: str) -> None:
    config = FastLaneConfig(width=7, height=5, capacity=3, metadata_size=10)
    with FastLaneWriter.create(run_id, config) as writer:
        for n in range(1, 9):
            pixels = np.full((5, 7, 3), n, np.uint8)
            metadata = f"frame {n}".encode() if n % 2 else None
            writer.publish(pixels, metrics=FastLaneMetrics(n, -n, 0.25), metadata=metadata)
            found = ReaderFromThePage(run_id).newest()
            assert found == (n, pixels.tobytes(), (n, -n, 0.25), metadata)
        header = ReaderFromThePage(run_id)
        size = header.u32(128)
        assert header.data[136 : 136 + size].decode() == run_id
        assert struct.unpack_from("<3d", header.data, 712) == (8, -8, 0.25)


def test_the_page_lists_every_offset_that_the_core_asserts(root: Path) -> None:
    page = (root / "docs" / "layout.md").read_text(encoding="utf-8")
    header = (root / "csrc" / "lk_layout.h").read_text(encoding="utf-8")
    asserted = re.findall(r"offsetof\(struct lk_\w+, (\w+)\) == (\d+)", header)
    assert len(asserted) > 10
    for field, offset in asserted:
        if field not in ("geometry", "viewers"):
            assert re.search(rf"^\| {offset} \| .*`{field}`", page, re.MULTILINE), field
    assert segment_path("x").parent == Path("/dev/shm")
