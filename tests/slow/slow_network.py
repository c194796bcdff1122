"""A network between a client and a daemon that a test can make stand still."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Self


class Relay:
    """Forwards one TCP connection at a time; ``hold`` stops what the daemon sends."""

    def __init__(self, address: str) -> None:
        host, port = address.rsplit(":", 1)
        self._far = (host, int(port))
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._server.getsockname()[1]}"
        self._open = threading.Event()
        self._open.set()
        self._ends: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def hold(self) -> None:
        """Let nothing through to the client from now on."""
        self._open.clear()

    def release(self) -> None:
        """Let everything through again."""
        self._open.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.set()
        for end in (self._server, *self._ends):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._server.accept()
                far = socket.create_connection(self._far)
                # As little as the kernel allows waits in the network itself.
                far.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                self._ends += [near, far]
                for source, target in ((near, far), (far, near)):
                    threading.Thread(
                        target=self._forward, args=(source, target, source is far), daemon=True
                    ).start()

    def _forward(self, source: socket.socket, target: socket.socket, can_be_held: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(16384):
                if can_be_held:
                    self._open.wait()
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
