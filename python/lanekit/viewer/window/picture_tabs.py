"""The tabs with pictures: of lanes on this machine, or of lanes that its daemon's machine has."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable

from PyQt6.QtWidgets import QWidget

from lanekit.slow.daemon_client import DaemonClient
from lanekit.slow.remote_lane import RemoteLane
from lanekit.slow.watched_frames import Recipe
from lanekit.viewer.fastlane.tab import FastLaneTab


class PictureTabs:
    """Makes tabs of runs' pictures.

    `connect` makes a client of a daemon on another machine; its lanes are brought here while a tab
    shows them. None: the runs are this machine's.
    """

    def __init__(self, connect: Callable[[], DaemonClient] | None = None) -> None:
        self._connect = connect
        self._brought: dict[str, BroughtLane] = {}

    def make(self, run_id: str, agent_id: str = "", parent: QWidget | None = None) -> FastLaneTab:
        """Make the tab of one run's picture; call its `leave` in the end."""
        if self._connect is None:
            return FastLaneTab(run_id, agent_id, parent=parent)
        brought = self._brought.get(run_id)
        if brought is None or brought.tabs == 0:
            brought = self._brought[run_id] = BroughtLane(self._connect(), run_id)
        return RemoteTab(brought, agent_id, parent)


class BroughtLane:
    """A lane of another machine, here as long as a tab shows it."""

    def __init__(self, client: DaemonClient, run_id: str) -> None:
        """Nothing is sent yet: gRPC connects when the lane's own thread first asks."""
        self.tabs = 0
        self._client = client
        recipe = Recipe("jpeg" if importlib.util.find_spec("PIL") else "raw")
        self._lane = RemoteLane(client, run_id, recipe=recipe).start()

    @property
    def local_id(self) -> str:
        """Under which id it is found on this machine."""
        return self._lane.local_id

    def let_go(self) -> None:
        """Count a tab less; the last one ends it."""
        self.tabs -= 1
        if self.tabs == 0:
            self._lane.close()
            self._client.close()


class RemoteTab(FastLaneTab):
    """The picture of a run on another machine; it looks like any other."""

    def __init__(self, brought: BroughtLane, agent_id: str, parent: QWidget | None) -> None:
        super().__init__(brought.local_id, agent_id, parent=parent)
        self._brought: BroughtLane | None = brought
        brought.tabs += 1

    def leave(self) -> None:
        """Stop reading, and bring the lane here no more unless others show it."""
        super().leave()
        if self._brought is not None:
            brought, self._brought = self._brought, None
            brought.let_go()
