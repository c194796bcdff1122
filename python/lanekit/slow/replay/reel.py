"""The recorded frames of one agent: their numbers in memory, their pixels in the store."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lanekit.errors import TelemetryError
from lanekit.fast import FastLaneMetrics
from lanekit.slow.batches import Kind
from lanekit.slow.store.commit_order import TrackTable
from lanekit.slow.store.step_ids import TRACK_SHIFT
from lanekit.slow.store.store_file import store_errors

if TYPE_CHECKING:
    from lanekit.slow.store.run_store import RunStore
    from lanekit.slow.store.sql_connection import SqlConnection

HOW_TO_RECORD = (
    "a worker records them with lanekit.slow.emit.step(..., frame=pixels), a human's session with "
    "SessionController(..., record_frames=True)"
)
_RATE_STEPS = 32
"""Steps over which a rate of steps is measured."""

Track = tuple[str, str]
"""A worker's id and an agent's."""


@dataclass(frozen=True)
class Reel:
    """Frames in the order of their steps, each with the numbers to show beside it."""

    store: RunStore
    run_id: str
    track: Track
    """Whose frames these are."""
    others: tuple[Track, ...]
    """Who else recorded frames, and was not chosen."""
    ids: npt.NDArray[np.int64]
    episode: npt.NDArray[np.int64]
    step: npt.NDArray[np.int64]
    wall_time_ns: npt.NDArray[np.int64]
    reward: npt.NDArray[np.float64]
    """0 where the worker gave none."""
    rolling_return: npt.NDArray[np.float64]
    """The sum of rewards since the episode began, steps without a frame included."""
    step_rate: npt.NDArray[np.float64]
    """Steps a second when it was recorded; 0 where the clock does not tell."""

    @classmethod
    def load(
        cls,
        store: RunStore,
        run_id: str,
        *,
        episode: int | None = None,
        agent: str | None = None,
        worker: str | None = None,
    ) -> Reel:
        """Find the frames of a run's agent: of the first that has some, unless one is named.

        Raises :class:`~lanekit.errors.TelemetryError`, saying what there is, if there are none.
        """
        with store_errors(store.path):
            connection = store.connection()
            number, _ = store.run_number(connection, run_id, Kind.STEPS)
            names = TrackTable(connection, number).names
            filmed: dict[Track, list[int]] = {}
            for track in sorted(names):
                if _has_frames(connection, track):
                    filmed.setdefault(names[track][1:], []).append(track)
            chosen = _choose(run_id, list(filmed), agent, worker)
            frames = _read(connection, filmed[chosen], episode)
            if not len(frames["ids"]):
                raise _no_such_episode(connection, run_id, filmed[chosen], episode)
        others = tuple(track for track in filmed if track != chosen)
        return cls(store, run_id, chosen, others, **frames)

    def __len__(self) -> int:
        return len(self.ids)

    def pixels(self, index: int) -> npt.NDArray[np.uint8]:
        """Read one frame, of shape (height, width, channels), from the store."""
        with store_errors(self.store.path):
            row = (
                self.store.connection()
                .execute(
                    "SELECT height, width, channels, pixels FROM frames WHERE id = ?",
                    (int(self.ids[index]),),
                )
                .fetchone()
            )
        if row is None:
            raise TelemetryError(f"run {self.run_id}: a frame is gone from {self.store.path}")
        return np.frombuffer(row[3], np.uint8).reshape(row[:3])

    def metrics(self, index: int) -> FastLaneMetrics:
        """Return the numbers that go with a frame."""
        return FastLaneMetrics(
            last_reward=float(self.reward[index]),
            rolling_return=float(self.rolling_return[index]),
            step_rate_hz=float(self.step_rate[index]),
        )

    def find(self, episode: int, step: int) -> int:
        """Return the index of the first frame at or after a step of an episode.

        Raises ``ValueError`` that names what there is instead.
        """
        of_episode = np.flatnonzero(self.episode == episode)
        if not len(of_episode):
            raise ValueError(
                f"episode {episode} has no frames here; those that have: "
                f"{ranges(np.unique(self.episode).tolist())}"
            )
        late = of_episode[self.step[of_episode] >= step]
        if not len(late):
            raise ValueError(
                f"episode {episode} has no frame at or after step {step}; "
                f"its last one is at step {int(self.step[of_episode].max())}"
            )
        return int(late[0])


def ranges(numbers: Sequence[int], most: int = 8) -> str:
    """Write sorted numbers as people do: ``0-3, 7, 9-12``."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    words = [str(a) if a == b else f"{a}-{b}" for a, b in spans[:most]]
    return ", ".join(words) + (", …" if len(spans) > most else "")


def name_of(track: Track) -> str:
    """Say whose frames they are."""
    worker, agent = track
    words = ([f"agent {agent!r}"] if agent else []) + ([f"worker {worker!r}"] if worker else [])
    return " of ".join(words) or "the only agent"


def _bounds(track: int) -> tuple[int, int]:
    return track << TRACK_SHIFT, ((track + 1) << TRACK_SHIFT) - 1


def _has_frames(connection: SqlConnection, track: int) -> bool:
    found = connection.execute(
        "SELECT 1 FROM frames WHERE id BETWEEN ? AND ? LIMIT 1", _bounds(track)
    )
    return found.fetchone() is not None


def _choose(run_id: str, filmed: list[Track], agent: str | None, worker: str | None) -> Track:
    if not filmed:
        raise TelemetryError(
            f"run {run_id} has no recorded frames, so there is nothing to replay: {HOW_TO_RECORD}"
        )
    for track in filmed:
        if worker in (None, track[0]) and agent in (None, track[1]):
            return track
    wanted = " and ".join(
        f"--{name} {value!r}" for name, value in (("agent", agent), ("worker", worker)) if value
    )
    there = "; ".join(map(name_of, filmed[:8]))
    raise TelemetryError(f"run {run_id} has no frames for {wanted}; it has some of: {there}")


def _no_such_episode(
    connection: SqlConnection, run_id: str, tracks: Iterable[int], episode: int | None
) -> TelemetryError:
    episodes: set[int] = set()
    for track in tracks:
        rows = connection.execute(
            "SELECT DISTINCT episode FROM frames JOIN steps USING (id) WHERE id BETWEEN ? AND ?",
            _bounds(track),
        )
        episodes.update(number for (number,) in rows)
    return TelemetryError(
        f"episode {episode} of run {run_id} has no recorded frames; those that have: "
        f"{ranges(sorted(episodes))}"
    )


def _read(
    connection: SqlConnection, tracks: Iterable[int], episode: int | None
) -> dict[str, npt.NDArray[Any]]:
    """Read the numbers of all frames, in one pass over the steps; nothing large is touched."""
    columns: dict[str, array[Any]] = {
        **{name: array("q") for name in ("ids", "episode", "step", "wall_time_ns")},
        **{name: array("d") for name in ("reward", "rolling_return", "step_rate")},
    }
    appends = [column.append for column in columns.values()]
    for track in tracks:
        total, current = 0.0, None
        times: deque[int] = deque(maxlen=_RATE_STEPS + 1)
        rows: Iterable[Any] = connection.execute(
            "SELECT steps.id, episode, step, wall_time_ns, coalesce(reward, 0.0), frames.id IS NULL"
            " FROM steps LEFT JOIN frames USING (id)"
            " WHERE steps.id BETWEEN ?1 AND ?2 AND (episode = ?3 OR ?3 IS NULL) ORDER BY steps.id",
            (*_bounds(track), episode),
        )
        for row_id, number, step, time_ns, reward, without_frame in rows:
            if number != current:
                total, current = 0.0, number
            total += reward
            if times and time_ns < times[-1]:
                times.clear()
            times.append(time_ns)
            if without_frame:
                continue
            span = (time_ns - times[0]) / 1e9
            rate = (len(times) - 1) / span if span > 0 else 0.0
            values = (row_id, number, step, time_ns, reward, total, rate)
            for append, value in zip(appends, values, strict=True):
                append(value)
    return {name: np.array(column) for name, column in columns.items()}
