"""A channel within one process, for tests that are not about the rings."""

from __future__ import annotations

import queue
import threading

from lanekit import PeerLost, TooLarge


class MemoryChannel:
    """One end of a pair; holds so many bytes, like a ring."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._held = 0
        self._incoming: queue.Queue[bytes] = queue.Queue()
        self._changed = threading.Condition()
        self.peer: MemoryChannel = self
        self.gone = False

    @property
    def max_size(self) -> int:
        return self._room - 4

    def send(self, message: bytes, timeout: float | None = None) -> bool:
        if len(message) > self.max_size:
            raise TooLarge(f"{len(message)} bytes, the limit is {self.max_size}")
        peer = self.peer
        with peer._changed:
            room = peer._changed.wait_for(
                lambda: self.gone or peer._held + len(message) + 4 <= self._room, timeout
            )
            if self.gone:
                raise PeerLost("the other end has gone")
            if room:
                peer._held += len(message) + 4
                peer._incoming.put(message)
                peer._changed.notify_all()
        return bool(room)

    def receive(self, timeout: float | None = None) -> bytes | None:
        with self._changed:
            self._changed.wait_for(lambda: self.gone or not self._incoming.empty(), timeout)
            if self._incoming.empty():
                if self.gone:
                    raise PeerLost("the other end has gone")
                return None
            message = self._incoming.get()
            self._held -= len(message) + 4
            self._changed.notify_all()
            return message

    def leave(self) -> None:
        """Die, as the other end sees it."""
        with self.peer._changed, self._changed:
            self.peer.gone = True
            self.peer._changed.notify_all()
            self._changed.notify_all()


def memory_channels(room: int = 65536) -> tuple[MemoryChannel, MemoryChannel]:
    """Return the two ends, the server's first."""
    server, client = MemoryChannel(room), MemoryChannel(room)
    server.peer, client.peer = client, server
    return server, client
