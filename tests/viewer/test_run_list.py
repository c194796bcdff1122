"""The list of runs: what it shows, and how little it does for ten thousand of them."""

from __future__ import annotations

from typing import Any

import pytest
from PyQt6.QtCore import QModelIndex, QObject, Qt
from pytestqt.qtbot import QtBot

from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.viewer.window.run_list import RunListPanel, ranges
from lanekit.viewer.window.run_list_model import AGE, NAME, STATE, STEPS, RunListModel
from lanekit.viewer.window.run_row import RunRow, age_text, row_of

pytestmark = pytest.mark.qt_log_ignore("This plugin does not support", extend=True)

MANY = 10_000


def made_run(number: int, state: str = "RUNNING", **more: Any) -> RunRow:
    run = pb.Run(
        run_id=f"run-{number:05}",
        state=pb.RunState.Value(f"RUN_STATE_{state}"),
        created_wall_time_ns=1_700_000_000_000_000_000 + number,
        **more,
    )
    return row_of(run)


def ids(model: RunListModel) -> list[str]:
    return [model.shown(line).run_id for line in range(model.rowCount())]


@pytest.fixture
def model(qapp: object) -> RunListModel:
    return RunListModel()


class CountingModel(RunListModel):
    """Counts how often Qt asks for a cell."""

    asked = 0

    def data(self, index: QModelIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        self.asked += 1
        return super().data(index, role)


def test_the_newest_run_comes_first(model: RunListModel) -> None:
    model.take_all([made_run(1), made_run(3), made_run(2)])
    assert ids(model) == ["run-00003", "run-00002", "run-00001"]


def test_a_change_repaints_one_line_and_a_new_run_adds_one(
    model: RunListModel, qtbot: QtBot
) -> None:
    model.take_all(made_run(i) for i in range(10))
    changed: list[tuple[int, int]] = []
    inserted: list[tuple[int, int]] = []
    resets: list[None] = []
    model.dataChanged.connect(lambda top, end: changed.append((top.row(), end.row())))
    model.rowsInserted.connect(lambda _, first, last: inserted.append((first, last)))
    model.modelReset.connect(lambda: resets.append(None))
    model.take([made_run(4, "PAUSED")])
    assert changed == [(5, 5)]
    assert model.index(5, STATE).data() == "paused"
    model.take([made_run(10)])
    assert inserted == [(0, 0)]
    assert resets == []


def test_words_are_searched_for_in_id_and_state(model: RunListModel) -> None:
    model.take_all([made_run(1, "FAILED"), made_run(2), made_run(11, "FAILED")])
    model.search("FAILED 1")
    assert ids(model) == ["run-00011", "run-00001"]
    model.search("nothing like it")
    assert ids(model) == []
    model.search("")
    assert len(ids(model)) == 3


def test_archived_runs_are_hidden_until_asked_for(model: RunListModel) -> None:
    model.take_all([made_run(1, "COMPLETED", archived=True), made_run(2)])
    assert ids(model) == ["run-00002"]
    model.show_archived(True)
    assert ids(model) == ["run-00002", "run-00001"]
    assert model.index(1, STATE).data() == "completed (archived)"
    model.show_archived(False)
    model.take([made_run(2, "COMPLETED", archived=True)])
    assert ids(model) == []


def test_a_run_that_no_daemon_knows_is_live_while_it_publishes(model: RunListModel) -> None:
    model.take_lanes({"by-hand": 5, "run-00001": 6})
    assert {model.shown(i).state for i in range(2)} == {"live"}
    model.take_all([made_run(1)])
    row = model.row("run-00001")
    assert row is not None
    assert row.state == "running"
    assert model.is_published("run-00001")
    model.take_lanes({})
    assert ids(model) == ["run-00001"]
    assert not model.is_published("run-00001")


def test_another_daemons_list_takes_the_place_of_the_first(model: RunListModel) -> None:
    model.take_all([made_run(1), made_run(2)])
    model.take_all([made_run(3)])
    assert ids(model) == ["run-00003"]


def test_what_can_be_done_depends_on_the_state(model: RunListModel) -> None:
    states = ["SUBMITTED", "RUNNING", "PAUSED", "COMPLETED", "LOST"]
    model.take_all(made_run(i, state) for i, state in enumerate(states))
    model.take_lanes({"by-hand": 1})
    actions = {row.state: set(row.actions) for row in map(model.shown, range(6))}
    assert actions == {
        "submitted": {"stop", "cancel"},
        "running": {"pause", "stop", "cancel"},
        "paused": {"resume", "stop", "cancel"},
        "completed": {"archive"},
        "lost": {"archive"},
        "live": set(),
    }


def test_a_list_without_lines_says_why_in_their_place(model: RunListModel, qtbot: QtBot) -> None:
    panel = RunListPanel(model)
    qtbot.addWidget(panel)
    panel.resize(400, 300)
    panel.show()
    empty = panel.table.grab().toImage()
    assert panel.table.hint == "Runs appear here by themselves."
    model.take_all([made_run(1, archived=True)])
    assert panel.table.hint == "All runs are archived."
    assert panel.table.grab().toImage() != empty
    panel.archived.setChecked(True)
    assert selected_lines(panel) == []
    assert model.rowCount() == 1


def test_the_column_that_is_sorted_by_is_marked(model: RunListModel, qtbot: QtBot) -> None:
    def titles() -> list[str]:
        return [model.headerData(column, Qt.Orientation.Horizontal) for column in range(4)]

    assert titles() == ["Run", "State", "Steps", "Age ▴"]
    with qtbot.waitSignal(model.headerDataChanged):
        model.sort(STEPS, Qt.SortOrder.DescendingOrder)
    assert titles() == ["Run", "State", "Steps ▾", "Age"]


def test_the_selection_survives_a_search_a_sort_and_a_new_list(
    model: RunListModel, qtbot: QtBot
) -> None:
    panel = RunListPanel(model)
    qtbot.addWidget(panel)
    model.take_all(made_run(i, steps=i % 3) for i in range(9))
    panel.select("run-00004", "run-00007")
    panel.table.sortByColumn(STEPS, Qt.SortOrder.DescendingOrder)
    assert selected_lines(panel) == ["run-00004", "run-00007"]
    model.take([made_run(0, steps=100)])
    assert ids(model)[0] == "run-00000"
    assert selected_lines(panel) == ["run-00004", "run-00007"]
    model.search("run-0000")
    model.take_all(made_run(i) for i in range(9))
    assert selected_lines(panel) == ["run-00004", "run-00007"]


def test_a_run_can_be_selected_before_the_daemon_has_told_of_it(
    model: RunListModel, qtbot: QtBot
) -> None:
    panel = RunListPanel(model)
    qtbot.addWidget(panel)
    panel.select("run-00001")
    assert panel.selected == []
    model.take([made_run(1)])
    assert selected_lines(panel) == ["run-00001"]


def test_typing_searches_and_enter_opens_the_first_find(model: RunListModel, qtbot: QtBot) -> None:
    panel = RunListPanel(model)
    qtbot.addWidget(panel)
    panel.show()
    model.take_all(made_run(i) for i in range(30))
    panel.focus_search()
    qtbot.keyClicks(panel.search, "run-0001")
    qtbot.waitUntil(lambda: model.rowCount() == 10)
    assert panel.count.text() == "10 of 30 runs"
    assert panel.table.hint == "No run has these words in its id or state."  # if there were none
    qtbot.keyClick(panel.search, Qt.Key.Key_Return)
    assert [row.run_id for row in panel.selected] == ["run-00019"]
    with qtbot.waitSignal(panel.opened):
        qtbot.keyClick(panel.table, Qt.Key.Key_Return)


def test_ten_thousand_runs_cost_only_what_is_on_the_screen(qtbot: QtBot) -> None:
    model = CountingModel()
    panel = RunListPanel(model)
    qtbot.addWidget(panel)
    panel.resize(420, 600)
    panel.show()
    model.take_all(made_run(i) for i in range(MANY))
    panel.grab()
    lines = 600 // panel.table.rowHeight(0) + 2
    one_look = lines * 4 * 12  # lines, columns, roles that a delegate asks for
    for act in (
        lambda: model.search("run-0"),
        lambda: model.search(""),
        lambda: model.take([made_run(MANY - 3, "PAUSED")]),
        lambda: model.take([made_run(MANY)]),
        lambda: panel.select("run-05000"),
        lambda: panel.table.sortByColumn(NAME, Qt.SortOrder.DescendingOrder),
        lambda: panel.table.sortByColumn(AGE, Qt.SortOrder.AscendingOrder),
        model.repaint_all,
    ):
        model.asked = 0
        act()
        panel.grab()
        assert 0 < model.asked <= 3 * one_look
    assert model.rowCount() == MANY + 1
    assert len(model.findChildren(QObject)) < 20


def test_all_of_ten_thousand_runs_stay_selected(model: RunListModel, qtbot: QtBot) -> None:
    panel = RunListPanel(model)
    qtbot.addWidget(panel)
    model.take_all(made_run(i) for i in range(MANY))
    panel.table.selectAll()
    assert len(panel.selected) == MANY
    model.search("run-")
    assert len(selected_lines(panel)) == MANY


def test_lines_that_follow_each_other_are_one_piece() -> None:
    assert ranges([]) == []
    assert ranges([5, 1, 2, 3, 7, 8]) == [(1, 3), (5, 5), (7, 8)]


@pytest.mark.parametrize(
    ("seconds", "text"), [(-1, "0 s"), (59, "59 s"), (60, "1 min"), (7200, "2 h"), (200_000, "2 d")]
)
def test_an_age_is_told_in_its_largest_unit(seconds: int, text: str) -> None:
    assert age_text(seconds * 1_000_000_000) == text


def selected_lines(panel: RunListPanel) -> list[str]:
    selection = panel.table.selectionModel()
    assert selection is not None
    return sorted(panel.model.shown(index.row()).run_id for index in selection.selectedRows())
