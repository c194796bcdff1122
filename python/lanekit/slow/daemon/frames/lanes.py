"""The lanes with pictures on this machine: what a watcher can choose from."""

from __future__ import annotations

import re

from lanekit import errors
from lanekit.fast.frame import inspect_frames
from lanekit.segments import SegmentInfo, scan_segments
from lanekit.slow.watched_frames import LaneInfo

# Written by lanekit.integrations.showing.lanes, which this part of the house can not import.
_SLOT_LANE = re.compile(r"(?P<run>.+)/(?P<lane>env-[0-9]+)", re.DOTALL)
_LANE = re.compile(r"env-[0-9]{1,9}")
_STATE_SUFFIX = "/state"


def lane_id(run_id: str, lane: str = "") -> str:
    """Return the id under which a run's lane is found in shared memory."""
    if lane and _LANE.fullmatch(lane) is None:
        raise ValueError(f"a lane is env-0, env-1 ..., or empty for the run's own; got {lane!r}")
    return f"{run_id}/{lane}" if lane else run_id


def find_lanes(run_id: str = "") -> list[LaneInfo]:
    """Return the lanes of a run, or of every run; those of one run in the order of their slots.

    Lanes that carry an environment's state instead of pictures are left out.
    """
    found = []
    segments = [each for each in scan_segments() if isinstance(each, SegmentInfo)]
    lanes = {each.run_id for each in segments if each.kind == "frame"}
    for segment in segments:
        if segment.kind != "frame" or _carries_states(segment.run_id, lanes):
            continue
        run, lane = split_lane_id(segment.run_id)
        if run_id and run != run_id:
            continue
        try:
            status = inspect_frames(segment.name)
        except errors.LanekitError:
            continue  # it went away between the two looks
        found.append(
            LaneInfo(
                run_id=run,
                lane=lane,
                width=status.config.width,
                height=status.config.height,
                pixel_format=status.config.pixel_format,
                frames=status.head,
                viewers=status.viewers,
                live=not segment.orphan,
                created_unix_ns=segment.created_unix_ns,
            )
        )
    return sorted(found, key=lambda info: (info.run_id, len(info.lane), info.lane))


def split_lane_id(name: str) -> tuple[str, str]:
    """Return the run and the lane that :func:`lane_id` was given."""
    slot = _SLOT_LANE.fullmatch(name)
    return (name, "") if slot is None else (slot["run"], slot["lane"])


def _carries_states(name: str, lanes: set[str]) -> bool:
    return name.endswith(_STATE_SUFFIX) and name.removesuffix(_STATE_SUFFIX) in lanes
