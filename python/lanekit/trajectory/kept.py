"""A producer with a place of its own in a trajectory lane, which its successor takes over."""

from __future__ import annotations

from typing import NoReturn, Self

from lanekit import errors
from lanekit._core import (
    attach_patiently,
    check,
    fail,
    ffi,
    lib,
    protect_process,
    seconds_to_ns,
)
from lanekit.segments import encode_run_id, segment_name
from lanekit.trajectory.writer import TrajectoryWriter

_ABSENT = 2**64 - 1


class KeptTrajectoryWriter(TrajectoryWriter):
    """A writer whose ring nobody but its successor takes when its process dies.

    So a successor goes on behind the last record of a dead one, and :attr:`position` tells it
    whether a record that was about to be put has been put: the position before was noted by
    whoever wants to know. A ring that no successor comes for stays taken until the lane ends.
    """

    @classmethod
    def take_place(
        cls,
        name: str,
        ring: int | None = None,
        *,
        timeout: float | None = 0.0,
        absence: float = 60.0,
    ) -> Self:
        """Join the lane `name` in a free ring, or in the `ring` that a dead predecessor had.

        Waits up to `timeout` seconds (None: for ever) for the lane, for a free ring, or for the
        predecessor's end; then :class:`~lanekit.SegmentNotFound` or :class:`~lanekit.PlaceTaken`.
        """
        encoded = encode_run_id(name)
        absence_ns = seconds_to_ns(absence)
        protect_process()
        out = ffi.new("lk_traj_writer **")
        status = attach_patiently(
            lambda: lib.lk_traj_attach_kept(
                out,
                encoded,
                len(encoded),
                lib.LK_TRAJ_ANY_RING if ring is None else ring,
                _ABSENT if absence_ns is None else absence_ns,
                ffi.NULL,
            ),
            timeout,
            (lib.LK_E_NOT_FOUND, lib.LK_E_NOT_READY, lib.LK_E_TAKEN),
        )
        if status < 0:
            _refuse(status, name, ring)
        return cls(ffi.gc(out[0], lib.lk_traj_writer_free), name)

    @property
    def ring(self) -> int:
        """Which ring is this writer's place."""
        return self._place()[0]

    @property
    def session(self) -> int:
        """Which of its ring's producers this one is."""
        return self._place()[1]

    @property
    def position(self) -> int:
        """How many bytes were ever put into this ring; more after each record."""
        return self._place()[2]

    def _place(self) -> tuple[int, int, int]:
        place = ffi.new("struct lk_traj_place *")
        check(lib.lk_traj_writer_place(self._handle, place), self._what)
        return place.ring, place.session, place.position


def _refuse(status: int, name: str, ring: int | None) -> NoReturn:
    what = f"trajectory lane {name!r} (segment {segment_name('traj', name)})"
    if status == lib.LK_E_TAKEN and ring is not None:
        raise errors.PlaceTaken(
            f"{what}: ring {ring} has a live producer, or was never left by a kept one"
        )
    if status == lib.LK_E_TAKEN:
        raise errors.PlaceTaken(
            f"{what}: all its rings are taken; end a producer, or create the lane with more"
        )
    if status == lib.LK_E_NOT_FOUND:
        raise errors.SegmentNotFound(
            f"{what}: no such lane; its consumer creates it with TrajectoryReader.create, `lanekit "
            "ls` lists the lanes of this machine"
        )
    fail(status, what)
