"""The slow lane: every event kept exactly once, and a live view that never holds it back.

A worker needs :mod:`lanekit.slow.emit` and :mod:`lanekit.slow.control`, which come with the base
install. The names below need ``pip install 'lanekit[slow]'``, and are loaded when first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from lanekit.errors import MissingExtra, distribution_of

if TYPE_CHECKING:
    from lanekit.slow.daemon_client import DaemonClient
    from lanekit.slow.human.session_controller import SessionController
    from lanekit.slow.human.storage_recorder import StorageRecorderService
    from lanekit.slow.human.telemetry_service import TelemetryService
    from lanekit.slow.replay.player import Replay
    from lanekit.slow.run_bus import RunBus, Topic
    from lanekit.slow.sending.proxy import TrainerTelemetryProxy
    from lanekit.slow.sending.telemetry_client import TelemetryClient
    from lanekit.slow.store.db_sink import TelemetryDBSink
    from lanekit.slow.store.run_store import RunStore
    from lanekit.slow.store.sqlite_store import TelemetrySQLiteStore

__all__ = [
    "DaemonClient",
    "Replay",
    "RunBus",
    "RunStore",
    "SessionController",
    "StorageRecorderService",
    "TelemetryClient",
    "TelemetryDBSink",
    "TelemetrySQLiteStore",
    "TelemetryService",
    "Topic",
    "TrainerTelemetryProxy",
]

_HOMES = {
    "DaemonClient": "daemon_client",
    "Replay": "replay.player",
    "RunBus": "run_bus",
    "RunStore": "store.run_store",
    "SessionController": "human.session_controller",
    "StorageRecorderService": "human.storage_recorder",
    "TelemetryClient": "sending.telemetry_client",
    "TelemetryDBSink": "store.db_sink",
    "TelemetrySQLiteStore": "store.sqlite_store",
    "TelemetryService": "human.telemetry_service",
    "Topic": "run_bus",
    "TrainerTelemetryProxy": "sending.proxy",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        home = importlib.import_module(f"{__name__}.{_HOMES[name]}")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("lanekit"):
            raise
        raise MissingExtra(
            f"lanekit.slow.{name} needs {distribution_of(error)}, which is not installed: "
            "pip install 'lanekit[slow]'"
        ) from error
    return getattr(home, name)
