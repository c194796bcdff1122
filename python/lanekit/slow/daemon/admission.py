"""How much callers may have under way in the daemon: calls, and bytes that it has taken in.

gRPC receives a message whole before anybody sees its size, so what a caller can make the daemon
hold is bounded by three things together. Messages are small (``MAX_RECEIVED_BYTES``; larger
publish requests come in parts). Each call has one message under way at most, and calls are
counted. What was read counts until the store's queue, which has a bound of its own, has it.
Answers count until they are sent: whoever does not read them can not have any number made.

A caller who has only some of the runs waits for a turn before the first message of a call is
read, and keeps it until that message is known to be about one of these: messages for somebody
else's runs are in memory a few at a time, however many calls bring them.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

from lanekit.errors import TelemetryError
from lanekit.slow.daemon.access import Caller
from lanekit.slow.limits import MAX_MESSAGE_BYTES

TURNS = 8
"""Calls of one named token whose first message may be under way at the same time."""
FIRST_MESSAGE_SECONDS = 30.0
"""How long a call with a named token may take to send its first message, once it is its turn."""
NEXT_PART_SECONDS = 60.0
"""How long the next part of a request may take."""


class Overload(TelemetryError):
    """Refuses what would be too much at once; later it is welcome."""


class TooSlow(TelemetryError):
    """Ends a call that keeps something for itself and sends nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionLimits:
    """What may be under way at once."""

    calls_per_token: int = 256
    """Of one named token."""
    calls: int = 4096
    """Of everybody together."""
    bytes_per_token: int = 96 * 2**20
    bytes: int = 256 * 2**20

    def __post_init__(self) -> None:
        for flag, calls in (("--calls-per-token", self.calls_per_token), ("--calls", self.calls)):
            if calls < 8:
                raise ValueError(f"{flag} is at least 8: a worker alone has four; got {calls}")
        for flag, most in (("--mib-per-token", self.bytes_per_token), ("--mib", self.bytes)):
            if most < MAX_MESSAGE_BYTES:
                raise ValueError(
                    f"{flag} is at least {MAX_MESSAGE_BYTES // 2**20}, the largest request; "
                    f"got {most // 2**20}"
                )


class _Share:
    """What one caller has under way."""

    def __init__(self) -> None:
        self.calls = 0
        self.bytes = 0
        self.unread = 0
        self.turns = asyncio.Semaphore(TURNS)


class Admission:
    """Counts what is under way. One for a daemon; used in its event loop only."""

    def __init__(self, limits: AdmissionLimits) -> None:
        self.limits = limits
        self._all = _Share()
        self._shares: defaultdict[str, _Share] = defaultdict(_Share)

    @contextmanager
    def call(self, caller: Caller) -> Iterator[AdmittedCall]:
        """Let a call in for as long as it lasts; Overload if there are too many."""
        limits, everybody = self.limits, self._all
        share = self._shares[caller.name]
        if not caller.is_owner and share.calls >= limits.calls_per_token:
            raise Overload(
                f"{caller.name} has {share.calls} calls under way, the most for one token: end "
                "some, try again later, or start the daemon with a higher --calls-per-token"
            )
        if everybody.calls >= limits.calls:
            raise Overload(
                f"the daemon has {everybody.calls} calls under way, the most it takes: try again "
                "later, or start it with a higher --calls"
            )
        call = AdmittedCall(self, caller)
        for each in (share, everybody):
            each.calls += 1
        try:
            yield call
        finally:
            call.release()
            for each in (share, everybody):
                each.calls -= 1

    def take(self, caller: Caller, nbytes: int) -> None:
        """Count bytes that were read, or soon will be; Overload if there are too many."""
        limits, everybody = self.limits, self._all
        share = self._shares[caller.name]
        if not caller.is_owner and share.bytes + nbytes > limits.bytes_per_token:
            raise Overload(
                f"{nbytes:,} bytes more would make {share.bytes + nbytes:,} that {caller.name} has "
                f"under way, and {limits.bytes_per_token:,} is the most for one token: send less "
                "at once, or start the daemon with a higher --mib-per-token"
            )
        if everybody.bytes + nbytes > limits.bytes:
            raise Overload(
                f"{nbytes:,} bytes more would make {everybody.bytes + nbytes:,} under way in this "
                f"daemon, and {limits.bytes:,} is the most: try again later, or start it with a "
                "higher --mib"
            )
        for each in (share, everybody):
            each.bytes += nbytes

    def give_back(self, caller: Caller, nbytes: int) -> None:
        """Count bytes no longer."""
        for each in (self._shares[caller.name], self._all):
            each.bytes -= nbytes

    @contextmanager
    def answer(self, caller: Caller, nbytes: int) -> Iterator[None]:
        """Count what a named caller is sent, until it is read there; Overload if it is too much."""
        share = self._shares[caller.name]
        most = self.limits.bytes_per_token
        # One answer alone is always sent, however large.
        if not caller.is_owner and share.unread and share.unread + nbytes > most:
            raise Overload(
                f"{caller.name} has {share.unread:,} bytes of answers under way that were not read "
                f"yet, and {nbytes:,} more would be more than {most:,}, the most for one token: "
                "read them, or start the daemon with a higher --mib-per-token"
            )
        share.unread += nbytes
        try:
            yield
        finally:
            share.unread -= nbytes

    def turns(self, caller: Caller) -> asyncio.Semaphore:
        """Return the turns of a named caller."""
        return self._shares[caller.name].turns


class AdmittedCall:
    """One call, and the bytes that were read for it and are not dealt with yet."""

    def __init__(self, admission: Admission, caller: Caller) -> None:
        self._admission = admission
        self.caller = caller
        self._held = 0
        self._begun = caller.is_owner

    def hold(self, nbytes: int) -> None:
        """Count what was read, or what a request says will come; Overload if it is too much."""
        self._admission.take(self.caller, nbytes)
        self._held += nbytes

    def release(self) -> None:
        """Count what is held no longer: it was dealt with."""
        self._admission.give_back(self.caller, self._held)
        self._held = 0

    @contextmanager
    def answer(self, nbytes: int) -> Iterator[None]:
        """Count an answer for as long as it takes to be sent; Overload if it is too much."""
        with self._admission.answer(self.caller, nbytes):
            yield

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for the turn to read a call's first message. Later ones need none."""
        if self._begun:
            yield
            return
        self._begun = True
        async with self._admission.turns(self.caller):
            try:
                async with asyncio.timeout(FIRST_MESSAGE_SECONDS):
                    yield
            except TimeoutError:
                raise TooSlow(
                    f"no message came within {FIRST_MESSAGE_SECONDS:g} s of the call's turn: open "
                    "a call when there is something to send"
                ) from None
