"""A human's records to the daemon, through a spool on disk that survives either of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lanekit.errors import InvalidEvent, TelemetryError
from lanekit.slow.human.record_codec import Record, to_line
from lanekit.slow.limits import MAX_LINE_BYTES

if TYPE_CHECKING:
    from lanekit.slow.sending.telemetry_client import TelemetryClient


class ClientRecorder:
    """Hands records to a telemetry client: to be used where a daemon owns the store.

    Never waits for the daemon; what it has not acknowledged is in the client's spool.
    """

    def __init__(self, client: TelemetryClient) -> None:
        """Take the client over: closing this closes it."""
        self._client = client

    def record(self, record: Record) -> None:
        """Take one record. Raises what keeps it from ever being stored."""
        if record.run_id != self._client.spool.run_id:
            raise InvalidEvent(
                f"a record of run {record.run_id!r} does not belong to this client, which reports "
                f"run {self._client.spool.run_id!r}"
            )
        line = to_line(record)
        if len(line) > MAX_LINE_BYTES:
            raise InvalidEvent(f"a record of {len(line):,} bytes; at most {MAX_LINE_BYTES:,} fit")
        self._client.write_line(line.decode())

    def close(self) -> None:
        """Wait for the daemon to have everything. Raises if it has not, or took not all of it."""
        outcome = self._client.close()
        if outcome.unsent_bytes:
            raise TelemetryError(
                f"{outcome.unsent_bytes:,} bytes are not acknowledged and stay in "
                f"{self._client.spool.directory}"
                + (f": {outcome.refused}" if outcome.refused else "")
            )
        if outcome.rejected_lines:
            raise TelemetryError(
                f"{outcome.rejected_lines} records could not be stored; they are in rejects.jsonl "
                f"of {self._client.spool.directory}"
            )
