"""The live numbers as a person sees them: a real window, a real daemon, real workers."""

from __future__ import annotations

import gc
import sys
import time
import weakref
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from pictures import rgb_of
from PyQt6.QtCore import QModelIndex, Qt
from PyQt6.QtGui import QColor
from PyQt6.QtTest import QTest
from PyQt6.QtWidgets import QApplication, QLabel
from pytestqt.qtbot import QtBot
from stored_runs import RUN, SLOW_TESTS, DaemonProcess, Sender, connect_to, running_daemon

from lanekit.slow.display_rows import EpisodeBlock, StepRow
from lanekit.viewer.appearance import appearance
from lanekit.viewer.live import status
from lanekit.viewer.live.controller import ALL_AGENTS, LiveTelemetryController
from lanekit.viewer.live.curve import colour_of
from lanekit.viewer.live.history import RunHistory
from lanekit.viewer.live.tab import MOST_CURVES, LiveTelemetryTab
from lanekit.viewer.live.table_models import (
    EPISODE_ROWS,
    STEP_ROWS,
    EpisodeTableModel,
    NewestFirstModel,
    StepTableModel,
)
from lanekit.viewer.live.table_view import NewestFirstView
from lanekit.viewer.palette import DARK, LIGHT
from patience import patience_ms

MakeTab = Callable[..., LiveTelemetryTab]

# What Qt says of any window whose least size changes, off screen.
pytestmark = pytest.mark.qt_log_ignore("propagateSizeHints")


@pytest.fixture
def daemon() -> Iterator[DaemonProcess]:
    """A running daemon."""
    with running_daemon() as daemon:
        yield daemon


@pytest.fixture
def make_tab(qtbot: QtBot, daemon: DaemonProcess) -> Iterator[MakeTab]:
    """Makes tabs on the screen."""
    Sender(daemon)
    controller = LiveTelemetryController(lambda: connect_to(daemon))

    def make(agent: str = "", run: str = RUN) -> LiveTelemetryTab:
        tab = LiveTelemetryTab(run, agent, controller)
        qtbot.addWidget(tab)
        tab.resize(1000, 720)
        tab.show()
        return tab

    yield make
    controller.close()


def column(model: NewestFirstModel, name: str) -> list[str]:
    place = model.columns.index(name)
    return [model.texts(row)[place] for row in range(model.rowCount())]


def numbers(model: NewestFirstModel, name: str) -> list[int]:
    return [int(text.replace(",", "")) for text in column(model, name)]


def step(position: int, agent: str = "") -> StepRow:
    return StepRow(position, agent, 0, position, 1.0, False, False, "1", "[]")


def block(count: int, first: int = 0, agents: tuple[str, ...] = ("",)) -> EpisodeBlock:
    places = np.arange(first, first + count)
    names = [agents[place % len(agents)] for place in places]
    ending = np.ones(count, np.uint8)
    return EpisodeBlock(names, places, places.astype(float), places, ending)


def test_steps_and_episodes_come_into_the_tables_newest_first(
    qtbot: QtBot, daemon: DaemonProcess, make_tab: MakeTab
) -> None:
    tab = make_tab()
    sender = Sender(daemon)
    sender.steps(30)
    sender.episodes(40)
    qtbot.waitUntil(
        lambda: (tab.steps.rowCount(), tab.episodes.rowCount()) == (30, 40), timeout=patience_ms()
    )
    assert numbers(tab.steps, "Step") == list(range(29, -1, -1))
    assert tab.steps.texts(0) == ("(unnamed)", "0", "29", "29", "", "1", "[0.5]")
    assert numbers(tab.episodes, "Episode") == list(range(39, -1, -1))
    assert tab.episodes.texts(0) == ("(unnamed)", "39", "39", "4", "truncated")
    assert tab.step_view.isColumnHidden(0)
    assert tab.status.state == "live"
    assert tab.returns.curves[0].series.values.tolist() == list(range(40))
    assert tab.rewards.curves[0].series.values.tolist() == list(range(30))
    assert tab.rewards.curves[0].end == 0


def test_the_curve_of_a_known_run_is_on_the_screen(
    qtbot: QtBot, daemon: DaemonProcess, make_tab: MakeTab
) -> None:
    Sender(daemon).episodes(101)
    tab = make_tab()
    qtbot.waitUntil(lambda: tab.episodes.rowCount() == 101, timeout=patience_ms())
    tab.smoothing.slider.setValue(0)
    for dark, colours in ((True, DARK), (False, LIGHT)):
        appearance().set_dark(dark)
        scale = tab.returns.scale()
        assert scale is not None
        pixels = rgb_of(tab.returns).astype(int)
        for value in (20.0, 50.0, 80.0):
            place = pixels[
                round(scale.y(value)) - 2 : round(scale.y(value)) + 3, round(scale.x(value + 1))
            ]
            colour = colour_of(0, colours)
            wanted = [colour.red(), colour.green(), colour.blue()]
            assert (abs(place - wanted).sum(axis=1) < 120).any()


def test_25_000_episodes_of_history_are_all_there(
    qtbot: QtBot, daemon: DaemonProcess, make_tab: MakeTab
) -> None:
    Sender(daemon).episodes(25_000)
    tab = make_tab()
    qtbot.waitUntil(lambda: tab.episodes.rowCount() == 25_000, timeout=patience_ms())
    assert numbers(tab.episodes, "Episode") == list(range(24_999, -1, -1))


def test_a_daemon_killed_and_restarted_in_the_middle_costs_no_episode_and_repeats_none(
    qtbot: QtBot, daemon: DaemonProcess, make_tab: MakeTab
) -> None:
    """A real worker prints on through its proxy while the daemon is away."""
    tally = daemon.directory / "tally"
    tally.write_bytes(bytes(8))
    worker = [sys.executable, str(SLOW_TESTS / "numbered_worker.py"), "15000", "4000", str(tally)]
    with connect_to(daemon) as client:
        client.submit_run(worker, run_id="worked")
    tab = make_tab(ALL_AGENTS, "worked")
    qtbot.waitUntil(lambda: tab.episodes.rowCount() > 20, timeout=patience_ms())
    daemon.kill()
    qtbot.waitUntil(lambda: tab.status.state == "away", timeout=patience_ms())
    assert str(daemon.socket) in tab.status.problem
    assert "goes on by itself" in tab.status.problem
    assert tab.episodes.rowCount() > 20
    daemon.start()
    qtbot.waitUntil(lambda: tab.episodes.rowCount() >= 300, timeout=patience_ms())
    assert numbers(tab.episodes, "Episode") == list(range(299, -1, -1))
    # The worker may have begun before it was followed.
    followed = 15_000 - (tab.controller._runs["worked"].feed.steps_before or 0)
    qtbot.waitUntil(lambda: tab.status.shown + tab.status.missed == followed, timeout=patience_ms())
    assert tab.status.state in ("live", "sampling")
    assert tab.status.problem == ""
    positions = [row.position for row in tab.steps.rows]
    assert positions == sorted(set(positions), reverse=True)
    assert positions[0] == 14_999


def test_too_many_steps_are_counted_and_said_to_be_in_the_store(
    qtbot: QtBot, daemon: DaemonProcess, make_tab: MakeTab
) -> None:
    tab = make_tab()
    words: list[str] = []
    tab.controller.credit_manager.starved.connect(lambda *_: words.append("starved"))
    tab.controller.credit_manager.resumed.connect(lambda *_: words.append("resumed"))
    sender = Sender(daemon)
    states = set()
    tab.status.changed.connect(lambda: states.add(tab.status.state))
    while "starved" not in words:
        sender.steps(500)
        qtbot.wait(1)
    committed = sender.committed().steps
    qtbot.waitUntil(
        lambda: tab.status.shown + tab.status.missed == committed, timeout=patience_ms()
    )
    assert "sampling" in states
    assert tab.status.missed > 0
    text = f"Dropped for display: {tab.status.missed:,} of {committed:,} steps."
    assert text in tab.status.missedText
    assert "Everything is in the store" in tab.status.missedText
    assert any(label.text() == tab.status.missedText for label in tab.findChildren(QLabel))
    assert numbers(tab.steps, "Reward")[0] == committed - 1  # the newest is always shown
    qtbot.waitUntil(lambda: tab.status.state == "live", timeout=patience_ms())
    assert words[-1] == "resumed"


def test_a_window_that_stood_still_shows_the_newest_and_counts_the_rest(
    qtbot: QtBot, daemon: DaemonProcess, make_tab: MakeTab
) -> None:
    tab = make_tab()
    sender = Sender(daemon)
    sender.steps(10)
    qtbot.waitUntil(lambda: tab.status.shown == 10, timeout=patience_ms())
    began = time.monotonic()
    while time.monotonic() < began + 1.0:  # the event loop does not turn
        sender.steps(200)
    committed = sender.committed().steps
    assert committed > 10
    assert tab.status.shown == 10
    qtbot.waitUntil(
        lambda: tab.status.shown + tab.status.missed == committed, timeout=patience_ms()
    )
    assert tab.steps.rows[0].position == committed - 1


def test_a_tab_of_all_agents_has_a_colour_for_each_and_a_choice(
    qtbot: QtBot, daemon: DaemonProcess, make_tab: MakeTab
) -> None:
    sender = Sender(daemon)
    sender.episodes(30, ("a", "b", "c"))
    sender.steps(30, ("a", "b", "c"))
    tab = make_tab(ALL_AGENTS)
    qtbot.waitUntil(
        lambda: (tab.steps.rowCount(), tab.episodes.rowCount()) == (30, 30), timeout=patience_ms()
    )
    assert [curve.name for curve in tab.returns.curves] == ["a", "b", "c"]
    assert [name for _, name, _ in tab.legend.entries()] == ["a", "b", "c"]
    assert tab.choice.isVisible()
    assert column(tab.steps, "Agent") == ["c", "b", "a"] * 10
    assert not tab.step_view.isColumnHidden(0)
    tab.choice.setFocus()
    QTest.keyClick(tab.choice, Qt.Key.Key_Down)
    QTest.keyClick(tab.choice, Qt.Key.Key_Down)
    assert tab.chosen_agent == "b"
    assert set(column(tab.steps, "Agent")) == {"b"}
    assert numbers(tab.episodes, "Episode") == list(range(28, -1, -3))
    assert [curve.number for curve in tab.returns.curves] == [1]  # its colour stays
    assert tab.legend.entries() == []
    sender.episodes(3, ("a", "b", "c"))
    sender.steps(3, ("a", "b", "c"))
    qtbot.waitUntil(
        lambda: (tab.steps.rowCount(), tab.episodes.rowCount()) == (11, 11), timeout=patience_ms()
    )
    assert numbers(tab.episodes, "Episode") == list(range(31, -1, -3))
    tab.choose_agent(None)
    assert (tab.steps.rowCount(), tab.episodes.rowCount()) == (33, 33)


def test_a_tab_of_one_agent_shows_no_other(
    qtbot: QtBot, daemon: DaemonProcess, make_tab: MakeTab
) -> None:
    sender = Sender(daemon)
    sender.episodes(30, ("a", "b"))
    sender.steps(30, ("a", "b"))
    tab = make_tab("b")
    qtbot.waitUntil(
        lambda: (tab.steps.rowCount(), tab.episodes.rowCount()) == (15, 15), timeout=patience_ms()
    )
    assert not tab.choice.isVisible()
    assert tab.step_view.isColumnHidden(0)
    assert tab.status.shown == 15
    assert numbers(tab.episodes, "Episode") == list(range(29, 0, -2))


def test_the_slider_smooths_all_curves_and_alters_no_number(
    qtbot: QtBot, daemon: DaemonProcess, make_tab: MakeTab
) -> None:
    Sender(daemon).episodes(500)
    tab = make_tab()
    qtbot.waitUntil(lambda: tab.episodes.rowCount() == 500, timeout=patience_ms())
    tab.smoothing.slider.setFocus()
    QTest.keyClick(tab.smoothing.slider, Qt.Key.Key_Home)
    assert [plot.window_size for plot in tab.plots] == [1, 1, 1]
    QTest.keyClick(tab.smoothing.slider, Qt.Key.Key_Right)
    QTest.keyClick(tab.smoothing.slider, Qt.Key.Key_Right)
    assert [plot.window_size for plot in tab.plots] == [5, 5, 5]
    assert any(label.text() == "mean of 5" for label in tab.findChildren(QLabel))
    assert tab.returns.curves[0].series.values.tolist() == list(range(500))


def test_a_tab_that_was_left_takes_nothing_more(
    qtbot: QtBot, daemon: DaemonProcess, make_tab: MakeTab
) -> None:
    tab, other = make_tab(), make_tab()
    sender = Sender(daemon)
    sender.steps(5)
    qtbot.waitUntil(lambda: tab.status.shown == other.status.shown == 5, timeout=patience_ms())
    tab.close()
    tab.leave()
    sender.steps(5)
    qtbot.waitUntil(lambda: other.status.shown == 10, timeout=patience_ms())
    assert tab.status.shown == 5


def test_a_tab_that_is_destroyed_without_a_word_does_no_harm(
    qtbot: QtBot, daemon: DaemonProcess, make_tab: MakeTab
) -> None:
    other = make_tab()
    gone = LiveTelemetryTab(RUN, "", other.controller)
    with qtbot.waitSignal(gone.destroyed):
        gone.deleteLater()
    Sender(daemon).steps(5)
    qtbot.waitUntil(lambda: other.status.shown == 5, timeout=patience_ms())


def test_nothing_holds_on_to_a_tab_that_was_closed(
    qtbot: QtBot, daemon: DaemonProcess, make_tab: MakeTab
) -> None:
    other = make_tab()
    Sender(daemon).steps(5)
    closed = []
    for _ in range(3):
        tab = LiveTelemetryTab(RUN, "", other.controller)
        tab.show()
        qtbot.waitUntil(lambda tab=tab: tab.status.shown == 5, timeout=patience_ms())
        tab.close()
        tab.deleteLater()
        closed.append(weakref.ref(tab))
        del tab
    qtbot.waitUntil(
        lambda: (gc.collect(), [each() for each in closed])[1] == [None] * 3,
        timeout=patience_ms(10),
    )


def test_of_very_many_agents_some_are_drawn_and_each_can_be_chosen(
    qtbot: QtBot, daemon: DaemonProcess, make_tab: MakeTab
) -> None:
    agents = tuple(f"agent-{number}" for number in range(200))
    sender = Sender(daemon)
    sender.episodes(400, agents)
    tab = make_tab(ALL_AGENTS)
    qtbot.waitUntil(lambda: tab.episodes.rowCount() == 400, timeout=patience_ms())
    assert len(tab.returns.curves) == MOST_CURVES
    assert "184 more" in tab.legend.toolTip()
    tab.choose_agent("agent-150")
    assert [curve.number for curve in tab.returns.curves] == [150]
    assert numbers(tab.episodes, "Episode") == [350, 150]


def test_a_small_tab_shows_the_returns_alone(make_tab: MakeTab) -> None:
    tab = make_tab()
    assert all(plot.isVisible() for plot in tab.plots)
    tab.resize(600, 400)
    assert [plot.isVisible() for plot in tab.plots] == [True, False, False]
    tab.resize(900, 700)
    assert all(plot.isVisible() for plot in tab.plots)


def test_a_run_that_is_over_says_so(qtbot: QtBot, daemon: DaemonProcess, make_tab: MakeTab) -> None:
    tab = make_tab()
    assert tab.status.state == "waiting"
    Sender(daemon).steps(5)
    qtbot.waitUntil(lambda: tab.status.shown == 5, timeout=patience_ms())
    tab.controller.run_ended(RUN)
    assert (tab.status.state, tab.status.text) == ("ended", "The run is over")
    assert make_tab().status.state == "ended"  # also if it is opened later
    tab.controller.run_ended(RUN, "failed")
    assert (tab.status.state, tab.status.text) == ("failed", "The run has failed")
    tab.controller.run_ended(RUN, "lost")
    assert tab.status.text == "The run was lost: its worker is gone"


def test_a_run_whose_worker_comes_back_is_live_again(
    qtbot: QtBot, daemon: DaemonProcess, make_tab: MakeTab, monkeypatch: pytest.MonkeyPatch
) -> None:
    tab = make_tab()
    sender = Sender(daemon)
    sender.steps(5)
    qtbot.waitUntil(lambda: tab.status.shown == 5, timeout=patience_ms())
    tab.controller.run_ended(RUN)
    sender.steps(5)  # its last ones, which were on their way
    qtbot.waitUntil(lambda: tab.status.shown == 10, timeout=patience_ms())
    assert tab.status.state == "ended"
    monkeypatch.setattr(status, "LAST_STEPS_SECONDS", 0.0)
    sender.steps(5)
    qtbot.waitUntil(lambda: tab.status.shown == 15, timeout=patience_ms())
    assert tab.status.state == "live"


def test_the_step_table_keeps_the_newest_thousand() -> None:
    model = StepTableModel()
    for first in range(0, 2500, 50):
        model.add([step(place) for place in range(first, first + 50)])
    assert [row.position for row in model.rows] == list(range(2499, 2499 - STEP_ROWS, -1))
    model.add([step(place) for place in range(2500, 6000)])
    assert model.rowCount() == STEP_ROWS
    assert model.rows[0].position == 5999


def test_the_episode_table_keeps_its_newest_rows_and_the_history_all() -> None:
    history = RunHistory()
    model = EpisodeTableModel()
    model.show_history(history, None)
    for first in range(0, EPISODE_ROWS + 20_000, 20_000):
        history.add_episodes(block(20_000, first))
        model.grow()
    assert model.rowCount() == EPISODE_ROWS
    assert model.total == history.episodes == EPISODE_ROWS + 20_000
    assert model.texts(0)[1] == "119,999"
    assert model.texts(EPISODE_ROWS - 1)[1] == "20,000"


def test_the_tables_are_sound_models(qtmodeltester: object) -> None:
    history = RunHistory()
    history.add_episodes(block(20, agents=("a", "b")))
    episodes = EpisodeTableModel()
    episodes.show_history(history, "b")
    steps = StepTableModel()
    steps.add([step(place) for place in range(10)])
    qtmodeltester.check(episodes)  # type: ignore[attr-defined]
    qtmodeltester.check(steps)  # type: ignore[attr-defined]
    history.add_episodes(block(20, 20, agents=("a", "b")))
    episodes.grow()
    steps.add([step(10), step(11)])
    assert (episodes.rowCount(), steps.rowCount()) == (20, 12)


def test_rows_that_come_do_not_move_what_a_reader_looks_at(qtbot: QtBot) -> None:
    model = StepTableModel()
    model.add([step(place) for place in range(300)])
    view = NewestFirstView(model)
    qtbot.addWidget(view)
    view.resize(500, 240)
    view.show()
    model.add([step(300)])
    assert model.texts(view.rowAt(2))[2] == "300"  # at the top: the newest is seen
    bar = view.verticalScrollBar()
    assert bar is not None
    bar.setValue(100)
    seen = model.texts(view.rowAt(2))[2]
    model.add([step(place) for place in range(301, 320)])
    assert model.texts(view.rowAt(2))[2] == seen


def test_selected_rows_are_copied_as_lines(qtbot: QtBot) -> None:
    model = StepTableModel()
    model.add([step(0), step(1), step(2)])
    view = NewestFirstView(model)
    qtbot.addWidget(view)
    view.show()
    view.selectRow(0)
    view.setFocus()
    QTest.keyClick(view, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    clipboard = QApplication.clipboard()
    assert clipboard is not None
    assert clipboard.text() == "(unnamed)\t0\t2\t1\t\t1\t[]"


def test_cells_know_their_alignment_and_tell_their_whole_text() -> None:
    model = StepTableModel()
    model.add([step(0)])
    reward = model.index(0, 3, QModelIndex())
    alignment = model.data(reward, Qt.ItemDataRole.TextAlignmentRole)
    assert alignment & Qt.AlignmentFlag.AlignRight
    assert model.data(model.index(0, 6), Qt.ItemDataRole.ToolTipRole) == "[]"
    assert model.data(reward, Qt.ItemDataRole.DecorationRole) is None


def test_the_dot_has_the_colour_of_the_state(
    qtbot: QtBot, daemon: DaemonProcess, make_tab: MakeTab
) -> None:
    tab = make_tab()
    for states, name in (("away", "bad"), ("waiting", "quiet_text")):
        tab.status.set_problem("a reason" if states == "away" else "")
        assert tab.status.state == states
        for dark, colours in ((True, DARK), (False, LIGHT)):
            appearance().set_dark(dark)
            wanted = QColor(getattr(colours, name))
            foot = rgb_of(tab)[-30:, :40].reshape(-1, 3).astype(int)
            near = abs(foot - [wanted.red(), wanted.green(), wanted.blue()]).sum(axis=1) < 12
            assert near.sum() > 20
