"""What QML files may name: our items and view models, and where the files are."""

from __future__ import annotations

import functools
from importlib.resources import files
from pathlib import Path

from PyQt6.QtCore import QUrl
from PyQt6.QtQml import QQmlEngine, qmlRegisterType, qmlRegisterUncreatableType

from lanekit.viewer.appearance import ThemeFollower
from lanekit.viewer.fastlane.frame_item import FrameItem
from lanekit.viewer.fastlane.view_model import FastLaneViewModel
from lanekit.viewer.fastlane.zoom import ZoomModel

QML = Path(str(files("lanekit.viewer"))) / "qml"


@functools.cache
def register_types() -> None:
    """Make our classes known to QML, once per process."""
    qmlRegisterType(FrameItem, "Lanekit", 1, 0, "FrameItem")
    qmlRegisterType(ZoomModel, "Lanekit", 1, 0, "ZoomModel")
    qmlRegisterUncreatableType(
        FastLaneViewModel, "Lanekit", 1, 0, "made by a FastLaneTab", "FastLaneViewModel"
    )


def prepare(engine: QQmlEngine) -> None:
    """Let an engine find our files and types, and follow the program's theme."""
    register_types()
    engine.addImportPath(str(QML))
    ThemeFollower(engine).follow()


def url_of(name: str) -> QUrl:
    """Return where a QML file is."""
    return QUrl.fromLocalFile(str(QML / "Lanekit" / name))
