"""The telemetry proxy: reads a worker's output, keeps it, and publishes the events in it.

worker stdout -> pipe -> journal on disk -> daemon. The worker never waits for the daemon, only for
its own pipe. The proxy may be killed at any moment: the worker goes on writing into its pipe, and
the next proxy (``lanekit proxy --adopt SPOOL``) takes over where the journal ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from lanekit.slow.endpoint import (
    default_socket,
    default_spool_directory,
    open_channel,
    parse_target,
)
from lanekit.slow.sending.heartbeats import Command
from lanekit.slow.sending.journal_end import JournalEnd
from lanekit.slow.sending.pipe_pump import PipePump, StderrFile
from lanekit.slow.sending.sender import Outcome, Sender, report_to_stderr
from lanekit.slow.sending.spool import Spool, read_object, write_whole
from lanekit.slow.sending.worker_process import WorkerProcess

EXIT_SPOOLED = 75
"""Events are left in the spool because the daemon was away (EX_TEMPFAIL)."""
EXIT_DAMAGED = 74
"""Some of the worker's output was lost with the journal (EX_IOERR)."""
EXIT_REFUSED = 76
"""Events are left in the spool because the daemon refuses them (EX_PROTOCOL)."""
PIPE_GRACE = 2.0
"""Seconds in which descendants of an ended worker may still write to its output."""
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class TrainerTelemetryProxy:
    """Publishes what one worker prints.

    With a `command` the proxy starts the worker; without one, lines come from the descriptor
    `stdin`.
    """

    def __init__(
        self,
        run_id: str,
        *,
        target: str | None = None,
        spool: str | os.PathLike[str] | None = None,
        worker_id: str = "",
        command: Sequence[str] = (),
        stdin: int | None = None,
        mirror_frames: bool = False,
        fsync: bool = False,
        token: str | None = None,
        ca_file: str | os.PathLike[str] | None = None,
        insecure: bool = False,
        require_run: bool = False,
        drain_timeout: float = 30.0,
        report: Callable[[str], None] = report_to_stderr,
    ) -> None:
        if bool(command) == (stdin is not None):
            raise ValueError("a proxy reads either a command's output or a descriptor")
        self._start(
            Spool.create(spool or fresh_spool(run_id), run_id, worker_id),
            target=target,
            mirror_frames=mirror_frames,
            fsync=fsync,
            token=token,
            ca_file=ca_file,
            insecure=insecure,
            require_run=require_run,
            drain_timeout=drain_timeout,
            report=report,
        )
        settings = {"mirror_frames": mirror_frames, "fsync": fsync}
        write_whole(self.spool.directory / "proxy.json", settings)
        self._command = list(command)
        self._stdin = stdin
        if stdin is not None:
            self.spool.go_on()

    @classmethod
    def adopt(
        cls,
        spool: str | os.PathLike[str],
        *,
        new_stream: bool = False,
        target: str | None = None,
        token: str | None = None,
        ca_file: str | os.PathLike[str] | None = None,
        insecure: bool = False,
        drain_timeout: float = 30.0,
        report: Callable[[str], None] = report_to_stderr,
    ) -> TrainerTelemetryProxy:
        """Take over a spool whose proxy died, and its worker if that still lives.

        Whether frames are mirrored and writes synchronised stays as the first proxy had it. With
        `new_stream`, what is not acknowledged is sent under a new stream id.
        """
        file = Path(spool) / "proxy.json"
        remedy = "Remove it: frames are then not mirrored, and writes not synchronised"
        settings = read_object(file, remedy) if file.exists() else {}
        proxy = cls.__new__(cls)
        proxy._start(
            Spool.open(spool, new_stream=new_stream),
            target=target,
            mirror_frames=bool(settings.get("mirror_frames")),
            fsync=bool(settings.get("fsync")),
            token=token,
            ca_file=ca_file,
            insecure=insecure,
            require_run=False,
            drain_timeout=drain_timeout,
            report=report,
        )
        proxy._command = []
        proxy._stdin = None
        return proxy

    def _start(
        self,
        spool: Spool,
        *,
        target: str | None,
        mirror_frames: bool,
        fsync: bool,
        token: str | None,
        ca_file: str | os.PathLike[str] | None,
        insecure: bool,
        require_run: bool,
        drain_timeout: float,
        report: Callable[[str], None],
    ) -> None:
        self.spool = spool
        self._token = token
        self._require_run = require_run
        self._drain_timeout = drain_timeout
        self._report = report
        self._mirror_frames = mirror_frames
        self._end = JournalEnd(spool, self._full_disk)
        try:
            if fsync:
                spool.keep_durable()
            address = parse_target(target or default_socket())
            self._channel = open_channel(address, ca_file, insecure)
        except BaseException:
            spool.close()
            raise
        self._worker: WorkerProcess | None = None
        self._unseen_end = "nobody saw how it ended"
        self._said_deleted = False
        self._stop = False
        self._control = -1

    # --- the whole way ----------------------------------------------------------------------------

    def run(self) -> int:
        """Publish until the worker has ended and all is acknowledged; return an exit status."""
        with contextlib.ExitStack() as stack:
            stack.callback(self.spool.close)
            stack.callback(self._channel.close)
            for path in self.spool.journal.set_aside:
                self._report(f"the journal lost its newest part; what was left of it is in {path}")
            stack.enter_context(self._forwarded_signals())
            if self._command:
                self._worker = WorkerProcess.start(self.spool, self._command, self._environment())
            elif self._stdin is None:
                self._worker = self._adopt_worker()
            if not self._end.is_put_down:
                self.spool.journal.begin()
            if self._worker is not None:
                stack.callback(self._worker.close)
                if self._stop:  # a signal that came before there was a worker to have it
                    self._stop = False
                    self._worker.signal(signal.SIGTERM)
                with contextlib.suppress(FileNotFoundError):  # a spool copied without its pipes
                    path = self.spool.directory / "control.fifo"
                    self._control = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
                    stack.callback(os.close, self._control)
            on_frames = None
            if self._mirror_frames:
                from lanekit.slow.sending.frame_mirror import FrameMirror

                mirror = FrameMirror(self.spool.run_id, self._report)
                stack.callback(mirror.close)
                on_frames = mirror.show
            sender = Sender(
                self.spool,
                self._channel,
                token=self._token,
                require_run=self._require_run,
                worker_pid=self._worker.pid if self._worker else None,
                on_frames=on_frames,
                on_command=self._deliver,
                report=self._report,
            )
            sender.start()
            try:
                status = self._read_all(sender)
            except BaseException:
                sender.close(complete=False)  # the worker may go on: somebody adopts the spool
                raise
            outcome = self._finish(sender)
        return self._exit_status(status, outcome)

    def _adopt_worker(self) -> WorkerProcess | None:
        worker = WorkerProcess.adopt(self.spool)
        if worker is None or not worker.writes_elsewhere:
            return worker
        worker.close()
        self._unseen_end = "this spool is a copy, and the worker writes to another"
        self._report(
            f"the worker of the spool {self.spool.directory} writes to the pipes of another spool, "
            "so this one is a copy: what is in it is sent, and the worker is left alone"
        )
        return None

    def _read_all(self, sender: Sender) -> int | None:
        """Move the worker's output to the journal until it ends; return how the worker ended."""
        status: int | None = None
        if not self._end.is_put_down:
            reason = self._unseen_end
            if self._worker is not None:
                self._pump_worker(self._worker, sender)
                status = self._worker.status()
            elif self._stdin is not None:
                reason = "the end of the input"
                with PipePump(self._stdin, self.spool.journal.splice, self._full_disk) as pump:
                    while pump.open and not self._stop:
                        self._pump_once([pump], sender, 0.5)
            deleted = ["spool_deleted"] if self._notice_deletion() else []
            self._end.put_down(status, reason, deleted)
        status = self._end.append()
        self._sync(sender)
        return status

    def _pump_worker(self, worker: WorkerProcess, sender: Sender) -> None:
        directory = self.spool.directory
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
        with contextlib.ExitStack() as stack:
            try:
                stdout = os.open(directory / "stdout.fifo", flags)
                stack.callback(os.close, stdout)
                stderr = os.open(directory / "stderr.fifo", flags)
                stack.callback(os.close, stderr)
            except FileNotFoundError as error:
                self._report(f"there is no {error.filename}: what is in the spool already is sent")
                return
            file = os.open(directory / "worker.err", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            stack.callback(os.close, file)
            errors = StderrFile(file)
            pumps = [
                stack.enter_context(PipePump(stdout, self.spool.journal.splice, self._full_disk)),
                stack.enter_context(PipePump(stderr, errors.splice, self._full_disk)),
            ]
            while worker.pidfd >= 0 and not _readable(worker.pidfd):
                self._pump_once(pumps, sender, 0.5, worker.pidfd)
            deadline = time.monotonic() + PIPE_GRACE
            while any(pump.open for pump in pumps) and time.monotonic() < deadline:
                self._pump_once(pumps, sender, 0.05)
            # A full disk keeps what is in the pipes there; a second signal gives up on it.
            while any([pump.move() for pump in pumps]) or any(pump.stuck for pump in pumps):
                if self._stop:
                    break
                time.sleep(0.01 if not any(pump.stuck for pump in pumps) else 0.1)
            self._sync(sender)

    def _pump_once(
        self, pumps: Sequence[PipePump], sender: Sender, timeout: float, pidfd: int = -1
    ) -> None:
        """Wait for output, and move what there is."""
        poll = select.poll()
        for pump in pumps:
            if pump.open and not pump.stuck:
                poll.register(pump.source, select.POLLIN)
            elif pump.stuck:
                timeout = min(timeout, 0.1)
        if pidfd >= 0:
            poll.register(pidfd, select.POLLIN)
        poll.poll(timeout * 1000)
        self._notice_deletion()
        moved = [pump.move() for pump in pumps if pump.open]
        if any(moved):
            self._sync(sender)
            if max(moved) < 2**16:
                # Let the worker's next lines gather: one system call then moves many of them.
                time.sleep(0.001)

    def _sync(self, sender: Sender) -> None:
        if self.spool.journal.durable:
            self.spool.journal.sync()
        sender.notify()

    def _notice_deletion(self) -> bool:
        """Tell whether the spool was deleted under this process, and report it once."""
        deleted = self.spool.is_deleted
        if deleted and not self._said_deleted:
            self._said_deleted = True
            self._report(
                f"the spool {self.spool.directory} was deleted while it was in use; events go on "
                "to the daemon, but if this process ends before they are there, nobody has them"
            )
        return deleted

    def _full_disk(self, error: OSError) -> None:
        self._report(
            f"the spool {self.spool.directory} can not be written now ({error.strerror}); the "
            "worker waits, nothing is lost"
        )

    # --- the end ----------------------------------------------------------------------------------

    def _finish(self, sender: Sender) -> Outcome:
        sender.end()
        deadline = time.monotonic() + self._drain_timeout
        while not sender.wait(0.05) and sender.refused is None and time.monotonic() < deadline:
            if self._stop:
                break
        return sender.close()

    def _exit_status(self, status: int | None, outcome: Outcome) -> int:
        if outcome.rejected_lines:
            self._report(
                f"{outcome.rejected_lines} lines claimed to be telemetry and were not; see "
                f"{self.spool.directory / 'rejects.jsonl'}"
            )
        if self._end.missing_bytes:
            self._report(
                f"{self._end.missing_bytes} bytes of the journal are missing: the end of the "
                f"worker's output was not sent, and is not in {self.spool.directory} any more"
            )
        if not outcome.complete:
            if outcome.refused is not None:
                return EXIT_REFUSED
            self._report(
                f"{outcome.unsent_bytes} bytes of telemetry are not acknowledged; they are kept in "
                f"{self.spool.directory}: once a daemon runs (`lanekit daemon`), "
                f"`lanekit proxy --adopt {self.spool.directory}` sends them"
            )
            return EXIT_SPOOLED
        if self._end.missing_bytes:
            return EXIT_DAMAGED
        if status is None:
            return 0
        return status if status >= 0 else 128 - status

    # --- the worker -------------------------------------------------------------------------------

    def _environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "LANEKIT_RUN_ID": self.spool.run_id,
            "LANEKIT_WORKER_ID": self.spool.worker_id,
            "LANEKIT_CONTROL_FIFO": str(self.spool.directory / "control.fifo"),
            "LANEKIT_TELEMETRY_FIFO": str(self.spool.directory / "stdout.fifo"),
        }

    def _deliver(self, command: Command) -> bool:
        """Write a command into the worker's control pipe; False when that is full."""
        number, action = command
        if self._control < 0:
            return True
        line = json.dumps({"command_id": number, "action": action}) + "\n"
        try:
            os.write(self._control, line.encode())  # shorter than PIPE_BUF: whole or not at all
        except BlockingIOError:
            return False
        return True

    @contextlib.contextmanager
    def _forwarded_signals(self) -> Any:
        """Pass signals on to the worker; after its end they mean: do not wait for the daemon."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def forward(number: int, _: FrameType | None) -> None:
            worker = self._worker
            if worker is None or worker.pidfd < 0 or _readable(worker.pidfd):
                self._stop = True
            else:
                worker.signal(number)

        before = {number: signal.signal(number, forward) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def fresh_spool(run_id: str) -> Path:
    """Return a directory for a new spool of a run."""
    return default_spool_directory() / f"{run_id}-{os.urandom(4).hex()}"


def _readable(file: int) -> bool:
    poll = select.poll()
    poll.register(file, select.POLLIN)
    return bool(poll.poll(0))
