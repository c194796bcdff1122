"""Where the demo can be shown. The first face that nothing stands in the way of is chosen.

A new one is one more entry in :data:`FACES`, at the place where it should be tried.
"""

from __future__ import annotations

import os
import sys
import time
import webbrowser
from collections.abc import Callable
from dataclasses import dataclass

from lanekit.cli.demo_runs import DemoRun
from lanekit.cli.progress_bar import ProgressBar
from lanekit.cli.web import missing_for_page, open_browser
from lanekit.errors import LanekitError
from lanekit.viewer.qt_platform import candidates, obstacle_to_windows
from lanekit.viewer.terminal.watching import follow

Asked = Callable[[], bool]
_LOOK_EVERY = 0.25


@dataclass(frozen=True)
class Face:
    """One way to show a run until the user has seen enough."""

    name: str
    obstacle: Callable[[bool], str | None]
    """Says why it can not be used here, with a remedy; None if it can. The argument tells whether
    the user asked for this face."""
    show: Callable[[DemoRun, float | None, Asked], None]
    """Show a run for so many seconds, or until the user, or a signal, asks to quit."""
    patience: float = 5.0
    """Seconds that the training waits for somebody to look, before it begins."""


def _window_obstacle(asked_for: bool) -> str | None:
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


def _browser_obstacle(asked_for: bool) -> str | None:
    # Whoever asks for it may look from elsewhere. Unasked, a page that nobody opens is no face.
    if not asked_for and not _graphical_browser():
        return "none can be opened here (--view browser serves the page for one elsewhere)"
    return missing_for_page()


def _graphical_browser() -> bool:
    if not candidates(os.environ):
        return False
    try:
        found = webbrowser.get()
    except webbrowser.Error:
        return False
    # One that shows pages as text would take this terminal.
    return type(found) is not webbrowser.GenericBrowser and getattr(found, "background", True)


def _show_browser(run: DemoRun, seconds: float | None, quit_asked: Asked) -> None:
    address = run.web_address()
    if address is None:
        print("lanekit demo: the page shows recorded runs only; so it is here", file=sys.stderr)
        _show_terminal(run, seconds, quit_asked)
        return
    print(
        f"lanekit demo: the training begins when you open this page, or in a minute:\n  {address}",
        file=sys.stderr,
        flush=True,
    )
    if _graphical_browser():
        from lanekit.slow.endpoint import state_directory

        open_browser(address, state_directory())
    bar = ProgressBar(sys.stdout, sys.stderr)
    end = time.monotonic() + (float("inf") if seconds is None else seconds)
    while run.alive() and not quit_asked() and time.monotonic() < end:
        bar.show(run.progress())
        time.sleep(_LOOK_EVERY)
    bar.leave()


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
    Face("browser", _browser_obstacle, _show_browser, patience=60.0),
    Face("terminal", lambda _: None, _show_terminal),
)


def choose_face(wanted: str | None) -> tuple[Face, list[str]]:
    """Return the face to use, and what to say about those that were passed over."""
    remarks: list[str] = []
    for face in FACES:
        if wanted not in (None, face.name):
            continue
        obstacle = face.obstacle(wanted is not None)
        if obstacle is None:
            return face, remarks
        remarks.append(f"no {face.name}: {obstacle}")
    raise LanekitError(f"{'; '.join(remarks)}; `lanekit demo --view terminal` works everywhere")
