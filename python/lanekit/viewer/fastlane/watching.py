"""A window of its own for one run."""

from __future__ import annotations

from pathlib import Path

from PyQt6.QtCore import QEvent, QTimer

from lanekit.viewer.application import make_application, quitting_on_signals
from lanekit.viewer.fastlane.tab import FastLaneTab


def watch_in_window(
    run_id: str,
    *,
    seconds: float | None = None,
    capture_directory: Path | None = None,
    eval_directory: Path | None = None,
) -> int:
    """Show the run until the window is closed or `seconds` have passed; return an exit status.

    With an `eval_directory` it is an evaluation, whose summary is there.
    """
    application = make_application()
    with quitting_on_signals(application):
        tab = FastLaneTab(
            run_id,
            "",
            run_mode="train" if eval_directory is None else "policy_eval",
            eval_directory=eval_directory,
            capture_directory=capture_directory,
        )
        tab.setWindowTitle(run_id)
        tab.show()
        tab.setFocus()
        if seconds is not None:
            QTimer.singleShot(round(seconds * 1000), application.quit)
        application.exec()
        tab.close()
        # While there is an application, which wants its windows gone before it goes; but without
        # another turn of its loop, in which a repaint would miss the window.
        tab.deleteLater()
        application.sendPostedEvents(tab, QEvent.Type.DeferredDelete.value)
    return 0
