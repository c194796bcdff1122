"""A server that runs beside a test, and patience."""

from __future__ import annotations

import threading

from lanekit.command import CommandServer


class Pumped:
    """A server that is pumped in a thread of its own, as a simulation would."""

    def __init__(self, server: CommandServer) -> None:
        self.server = server
        self._stop = False
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._stop:
            self.server.pump(timeout=0.02)

    def __enter__(self) -> CommandServer:
        self._thread.start()
        return self.server

    def __exit__(self, *_: object) -> None:
        self._stop = True
        self._thread.join()
