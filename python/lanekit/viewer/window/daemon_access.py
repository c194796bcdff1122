"""How the window reaches its daemon, and whether it may start one."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lanekit.slow.daemon_client import DaemonClient
from lanekit.slow.endpoint import Target


@dataclass(frozen=True)
class DaemonAccess:
    """Makes clients for one daemon. Every thread has its own, so each can be ended alone."""

    connect: Callable[[], DaemonClient]
    target: Target
    may_start: bool = False
    """Whether it is the usual daemon of this machine, which is started when it is needed."""
    token_file: Path | None = None
    store: str | os.PathLike[str] | None = None
    """The daemon's store, for replays: a file or a database's URL; None: the usual one."""

    @property
    def can_start(self) -> bool:
        """Whether a daemon can be started at this address."""
        return self.may_start and self.target.is_unix

    @property
    def can_read_store(self) -> bool:
        """Whether its store can be read from here: it is this machine's, or was named."""
        return self.store is not None or self.target.is_loopback

    @property
    def connect_far(self) -> Callable[[], DaemonClient] | None:
        """How its machine's lanes are reached; None where they are in this machine's memory.

        Only a socket of this machine says so: behind a port of it there may be a tunnel.
        """
        return None if self.target.is_unix else self.connect
