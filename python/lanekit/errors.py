"""Everything lanekit raises on its own account has one root: :class:`LanekitError`.

Misuse of an argument is an ordinary ``ValueError`` or ``TypeError``. "No frame yet" is a result,
not an exception.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lanekit.fast.frame import FastLaneConfig


DEBUG_VARIABLE = "LANEKIT_DEBUG"
"""Set to anything, it shows where an error came from."""


def debugging() -> bool:
    """Whether somebody wants to see where an error came from."""
    return bool(os.environ.get(DEBUG_VARIABLE))


def distribution_of(error: ModuleNotFoundError) -> str:
    """Return what to call a module that is missing: by the name that its package has."""
    name = (error.name or str(error)).partition(".")[0]
    return {"google": "protobuf", "grpc": "grpcio", "PIL": "pillow"}.get(name, name)


class LanekitError(Exception):
    """Root of lanekit's exceptions."""


class SegmentError(LanekitError):
    """A shared-memory segment could not be created, joined or used."""


class SegmentNotFound(SegmentError, FileNotFoundError):
    """No segment exists for this run: its writer has not started, or has left."""


class SegmentNotReady(SegmentError):
    """The segment is being created right now; trying again soon will work."""


class SegmentExists(SegmentError, FileExistsError):
    """A live process owns this run's segment. Its pid is in :attr:`owner_pid`."""

    def __init__(self, message: str, owner_pid: int = 0) -> None:
        super().__init__(message)
        self.owner_pid = owner_pid


class SegmentUnusable(SegmentError):
    """The segment exists, but can not be trusted; the subclass says why."""


class WrongSegmentKind(SegmentUnusable):
    """Not a lanekit segment of the kind asked for."""


class WrongSegmentVersion(SegmentUnusable):
    """Written by a lanekit with another major layout version."""


class SegmentTruncated(SegmentUnusable):
    """The file is shorter than its header says."""


class BadSegmentGeometry(SegmentUnusable):
    """The sizes in the segment's header contradict each other."""


class SegmentCorrupt(SegmentUnusable):
    """Shared state that no correct writer can have produced."""


class SegmentInvalidated(SegmentError):
    """The segment was marked as left: create a new writer."""


class SegmentPermissionDenied(SegmentError, PermissionError):
    """What has the segment's name belongs to another user, or others may write to it."""


class OutOfSharedMemory(SegmentError):
    """Shared memory can not hold a segment of this size."""


class HandleError(LanekitError):
    """A handle was used in a way its kind does not allow."""


class HandleClosed(HandleError):
    """The handle was closed before this call."""


class HandleForked(HandleError):
    """The handle was inherited over ``fork``: create or attach in the child instead."""


class ConcurrentUse(HandleError):
    """Two threads were inside one handle at once; this call did nothing."""


class FrameOverwritten(LanekitError):
    """The writer overwrote the frame while it was being looked at in place."""


class GeometryChanged(LanekitError):
    """The run has a new writer with another frame geometry, in :attr:`config`."""

    def __init__(self, message: str, config: FastLaneConfig) -> None:
        super().__init__(message)
        self.config = config

    def __reduce__(self) -> tuple[type[GeometryChanged], tuple[str, FastLaneConfig]]:
        """Travel between processes with the configuration."""
        return type(self), (str(self), self.config)


class PeerLost(LanekitError):
    """The process at the other end of a lane died or left."""


class WaitTimeout(LanekitError):
    """The other end did not answer within the time that the caller allowed."""


class PlaceTaken(LanekitError):
    """Another live process holds the one place that this lane has at this end."""


class OutOfTurn(LanekitError):
    """The call does not fit the state of the exchange with the other end."""


class TooLarge(LanekitError):
    """A message or record is larger than the lane can ever carry in one piece."""


class SchemaMismatch(LanekitError):
    """The two ends of a lane do not mean the same records."""


class CommandError(LanekitError):
    """A command could not be carried out."""


class MalformedMessage(CommandError):
    """Bytes that are no message of the command lane, or not the one that was called for."""


class UnknownMethod(CommandError):
    """The other end has no handler for this method."""


class RemoteError(CommandError):
    """The handler at the other end failed, with :attr:`remote_type` and :attr:`remote_message`."""

    def __init__(self, message: str, remote_type: str = "", remote_message: str = "") -> None:
        super().__init__(message)
        self.remote_type = remote_type
        self.remote_message = remote_message

    def __reduce__(self) -> tuple[type[RemoteError], tuple[str, str, str]]:
        """Travel between processes with what the remote end said."""
        return type(self), (str(self), self.remote_type, self.remote_message)


class ReplyTimeout(CommandError, WaitTimeout):
    """No reply came in time. If one comes later, it is dropped; the command may have been run."""


class TelemetryError(LanekitError):
    """The slow lane could not do what was asked."""


class MissingExtra(TelemetryError):
    """A part of lanekit was asked for whose extra is not installed."""


class InvalidEvent(TelemetryError):
    """An event, or a batch of them, holds what can not be stored."""


class SequenceGap(TelemetryError):
    """A batch does not follow what is committed of its stream."""


class RunNotFound(TelemetryError):
    """No run, or no stream of that run, has this id."""


class RunExists(TelemetryError):
    """A run with this id exists already."""


class StoreError(TelemetryError):
    """The store of events could not be opened, read or written."""


class StoreTooNew(StoreError):
    """The store was written by a newer lanekit."""


class StoreBusy(StoreError):
    """Another process holds the store's lock."""


class SpoolInUse(TelemetryError):
    """Another live process sends from this spool directory."""


class DaemonError(TelemetryError):
    """The daemon refused a call; :attr:`code` is the gRPC status code's name."""

    def __init__(self, message: str, code: str = "UNKNOWN") -> None:
        super().__init__(message)
        self.code = code


class DaemonUnavailable(DaemonError):
    """No daemon answers at this address."""

    def __init__(self, message: str, code: str = "UNAVAILABLE") -> None:
        super().__init__(message, code)


class WorkerError(LanekitError):
    """A worker is not installed, or can not be used; the message says why."""


class ClusterError(LanekitError):
    """A cluster, or one of its nodes, could not do what was asked."""


class NodeLost(ClusterError):
    """A node of the cluster has died, and what ran on it has ended with it."""


class EngineError(LanekitError):
    """The engine could not do what was asked."""


class ModelError(EngineError):
    """The model can not be loaded, or does not fit the task; the message says why."""
