"""A landing in a process of its own, and what carries records to it over a socket."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any

from lanekit import LanekitError
from lanekit.trajectory.arrivals import Arrivals
from lanekit.trajectory.landing import Admission, Landing, Record
from lanekit.trajectory.remote import CarrierLost
from lanekit.trajectory.writer import TrajectoryReservation

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # it is run by itself, too

from patience import patience as limit


class LandingProcess:
    """Starts and kills it. `die` makes it kill itself at an instruction: see :func:`arm`."""

    def __init__(self, lane: str, directory: Path) -> None:
        self.lane = lane
        self.socket = directory / "landing.sock"
        self.book = directory / "book.db"
        self._process: subprocess.Popen[str] | None = None

    def start(self, die: str = "") -> LandingProcess:
        command = [sys.executable, __file__, self.lane, str(self.socket), str(self.book), die]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"
        return self

    def wait(self) -> int:
        assert self._process is not None
        assert self._process.stdout is not None
        status = self._process.wait(limit())
        self._process.stdout.close()
        self._process = None
        return status

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self.wait()

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self.wait()


class SocketCarrier:
    """Each call has a connection of its own; one that breaks brings no answer."""

    def __init__(self, socket: Path, *, twice: bool = False) -> None:
        self._socket = socket
        self._twice = twice

    def _ask(self, *request: Any) -> Connection:
        try:
            connection = Client(str(self._socket))
            connection.send(request)
        except OSError as error:
            raise CarrierLost(str(error)) from None
        return connection

    def admit(self, producer: str) -> Admission:
        found = SocketCall(self._ask("admit", producer)).answer(limit())
        assert isinstance(found, Admission)
        return found

    def pack(self, records: Sequence[Record]) -> Any:
        return list(records)

    def bring(
        self, parcel: Any, admission: Admission, producer: str, first: int, patience: float
    ) -> SocketCall:
        request = (admission.lane, producer, admission.epoch, first, parcel, patience)
        if self._twice:  # a carrier may repeat itself
            SocketCall(self._ask("deliver", *request)).answer(limit())
        return SocketCall(self._ask("deliver", *request))


class SocketCall:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def answer(self, timeout: float) -> Any:
        try:
            if not self._connection.poll(timeout):
                return None
            found = self._connection.recv()
        except (EOFError, OSError) as error:
            raise CarrierLost(str(error)) from None
        self._connection.close()
        if isinstance(found, LanekitError):
            raise found
        return found


def arm(die: str) -> None:
    """Kill this process at the n-th time it comes by: ``announced:5``, ``committed:5``."""
    place, _, count = die.partition(":")
    left = [int(count or 0)]

    def after(original: Any) -> Any:
        def replacement(self: Any, *arguments: Any) -> Any:
            result = original(self, *arguments)
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return replacement

    if place == "announced":
        Arrivals.announce = after(Arrivals.announce)  # type: ignore[method-assign]
    elif place == "committed":
        TrajectoryReservation.commit = after(TrajectoryReservation.commit)  # type: ignore[method-assign]


def main() -> None:
    lane, socket, book, die = sys.argv[1:]
    arm(die)
    Path(socket).unlink(missing_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with Landing(lane, Path(book), timeout=limit(30)) as landing, Listener(socket) as listener:
        print("ready", flush=True)
        while True:
            try:
                with listener.accept() as connection:
                    method, *arguments = connection.recv()
                    try:
                        if method == "deliver":
                            *arguments, patience = arguments
                            connection.send(landing.deliver(*arguments, patience=patience))
                        else:
                            connection.send(landing.admit(*arguments))
                    except LanekitError as error:
                        connection.send(error)
            except (EOFError, OSError):
                continue  # that caller was killed


if __name__ == "__main__":
    main()
