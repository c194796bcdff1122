"""The live picture in its states."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from PyQt6.QtCore import QPoint
from PyQt6.QtGui import QPixmap
from PyQt6.QtTest import QTest

from lanekit.viewer.appearance import appearance
from lanekit.viewer.fastlane.tab import FastLaneTab, RunMode
from screenshot_scenes.live_run import LiveRun, live_run, wait_until

RUN = "ppo-cartpole-seed3"


@contextmanager
def tab_of(
    run_id: str = RUN, *, mode: RunMode | None = None, size: tuple[int, int] = (760, 549)
) -> Iterator[FastLaneTab]:
    """Show a tab; files go to a directory that goes with it."""
    with tempfile.TemporaryDirectory(prefix="films-") as directory:
        folder = Path(directory)
        (folder / "eval_summary.json").write_text(
            json.dumps(
                {
                    "batches": 4,
                    "episodes": 40,
                    "avg_return": 238.41,
                    "min_return": 104.2,
                    "max_return": 301.77,
                }
            ),
            encoding="utf-8",
        )
        tab = FastLaneTab(
            run_id, "agent-0", run_mode=mode, eval_directory=folder, capture_directory=folder
        )
        tab.resize(*size)
        tab.show()
        QTest.mouseMove(tab.quick, QPoint(380, 200))  # away from the buttons
        try:
            yield tab
        finally:
            tab.close()
            tab.deleteLater()
            appearance().set_dark(True)
            QTest.qWait(1)


def grab(tab: FastLaneTab) -> QPixmap:
    """Return what the tab shows once it has settled."""
    QTest.qWait(250)
    return tab.grab()


def _live(then: Callable[[FastLaneTab, LiveRun], None], *, dark: bool = True) -> QPixmap:
    appearance().set_dark(dark)
    with live_run(RUN) as run, tab_of() as tab:
        run.play(25)
        wait_until(lambda: tab.shown is not None)
        then(tab, run)
        return grab(tab)


def dark() -> QPixmap:
    """A run that is watched."""
    return _live(lambda tab, run: None)


def light() -> QPixmap:
    """The same in the light theme."""
    return _live(lambda tab, run: None, dark=False)


def without_hud() -> QPixmap:
    """The picture alone, enlarged around the cart."""

    def then(tab: FastLaneTab, run: LiveRun) -> None:
        tab.model.toggle_hud()
        for _ in range(5):
            tab.model.zoom.zoom_at(1.25, 380, 340)

    return _live(then)


def paused() -> QPixmap:
    """A picture that stands, and where it was saved to."""

    def then(tab: FastLaneTab, run: LiveRun) -> None:
        tab.model.act("pause")
        tab.model.say("Saved /home/ada/runs/ppo-cartpole-seed3-step41225.png")

    return _live(then)


def recording() -> QPixmap:
    """A film being made, with the tooltip of the button that ends it."""

    def then(tab: FastLaneTab, run: LiveRun) -> None:
        tab.model.act("record")
        run.play(60)
        QTest.mouseMove(tab.quick, QPoint(111, 528))

    return _live(then)


def help_overlay() -> QPixmap:
    """Every key."""
    return _live(lambda tab, run: tab.model.act("help"))


def waiting() -> QPixmap:
    """A run that nobody publishes yet."""
    with tab_of() as tab:
        return grab(tab)


def reconnecting() -> QPixmap:
    """A run whose worker has left."""
    with tab_of() as tab:
        with live_run(RUN) as run:
            run.play(25)
        wait_until(lambda: tab.model.status == "reconnecting")
        return grab(tab)


def evaluation() -> QPixmap:
    """What an evaluation has found."""
    with (
        live_run("eval-lander", "LunarLander-v3") as run,
        tab_of("eval-lander", mode="policy_eval") as tab,
    ):
        run.play(40)
        wait_until(lambda: tab.model.evalText != "")
        return grab(tab)


SCENES = {
    "fast-lane-dark": dark,
    "fast-lane-light": light,
    "fast-lane-zoomed": without_hud,
    "fast-lane-paused": paused,
    "fast-lane-recording": recording,
    "fast-lane-help": help_overlay,
    "fast-lane-waiting": waiting,
    "fast-lane-reconnecting": reconnecting,
    "fast-lane-evaluation": evaluation,
}
