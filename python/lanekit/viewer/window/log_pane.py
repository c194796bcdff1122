"""The log of the selected run, growing as it does."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from PyQt6.QtGui import QColor, QFontDatabase, QTextCharFormat, QTextCursor, QTextOption
from PyQt6.QtWidgets import QCheckBox, QHBoxLayout, QLabel, QPlainTextEdit, QVBoxLayout, QWidget

from lanekit.slow.daemon_client import DaemonClient
from lanekit.viewer.appearance import appearance
from lanekit.viewer.window.log_feed import LogFeed, LogLine, Tone, readable
from lanekit.viewer.window.run_row import RunRow

MOST_LINES = 5000
NOTHING_SELECTED = "Select a run to read what it reports."


class LogPane(QWidget):
    """Shows one run's log; stays at its end until somebody scrolls up."""

    def __init__(self, connect: Callable[[], DaemonClient], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._connect = connect
        self._feed: LogFeed | None = None
        self._leaving: list[LogFeed] = []
        self._lines: deque[LogLine] = deque(maxlen=MOST_LINES)
        self.about = QLabel(NOTHING_SELECTED, self)
        self.about.setObjectName("quiet")
        self.following = QCheckBox("Follow", self)
        self.following.setChecked(True)
        self.following.setToolTip("Keep the newest line in sight")
        self.text = QPlainTextEdit(self)
        self.text.setObjectName("log")
        self.text.setReadOnly(True)
        self.text.setUndoRedoEnabled(False)
        self.text.setMaximumBlockCount(MOST_LINES)
        self.text.setWordWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
        self.text.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        self._lay_out()
        self.following.toggled.connect(self._follow)
        bar = self.text.verticalScrollBar()
        assert bar is not None
        bar.actionTriggered.connect(self._follow_if_at_the_end)
        appearance().dark_changed.connect(self._repaint)

    @property
    def run_id(self) -> str:
        """The run that is shown; empty without one."""
        return "" if self._feed is None else self._feed.run_id

    def show_run(self, row: RunRow | None) -> None:
        """Show a run's log; for the one that is shown, only what has changed about it."""
        self._describe(row)
        feed = self._feed
        if row is not None and feed is not None and row.run_id == feed.run_id:
            feed.set_error_logs(row.error_logs)
            # A new run's lane may be seen before the daemon tells of it.
            newly_told = row.on_daemon and not feed.on_daemon
            if not newly_told:
                return
        self._leave()
        self._lines.clear()
        self.text.clear()
        if row is not None:
            connect = self._connect if row.on_daemon else None
            self._feed = LogFeed(row.run_id, connect, row.error_logs, self)
            self._feed.lines_ready.connect(self._add)
            self._feed.start()

    def close_feeds(self) -> None:
        """Follow nothing any more; returns when all threads have ended."""
        self._leave()
        for feed in self._leaving:
            feed.join()
        self._leaving.clear()

    def _leave(self) -> None:
        if self._feed is not None:
            self._feed.leave()
            self._feed.lines_ready.disconnect(self._add)
            self._leaving.append(self._feed)
            self._feed = None
        for feed in [feed for feed in self._leaving if feed.over]:
            self._leaving.remove(feed)
            feed.deleteLater()

    def _describe(self, row: RunRow | None) -> None:
        if row is None:
            self.about.setText(NOTHING_SELECTED)
            return
        words = row.reason if row.on_daemon else "no daemon knows it, so it keeps no log"
        self.about.setText(readable(" · ".join(filter(None, (row.run_id, row.state, words)))))

    def _add(self, lines: Sequence[LogLine]) -> None:
        self._lines.extend(lines)
        self._insert(lines)

    def _repaint(self) -> None:
        self.text.clear()
        self._insert(list(self._lines))

    def _insert(self, lines: Sequence[LogLine]) -> None:
        document = self.text.document()
        assert document is not None
        cursor = QTextCursor(document)
        cursor.beginEditBlock()
        cursor.movePosition(QTextCursor.MoveOperation.End)
        for line in lines:
            if not document.isEmpty():
                cursor.insertBlock()
            cursor.insertText(line.text, _format(line.tone))
        cursor.endEditBlock()
        if self.following.isChecked():
            self._scroll_down()

    def _follow(self, on: bool) -> None:
        if on:
            self._scroll_down()

    def _follow_if_at_the_end(self) -> None:
        bar = self.text.verticalScrollBar()
        if bar is not None:
            self.following.setChecked(bar.sliderPosition() >= bar.maximum())

    def _scroll_down(self) -> None:
        bar = self.text.verticalScrollBar()
        if bar is not None:
            bar.setValue(bar.maximum())

    def _lay_out(self) -> None:
        top = QHBoxLayout()
        top.addWidget(self.about, 1)
        top.addWidget(self.following)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(8, 4, 8, 6)
        layout.setSpacing(6)
        layout.addLayout(top)
        layout.addWidget(self.text)


def _format(tone: Tone) -> QTextCharFormat:
    colours = appearance().palette
    by_tone = {
        "plain": colours.text,
        "quiet": colours.quiet_text,
        "good": colours.good,
        "waiting": colours.waiting,
        "bad": colours.bad,
        "accent": colours.accent,
    }
    style = QTextCharFormat()
    style.setForeground(QColor(by_tone[tone]))
    return style
