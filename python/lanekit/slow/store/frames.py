"""Recorded frames: a sequence whose pixels stay in the store until they are looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, overload

import numpy as np

from lanekit.slow.store.commit_order import SEQ_MASK
from lanekit.slow.store.records import FrameRecord
from lanekit.slow.store.results import TrackName
from lanekit.slow.store.sql_connection import SqlConnection
from lanekit.slow.store.step_ids import TRACK_SHIFT
from lanekit.slow.store.store_file import store_errors


class Frames(Sequence[FrameRecord]):
    """Recorded frames, in order. Each is read from the store when it is asked for."""

    def __init__(
        self,
        connection: Callable[[], SqlConnection],
        path: str,
        run_id: str,
        ids: list[int],
        tracks: dict[int, TrackName],
    ) -> None:
        self._connection = connection
        self._path = path
        self._run_id = run_id
        self._ids = ids
        self._tracks = tracks

    def __len__(self) -> int:
        return len(self._ids)

    @overload
    def __getitem__(self, index: int) -> FrameRecord: ...
    @overload
    def __getitem__(self, index: slice) -> Frames: ...
    def __getitem__(self, index: int | slice) -> FrameRecord | Frames:
        if isinstance(index, slice):
            return Frames(
                self._connection, self._path, self._run_id, self._ids[index], self._tracks
            )
        row_id = self._ids[index]
        with store_errors(self._path):
            row: Any = (
                self._connection()
                .execute(
                    "SELECT episode, step, reward, terminated, truncated, wall_time_ns, width,"
                    " height, channels, pixels FROM frames JOIN steps USING (id) WHERE id = ?",
                    (row_id,),
                )
                .fetchone()
            )
        episode, step, reward, terminated, truncated, wall_time_ns, *shape, pixels = row
        width, height, channels = shape
        name = self._tracks[row_id >> TRACK_SHIFT]
        return FrameRecord(
            run_id=self._run_id,
            worker_id=name.worker_id,
            agent_id=name.agent_id,
            episode=episode,
            step=step,
            reward=reward,
            terminated=bool(terminated),
            truncated=bool(truncated),
            wall_time_ns=wall_time_ns,
            stream_id=name.stream_id,
            seq=row_id & SEQ_MASK,
            pixels=np.frombuffer(pixels, np.uint8).reshape(height, width, channels),
        )

    def __iter__(self) -> Iterator[FrameRecord]:
        for index in range(len(self._ids)):
            yield self[index]
