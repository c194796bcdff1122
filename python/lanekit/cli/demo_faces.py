"""Where the demo can be shown. The first face that nothing stands in the way of is chosen.

A new one is one more entry in :data:`FACES`, at the place where it should be tried.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from lanekit.cli.demo_runs import DemoRun
from lanekit.errors import LanekitError
from lanekit.viewer.qt_platform import obstacle_to_windows
from lanekit.viewer.terminal.watching import follow

Asked = Callable[[], bool]


@dataclass(frozen=True)
class Face:
    """One way to show a run until the user has seen enough."""

    name: str
    obstacle: Callable[[], str | None]
    """Says why it can not be used here, with a remedy; None if it can."""
    show: Callable[[DemoRun, float | None, Asked], None]
    """Show a run for so many seconds, or until the user, or a signal, asks to quit."""


def _window_obstacle() -> str | None:
    obstacle = obstacle_to_windows(os.environ)
    return None if obstacle is None else str(obstacle)


def _show_window(run: DemoRun, seconds: float | None, quit_asked: Asked) -> None:
    access = run.daemon_access()
    if access is None:  # nothing is recorded: there is a picture, and no numbers
        from lanekit.viewer.fastlane.watching import watch_in_window

        watch_in_window(run.run_id, seconds=seconds)
        return
    from lanekit.viewer.window.showing import show_main_window

    show_main_window(access, run_id=run.run_id, seconds=seconds)


def _show_terminal(run: DemoRun, seconds: float | None, quit_asked: Asked) -> None:
    outcome = follow(
        run.run_id,
        seconds=seconds,
        wait_for_writer=None,  # it comes, or the training ends
        alive=lambda: run.alive() and not quit_asked(),
    )
    run.frames_shown = outcome.frames_shown


FACES = (
    Face("window", _window_obstacle, _show_window),
    Face("terminal", lambda: None, _show_terminal),
)


def choose_face(wanted: str | None) -> tuple[Face, list[str]]:
    """Return the face to use, and what to say about those that were passed over."""
    remarks: list[str] = []
    for face in FACES:
        if wanted not in (None, face.name):
            continue
        obstacle = face.obstacle()
        if obstacle is None:
            return face, remarks
        remarks.append(f"no {face.name}: {obstacle}")
    raise LanekitError(f"{'; '.join(remarks)}; `lanekit demo --view terminal` works everywhere")
