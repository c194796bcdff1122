"""The sender: reads a spool's journal, publishes it, and moves the checkpoint behind it.

Three parts, each with a thread of its own: whoever writes the journal (a proxy's pump, a client's
caller), the reader here, and the link to the daemon. While the daemon is away the window of
requests fills up, the reader stops, and the journal grows on disk; memory stays as it is.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lanekit.slow.limits import SEND_MAX_DELAY
from lanekit.slow.sending.daemon_link import DaemonLink
from lanekit.slow.sending.heartbeats import Command
from lanekit.slow.sending.journal import NO_SPACE
from lanekit.slow.sending.journal_reader import READ_BYTES, JournalReader, position_reached
from lanekit.slow.sending.lines import StepLine
from lanekit.slow.sending.spool import KINDS, Checkpoint, Spool

if TYPE_CHECKING:
    import grpc

_CHECKPOINT_INTERVAL = 0.1
_RETRY_INTERVAL = 0.2
_LAST_WORD_SECONDS = 2.0
"""How long to wait for the daemon to know how many lines were rejected."""


@dataclass(frozen=True)
class Outcome:
    """What a sender leaves behind."""

    unsent_bytes: int
    """Of the journal; 0 when everything is acknowledged."""
    rejected_lines: int
    refused: str | None
    """Why the daemon, or the spool, did not allow to go on."""

    @property
    def complete(self) -> bool:
        """Whether every event is committed."""
        return self.unsent_bytes == 0


def report_to_stderr(message: str) -> None:
    """Print a message for whoever looks after the run."""
    with contextlib.suppress(OSError, ValueError):  # it may be a file on the disk that is full
        print(f"lanekit: {message}", file=sys.stderr, flush=True)


class Sender:
    """Publishes the events of one spool until all are acknowledged."""

    def __init__(
        self,
        spool: Spool,
        channel: grpc.Channel,
        *,
        token: str | None = None,
        require_run: bool = False,
        worker_pid: int | None = None,
        on_frames: Callable[[list[StepLine]], None] | None = None,
        on_command: Callable[[Command], bool] | None = None,
        report: Callable[[str], None] = report_to_stderr,
    ) -> None:
        self._spool = spool
        self._report = report
        self._reader = JournalReader(spool, on_frames)
        self._wake = threading.Condition()
        self._woken = False
        self._ended = False
        self._stopping = False
        self._failed: str | None = None
        self._drained = threading.Event()
        self._positions: deque[Checkpoint] = deque()
        self._reached = self._reader.position
        self._saved_at = 0.0
        self._complained = False
        self._link = DaemonLink(
            spool,
            channel,
            token=token,
            require_run=require_run,
            worker_pid=worker_pid,
            on_acknowledged=self.notify,
            on_command=on_command,
            vital_signs=lambda: (self._reader.rejected, spool.unsent_bytes),
            position=self._reader.position,
            is_complete=lambda: self._ended,
            report=report,
        )
        self._thread = threading.Thread(target=self._run, name="lanekit-reader", daemon=True)

    def start(self) -> None:
        """Begin to read and to send."""
        self._follow_streams()
        self._link.start()
        self._thread.start()

    def notify(self) -> None:
        """Tell that the journal grew, or that something was acknowledged."""
        with self._wake:
            self._woken = True
            self._wake.notify()

    def drain(self, timeout: float | None) -> bool:
        """Wait until all that the journal holds now is acknowledged; it must end with a line."""
        deadline = None if timeout is None else time.monotonic() + timeout
        end = self._spool.journal.end
        while self._reached.offset < end:
            if self.refused is not None:
                return False
            left = 0.02 if deadline is None else min(0.02, deadline - time.monotonic())
            if left <= 0:
                return False
            time.sleep(left)
        return True

    @property
    def acknowledged(self) -> dict[str, int]:
        """How many events of each kind are committed of what this process added."""
        if self._reader.position.stream_id != self._spool.journal.own_stream:
            return dict.fromkeys(KINDS, 0)
        return self._link.acknowledged()

    @property
    def refused(self) -> str | None:
        """Why nothing more will be sent, if so."""
        return self._failed or self._link.refused

    def end(self) -> None:
        """Tell that the journal is complete: nothing will be added."""
        with self._wake:
            self._ended = self._woken = True
            self._wake.notify()

    def wait(self, timeout: float | None) -> bool:
        """Wait until the complete journal is acknowledged and its end put down."""
        return self._drained.wait(timeout)

    def close(self, drain_timeout: float | None = 0.0, *, complete: bool = True) -> Outcome:
        """Wait for the rest to be acknowledged, then stop. What is not stays in the spool.

        Unless the journal is `complete`, the spool is left to be adopted, never finished.
        """
        if complete:
            self.end()
        if drain_timeout != 0.0:
            deadline = None if drain_timeout is None else time.monotonic() + drain_timeout
            while not self._drained.wait(0.05) and self.refused is None:
                if deadline is not None and time.monotonic() >= deadline:
                    break
        self._link.say_last(_LAST_WORD_SECONDS)
        with self._wake:
            self._stopping = self._woken = True
            self._wake.notify()
        self._link.close()
        self._thread.join()
        self._reader.close()
        return Outcome(
            0 if self._drained.is_set() else max(1, self._spool.unsent_bytes),
            self._reader.all_rejected,
            self.refused,
        )

    # --- the reader's thread ----------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while self._wait_for_work():
                try:
                    for request in self._reader.read():
                        self._link.put(request)
                except OSError as error:
                    if error.errno not in NO_SPACE:
                        raise
                    self._complain(error)
                    self._spool.journal.hold = True
                    time.sleep(_RETRY_INTERVAL)
                    continue
                self._spool.journal.hold = False
                if self._reader.position is not (
                    self._positions[-1] if self._positions else self._reached
                ):
                    self._positions.append(self._reader.position)
        except Exception as error:  # the worker must go on, whatever happens here
            self._failed = (
                f"the spool {self._spool.directory} can not be sent: {type(error).__name__}: "
                f"{error}. The worker's output is still kept there"
            )
            self._report(self._failed)

    def _wait_for_work(self) -> bool:
        """Return True when there is something to read and room for it, False at the end."""
        seen = 0.0
        while True:
            self._move_checkpoint()
            self._follow_streams()
            with self._wake:
                if self._stopping:
                    break
                unread = self._reader.unread
                timeout: float | None = None
                if unread and self._link.has_room():
                    if unread >= READ_BYTES or self._ended:
                        return True
                    # A few lines: wait for company, but not long.
                    now = time.monotonic()
                    seen = seen or now
                    if now >= seen + SEND_MAX_DELAY:
                        return True
                    timeout = seen + SEND_MAX_DELAY - now
                if self._reached is not self._spool.checkpoint and not self._drained.is_set():
                    timeout = min(timeout or _CHECKPOINT_INTERVAL, _CHECKPOINT_INTERVAL)
                if not self._woken or timeout is not None:
                    self._wake.wait(timeout)
                self._woken = False
        self._move_checkpoint(now=True)
        return False

    def _follow_streams(self) -> None:
        """Go on with the next stream once all of this one is acknowledged."""
        if self._positions or not self._reader.at_stream_end:
            return
        self._link.say_last(_LAST_WORD_SECONDS)
        while self._reader.at_stream_end:
            self._reader.next_stream()
        self._reached = self._reader.position
        self._link.switch(self._reached)

    def _move_checkpoint(self, now: bool = False) -> None:
        acknowledged = self._link.acknowledged()
        while self._positions and position_reached(self._positions[0], acknowledged):
            self._reached = self._positions.popleft()
        finished = (
            self._ended and not self._positions and self._reached.offset == self._spool.journal.end
        )
        if self._drained.is_set() or (self._reached is self._spool.checkpoint and not finished):
            return
        passed = time.monotonic() - self._saved_at
        if not (now or finished or passed >= _CHECKPOINT_INTERVAL):
            return
        try:
            if finished:
                self._spool.save(replace(self._reached, finished=True))
                self._drained.set()
            else:
                self._spool.save(self._reached)
            self._complained = False
        except OSError as error:
            self._complain(error)
        self._saved_at = time.monotonic()

    def _complain(self, error: OSError) -> None:
        if not self._complained:
            self._complained = True
            self._report(f"the spool {self._spool.directory} can not be written now: {error}")
