"""Regenerate the test vectors in docs/layout.md from a real segment.

Usage: layout_vectors.py [--write]      without it, exits 1 if the page is out of date
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from lanekit import (
    FastLaneConfig,
    FastLaneMetrics,
    FastLaneWriter,
    StepClient,
    StepLaneConfig,
    StepServer,
    TrajectoryReader,
    TrajectoryWriter,
    WaitTimeout,
    segment_name,
)
from lanekit.segments import segment_path

PAGE = Path(__file__).resolve().parent.parent / "docs" / "layout.md"
BEGIN, END = "<!-- vectors: begin -->\n", "<!-- vectors: end -->"
TRAJECTORY_BEGIN = "<!-- trajectory vectors: begin -->\n"
TRAJECTORY_END = "<!-- trajectory vectors: end -->"
HEADER_SIZE, SLOT_STRIDE = 4096, 192
# (offset, size) of what depends on process and time.
VOLATILE_HEADER = [(12, 4), (24, 8), (32, 8), (40, 8), (48, 16), (72, 8)]
VOLATILE_SLOT = [(8, 8)]
STEP_BEGIN, STEP_END = "<!-- step vectors: begin -->\n", "<!-- step vectors: end -->"
VOLATILE_STEP = [*VOLATILE_HEADER, (1024, 8)]


def example_segment() -> bytes:
    """Return the bytes of the segment that the page describes."""
    config = FastLaneConfig(width=2, height=2, capacity=2, metadata_size=8)
    with FastLaneWriter.create("vectors", config) as writer:
        for n in (1, 2, 3):
            pixels = np.arange(16 * n, 16 * n + 12, dtype=np.uint8).reshape(2, 2, 3)
            metadata = None if n == 2 else f"frame {n}".encode()
            writer.publish(pixels, metrics=FastLaneMetrics(n, 10 * n, 0.5), metadata=metadata)
        content = bytearray(segment_path(writer.name).read_bytes())
    for offset, size in VOLATILE_HEADER:
        content[offset : offset + size] = bytes(size)
    for slot in range(2):
        for offset, size in VOLATILE_SLOT:
            start = HEADER_SIZE + slot * SLOT_STRIDE + offset
            content[start : start + size] = bytes(size)
    return bytes(content)


def example_step_lane() -> tuple[bytes, dict[str, int]]:
    """Return the bytes of the step lane that the page describes, and where its regions are."""
    config = StepLaneConfig(
        *(3, 2, 1), image=(1, 2, 3), final_obs=True, infos=("speed",), description="a toy"
    )
    with StepServer.create("vectors", config) as server, StepClient.attach("vectors") as client:
        try:
            client.reset([0, 2], seed=7, timeout=0)
        except WaitTimeout:  # of course: we are also the one to answer it
            server.wait_actions(0)
        server.obs[:] = [[0.5, 1], [1.5, 2], [2.5, 3]]
        server.commit()
        client.recv(0)
        client.resets[1] = 1
        client.send([[10], [20], [30]])
        server.wait_actions(0)
        server.obs[:, 1] += server.actions[:, 0]
        server.rewards[:] = [1, -1, 0]
        server.dones[:], server.truncateds[:] = [0, 1, 0], [0, 0, 1]
        assert server.final_obs is not None
        assert server.images is not None
        server.final_obs[1] = [8, 9]
        server.infos["speed"][:] = [0.25, 0.5, 0.75]
        server.images[:] = np.arange(18, dtype=np.uint8).reshape(3, 1, 2, 3)
        server.commit()
        client.recv(0)
        client.resets[0] = 2
        client.seeds[0] = 2**64 - 2
        client.send([[11], [21], [31]])
        content = bytearray(segment_path(server.segment).read_bytes())
        offsets = dict(server.offsets)
    for offset, size in VOLATILE_STEP:
        content[offset : offset + size] = bytes(size)
    return bytes(content), offsets


def example_lane() -> bytes:
    """Return the bytes of the trajectory lane that the page describes."""
    schema = {"tokens": "int32[:]", "score": "float32?"}
    with TrajectoryReader.create("vectors", schema, producers=2, ring_bytes=1024) as reader:
        with TrajectoryWriter.attach("vectors") as writer:
            writer.put({"tokens": [1, 2, 3], "score": 0.5}, b"m")
            writer.put({"tokens": [4]})
        first = reader.get()
        assert first is not None
        first.release()
        content = bytearray(segment_path(segment_name("traj", "vectors")).read_bytes())
    volatile = [*VOLATILE_HEADER, (576, 8)]
    volatile += [(8192 + at + field, size) for at in (0, 320) for field, size in ((4, 4), (40, 8))]
    for offset, size in volatile:
        content[offset : offset + size] = bytes(size)
    return bytes(content)


def hex_dump(content: bytes, start: int, end: int) -> str:
    """Return lines of sixteen bytes, without those that are all zero."""
    lines = []
    for offset in range(start, end, 16):
        line = content[offset : offset + 16]
        if any(line):
            lines.append(f"{offset:04x}  {line[:8].hex(' ')}  {line[8:].hex(' ')}")
    return "\n".join(lines)


def section() -> str:
    """Return the page's section between its markers."""
    content = example_segment()
    parts = [
        ("Header", 0, HEADER_SIZE),
        ("Slot 0: frame 3, which replaced frame 1", HEADER_SIZE, HEADER_SIZE + SLOT_STRIDE),
        ("Slot 1: frame 2", HEADER_SIZE + SLOT_STRIDE, HEADER_SIZE + 2 * SLOT_STRIDE),
    ]
    blocks = (
        f"{title}:\n\n```\n{hex_dump(content, start, end)}\n```\n" for title, start, end in parts
    )
    return "\n" + "\n".join(blocks) + "\n"


def step_section() -> str:
    """Return the page's section about a step lane between its markers."""
    content, offsets = example_step_lane()
    starts = [*offsets.values(), len(content)]
    blocks = [f"Header:\n\n```\n{hex_dump(content, 0, HEADER_SIZE)}\n```\n"]
    for name, start in offsets.items():
        end = min(next_start for next_start in starts if next_start > start)
        if name == "infos":  # their names and the description lie behind them, then the rings
            end = offsets["infos"] + 3 * 64
        blocks.append(f"`{name}`:\n\n```\n{hex_dump(content, start, end)}\n```\n")
    return "\n" + "\n".join(blocks) + "\n"


def trajectory_section() -> str:
    """Return the trajectory lane's section between its markers."""
    content = example_lane()
    parts = [
        ("Header", 0, 4096),
        ("Schema", 4096, 4352),
        ("Control blocks", 4352, 4864),
        ("Ring 0", 8192, 9216),
    ]
    blocks = (
        f"{title}:\n\n```\n{hex_dump(content, start, end)}\n```\n" for title, start, end in parts
    )
    return "\n" + "\n".join(blocks) + "\n"


def with_section(page: str, new: str, begin: str, end: str) -> str:
    """Return the page with one section replaced."""
    before, rest = page.split(begin)
    _, after = rest.split(end)
    return before + begin + new + end + after


def main() -> int:
    """Check or write the page."""
    page = PAGE.read_text(encoding="utf-8")
    current = with_section(page, section(), BEGIN, END)
    current = with_section(current, step_section(), STEP_BEGIN, STEP_END)
    current = with_section(current, trajectory_section(), TRAJECTORY_BEGIN, TRAJECTORY_END)
    if "--write" in sys.argv:
        PAGE.write_text(current, encoding="utf-8")
        return 0
    if page != current:
        print(f"{PAGE.name} is out of date: run python tools/layout_vectors.py --write")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
