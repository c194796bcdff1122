"""The main window in its states."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "tests" / "viewer"))

from PyQt6.QtCore import QPoint
from PyQt6.QtGui import QPixmap
from PyQt6.QtTest import QTest
from PyQt6.QtWidgets import QLineEdit, QWidget
from window_desk import WindowDesk, window_desk

from lanekit.viewer.appearance import appearance
from lanekit.viewer.window import lane_watch
from lanekit.viewer.window.keys_dialog import KeysDialog
from lanekit.viewer.window.main_window import MainWindow
from lanekit.viewer.window.run_form import RunForm
from screenshot_scenes.live_run import LiveRun, live_run, wait_until

OWN = ("ppo-", "dqn-", "sac-", "a2c-", "random-")


@contextmanager
def window_of(
    *, with_daemon: bool = True, may_start: bool = False
) -> Iterator[tuple[WindowDesk, MainWindow]]:
    """Open the main window on a desk of its own; it sees no other runs of this machine."""
    look = lane_watch.live_lanes
    lane_watch.live_lanes = lambda: {
        run: since for run, since in look().items() if run.startswith(OWN)
    }
    try:
        with window_desk() as desk:
            if with_daemon:
                desk.daemon.start()
            window = desk.open(may_start=may_start)
            window.choose_theme("dark")
            QTest.mouseMove(window, QPoint(700, 20))
            yield desk, window
    finally:
        lane_watch.live_lanes = look
        appearance().set_dark(True)


def grab(widget: QWidget) -> QPixmap:
    """Return what a widget shows once it has settled."""
    QTest.qWait(400)
    return widget.grab()


def state(window: MainWindow, run_id: str) -> str:
    """Return a run's state."""
    row = window.runs.row(run_id)
    return "" if row is None else row.state


def some_history(desk: WindowDesk, window: MainWindow) -> None:
    """Have some runs that have ended."""
    for run_id, options in {
        "ppo-cartpole-seed1": {"total_steps": 900},
        "ppo-cartpole-seed2": {"total_steps": 600},
        "dqn-cartpole-lr-1e-3": {"total_steps": 500, "fail_at": 420},
    }.items():
        desk.submit(run_id, **options)
        wait_until(lambda run_id=run_id: state(window, run_id) in ("completed", "failed"))


def empty() -> QPixmap:
    """Return the window of a newcomer."""
    with window_of(with_daemon=False, may_start=True) as (_, window):
        wait_until(lambda: window.empty.title.text() == "No daemon runs")
        return grab(window)


def watching(*, theme: str = "dark") -> QPixmap:
    """Return the window with a live run."""
    with window_of() as (desk, window):
        some_history(desk, window)
        desk.submit("ppo-cartpole-seed3", pictures=True, total_steps=10**6, pause=0.01)
        wait_until(lambda: state(window, "ppo-cartpole-seed3") == "running")
        window.list.select("ppo-cartpole-seed3")
        window.open_selected()
        page = window.tabs.pages[0].content
        wait_until(lambda: page.shown is not None)
        window.choose_theme(theme)
        QTest.qWait(2500)
        return grab(window)


def numbers() -> QPixmap:
    """Return the window with a run's numbers."""
    with window_of() as (desk, window):
        some_history(desk, window)
        desk.submit("ppo-cartpole-seed3", total_steps=10**6, pause=0.001)
        wait_until(lambda: state(window, "ppo-cartpole-seed3") == "running")
        window.list.select("ppo-cartpole-seed3")
        window.open_numbers()
        QTest.qWait(6000)
        return grab(window)


def both() -> QPixmap:
    """Return the window as ``lanekit gui RUN`` opens it: a picture, and its numbers below."""
    with window_of() as (desk, window):
        some_history(desk, window)
        desk.submit("ppo-cartpole-seed3", pictures=True, total_steps=10**6, pause=0.001)
        wait_until(lambda: state(window, "ppo-cartpole-seed3") == "running")
        window.open_run("ppo-cartpole-seed3")
        QTest.qWait(6000)
        return grab(window)


def keys() -> QPixmap:
    """Return the list of keys."""
    with window_of() as (_, window):
        window.show_keys()
        dialogs = window.findChildren(KeysDialog)
        return grab(dialogs[0])


def grid() -> QPixmap:
    """Return the window with four runs side by side."""
    envs = {
        "ppo-cartpole-seed3": "CartPole-v1",
        "dqn-acrobot-seed1": "Acrobot-v1",
        "sac-pendulum-seed1": "Pendulum-v1",
        "random-mountain-car": "MountainCar-v0",
    }
    with ExitStack() as stack:
        runs: list[LiveRun] = [stack.enter_context(live_run(*each)) for each in envs.items()]
        _, window = stack.enter_context(window_of())
        wait_until(lambda: window.runs.rowCount() == len(envs))
        window.log_dock.hide()
        window.list.select(*envs)
        window.open_side_by_side()
        for _ in range(25):
            for run in runs:
                run.play(1)
        return grab(window)


def form() -> QPixmap:
    """Return the form with a value that the worker refuses."""
    with window_of() as (_, window):
        made = filled_form(window)
        return grab(made)


def filled_form(window: MainWindow) -> RunForm:
    """Open the form and enter something wrong."""
    window.open_form()
    made = window.form
    assert made is not None
    wait_until(made.start.isEnabled)
    line = made.options.entries["total_steps"].widget
    assert isinstance(line, QLineEdit)
    line.setText("-1")
    wait_until(lambda: made.message.text() != "")
    return made


def failed() -> QPixmap:
    """Return the window with a failed run's log."""
    with window_of() as (desk, window):
        # Where lanekit is installed is of no interest to a reader.
        (desk.site / "sitecustomize.py").write_text("import sys\nsys.tracebacklimit = 0\n")
        some_history(desk, window)
        window.list.select("dqn-cartpole-lr-1e-3")
        window.open_numbers()
        wait_until(lambda: "stderr" in window.log.text.toPlainText())
        QTest.qWait(1500)
        return grab(window)


def light() -> QPixmap:
    """Return the window in the light theme."""
    return watching(theme="light")


SCENES: dict[str, Callable[[], QPixmap]] = {
    "window-empty": empty,
    "window-watching": watching,
    "window-light": light,
    "window-numbers": numbers,
    "window-run": both,
    "window-keys": keys,
    "window-grid": grid,
    "window-form": form,
    "window-failed": failed,
}
