"""How the window reaches its daemon, and whether it may start one."""

from __future__ import annotations

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
    store: Path | None = None
    """The daemon's store, for replays; None: the usual one."""

    @property
    def can_start(self) -> bool:
        """Whether a daemon can be started at this address."""
        return self.may_start and self.target.is_unix
