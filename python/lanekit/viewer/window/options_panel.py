"""A worker's options, one under the other: first those that every run has, then its own."""

from __future__ import annotations

import re
from typing import Any

from PyQt6.QtCore import Qt, pyqtSignal
from PyQt6.QtWidgets import QFormLayout, QLabel, QScrollArea, QVBoxLayout, QWidget

from lanekit.viewer.window.form_fields import LEFT_OUT, Entry, FormField, JsonEntry

_FIRST = ("env_id", "total_steps", "seed", "run_id")
_OWN_HELP = {
    "run_id": "what the run is called; empty: a new name",
    "seed": "of everything that is random; empty: another one each time",
    "env_id": "the environment",
    "total_steps": "how many steps to train for",
}
_NAME = re.compile(r"[A-Za-z_]\w*")


class OptionsPanel(QScrollArea):
    """Shows the entries and gathers what was entered."""

    changed = pyqtSignal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.entries: dict[str, Entry] = {}
        self._json: JsonEntry | None = None
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)

    def show_hint(self, title: str, detail: str) -> None:
        """Show words instead of options."""
        page = self._new_page()
        layout = QVBoxLayout(page)
        layout.addStretch()
        for name, text in (("title", title), ("quiet", detail)):
            label = QLabel(text, page)
            label.setObjectName(name)
            label.setWordWrap(True)
            label.setAlignment(Qt.AlignmentFlag.AlignHCenter)
            layout.addWidget(label)
        layout.addStretch()

    def show_fields(self, fields: list[FormField] | None) -> None:
        """Show an entry for each option; one for all if they are not known."""
        page = self._new_page()
        form = QFormLayout(page)
        form.setContentsMargins(0, 4, 12, 8)
        form.setVerticalSpacing(10)
        form.setHorizontalSpacing(16)
        form.setLabelAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignTop)
        form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.ExpandingFieldsGrow)
        if fields is None:
            form.addRow(
                _label("This worker does not tell its options; give them as JSON.", "quiet")
            )
            self._json = JsonEntry(page)
            self._json.textChanged.connect(self.changed)
            form.addRow(self._json)
            return
        by_name = {field.name: field for field in fields}
        first = [by_name[name] for name in _FIRST if name in by_name]
        others = [field for field in fields if field.name not in _FIRST]
        for title, group in (("Run", first), ("Options of this worker", others)):
            if group:
                form.addRow(_label(title, "section"))
            for field in group:
                self._add(form, field, page)

    def values(self) -> dict[str, Any]:
        """Return the options as they were entered."""
        if self._json is not None:
            return self._json.options()
        values = {name: entry.value() for name, entry in self.entries.items()}
        return {name: value for name, value in values.items() if value is not LEFT_OUT}

    def mark(self, words: str) -> bool:
        """Mark the option that a message begins with; tell whether there is one."""
        match = _NAME.search(words.removeprefix("missing: "))
        named = match[0] if match is not None and match.start() == 0 else ""
        for name, entry in self.entries.items():
            entry.mark(name == named)
        if named in self.entries:
            self.ensureWidgetVisible(self.entries[named].widget)
        return named in self.entries

    def _new_page(self) -> QWidget:
        self.entries.clear()
        self._json = None
        page = QWidget()
        self.setWidget(page)  # deletes the page before
        return page

    def _add(self, form: QFormLayout, field: FormField, page: QWidget) -> None:
        entry = self.entries[field.name] = Entry(field, page)
        entry.changed.connect(self.changed)
        place = QVBoxLayout()
        place.setSpacing(4)
        entry.widget.setMinimumHeight(28)
        place.addWidget(entry.widget)
        help_text = field.help or _OWN_HELP.get(field.name, "")
        if help_text:
            place.addWidget(_label(help_text, "quiet"))
        title = _label(field.title, "option")
        title.setAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignTop)
        title.setBuddy(entry.widget)
        form.addRow(title, place)


def _label(text: str, name: str) -> QLabel:
    label = QLabel(text)
    label.setObjectName(name)
    label.setWordWrap(name != "option")
    label.setIndent(0)
    label.setTextFormat(Qt.TextFormat.PlainText)
    return label
