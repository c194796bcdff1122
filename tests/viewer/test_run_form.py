"""The form that starts a run: the workers there are, their own options, their own objections."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest
from PyQt6.QtCore import Qt
from PyQt6.QtWidgets import QCheckBox, QComboBox, QLineEdit
from pytestqt.qtbot import QtBot
from window_desk import WindowDesk, choose_worker, window_desk

from lanekit.slow.daemon_client import DaemonClient
from lanekit.viewer.window.background import Background
from lanekit.viewer.window.form_fields import LEFT_OUT, FormField, as_text, fields_of, parsed
from lanekit.viewer.window.run_form import RunForm
from lanekit.worker import DataclassConfig
from patience import patience_ms

pytestmark = pytest.mark.qt_log_ignore("This plugin does not support", extend=True)


@pytest.fixture
def desk(qapp: object) -> Iterator[WindowDesk]:
    """A desk with a worker that can be used and one that can not."""
    with window_desk() as made:
        yield made


@pytest.fixture
def background(desk: WindowDesk) -> Iterator[Background]:
    """Threads for the form."""
    made = Background(desk.access().connect)
    yield made
    made.close()


@pytest.fixture
def form(desk: WindowDesk, background: Background, qtbot: QtBot) -> RunForm:
    """The form with the stepping worker's options."""
    made = RunForm(desk.access(), background)
    qtbot.addWidget(made)
    made.show()
    choose_worker(made, qtbot, "stepping")
    qtbot.waitUntil(lambda: "pause" in made.options.entries)
    qtbot.waitUntil(made.start.isEnabled)
    return made


def line(form: RunForm, name: str) -> QLineEdit:
    widget = form.options.entries[name].widget
    assert isinstance(widget, QLineEdit)
    return widget


def fill(form: RunForm, qtbot: QtBot, name: str, text: str) -> None:
    line(form, name).clear()
    qtbot.keyClicks(line(form, name), text)


@dataclass(kw_only=True)
class SomeConfig(DataclassConfig):
    """One field of each kind."""

    algorithm: Literal["PPO", "DQN"] = field(default="DQN", metadata={"help": "which one"})
    deterministic: bool = True
    layers: tuple[int, ...] = (64, 64)
    device: str | None = None
    extra: dict[str, Any] = field(default_factory=dict)


def test_the_options_are_those_of_the_workers_class() -> None:
    fields = {each.name: each for each in fields_of(SomeConfig) or []}
    assert list(fields)[:2] == ["run_id", "seed"]
    assert fields["algorithm"].choices == ("PPO", "DQN")
    assert fields["algorithm"].help == "which one"
    assert fields["run_id"].default is LEFT_OUT
    assert fields["device"].may_be_none
    assert as_text(fields["layers"].default) == "[64, 64]"


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("layers", "[1, 2]", [1, 2]),
        ("layers", "", LEFT_OUT),
        ("layers", "wide", "wide"),
        ("device", "", None),
        ("device", "cuda", "cuda"),
        ("extra", '{"gamma": 0.9}', {"gamma": 0.9}),
        ("seed", "1e6", 1e6),
        ("seed", "NaN", "NaN"),
        ("run_id", "12", "12"),
    ],
)
def test_a_line_of_text_becomes_what_the_option_takes(name: str, text: str, value: Any) -> None:
    fields = {each.name: each for each in fields_of(SomeConfig) or []}
    assert parsed(text, fields[name]) == value


def test_a_class_that_is_no_dataclass_does_not_tell_its_options() -> None:
    assert fields_of(type("Config", (), {})) is None


def test_each_option_has_an_entry_with_its_default(form: RunForm) -> None:
    assert line(form, "env_id").text() == "CartPole-v1"
    assert line(form, "total_steps").text() == "300"
    assert line(form, "fail_at").text() == ""
    assert isinstance(form.options.entries["stubborn"].widget, QCheckBox)
    assert list(form.options.entries)[:4] == ["env_id", "total_steps", "seed", "run_id"]


def test_choices_and_truth_values_are_entered_by_hand(qtbot: QtBot, form: RunForm) -> None:
    form.options.show_fields(fields_of(SomeConfig))
    algorithm = form.options.entries["algorithm"].widget
    assert isinstance(algorithm, QComboBox)
    assert algorithm.currentText() == "DQN"
    qtbot.keyClick(algorithm, Qt.Key.Key_Up)
    deterministic = form.options.entries["deterministic"].widget
    qtbot.keyClick(deterministic, Qt.Key.Key_Space)
    values = form.options.values()
    assert values["algorithm"] == "PPO"
    assert values["deterministic"] is False


def test_a_broken_worker_is_listed_greyed_with_its_reason(form: RunForm) -> None:
    place = next(
        i for i in range(form.workers.count()) if form.workers.itemText(i).startswith("broken")
    )
    model = form.workers.model()
    assert model is not None
    assert not model.flags(model.index(place, 0)) & Qt.ItemFlag.ItemIsEnabled
    assert "no_such_library" in form.workers.itemText(place)
    assert "reinstall" in str(form.workers.itemData(place, Qt.ItemDataRole.ToolTipRole))


def test_the_workers_own_words_say_what_is_wrong(form: RunForm, qtbot: QtBot) -> None:
    fill(form, qtbot, "total_steps", "0")
    qtbot.waitUntil(lambda: form.message.text() != "")
    assert form.message.text() == "total_steps is at least 1, not 0"
    assert line(form, "total_steps").property("wrong") is True
    assert not form.start.isEnabled()
    fill(form, qtbot, "total_steps", "many")
    qtbot.waitUntil(lambda: "'many'" in form.message.text())
    fill(form, qtbot, "total_steps", "10")
    qtbot.waitUntil(form.start.isEnabled)
    assert form.message.text() == ""
    assert line(form, "total_steps").property("wrong") is False


def test_the_run_starts_with_what_was_typed(form: RunForm, desk: WindowDesk, qtbot: QtBot) -> None:
    desk.daemon.start()
    fill(form, qtbot, "total_steps", "20")
    fill(form, qtbot, "seed", "7")
    fill(form, qtbot, "run_id", "typed")
    form.pictures.setCurrentIndex(2)
    qtbot.waitUntil(form.start.isEnabled)
    with qtbot.waitSignal(form.submitted, timeout=patience_ms(30)) as told:
        qtbot.mouseClick(form.start, Qt.MouseButton.LeftButton)
    assert told.args == ["typed"]
    assert not form.isVisible()
    with DaemonClient(desk.daemon.target) as client:
        config = json.loads(client.run("typed").config_json)
        qtbot.waitUntil(lambda: client.run("typed").steps == 20)
    assert (config["total_steps"], config["seed"]) == (20, 7)


def test_a_run_without_a_name_gets_one(form: RunForm, desk: WindowDesk, qtbot: QtBot) -> None:
    desk.daemon.start()
    fill(form, qtbot, "total_steps", "1")
    qtbot.waitUntil(form.start.isEnabled)
    with qtbot.waitSignal(form.submitted, timeout=patience_ms(30)) as told:
        qtbot.keyClick(line(form, "total_steps"), Qt.Key.Key_Return)
    assert told.args is not None
    assert told.args[0].startswith("stepping-")


def test_a_name_that_is_taken_is_refused_in_the_form(
    form: RunForm, desk: WindowDesk, qtbot: QtBot
) -> None:
    desk.daemon.start()
    desk.submit("taken", total_steps=1)
    fill(form, qtbot, "run_id", "taken")
    qtbot.waitUntil(form.start.isEnabled)
    qtbot.mouseClick(form.start, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: "taken" in form.message.text())
    assert form.isVisible()


def test_without_a_daemon_the_form_says_so_and_stays(form: RunForm, qtbot: QtBot) -> None:
    qtbot.mouseClick(form.start, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: "no daemon answers" in form.message.text())
    assert form.isVisible()
    assert form.start.isEnabled()


def test_options_of_a_class_that_does_not_tell_them_are_given_as_json(form: RunForm) -> None:
    form.options.show_fields(None)
    assert form.options._json is not None
    form.options._json.setPlainText('{"total_steps": 3}')
    assert form.options.values() == {"total_steps": 3}
    form.options._json.setPlainText("[1")
    with pytest.raises(ValueError, match="no JSON"):
        form.options.values()


def test_a_field_knows_what_it_takes() -> None:
    assert FormField("n", int | None, None, "").takes == "int | None"
