"""The command lane: what is too seldom, too varied or too large for the step lane.

A client calls methods of a server through two rings in shared memory; the messages are FlatBuffers
of ``schema/command.fbs``. See ``docs/command-lane.md``.
"""

from lanekit.command import messages
from lanekit.command.channel import Channel, RingChannel
from lanekit.command.client import CommandClient, CommandClientStats, CommandStream
from lanekit.command.flatbuffer import Message
from lanekit.command.messages import *  # noqa: F403
from lanekit.command.method import Method
from lanekit.command.methods import (
    METHODS,
    Agent,
    Camera,
    Debug,
    Mujoco,
    Scene,
    Telemetry,
    Viewport,
)
from lanekit.command.server import CommandServer, CommandServerStats

__all__ = [
    "METHODS",
    "Agent",
    "Camera",
    "Channel",
    "CommandClient",
    "CommandClientStats",
    "CommandServer",
    "CommandServerStats",
    "CommandStream",
    "Debug",
    "Message",
    "Method",
    "Mujoco",
    "RingChannel",
    "Scene",
    "Telemetry",
    "Viewport",
]
__all__ += messages.__all__
