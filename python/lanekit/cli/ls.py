"""`lanekit ls`: the segments of this machine."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import time
from dataclasses import dataclass
from typing import Any

from lanekit import errors
from lanekit.fast import FastLaneReader
from lanekit.fast.frame import FastLaneStatus, inspect_frames
from lanekit.integrations.showing.frame_note import FrameNote
from lanekit.segments import SegmentInfo, human_size, scan_segments, segment_path
from lanekit.step import StepLaneStatus, inspect_steps
from lanekit.trajectory.statistics import TrajectoryLaneInfo, inspect_trajectory_segment

NAME = "ls"
HELP = "list lanes: run, geometry, size, owner, frames, viewers, age"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace) -> int:
    """Print a table, or JSON."""
    rows = list_segments()
    if args.json:
        print(json.dumps([row.to_json() for row in rows], indent=2))
    elif rows:
        print(table([row.to_cells() for row in rows]))
        for row in rows:
            if row.problem is not None:
                print(f"? {row.problem}")
    else:
        print("no lanes on this machine; `lanekit demo` starts one")
    return 0


@dataclass(frozen=True)
class Row:
    """One segment, as far as it could be read."""

    name: str
    size: int
    info: SegmentInfo | None
    frames: FastLaneStatus | None
    problem: str | None
    note: FrameNote | None = None
    steps: StepLaneStatus | None = None
    records: TrajectoryLaneInfo | None = None

    @property
    def owner(self) -> str:
        """The owner's pid and state."""
        if self.info is None:
            return "?"
        return self.info.owner_text

    def to_cells(self) -> list[str]:
        """Return the row of the table."""
        if self.info is None:
            return [self.name, "?", "?", "?", human_size(self.size), "?", "?", "?", "?", "?"]
        geometry = frames = viewers = "?"
        if self.frames is not None:
            c = self.frames.config
            geometry = f"{c.width}x{c.height} {c.pixel_format} x{c.capacity}"
            frames, viewers = str(self.frames.head), str(self.frames.viewers)
        if self.steps is not None:
            s = self.steps
            geometry = f"{s.num_envs} x ({s.obs_size} {s.obs_dtype}, {s.act_size} {s.act_dtype})"
            frames, viewers = str(s.state.completed), str(int(s.state.client_alive))
        if self.records is not None:
            stats = self.records.stats
            geometry = f"{len(stats.rings)} x {human_size(self.records.ring_bytes)}"
            frames, viewers = str(stats.records), str(len(stats.producers))
        age = human_age(time.time() - self.info.created_unix_ns / 1e9)
        return [
            self.name,
            self.info.kind,
            printable(self.info.run_id),
            geometry,
            human_size(self.size),
            self.owner,
            frames,
            viewers,
            "-" if self.note is None else printable(self.note.rendering),
            age,
        ]

    def to_json(self) -> dict[str, Any]:
        """Return everything known, for other programs."""
        out: dict[str, Any] = {"name": self.name, "size": self.size, "problem": self.problem}
        if self.info is not None:
            out |= {
                "kind": self.info.kind,
                "run": self.info.run_id,
                "owner_pid": self.info.owner_pid,
                "owner": self.info.owner,
                "owner_uid": self.info.owner_uid,
                "invalidated": self.info.invalidated,
                "age_seconds": time.time() - self.info.created_unix_ns / 1e9,
                "heartbeat_age_seconds": (time.monotonic_ns() - self.info.heartbeat_ns) / 1e9,
            }
        if self.frames is not None:
            c = self.frames.config
            out |= {
                "geometry": {
                    "width": c.width,
                    "height": c.height,
                    "channels": c.channels,
                    "pixel_format": c.pixel_format,
                    "capacity": c.capacity,
                    "metadata_size": c.metadata_size,
                },
                "frames": self.frames.head,
                "viewers": self.frames.viewers,
                "rendering": None if self.note is None else self.note.rendering,
            }
        if self.steps is not None:
            out |= dataclasses.asdict(self.steps)
        if self.records is not None:
            stats = self.records.stats
            out |= {
                "schema": {name: str(f) for name, f in self.records.schema},
                "rings": len(stats.rings),
                "ring_bytes": self.records.ring_bytes,
                "records": stats.records,
                "depth": stats.depth,
                "producers": len(stats.producers),
            }
        return out


def list_segments() -> list[Row]:
    """Look at every lanekit segment of this machine."""
    rows = []
    for found in scan_segments():
        if isinstance(found, tuple):
            name, reason = found
            rows.append(Row(name, file_size(name), None, None, str(reason)))
            continue
        frames, steps, records, problem = None, None, None, None
        try:
            if found.kind == "frame":
                frames = inspect_frames(found.name)
            elif found.kind == "step":
                steps = inspect_steps(found.name)
            else:
                records = inspect_trajectory_segment(found.name)
        except errors.LanekitError as reason:
            problem = str(reason)
        note = newest_note(found.run_id) if frames is not None and frames.head > 0 else None
        rows.append(Row(found.name, found.size, found, frames, problem, note, steps, records))
    return rows


def newest_note(run_id: str) -> FrameNote | None:
    """Return what a run's newest frame says about itself, without counting as a viewer."""
    try:
        with FastLaneReader.attach(run_id, lease=0) as reader:
            look, info = reader.peek(), reader.last_frame_info
            return FrameNote.decode(info.metadata) if info is not None and look.valid else None
    except errors.LanekitError:
        return None


def file_size(name: str) -> int:
    """Return the size of a segment whose header can not be read."""
    try:
        return segment_path(name).stat().st_size
    except OSError:
        return 0


def table(rows: list[list[str]]) -> str:
    """Align rows under the headings."""
    heads = ["NAME", "KIND", "RUN", "GEOMETRY", "SIZE", "OWNER", "FRAMES", "VIEWERS"]
    heads += ["RENDERING", "AGE"]
    widths = [max(len(row[i]) for row in [heads, *rows]) for i in range(len(heads))]
    lines = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in [heads, *rows]
    )
    return os.linesep.join(lines)


def printable(text: str, most: int = 40) -> str:
    """Return a run id that can not disturb a terminal."""
    clean = "".join(c if c.isprintable() else "�" for c in text)
    return clean if len(clean) <= most else clean[: most - 1] + "…"


def human_age(seconds: float) -> str:
    """Return a duration as people read it."""
    seconds = max(0.0, seconds)
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds / size:.0f}{unit}"
    return f"{seconds:.0f}s"
