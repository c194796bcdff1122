"""What the window's tests share: Qt without a screen, and workers that publish known frames."""

from __future__ import annotations

import os

# Before Qt begins: no screen, and the renderer whose pixels are the same everywhere.
os.environ["QT_QPA_PLATFORM"] = "offscreen"
os.environ["QT_QUICK_BACKEND"] = "software"

import functools
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot
from writers import StartWriter, WritingProcess

from lanekit import segment_name
from lanekit.segments import reclaim_segment, segment_path
from lanekit.viewer.appearance import appearance
from patience import patience_ms

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let any warning of Qt or QML fail the test that caused it."""
    for item in items:
        if item.path.is_relative_to(HERE) and item.get_closest_marker("qt_log_level_fail") is None:
            item.add_marker(pytest.mark.qt_log_level_fail("WARNING"))


@pytest.fixture
def qtbot(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> QtBot:
    """Wait for what will come also on a busy machine: how long it takes is not asked here."""
    for name in ("waitUntil", "waitSignal"):
        patient = functools.partial(getattr(qtbot, name), timeout=patience_ms())
        monkeypatch.setattr(qtbot, name, patient)
    return qtbot


@pytest.fixture(autouse=True)
def _dark_at_first() -> Iterator[None]:
    """Begin each test with the same theme."""
    yield
    appearance().set_dark(True)


@pytest.fixture
def start_writer(run_id: str) -> Iterator[StartWriter]:
    """Start workers of the test's run; they end with it."""
    started: list[WritingProcess] = []

    def start(
        width: int = 64,
        height: int = 48,
        pixel_format: str = "RGB",
        *,
        run: str = run_id,
        rate: float = 60.0,
    ) -> WritingProcess:
        started.append(WritingProcess(run, width, height, pixel_format, rate))
        return started[-1]

    yield start
    for writer in started:
        writer.kill()
    if segment_path(segment_name("frame", run_id)).exists():
        reclaim_segment(segment_name("frame", run_id))
