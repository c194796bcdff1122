"""One record to several places, none of which can stop the others."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, Self

from lanekit.slow.human.record_codec import Record

_log = logging.getLogger(__name__)


class RecordSink(Protocol):
    """A place that records go to."""

    def record(self, record: Record) -> None:
        """Take one record, or raise."""

    def close(self) -> None:
        """Finish; raise if something that was taken could not be kept."""


@dataclass(frozen=True)
class SinkReport:
    """How one place fared."""

    name: str
    recorded: int
    failed: int
    """Records that it did not take: they are not there."""
    last_error: str
    """Why the last one failed; empty if none did."""


class _Sink:
    def __init__(self, name: str, sink: RecordSink) -> None:
        self.name, self.sink = name, sink
        self.recorded = self.failed = 0
        self.last_error = ""
        self.failing = False


class TelemetryService:
    """Hands each record to every sink, and counts what each of them refused.

    A sink that fails gets the next record all the same; the first failure of a row is logged, and
    :meth:`report` tells the numbers at any time. Usable from any thread.
    """

    def __init__(self, sinks: Mapping[str, RecordSink]) -> None:
        """Take the sinks over, under names to report them by."""
        if not sinks:
            raise ValueError("a telemetry service needs at least one sink")
        self._sinks = [_Sink(name, sink) for name, sink in sinks.items()]
        self._lock = threading.Lock()
        self._closed = False

    def record(self, record: Record) -> int:
        """Hand on one record; return how many sinks took it."""
        with self._lock:
            if self._closed:
                raise RuntimeError("the telemetry service was closed before this record")
            return sum(self._hand_over(sink, record) for sink in self._sinks)

    def report(self) -> list[SinkReport]:
        """Say how each sink fares."""
        with self._lock:
            return [
                SinkReport(sink.name, sink.recorded, sink.failed, sink.last_error)
                for sink in self._sinks
            ]

    def close(self) -> list[SinkReport]:
        """Close every sink, whatever the others do, and return the final report."""
        with self._lock:
            sinks = [] if self._closed else self._sinks
            self._closed = True
            for sink in sinks:
                try:
                    sink.sink.close()
                except Exception as error:  # any sink's, of anybody's making: the others go on
                    sink.last_error = _words(error)
                    sink.failed += getattr(error, "records", 0)
                    _log.error("%s could not finish: %s", sink.name, sink.last_error)
                if sink.failed:
                    _log.error("%s: %d records are missing", sink.name, sink.failed)
        return self.report()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _hand_over(self, sink: _Sink, record: Record) -> bool:
        try:
            sink.sink.record(record)
        except Exception as error:  # any sink's, of anybody's making: the others go on
            sink.failed += 1
            sink.last_error = _words(error)
            if not sink.failing:
                sink.failing = True
                _log.error("%s failed, others go on: %s", sink.name, sink.last_error)
            return False
        sink.recorded += 1
        if sink.failing:
            sink.failing = False
            _log.warning("%s works again; %d records are missing", sink.name, sink.failed)
        return True


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
