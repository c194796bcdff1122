"""Where a game is recorded: with the daemon if one answers, else in the store itself."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lanekit.errors import LanekitError
from lanekit.slow.endpoint import default_socket, default_store, parse_target
from lanekit.slow.human.client_recorder import ClientRecorder
from lanekit.slow.human.record_codec import Record
from lanekit.slow.human.store_recorder import StoreRecorder
from lanekit.slow.human.telemetry_service import TelemetryService
from lanekit.slow.local_daemon import somebody_listens
from lanekit.slow.run_bus import RunBus
from lanekit.slow.sending.telemetry_client import TelemetryClient
from lanekit.slow.store.db_sink import TelemetryDBSink

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class GameRecord:
    """An open record of one game."""

    telemetry: TelemetryService
    where: str
    """A sentence that says where it is, or why there is none."""
    store_path: Path | None
    """Where it can be read back; None: nowhere."""
    flush: Callable[[float], bool]
    """Wait so many seconds until what was recorded can be read; False if it can not."""
    close_store: Callable[[], None]

    def close(self) -> None:
        """Finish the record."""
        try:
            self.telemetry.close()
        finally:
            self.close_store()


class _Nowhere:
    """Takes records and keeps none: a full disk is no reason not to play."""

    def record(self, record: Record) -> None:
        pass

    def close(self) -> None:
        pass


def open_record(run_id: str) -> GameRecord:
    """Begin a record; what stands in its way is told in its `where`."""
    try:
        target = parse_target(default_socket())
        if target.is_unix and somebody_listens(target.path):
            return _with_daemon(run_id, str(target))
        return _in_store(run_id)
    except (LanekitError, OSError, ValueError) as error:
        return GameRecord(
            TelemetryService({"nowhere": _Nowhere()}),
            f"Not recorded: {error}",
            None,
            lambda _: False,
            lambda: None,
        )


def _with_daemon(run_id: str, target: str) -> GameRecord:
    client = TelemetryClient(run_id, target=target, worker_id="human", report=_log.warning)
    return GameRecord(
        TelemetryService({"daemon": ClientRecorder(client)}),
        f"Recorded by the daemon as {run_id}",
        default_store(),
        client.flush,
        lambda: None,
    )


def _in_store(run_id: str) -> GameRecord:
    path = default_store()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    sink = TelemetryDBSink(path, RunBus())
    try:
        recorder = StoreRecorder(sink, run_id)
    except BaseException:
        sink.close()
        raise
    return GameRecord(
        TelemetryService({"store": recorder}),
        f"No daemon runs: recorded in {_short(path)} as {run_id}",
        path,
        recorder.flush,
        sink.close,
    )


def _short(path: Path) -> str:
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)
