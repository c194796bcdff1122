"""What a fast lane takes of memory, and that it takes no more with time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench import limits, machine
from bench.fast_publish import POOL
from bench.fast_sizes import SIZES, SMALL, Effort, frames, new_run_id
from lanekit import FastLaneWriter


def _resident() -> dict[str, int]:
    """Bytes of private and of shared memory in this process."""
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return {name: int(fields[name].split()[0]) * 1024 for name in ("RssAnon", "RssShmem")}


def memory(effort: Effort) -> dict[str, Any]:
    """Compare the segment with its formula, and memory before and after many publishes."""
    machine.pin(machine.WRITER_CORE)
    sizes = {}
    for size in SIZES:
        with FastLaneWriter.create(new_run_id("size"), size.config) as writer:
            found = Path("/dev/shm", writer.name).stat().st_size
        sizes[size.label] = {"bytes": found, "exact": found == limits.ring_size(size.config)}
    return {"segments": sizes, "growth": _growth(effort.publishes)}


def _growth(publishes: int) -> dict[str, Any]:
    """Publish one array, several, and fresh copies, in equal parts."""
    frame, *pool = frames(SMALL.config, 1 + POOL)
    with FastLaneWriter.create(new_run_id("growth"), SMALL.config) as writer:
        path = Path("/dev/shm", writer.name)

        def publish_some(count: int) -> None:
            for i in range(count // 4):
                writer.publish(frame)
                writer.publish(frame)
                writer.publish(pool[i % POOL])
                writer.publish(frame.copy())

        publish_some(20_000)
        before, blocks = _resident(), path.stat().st_blocks
        publish_some(publishes)
        after = _resident()
        return {
            "publishes": publishes,
            "shared_file_growth_bytes": (path.stat().st_blocks - blocks) * 512,
            **{f"{name}_growth_bytes": after[name] - before[name] for name in after},
        }
