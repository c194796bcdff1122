"""A worker's ear for commands: pause, resume, stop.

Ask it in the training loop::

    inbox = ControlInbox.from_environment()
    while training:
        if not inbox.wait_while_paused():
            break                                    # asked to stop

Standard library only. Commands come through a named pipe that the proxy made; without a proxy there
are none.
"""

from __future__ import annotations

import json
import os
import select
import time
from dataclasses import dataclass
from typing import Literal

from lanekit.slow import emit

Action = Literal["pause", "resume", "stop"]


@dataclass(frozen=True)
class ControlCommand:
    """What somebody asked the run's workers to do."""

    action: Action
    command_id: int
    """Numbered within the run, in the order in which they were asked for."""


class ControlInbox:
    """Reads commands without ever waiting for one, unless asked to."""

    def __init__(self, path: str | None, emitter: emit.Emitter | None = None) -> None:
        self._emitter = emitter
        self._file = -1
        self._rest = b""
        self._newest = 0
        self._paused = False
        self._stopped = False
        if path is not None:
            # Read and write: the pipe and what is in it stay when the proxy is replaced.
            self._file = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)

    @classmethod
    def from_environment(cls, emitter: emit.Emitter | None = None) -> ControlInbox:
        """Return the inbox of this worker; one that stays empty if no proxy started it."""
        return cls(os.environ.get("LANEKIT_CONTROL_FIFO"), emitter)

    @property
    def paused(self) -> bool:
        """Whether the newest command applied by :meth:`wait_while_paused` was to pause."""
        return self._paused

    @property
    def stopped(self) -> bool:
        """Whether :meth:`wait_while_paused` was told to stop."""
        return self._stopped

    def poll(self) -> list[ControlCommand]:
        """Return the commands that came since the last call, each once, in order; never waits.

        Call :meth:`applied` for each one that was obeyed.
        """
        if self._file < 0:
            return []
        data = self._rest
        while True:
            try:
                part = os.read(self._file, 65536)
            except BlockingIOError:
                break
            data += part
        *lines, self._rest = data.split(b"\n")
        commands = []
        for line in lines:
            command = _parse(line)
            # A proxy that took over delivers again what it can not know to have arrived.
            if command is not None and command.command_id > self._newest:
                self._newest = command.command_id
                commands.append(command)
        return commands

    def applied(self, command: ControlCommand) -> None:
        """Report that a command was obeyed: the run's state follows."""
        report = emit.event if self._emitter is None else self._emitter.event
        report("control_applied", command_id=command.command_id, action=command.action)

    def wait_while_paused(self, timeout: float | None = None) -> bool:
        """Obey what came, and stay here while the run is paused; False means: stop.

        With a `timeout` in seconds it returns True after that long even if still paused.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            for command in self.poll():
                if command.action == "stop":
                    self._stopped = True
                else:
                    self._paused = command.action == "pause"
                self.applied(command)
            if self._stopped:
                return False
            if not self._paused:
                return True
            left = 1.0 if deadline is None else min(1.0, deadline - time.monotonic())
            if left <= 0:
                return True
            select.select([self._file], [], [], left)

    def close(self) -> None:
        """Stop listening."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _parse(line: bytes) -> ControlCommand | None:
    try:
        content = json.loads(line)
        action, number = content["action"], content["command_id"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if action not in ("pause", "resume", "stop") or not isinstance(number, int):
        return None
    return ControlCommand(action, number)
