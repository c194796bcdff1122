"""The options of a worker, read off its configuration's class, and an entry for each."""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from dataclasses import dataclass
from typing import Any, Literal, Union

from PyQt6.QtCore import QObject, pyqtSignal
from PyQt6.QtWidgets import QCheckBox, QComboBox, QLineEdit, QPlainTextEdit, QWidget

from lanekit.worker.json_values import plain, type_name

_WORDS = {str: "text", int: "a whole number", float: "a number"}
LEFT_OUT: Any = object()
"""The value of an entry that leaves its option to the worker."""


@dataclass(frozen=True)
class FormField:
    """One option: what it is called, takes, begins with and means."""

    name: str
    hint: Any
    default: Any
    """`LEFT_OUT` if there is none: then it must be filled in."""
    help: str

    @property
    def title(self) -> str:
        """The name as a label."""
        return self.name.replace("_", " ")

    @property
    def takes(self) -> str:
        """The type, in words."""
        return type_name(self.hint)

    @property
    def may_be_none(self) -> bool:
        """Whether it may be left empty."""
        return type(None) in _alternatives(self.hint)

    @property
    def choices(self) -> tuple[Any, ...]:
        """What can be chosen, if there is a fixed set."""
        return typing.get_args(self.hint) if typing.get_origin(self.hint) is Literal else ()


def fields_of(config_class: type[Any]) -> list[FormField] | None:
    """Return the options of a configuration; None if its class does not tell them."""
    if not dataclasses.is_dataclass(config_class):
        return None
    try:
        hints = typing.get_type_hints(config_class)
    except Exception:  # names that only a type checker can resolve
        return None
    return [
        FormField(
            field.name, hints[field.name], _default(field), str(field.metadata.get("help", ""))
        )
        for field in dataclasses.fields(config_class)
        if field.init
    ]


class Entry(QObject):
    """One option's widget, and the value that a person gave it."""

    changed = pyqtSignal()

    def __init__(self, field: FormField, parent: QWidget) -> None:
        super().__init__(parent)
        self.field = field
        self.widget = self._make(parent)
        self.widget.setAccessibleName(field.name)
        self.widget.setObjectName(f"option-{field.name}")
        self.widget.setToolTip(f"{field.name}: {field.takes}")

    def value(self) -> Any:
        """Return what was entered, as JSON would carry it; the configuration's class judges it."""
        widget = self.widget
        if isinstance(widget, QCheckBox):
            return widget.isChecked()
        if isinstance(widget, QComboBox):
            return widget.currentData()
        assert isinstance(widget, QLineEdit)
        return parsed(widget.text(), self.field)

    def mark(self, wrong: bool) -> None:
        """Show that the value can not be taken, or that it can."""
        self.widget.setProperty("wrong", wrong)
        style = self.widget.style()
        if style is not None:
            style.unpolish(self.widget)
            style.polish(self.widget)

    def _make(self, parent: QWidget) -> QWidget:
        field = self.field
        if field.hint is bool:
            box = QCheckBox(parent)
            box.setChecked(field.default is True)
            box.toggled.connect(self.changed)
            return box
        if field.choices:
            combo = QComboBox(parent)
            for choice in field.choices:
                combo.addItem(str(choice), choice)
            combo.setCurrentIndex(max(0, combo.findData(field.default)))
            combo.currentIndexChanged.connect(self.changed)
            return combo
        line = QLineEdit(parent)
        line.setText(as_text(field.default))
        line.setPlaceholderText("none" if field.may_be_none else _WORDS.get(field.hint, ""))
        line.textChanged.connect(self.changed)
        return line


class JsonEntry(QPlainTextEdit):
    """All options at once, for a configuration that does not tell what it has."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setObjectName("entry")
        self.setPlainText("{}")
        self.setTabChangesFocus(True)
        self.setMinimumHeight(160)

    def options(self) -> dict[str, Any]:
        """Return what was entered."""
        try:
            found = json.loads(self.toPlainText() or "{}")
        except ValueError as error:
            raise ValueError(f"the options are no JSON: {error}") from None
        if not isinstance(found, dict):
            raise ValueError('the options are a JSON object: {"name": value}')
        return found


def parsed(text: str, field: FormField) -> Any:
    """Return the value that a line of text stands for."""
    if not text.strip():
        if field.may_be_none:
            return None
        if str not in _alternatives(field.hint):
            return LEFT_OUT
    if field.hint is str:
        return text
    try:
        # NaN and Infinity are no JSON, whatever Python's reader says.
        return json.loads(text, parse_constant=str)
    except ValueError:
        return text


def as_text(value: Any) -> str:
    """Return a default as it would be typed."""
    if value is LEFT_OUT or value is None:
        return ""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(plain(value))
    except (TypeError, ValueError):
        return str(value)


def _alternatives(hint: Any) -> tuple[Any, ...]:
    is_union = typing.get_origin(hint) in (Union, types.UnionType)
    return typing.get_args(hint) if is_union else (hint,)


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default is not dataclasses.MISSING:
        return field.default
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return LEFT_OUT
