"""Processes that keep a measurement company: the other side of the lane, on the other core."""

from __future__ import annotations

import contextlib
import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Self

from bench import machine

_SPAWN = multiprocessing.get_context("spawn")
_PATIENCE = 60.0


Role = Callable[..., None]


def _begin(
    role: Role, core: int, cores: list[int], conn: Connection, args: tuple[Any, ...]
) -> None:
    machine.set_cores(cores)
    machine.pin(core)
    with contextlib.suppress(EOFError):  # the measuring process has gone
        role(conn, *args)


class Companion:
    """A child process that runs ``role(conn, *args)`` pinned to a core.

    A role answers each message it takes from the pipe and ends at the message "end".
    """

    def __init__(self, core: int, role: Role, *args: Any) -> None:
        self._conn, theirs = _SPAWN.Pipe()
        self._process = _SPAWN.Process(
            target=_begin, args=(role, core, machine.cores(), theirs, args), daemon=True
        )
        self._process.start()
        theirs.close()

    def tell(self, message: Any) -> None:
        """Send a message without waiting for its answer."""
        self._conn.send(message)

    def answers(self, seconds: float) -> bool:
        """Wait so long for a message; True if there is one."""
        return self._conn.poll(seconds)

    def answer(self) -> Any:
        """Return the companion's next message."""
        if not self._conn.poll(_PATIENCE):
            raise TimeoutError("the companion process does not answer")
        return self._conn.recv()

    def ask(self, message: Any) -> Any:
        """Send a message and return the answer."""
        self.tell(message)
        return self.answer()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with contextlib.suppress(OSError):  # it may have ended already
            self.tell("end")
        self._process.join(10)
        if self._process.is_alive():
            self._process.terminate()
            self._process.join()
