"""The actor on the trainer's node that puts records from everywhere into the trainer's lane."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import ray
from ray import exceptions

from lanekit.errors import ClusterError, PlaceTaken
from lanekit.integrations.ray.connecting import NAMESPACE
from lanekit.integrations.ray.nodes import affinity, fail, this_node
from lanekit.segments import segment_name
from lanekit.slow.endpoint import state_directory
from lanekit.trajectory.landing import Admission, Landing, Record

START_SECONDS = 120.0
_PAUSE = 0.2


def actor_name(lane: str) -> str:
    """Return the name under which the cluster knows the way into a lane."""
    return f"lanekit-trajectory:{lane}"


def forward(lane: str, *, timeout: float = 60.0) -> Forwarding:
    """Let producers on all nodes put records into the trajectory lane `lane` of this node.

    Waits up to `timeout` seconds for the lane, and for an earlier forwarder of it to be gone. As
    a context manager, the way in is closed at the end; it also ends with this program.
    """
    node = this_node()
    deadline = time.monotonic() + timeout
    forwarder = ray.remote(Forwarder).options(
        name=actor_name(lane),
        namespace=NAMESPACE,
        num_cpus=0,
        # Ray starts it anew when it dies, and repeats the calls that were not answered: numbers
        # and the book of arrivals see to it that this does no harm.
        max_restarts=-1,
        max_task_retries=-1,
        scheduling_strategy=affinity(node),
    )
    while True:
        try:
            actor = forwarder.remote(lane, max(0.0, deadline - time.monotonic()))
            break
        except ValueError as error:
            if time.monotonic() > deadline:
                raise PlaceTaken(
                    f"trajectory lane {lane!r}: another program of this cluster forwards to a lane "
                    f"of that name ({error}); end it, or use another name"
                ) from None
            time.sleep(_PAUSE)
    try:
        ray.get(actor.ready.remote(), timeout=timeout + START_SECONDS)
    except exceptions.ActorDiedError as error:
        raise ClusterError(_why(error)) from error
    except exceptions.RayError as error:
        ray.kill(actor)
        fail(error, node)
    return Forwarding(lane, actor)


class Forwarding:
    """The open way into a lane."""

    def __init__(self, lane: str, actor: Any) -> None:
        self.lane = lane
        self._actor = actor

    def pid(self) -> int:
        """Return the process that forwards now."""
        return int(ray.get(self._actor.ready.remote()))

    def close(self) -> None:
        """Close the way. What has arrived stays in the lane. Closing twice is allowed."""
        actor, self._actor = self._actor, None
        if actor is not None:
            with contextlib.suppress(exceptions.RayError):
                ray.get(actor.close.remote(), timeout=START_SECONDS)
            ray.kill(actor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class Forwarder:
    """A landing as an actor; it does one thing at a time."""

    def __init__(self, lane: str, timeout: float) -> None:
        self._lane = lane
        self._landing = Landing(lane, _book(lane), timeout=timeout)

    def ready(self) -> int:
        """Return this process's id."""
        return os.getpid()

    def admit(self, producer: str) -> Admission:
        """Let a producer in; a lane that was created anew is joined first."""
        if self._landing.ended:
            self._landing.close()
            self._landing = Landing(self._lane, _book(self._lane))
        return self._landing.admit(producer)

    def deliver(
        self,
        lane: str,
        producer: str,
        epoch: int,
        first: int,
        records: list[Record],
        patience: float,
    ) -> int:
        """Put records that Ray's object store has brought here."""
        return self._landing.deliver(lane, producer, epoch, first, records, patience=patience)

    def close(self) -> None:
        """Leave the lane."""
        self._landing.close()


def _book(lane: str) -> Path:
    return state_directory() / "arrivals" / f"{segment_name('traj', lane)}.db"


def _why(error: exceptions.ActorDiedError) -> str:
    """Return the last line of what the actor said when it could not begin."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[-1].strip() if lines else "the forwarder could not begin"
