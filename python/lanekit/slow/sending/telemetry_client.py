"""Publishing from within a worker's own process, without its stdout."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Self, cast

from lanekit import errors
from lanekit.slow.control import Action, ControlCommand
from lanekit.slow.emit import Emitter
from lanekit.slow.endpoint import default_socket, open_channel, parse_target
from lanekit.slow.sending.heartbeats import Command
from lanekit.slow.sending.proxy import fresh_spool
from lanekit.slow.sending.sender import Outcome, Sender, report_to_stderr
from lanekit.slow.sending.spool import Spool


class TelemetryClient(Emitter):
    """Reports a worker's events to the daemon, each exactly once, without using stdout.

    Lines go to a spool on disk and from there to the daemon, in threads of their own: reporting
    never waits for the daemon. If the process dies, ``lanekit proxy --adopt SPOOL`` sends what is
    left; a client opened on the same `spool` goes on with it, too.

    Methods: ``step``, ``episode``, ``event``, ``run_started``, ``heartbeat``, ``run_completed``,
    ``run_failed``, as in :mod:`lanekit.slow.emit`.
    """

    def __init__(
        self,
        run_id: str,
        *,
        target: str | None = None,
        spool: str | os.PathLike[str] | None = None,
        worker_id: str = "",
        token: str | None = None,
        ca_file: str | os.PathLike[str] | None = None,
        insecure: bool = False,
        require_run: bool = False,
        fsync: bool = False,
        on_control: Callable[[ControlCommand], None] | None = None,
        report: Callable[[str], None] = report_to_stderr,
    ) -> None:
        super().__init__()
        self._pid = os.getpid()
        self._closed: Outcome | None = None
        self._commands: deque[ControlCommand] = deque(maxlen=4096)
        self._on_control = on_control
        self._report = report
        address = parse_target(target or default_socket())
        self.spool = Spool.create(spool or fresh_spool(run_id), run_id, worker_id)
        try:
            if fsync:
                self.spool.keep_durable()
            self.spool.go_on()
            self._channel = open_channel(address, ca_file, insecure)
        except BaseException:
            self.spool.close()
            raise
        self._sender = Sender(
            self.spool,
            self._channel,
            token=token,
            require_run=require_run,
            on_command=self._take_command,
            report=report,
        )
        self._sender.start()

    @property
    def acknowledged(self) -> dict[str, int]:
        """How many ``steps``, ``episodes`` and ``events`` the daemon has committed."""
        return self._sender.acknowledged

    @property
    def refused(self) -> str | None:
        """Why the daemon takes no more events of this client, if so; they stay in the spool."""
        return self._sender.refused

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until everything reported so far is committed; False if that did not happen."""
        self._check()
        return self._sender.drain(timeout)

    def poll_control(self) -> list[ControlCommand]:
        """Return the commands that came since the last call; never waits."""
        commands = []
        while self._commands:
            commands.append(self._commands.popleft())
        return commands

    def applied(self, command: ControlCommand) -> None:
        """Report that a command was obeyed: the run's state follows."""
        self.event("control_applied", command_id=command.command_id, action=command.action)

    def close(self, drain_timeout: float | None = 10.0) -> Outcome:
        """Wait for the rest to be committed, then stop. What is not stays in the spool."""
        if self._closed is None:
            self._check()
            with self._lock:
                self.spool.end_here()
                self._closed = Outcome(0, 0, None)  # no more lines from here on
            self._closed = self._sender.close(drain_timeout)
            if not self._closed.complete:
                self._report(
                    f"{self._closed.unsent_bytes} bytes of telemetry are not acknowledged; they "
                    f"are kept: `lanekit proxy --adopt {self.spool.directory}` sends them"
                )
            self.spool.close()
        return self._closed

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def write_line(self, text: str) -> None:
        """Add a line of telemetry that was made elsewhere; it must end with a line end."""
        self._check()
        with self._lock:
            if self._closed is not None:
                raise errors.HandleClosed(f"the client of run {self.spool.run_id!r} is closed")
            self.spool.journal.append_patiently(text.encode())
            if self.spool.journal.durable:
                self.spool.journal.sync()
        self._sender.notify()

    def _check(self) -> None:
        if os.getpid() != self._pid:
            raise errors.HandleForked(
                f"the client of run {self.spool.run_id!r} was inherited over fork; open one in the "
                "child, with a spool of its own"
            )

    def _take_command(self, command: Command) -> bool:
        taken = ControlCommand(cast(Action, command[1]), command[0])
        self._commands.append(taken)
        if self._on_control is not None:
            try:
                self._on_control(taken)
            except Exception as error:  # the user's code: it must not end the heartbeat
                self._report(f"on_control failed: {type(error).__name__}: {error}")
        return True
