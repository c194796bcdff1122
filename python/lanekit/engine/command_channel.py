"""The command rings of a step lane's end, as a channel."""

from __future__ import annotations

from lanekit._core import ffi, lib
from lanekit.command import RingChannel
from lanekit.errors import EngineError
from lanekit.step import StepClient, StepServer


def command_channel(end: StepServer | StepClient) -> RingChannel:
    """Return the channel beside a step lane; it ends when that end is closed."""
    handle = end._handle
    lend = (
        lib.lk_step_server_commands if isinstance(end, StepServer) else lib.lk_step_client_commands
    )
    rings = lend(handle)
    if rings == ffi.NULL:
        raise EngineError(
            f"lane {end.name!r} was made without command rings; its server gives command_ring="
        )
    return RingChannel(rings, f"command lane {end.name!r}", end)
