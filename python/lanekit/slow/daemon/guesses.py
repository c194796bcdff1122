"""Wrong tokens, by the address they come from: who tries many has to wait longer each time.

Only different ones count. A program with an old token brings the same one again and again, and
must not make everybody wait who shares its address. While an address waits, nothing that is new
from there is looked at, right or wrong; but who has come with a right token before goes on. The
wait is short enough for somebody with a right token to sit it out.
"""

from __future__ import annotations

import hashlib
import ipaddress
import secrets
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from urllib.parse import unquote

from lanekit.slow.daemon.access import Caller

FREE_GUESSES = 10
"""Wrong tokens of one address that are answered at once. Then it waits after each: 1 s ..."""
LONGEST_WAIT = 30.0
"""... and twice as long each time, up to this."""
FORGET_SECONDS = 3600.0
"""An address that guessed nothing for so long begins afresh."""
MOST_ADDRESSES = 4096
"""Addresses that are remembered; those that were heard of longest ago are forgotten first."""
MOST_SAME = 32
"""Wrong tokens of one address that are recognised when they come again."""


class _Offender:
    __slots__ = ("last", "seen", "until", "wrong")

    def __init__(self) -> None:
        self.wrong = 0
        self.last = 0.0
        self.until = 0.0
        self.seen: deque[bytes] = deque(maxlen=MOST_SAME)


class Guesses:
    """What is remembered of wrong tokens, for all of a daemon's ports."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._offenders: OrderedDict[str, _Offender] = OrderedDict()
        self._known: OrderedDict[tuple[str, str], None] = OrderedDict()
        # Wrong tokens are often nearly right ones: what is kept of them tells nobody anything.
        self._key = secrets.token_bytes(16)

    def judge(self, host: str, given: str | bytes, caller: Caller | None) -> float:
        """Take note of a token and whose it is (None: nobody's).

        Returns for how many seconds nothing further is looked at from there; 0: this one was.
        """
        address = group_of(host)
        if not address:
            return 0.0
        now = self._clock()
        offender = self._offenders.get(address)
        if offender is not None and now - offender.last > FORGET_SECONDS:
            del self._offenders[address]
            offender = None
        wait = 0.0 if offender is None else max(0.0, offender.until - now)
        if caller is not None:
            return self._right(address, caller, wait)
        data = given.encode("utf-8", "surrogatepass") if isinstance(given, str) else given
        digest = hashlib.blake2b(data, digest_size=8, key=self._key).digest()
        if offender is not None and digest in offender.seen:
            return 0.0
        if wait > 0.0:
            return wait
        if offender is None:
            offender = self._offenders[address] = _Offender()
            if len(self._offenders) > MOST_ADDRESSES:
                self._offenders.popitem(last=False)
        self._offenders.move_to_end(address)
        offender.seen.append(digest)
        offender.wrong += 1
        offender.last = now
        if (beyond := offender.wrong - FREE_GUESSES) >= 0:
            offender.until = now + min(2.0 ** min(beyond, 16), LONGEST_WAIT)
        return 0.0

    def _right(self, address: str, caller: Caller, wait: float) -> float:
        key = (address, caller.name)
        if wait > 0.0 and key not in self._known:
            return wait
        self._known[key] = None
        self._known.move_to_end(key)
        if len(self._known) > MOST_ADDRESSES:
            self._known.popitem(last=False)
        return 0.0

    def __len__(self) -> int:
        """How many addresses are remembered, for whatever reason."""
        return len(self._offenders) + len(self._known)


def group_of(host: str) -> str:
    """Return what stands for a peer: an IPv4 address, or the 64 bits of IPv6 that a site has.

    Empty for what has no address: the Unix socket, which only one user can open.
    """
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return ""
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ipaddress.IPv6Network((address, 64), strict=False))
    return str(address)


def host_of_peer(peer: str) -> str:
    """Return the address in what gRPC says of a peer: ``ipv4:10.0.0.7:41234``."""
    kind, _, rest = unquote(peer).partition(":")
    if kind not in ("ipv4", "ipv6"):
        return ""
    return rest.rpartition(":")[0].strip("[]")


def wait_message(seconds: float) -> str:
    """Say why a token was not looked at."""
    return (
        f"too many different wrong tokens came from this address: try again in "
        f"{max(1, round(seconds + 0.5))} s"
    )
