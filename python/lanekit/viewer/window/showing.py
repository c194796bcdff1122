"""``lanekit gui``: the main window from its opening to its end."""

from __future__ import annotations

from PyQt6.QtCore import QEvent, QTimer

from lanekit.viewer.application import make_application, quitting_on_signals
from lanekit.viewer.window.daemon_access import DaemonAccess
from lanekit.viewer.window.main_window import MainWindow
from lanekit.viewer.window.memory import WindowMemory, usual_place


def show_main_window(
    access: DaemonAccess, *, run_id: str | None = None, seconds: float | None = None
) -> int:
    """Show the window until it is closed or `seconds` have passed; return an exit status.

    With a `run_id` it opens on that run: its picture, and its numbers below.
    """
    application = make_application()
    with quitting_on_signals(application):
        window = MainWindow(access, WindowMemory(usual_place()))
        if run_id is not None:
            window.open_run(run_id)
        window.show()
        if seconds is not None:
            QTimer.singleShot(round(seconds * 1000), application.quit)
        application.exec()
        window.close()
        # While there is an application: Qt wants its windows gone before it goes. Outside of its
        # loop it takes them away only when it is told to.
        window.deleteLater()
        application.sendPostedEvents(window, QEvent.Type.DeferredDelete.value)
    return 0
