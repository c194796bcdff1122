"""What a run recorded, as a replay needs it: who, which episodes, and one episode's steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lanekit.errors import TelemetryError
from lanekit.slow.batches import Kind
from lanekit.slow.replay.pacing import Timeline, timeline
from lanekit.slow.store.commit_order import TrackTable
from lanekit.slow.store.run_store import RunStore
from lanekit.slow.store.step_ids import TRACK_SHIFT
from lanekit.slow.store.store_file import store_errors

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class Player(NamedTuple):
    """Who took the steps."""

    worker: str
    agent: str

    @property
    def title(self) -> str:
        """How people call it."""
        return " · ".join(filter(None, self)) or "the only agent"


@dataclass(frozen=True)
class EpisodeEntry:
    """One episode in the list of those there are."""

    number: int
    steps: int
    frames: int
    total: float
    """The sum of its rewards."""


@dataclass(frozen=True)
class Contents:
    """Who recorded which episodes of a run."""

    run_id: str
    episodes: dict[Player, list[EpisodeEntry]]

    @property
    def frames(self) -> int:
        """Recorded frames of all episodes."""
        return sum(entry.frames for entries in self.episodes.values() for entry in entries)


@dataclass(frozen=True, eq=False)
class Tape:
    """One episode of one agent, step by step; pixels stay in the store."""

    player: Player
    episode: int
    step: Ints
    reward: Floats
    """NaN where the worker gave none."""
    total: Floats
    """The sum of rewards up to each step."""
    action: list[bytes | None]
    terminated: bool
    truncated: bool
    timeline: Timeline
    frame_ids: Ints
    """For each step the frame to show: its own, or the last one before it; 0 if there is none."""

    def __len__(self) -> int:
        return len(self.step)

    @property
    def has_frames(self) -> bool:
        """Whether there is anything to see."""
        return bool(self.frame_ids.any())

    @property
    def ending(self) -> str:
        """How the episode ended."""
        if self.terminated:
            return "terminated"
        return "truncated" if self.truncated else "not finished"


def read_contents(store: RunStore, run_id: str) -> Contents:
    """Find out who recorded which episodes: one pass over the run's steps."""
    found: dict[Player, dict[int, EpisodeEntry]] = {}
    with store_errors(store.path):
        connection = store.connection()
        for player, tracks in _tracks(store, run_id).items():
            entries = found.setdefault(player, {})
            for track in tracks:
                rows = connection.execute(
                    "SELECT episode, count(*), count(frames.id), coalesce(sum(reward), 0.0)"
                    " FROM steps LEFT JOIN frames USING (id) WHERE steps.id BETWEEN ? AND ?"
                    " GROUP BY episode",
                    _bounds(track),
                )
                for number, steps, frames, total in rows:
                    old = entries.get(number, EpisodeEntry(number, 0, 0, 0.0))
                    entries[number] = EpisodeEntry(
                        number, old.steps + steps, old.frames + frames, old.total + total
                    )
    return Contents(
        run_id,
        {
            player: [entries[number] for number in sorted(entries)]
            for player, entries in found.items()
            if entries
        },
    )


def read_tape(store: RunStore, run_id: str, player: Player, episode: int) -> Tape:
    """Read one episode's numbers."""
    rows: list[tuple[int, int, int, float | None, int, int, bytes | None, int]] = []
    with store_errors(store.path):
        connection = store.connection()
        for track in _tracks(store, run_id).get(player, []):
            rows += connection.execute(
                "SELECT steps.id, step, wall_time_ns, reward, terminated, truncated,"
                " CAST(action AS BLOB), coalesce(frames.id, 0)"
                " FROM steps LEFT JOIN frames USING (id)"
                " WHERE steps.id BETWEEN ? AND ? AND episode = ? ORDER BY steps.id",
                (*_bounds(track), episode),
            )
    if not rows:
        raise TelemetryError(f"run {run_id} has no steps of {player.title} in episode {episode}")
    step = np.array([row[1] for row in rows], np.int64)
    reward = np.array([row[3] for row in rows], np.float64)
    return Tape(
        player=player,
        episode=episode,
        step=step,
        reward=reward,
        total=np.cumsum(np.nan_to_num(reward)),
        action=[row[6] for row in rows],
        terminated=bool(rows[-1][4]),
        truncated=bool(rows[-1][5]),
        timeline=timeline(np.array([row[2] for row in rows], np.int64)),
        frame_ids=_last_known(np.array([row[7] for row in rows], np.int64)),
    )


def read_pixels(store: RunStore, frame_id: int) -> npt.NDArray[np.uint8]:
    """Read one frame, of shape (height, width, channels)."""
    with store_errors(store.path):
        row = (
            store.connection()
            .execute("SELECT height, width, channels, pixels FROM frames WHERE id = ?", (frame_id,))
            .fetchone()
        )
    if row is None:
        raise TelemetryError(f"a frame is gone from {store.path}")
    return np.frombuffer(row[3], np.uint8).reshape(row[:3])


def run_of_frame(store: RunStore, frame_id: int) -> str | None:
    """Return whose frame it is; None if there is none of this number."""
    with store_errors(store.path):
        row = (
            store.connection()
            .execute(
                "SELECT run_id FROM tracks JOIN runs USING (run) WHERE track = ?"
                " AND EXISTS (SELECT 1 FROM frames WHERE id = ?)",
                (frame_id >> TRACK_SHIFT, frame_id),
            )
            .fetchone()
        )
    return None if row is None else str(row[0])


def _tracks(store: RunStore, run_id: str) -> dict[Player, list[int]]:
    connection = store.connection()
    number, _ = store.run_number(connection, run_id, Kind.STEPS)
    names = TrackTable(connection, number).names
    players: dict[Player, list[int]] = {}
    for track in sorted(names):
        players.setdefault(Player(*names[track][1:]), []).append(track)
    return players


def _bounds(track: int) -> tuple[int, int]:
    return track << TRACK_SHIFT, ((track + 1) << TRACK_SHIFT) - 1


def _last_known(ids: Ints) -> Ints:
    """Fill each gap with what stood before it, and the gap at the front with the first."""
    if not ids.any():
        return ids
    places = np.maximum.accumulate(np.where(ids != 0, np.arange(len(ids)), -1))
    places[places < 0] = int(np.flatnonzero(ids)[0])
    return ids[places]
