"""What messages travel through: two rings in shared memory, or anything that acts like them."""

from __future__ import annotations

import threading
import time
from typing import Protocol

from lanekit import errors
from lanekit._core import (
    SLICE_NS,
    STRATEGIES,
    CData,
    WaitStrategy,
    check,
    ffi,
    lib,
    seconds_to_ns,
)


class Channel(Protocol):
    """Carries messages to one other end and back, each whole, once and in order.

    One thread may send while another receives.
    """

    @property
    def max_size(self) -> int:
        """The largest message, in bytes."""
        ...

    def send(self, message: bytes, timeout: float | None) -> bool:
        """Send a message; False if there was no room for it within `timeout` seconds.

        Raises :class:`~lanekit.TooLarge` above :attr:`max_size` and :class:`~lanekit.PeerLost` when
        there is no room and nobody who could make some.
        """
        ...

    def receive(self, timeout: float | None) -> bytes | None:
        """Return the next message, None if none came within `timeout` seconds.

        Raises :class:`~lanekit.PeerLost` when there is none and nobody who could send one.
        """
        ...


class RingChannel:
    """The command channel of a step handle, which lends it.

    Sending and receiving take one thread each; a second one in the same direction is told so with
    :class:`~lanekit.ConcurrentUse`.
    """

    def __init__(
        self, handle: CData, what: str, owner: object, strategy: WaitStrategy = "hybrid"
    ) -> None:
        """Use the core's channel `handle` as long as `owner`, whose it is, can be kept alive."""
        if strategy not in STRATEGIES:
            raise ValueError(f"strategy is one of {', '.join(STRATEGIES)}, not {strategy!r}")
        self._handle = handle
        self._what = what
        self._owner = owner
        self._strategy = STRATEGIES[strategy]
        self._max_size: int = lib.lk_cmd_limit(handle)
        self._room = min(4096, self._max_size)
        self._buffer = ffi.new("uint8_t[]", self._room)
        self._size = ffi.new("size_t *")
        # The buffer is shared state: the core's own check comes too late for it.
        self._receiving = threading.Lock()

    @property
    def max_size(self) -> int:
        """The largest message, in bytes."""
        return self._max_size

    def send(self, message: bytes, timeout: float | None = None) -> bool:
        """Send a message; False if there was no room for it within `timeout` seconds."""
        if len(message) > self._max_size:
            raise errors.TooLarge(
                f"{self._what}: a message of {len(message)} bytes is larger than the lane can "
                f"carry, which is {self._max_size}; create the server with a larger command_ring"
            )
        payload = ffi.from_buffer(message)
        wait = _Wait(timeout)
        while True:
            status = check(
                lib.lk_cmd_send(self._handle, payload, len(message), wait.slice, self._strategy),
                self._what,
            )
            if status or wait.over:
                return status == 1

    def receive(self, timeout: float | None = None) -> bytes | None:
        """Return the next message, None if none came within `timeout` seconds."""
        if not self._receiving.acquire(blocking=False):
            raise errors.ConcurrentUse(f"{self._what}: another thread is receiving")
        try:
            wait = _Wait(timeout)
            while True:
                status = self._receive(wait.slice)
                if status:
                    return ffi.buffer(self._buffer, self._size[0])[:]
                if wait.over:
                    return None
        finally:
            self._receiving.release()

    def _receive(self, timeout_ns: int) -> int:
        while True:
            status = lib.lk_cmd_receive(
                self._handle, self._buffer, self._room, self._size, timeout_ns, self._strategy
            )
            if status != lib.LK_E_SIZE:
                return check(status, self._what)
            self._room = min(max(self._size[0], 2 * self._room), self._max_size)
            self._buffer = ffi.new("uint8_t[]", self._room)


class _Wait:
    """A wait in slices."""

    def __init__(self, timeout: float | None) -> None:
        limit = seconds_to_ns(timeout)
        self._end = None if limit is None else time.monotonic_ns() + limit
        self.over = False

    @property
    def slice(self) -> int:
        """Nanoseconds to wait next; notes whether they are the last."""
        if self._end is None:
            return SLICE_NS
        left = max(0, self._end - time.monotonic_ns())
        self.over = left <= SLICE_NS
        return min(left, SLICE_NS)
