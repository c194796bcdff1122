"""Which segments of this machine belong to a run."""

from __future__ import annotations

from lanekit import LanekitError
from lanekit.segments import inspect_segment, segment_names


def lanes_of(run_id: str) -> list[str]:
    """The run ids of all segments that belong to a run."""
    found = []
    for name in segment_names():
        try:
            found.append(inspect_segment(name).run_id)
        except LanekitError:
            continue
    return sorted(run for run in found if run == run_id or run.startswith(run_id + "/"))
