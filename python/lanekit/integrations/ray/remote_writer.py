"""A producer on any node, whose records Ray's object store carries to the trainer's."""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, Self

import ray
from ray import exceptions

from lanekit import errors
from lanekit.integrations.ray.connecting import NAMESPACE
from lanekit.integrations.ray.forwarding import actor_name
from lanekit.trajectory.landing import Admission, Record
from lanekit.trajectory.remote import CarrierLost
from lanekit.trajectory.remote import RemoteTrajectoryWriter as NumberedWriter
from lanekit.trajectory.schema import TrajectoryField, TrajectorySchema

ADMISSION_SECONDS = 30.0


class RemoteTrajectoryWriter(NumberedWriter):
    """Puts records into the trajectory lane of a trainer on another node.

    >>> with RemoteTrajectoryWriter.attach("rollouts") as writer:      # doctest: +SKIP
    ...     writer.put({"tokens": tokens, "score": np.float32(1.0)}, meta={"env": 3})
    """

    @classmethod
    def attach(
        cls,
        name: str,
        *,
        producer: str | None = None,
        schema: TrajectorySchema | Mapping[str, TrajectoryField | str] | None = None,
        version: int | None = None,
        window: int = 1,
        absence: float = 60.0,
        replay: bool = False,
    ) -> Self:
        """Join the lane `name`, which a trainer of this cluster has opened with ``forward``.

        A `producer` name that stays the same across restarts makes its records exactly once across
        restarts too; without one this writer is new to everybody. `window`: how many records may
        be on their way; `absence`: for how many seconds the trainer's node may be silent, now and
        later, before :class:`~lanekit.PeerLost`; `replay`: the records come again from the first.
        """
        producer = producer or f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        writer = cls(
            RayCarrier(name), name, producer, window=window, absence=absence, replay=replay
        )
        if schema is not None:
            wanted = TrajectorySchema.of(schema, version=version)
            if wanted != writer.schema:
                difference = wanted.difference(writer.schema)
                raise errors.SchemaMismatch(
                    f"trajectory lane {name!r}: its schema is not the one asked for: {difference}. "
                    f"Ask for the lane's own, or for none: {writer.schema}"
                )
        return writer


class RayCarrier:
    """Takes parcels to a lane's forwarder; Ray may repeat them."""

    def __init__(self, lane: str) -> None:
        self._lane = lane
        self._actor: Any = None

    def admit(self, producer: str) -> Admission:
        """Ask the forwarder for admission."""
        try:
            reference = self._forwarder().admit.remote(producer)
            admission: Admission = ray.get(reference, timeout=ADMISSION_SECONDS)
        except exceptions.RayError as error:
            self._actor = None
            _fail(error)
        return admission

    def pack(self, records: Sequence[Record]) -> Any:
        """Put records into the object store, from where the forwarder's node fetches them."""
        return ray.put(list(records))

    def bring(
        self, parcel: Any, admission: Admission, producer: str, first: int, patience: float
    ) -> RayCall:
        """Begin a delivery."""
        reference = self._forwarder().deliver.remote(
            admission.lane, producer, admission.epoch, first, parcel, patience
        )
        return RayCall(self, reference)

    def forget(self) -> None:
        """Look the forwarder up anew the next time."""
        self._actor = None

    def _forwarder(self) -> Any:
        if self._actor is None:
            try:
                self._actor = ray.get_actor(actor_name(self._lane), namespace=NAMESPACE)
            except ValueError:
                raise CarrierLost(
                    f"no program of this cluster forwards to lane {self._lane!r}; the trainer "
                    f"calls lanekit.integrations.ray.forward({self._lane!r})"
                ) from None
        return self._actor


class RayCall:
    """A delivery under way."""

    def __init__(self, carrier: RayCarrier, reference: Any) -> None:
        self._carrier = carrier
        self._reference = reference

    def answer(self, timeout: float) -> int | None:
        """Return the last number that has arrived; None if there is no answer yet."""
        if not ray.wait([self._reference], timeout=timeout)[0]:
            return None
        try:
            return int(ray.get(self._reference))
        except exceptions.RayError as error:
            self._carrier.forget()
            _fail(error)


def _fail(error: exceptions.RayError) -> NoReturn:
    """Raise what the forwarder raised; all else is a call without an answer."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, errors.LanekitError):
        raise cause from None
    if isinstance(error, exceptions.RayTaskError):
        raise errors.ClusterError(f"the forwarder failed: {cause or error}") from error
    raise CarrierLost(str(error).strip().splitlines()[0]) from error
