"""The runs that publish pictures on a machine, whether its daemon knows of them or not."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from PyQt6.QtCore import QObject, pyqtSignal

from lanekit import errors
from lanekit.integrations.showing.lanes import state_lane_of
from lanekit.segments import SegmentInfo, scan_segments
from lanekit.slow.daemon_client import DaemonClient
from lanekit.viewer.window.watching_thread import WatchingThread

LOOK_SECONDS = 1.0
_SLOT_LANE = re.compile(r"(?P<run>.+)/env-\d+", re.DOTALL)


class LaneWatch(WatchingThread):
    """Looks every second, in a thread, which runs have a living writer.

    `connect` makes a client of a daemon whose machine is meant; None: this machine.
    """

    lanes_changed = pyqtSignal(dict)
    """Run id -> when its lane was made, in nanoseconds since 1970. Only told when it changed."""

    def __init__(
        self, parent: QObject | None = None, *, connect: Callable[[], DaemonClient] | None = None
    ) -> None:
        super().__init__("lane-watch", parent)
        self._connect = connect

    def _watch(self) -> None:
        told: dict[str, int] | None = None
        while not self._stopped.is_set():
            found = live_lanes() if self._connect is None else self._far_lanes(self._connect)
            if found is not None and found != told and not self._stopped.is_set():
                told = found
                self.lanes_changed.emit(dict(found))
            self._stopped.wait(LOOK_SECONDS)

    def _far_lanes(self, connect: Callable[[], DaemonClient]) -> dict[str, int] | None:
        """Return what the daemon says; None while it does not answer: what was known stays."""
        try:
            with self._lock:
                if self._stopped.is_set():
                    return None
                if self._client is None:
                    self._client = connect()
            return {
                lane.run_id: lane.created_unix_ns for lane in self._client.list_lanes() if lane.live
            }
        except (errors.LanekitError, ValueError):  # ValueError: stop() closed the channel meanwhile
            return None


def live_lanes() -> dict[str, int]:
    """Return the runs with a living writer of pictures, and since when."""
    lanes = {
        segment.run_id: segment.created_unix_ns
        for segment in scan_segments()
        if isinstance(segment, SegmentInfo) and segment.kind == "frame" and not segment.orphan
    }
    helpers = set(_helper_lanes(lanes))
    return {run_id: since for run_id, since in lanes.items() if run_id not in helpers}


def _helper_lanes(run_ids: Iterable[str]) -> Iterable[str]:
    """Return the lanes that carry states, or one environment of a grid that is shown as a whole."""
    known = set(run_ids)
    for run_id in known:
        yield state_lane_of(run_id)
        slot = _SLOT_LANE.fullmatch(run_id)
        if slot is not None and slot["run"] in known:
            yield run_id
            yield state_lane_of(run_id)
