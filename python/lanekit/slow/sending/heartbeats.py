"""A sender's signs of life, and the commands that come back over the same call."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from lanekit.slow.limits import HEARTBEAT_INTERVAL
from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.sending.spool import Spool

if TYPE_CHECKING:
    import grpc

Command = tuple[int, str]
"""A command's number, and "pause", "resume" or "stop"."""


class Session:
    """The calls of one connection."""

    def __init__(self, guard: threading.Lock) -> None:
        self.changed = threading.Condition(guard)
        self.over = False
        self.error: grpc.RpcError | None = None
        self.calls: dict[str, Any] = {}
        self.beat_now = False
        self.unanswered: deque[int] = deque()
        """Counts of rejected lines that the daemon was told of and has not answered."""
        self.consumers: list[threading.Thread] = []
        """gRPC's own threads that take our requests. They must be gone before the interpreter ends:
        one that is stopped there with its call's lock in hand makes the end wait for ever."""


class Heartbeats:
    """What is said in regular intervals, whichever session it is."""

    def __init__(
        self,
        spool: Spool,
        guard: threading.Lock,
        on_command: Callable[[Command], bool] | None,
        vital_signs: Callable[[], tuple[int, int]],
    ) -> None:
        self._spool = spool
        self._guard = guard
        self._on_command = on_command
        self._vital_signs = vital_signs
        self._command_guard = threading.Lock()
        self._commands: deque[Command] = deque()
        self._delivered = 0
        self.stream_id = ""
        """The stream that lives; to be changed between sessions."""
        self._known_rejected = 0
        """How many rejected lines the daemon knows of."""

    def requests(self, session: Session) -> Iterator[pb.HeartbeatRequest]:
        """Yield what is to be sent, each when it is time."""
        session.consumers.append(threading.current_thread())
        while True:
            self._deliver_commands()
            rejected, spooled = self._vital_signs()
            with self._guard:
                session.unanswered.append(rejected)
            yield pb.HeartbeatRequest(
                run_id=self._spool.run_id,
                stream_id=self.stream_id,
                delivered_command_id=self._delivered,
                rejected_lines=rejected,
                spooled_bytes=spooled,
            )
            with self._guard:
                session.changed.wait_for(
                    lambda: session.over or session.beat_now, HEARTBEAT_INTERVAL
                )
                session.beat_now = False
                if session.over:
                    return

    def begin_stream(self, stream_id: str) -> None:
        """Speak for another stream from the next session on; the guard is held."""
        self.stream_id = stream_id
        self._known_rejected = 0

    def take(self, session: Session, response: pb.HeartbeatResponse) -> None:
        """Take an answer, or a command."""
        if not response.HasField("command"):
            with self._guard:
                if session.unanswered:
                    self._known_rejected = session.unanswered.popleft()
                    session.changed.notify_all()
            return
        name = pb.ControlAction.Name(response.command.action)
        action = name.removeprefix("CONTROL_ACTION_").lower()
        with self._command_guard:
            newest = self._commands[-1][0] if self._commands else self._delivered
            if response.command.command_id > newest:
                self._commands.append((response.command.command_id, action))
        self._deliver_commands()

    def say_last(self, session: Session, timeout: float) -> None:
        """Tell the daemon how many lines were rejected in all, and wait for its answer."""
        rejected, _ = self._vital_signs()
        with self._guard:
            if self._known_rejected == rejected:
                return
            session.beat_now = True
            session.changed.notify_all()
            session.changed.wait_for(
                lambda: session.over or self._known_rejected == rejected, timeout
            )

    def _deliver_commands(self) -> None:
        """Hand commands to the worker in order; one it can not take waits for the next beat."""
        while True:
            with self._command_guard:
                if not self._commands:
                    return
                command = self._commands[0]
                if self._on_command is not None and not self._on_command(command):
                    return
                self._commands.popleft()
                self._delivered = command[0]
