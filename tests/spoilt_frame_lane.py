"""A small frame lane to be spoilt, whose every frame can be told from any other."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np

import lanekit
from patience import patience

WIDTH, HEIGHT, CAPACITY, METADATA_SIZE = 120, 100, 4, 100
CONFIG = lanekit.FastLaneConfig(
    WIDTH, HEIGHT, 1, "GRAY", capacity=CAPACITY, metadata_size=METADATA_SIZE
)
STRIDE = (CONFIG.segment_size - 4096) // CAPACITY
PUBLISHED = 6


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
        "import spoilt_frame_lane as t;"
        "writer = t.lanekit.FastLaneWriter.create(sys.argv[2], t.CONFIG);"
        "[t.publish(writer, seq) for seq in range(1, t.PUBLISHED + 1)];"
        "os.kill(os.getpid(), 9)"
    )
    subprocess.run(
        [sys.executable, "-c", script, __file__, run_id], timeout=patience(200), check=False
    )
    path = Path(path_of(run_id))
    image = path.read_bytes()
    path.unlink()
    return image


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
