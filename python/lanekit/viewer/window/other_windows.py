"""The windows beside the main one: replay of stored episodes, and play from the keyboard."""

from __future__ import annotations

from PyQt6.QtWidgets import QWidget

from lanekit.errors import MissingExtra
from lanekit.viewer.replay.window import ReplayWindow
from lanekit.viewer.window.daemon_access import DaemonAccess


class OtherWindows:
    """Opens them, and closes those that are still open with the main window."""

    def __init__(self, access: DaemonAccess) -> None:
        self._access = access
        self._opened: list[QWidget] = []

    @property
    def shown(self) -> list[QWidget]:
        """Those that are open."""
        self._opened = [window for window in self._opened if window.isVisible()]
        return list(self._opened)

    def open_replay(self, run_id: str) -> None:
        """Look at the stored episodes of a run."""
        self._show(ReplayWindow(run_id, self._access.store))

    def open_play(self) -> None:
        """Play an environment from the keyboard; raises MissingExtra where there is none."""
        try:
            from lanekit.viewer.human.window import HumanPlayWindow
        except ModuleNotFoundError as error:
            raise MissingExtra(
                f"playing needs environments ({error}): pip install 'lanekit[rl]'"
            ) from error
        self._show(HumanPlayWindow())

    def close(self) -> None:
        """Close all of them."""
        for window in self.shown:
            window.close()
        self._opened.clear()

    def _show(self, window: QWidget) -> None:
        self._opened = [*self.shown, window]
        window.show()
        window.setFocus()
