"""The form that starts a run: a worker, and the options that the worker itself names."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from PyQt6.QtCore import Qt, QTimer, pyqtSignal
from PyQt6.QtGui import QStandardItem, QStandardItemModel
from PyQt6.QtWidgets import (
    QComboBox,
    QDialog,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from lanekit.fast.environment import apply_fastlane_environment
from lanekit.slow.batches import check_run_id, new_run_id
from lanekit.slow.daemon_client import DaemonClient
from lanekit.slow.local_daemon import start_if_absent
from lanekit.viewer.window.background import Background
from lanekit.viewer.window.daemon_access import DaemonAccess
from lanekit.viewer.window.form_fields import FormField, fields_of
from lanekit.viewer.window.options_panel import OptionsPanel
from lanekit.worker.discovery import BrokenWorker, InstalledWorker, discover_workers
from lanekit.worker.submission import (
    checked_configuration,
    config_document,
    environment_to_send,
)

CHECK_MS = 200
"""A pause in typing after which the options are checked."""
_WORKER_ROLE = Qt.ItemDataRole.UserRole
_PICTURES = (
    ("Of one environment", "single"),
    ("Of several environments, as a grid", "grid"),
    ("None", "off"),
)


class RunForm(QDialog):
    """Asks for a worker and its options, and has the daemon start it."""

    submitted = pyqtSignal(str)
    """The new run's id."""

    def __init__(
        self, access: DaemonAccess, background: Background, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.setWindowTitle("New run")
        self._access = access
        self._background = background
        self._worker: InstalledWorker | None = None
        self._asked = 0
        """How often something was asked: an answer to an earlier question is out of date."""
        self.workers = QComboBox(self)
        self.workers.setObjectName("worker")
        self.about = _label("quiet")
        self.options = OptionsPanel(self)
        self.pictures = QComboBox(self)
        for text, mode in _PICTURES:
            self.pictures.addItem(text, mode)
        self.message = _label("wrong")
        self.message.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.start = QPushButton("Start run", self)
        self.start.setDefault(True)
        self.start.setEnabled(False)
        self._lay_out()
        self._check_timer = QTimer(self)
        self._check_timer.setSingleShot(True)
        self._check_timer.setInterval(CHECK_MS)
        self._check_timer.timeout.connect(self.check)
        self.options.changed.connect(self._check_timer.start)
        self.workers.currentIndexChanged.connect(self._choose)
        self.start.clicked.connect(self.submit)
        self.about.setText("Looking for workers …")
        self._run(discover_workers, self._list_workers)

    def done(self, result: int) -> None:
        """Close; what is still asked is of no interest any more."""
        self._asked += 1
        super().done(result)

    # --- the worker -------------------------------------------------------------------------------

    def _list_workers(self, found: Sequence[InstalledWorker | BrokenWorker]) -> None:
        self.about.clear()
        usable = [worker for worker in found if isinstance(worker, InstalledWorker)]
        broken = [worker for worker in found if isinstance(worker, BrokenWorker)]
        model = QStandardItemModel(self.workers)
        for worker in usable:
            item = QStandardItem(f"{worker.name}  ·  {worker.metadata.name}")
            item.setData(worker, _WORKER_ROLE)
            item.setToolTip(worker.metadata.description)
            model.appendRow(item)
        for each in broken:
            item = QStandardItem(f"{each.name}  ·  {each.reason}")
            item.setEnabled(False)
            item.setToolTip(f"{each.reason}; {each.remedy}")
            model.appendRow(item)
        self.workers.setModel(model)
        self.workers.setCurrentIndex(0 if usable else -1)
        if usable:
            self._choose()
        else:
            self.options.show_hint(
                "No worker can be used here",
                "Install one, pip install 'lanekit[rl]' stable-baselines3 for example, or write "
                "one: lanekit worker new NAME. The list above says what the others lack.",
            )

    def _choose(self) -> None:
        worker = self.workers.currentData(_WORKER_ROLE)
        self._worker = None
        self._settle(False)
        if not isinstance(worker, InstalledWorker):
            return
        library = f"{worker.metadata.upstream_library} {worker.metadata.upstream_version}".strip()
        self.about.setText(" · ".join(filter(None, (worker.metadata.description, library))))
        self.options.show_hint("Reading the worker's options …", "")
        self._run(
            lambda: (worker, fields_of(worker.config_class())),
            self._show_options,
            lambda words: self.options.show_hint("This worker can not be used", words),
        )

    def _show_options(self, answer: tuple[InstalledWorker, list[FormField] | None]) -> None:
        self._worker, fields = answer
        self.options.show_fields(fields)
        self.check()

    # --- its options ------------------------------------------------------------------------------

    def check(self) -> None:
        """Let the worker's own class judge the options, beside the window."""
        if self._worker is not None:
            worker = self._worker
            try:
                options = self._given()
            except ValueError as error:
                self._complain(str(error))
                return
            self._run(lambda: checked_configuration(worker, options), lambda _: self._settle(True))

    def submit(self) -> None:
        """Have the daemon start it; one of this machine is started first if there is none."""
        worker = self._worker
        if worker is None or not self.start.isEnabled():
            return
        try:
            options = self._given()
        except ValueError as error:
            self._complain(str(error))
            return
        self._check_timer.stop()
        self._settle(False)
        self.start.setText("Starting …")
        mode = self.pictures.currentData()
        self._run(
            lambda: start_run(self._access, self._background, worker, options, mode),
            self._finish,
        )

    def _given(self) -> dict[str, Any]:
        assert self._worker is not None
        options = self.options.values()
        if not options.get("run_id"):
            options["run_id"] = new_run_id(self._worker.name)
        return options

    def _finish(self, run_id: str) -> None:
        self.submitted.emit(run_id)
        self.accept()

    def _run(
        self,
        work: Callable[[], Any],
        done: Callable[[Any], None],
        failed: Callable[[str], None] | None = None,
    ) -> None:
        self._asked += 1
        question = self._asked

        def if_current(take: Callable[[Any], None]) -> Callable[[Any], None]:
            return lambda answer: take(answer) if question == self._asked else None

        self._background.run(work, if_current(done), if_current(failed or self._complain))

    def _settle(self, ready: bool) -> None:
        self.message.clear()
        self.options.mark("")
        self.start.setText("Start run")
        self.start.setEnabled(ready)

    def _complain(self, words: str) -> None:
        self._settle(False)
        # What a daemon could not do may be tried again; what is wrong with the options may not.
        self.start.setEnabled(self._worker is not None and not self.options.mark(words))
        self.message.setText(words)

    def _lay_out(self) -> None:
        cancel = QPushButton("Cancel", self)
        cancel.setAutoDefault(False)
        cancel.clicked.connect(self.reject)
        buttons = QHBoxLayout()
        buttons.addStretch()
        buttons.addWidget(cancel)
        buttons.addWidget(self.start)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(20, 18, 20, 16)
        layout.setSpacing(8)
        layout.addWidget(_heading("Worker", self.workers))
        layout.addWidget(self.workers)
        layout.addWidget(self.about)
        layout.addWidget(self.options, 1)
        layout.addWidget(_heading("Pictures", self.pictures))
        layout.addWidget(self.pictures)
        layout.addWidget(self.message)
        layout.addSpacing(4)
        layout.addLayout(buttons)
        self.resize(560, 660)


def start_run(
    access: DaemonAccess,
    background: Background,
    worker: InstalledWorker,
    options: dict[str, Any],
    video_mode: str,
) -> str:
    """Submit a run and return its id; waits, so it is for a thread."""
    config = checked_configuration(worker, options)
    document = config_document(worker, config)
    run_id = check_run_id(config.run_id)
    environment = environment_to_send() if access.target.is_unix else {}
    apply_fastlane_environment(
        environment, fastlane_only=False, fastlane_slot=0, video_mode=video_mode
    )
    if access.can_start:
        start_if_absent(access.target.path, access.token_file)

    def submit(client: DaemonClient) -> str:
        run = client.submit_run(
            worker.command(),
            run_id=run_id,
            environment=environment,
            working_directory=os.fspath(Path.cwd()) if access.target.is_loopback else "",
            config_json=document,
            worker_id=worker.name,
        )
        return run.run_id

    return background.ask_here(submit)


def _heading(text: str, of: QWidget) -> QLabel:
    label = _label("section")
    label.setText(text)
    label.setBuddy(of)
    return label


def _label(name: str) -> QLabel:
    label = QLabel()
    label.setObjectName(name)
    label.setIndent(0)
    label.setWordWrap(True)
    label.setTextFormat(Qt.TextFormat.PlainText)
    return label
