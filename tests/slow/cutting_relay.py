"""A relay between a sender and the daemon that cuts connections after a random number of bytes."""

from __future__ import annotations

import random
import socket
import threading
from contextlib import suppress
from pathlib import Path


class CuttingRelay:
    """Listens on one Unix socket, connects to another, and cuts what goes between them."""

    def __init__(self, listen: Path, connect: Path, seed: int, most_bytes: int) -> None:
        self.cuts = 0
        self._connect = connect
        self._chance = random.Random(seed)
        self._most_bytes = most_bytes
        self._cutting = True
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(str(listen))
        self._server.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def stop_cutting(self) -> None:
        """Let everything through from now on."""
        self._cutting = False

    def close(self) -> None:
        """Stop listening."""
        self._server.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._server.accept()
                far = socket.socket(socket.AF_UNIX)
                try:
                    far.connect(str(self._connect))
                except OSError:
                    near.close()
                    continue
                left = [self._chance.randrange(1, self._most_bytes)] if self._cutting else [2**62]
                for source, sink in ((near, far), (far, near)):
                    threading.Thread(
                        target=self._pump, args=(source, sink, left), daemon=True
                    ).start()

    def _pump(self, source: socket.socket, sink: socket.socket, left: list[int]) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                # In the middle of a message, most likely: sizes are random.
                sink.sendall(data[: left[0]])
                left[0] -= len(data)
                if left[0] <= 0:
                    self.cuts += 1
                    break
        for side in (source, sink):
            with suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)
