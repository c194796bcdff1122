"""What a query of the store gives: a column for each property, made when it is first asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lanekit.slow.optional_packages import load
from lanekit.slow.store.records import EpisodeRecord, StepRecord, decode_json, decode_object
from lanekit.slow.store.step_ids import TRACK_SHIFT

Row = tuple[Any, ...]
_SEQ_MASK = (1 << TRACK_SHIFT) - 1


class TrackName(NamedTuple):
    """Whose events lie on a track."""

    stream_id: str
    worker_id: str
    agent_id: str


class _Result:
    """Rows of one table, seen by column. The first column is the id."""

    _columns: tuple[str, ...]

    def __init__(self, run_id: str, rows: list[Row], tracks: Mapping[int, TrackName]) -> None:
        self.run_id = run_id
        self._rows = rows
        self._tracks = tracks

    def __len__(self) -> int:
        return len(self._rows)

    @cached_property
    def _by_name(self) -> dict[str, Sequence[Any]]:
        if not self._rows:
            return {name: () for name in self._columns}
        return dict(zip(self._columns, zip(*self._rows, strict=True), strict=True))

    @cached_property
    def _ids(self) -> npt.NDArray[np.int64]:
        return np.array(self._by_name["id"], np.int64)

    @cached_property
    def _names(self) -> tuple[npt.NDArray[np.object_], ...]:
        """For each row its stream, worker and agent."""
        numbers, rows = np.unique(self._ids >> TRACK_SHIFT, return_inverse=True)
        names = np.empty((len(numbers), 3), object)
        for index, number in enumerate(numbers):
            names[index] = self._tracks[int(number)]
        return tuple(names[rows].T)

    def _json(self, name: str) -> list[Any]:
        return [decode_json(text) for text in self._by_name[name]]

    @property
    def stream(self) -> npt.NDArray[np.object_]:
        """Each row's stream id."""
        return self._names[0]

    @property
    def worker(self) -> npt.NDArray[np.object_]:
        """Each row's worker id."""
        return self._names[1]

    @property
    def agent(self) -> npt.NDArray[np.object_]:
        """Each row's agent id."""
        return self._names[2]

    @cached_property
    def seq(self) -> npt.NDArray[np.int64]:
        """Each row's number in its stream."""
        return self._ids & _SEQ_MASK

    @cached_property
    def episode(self) -> npt.NDArray[np.int64]:
        """Each row's episode."""
        return np.array(self._by_name["episode"], np.int64)

    @cached_property
    def terminated(self) -> npt.NDArray[np.bool_]:
        """Whether the environment ended the episode."""
        return np.array(self._by_name["terminated"], np.bool_)

    @cached_property
    def truncated(self) -> npt.NDArray[np.bool_]:
        """Whether the episode was cut short."""
        return np.array(self._by_name["truncated"], np.bool_)

    @cached_property
    def wall_time_ns(self) -> npt.NDArray[np.int64]:
        """The worker's clock."""
        return np.array(self._by_name["wall_time_ns"], np.int64)

    @property
    def seed(self) -> list[int | None]:
        """The seed, where one was given."""
        return list(self._by_name["seed"])

    @cached_property
    def info(self) -> list[Any]:
        """The info values, decoded."""
        return self._json("info")

    @property
    def info_json(self) -> list[bytes | None]:
        """The info values as the worker wrote them; None: it gave none."""
        return list(self._by_name["info"])

    @property
    def extra_json(self) -> list[bytes | None]:
        """Keys that lanekit does not know, as one JSON object a row; None: there were none."""
        return list(self._by_name["extra"])

    def _arrow(self, nullable: str, **own: Any) -> Any:
        """The columns that both kinds have, `own`, and floats that may be absent, as a table."""
        pa = load("pyarrow", "an Arrow table")
        columns = {
            "stream": pa.array(self.stream, pa.string()).dictionary_encode(),
            "worker": pa.array(self.worker, pa.string()).dictionary_encode(),
            "agent": pa.array(self.agent, pa.string()).dictionary_encode(),
            "seq": self.seq,
            "episode": self.episode,
            **own,
            nullable: pa.array(self._by_name[nullable], pa.float64()),
            "terminated": self.terminated,
            "truncated": self.truncated,
            "wall_time_ns": self.wall_time_ns,
            "seed": pa.array(self.seed, pa.int64()),
        }
        for name in self._columns:
            if name in _TEXT_COLUMNS:
                # The bytes are UTF-8: the store takes nothing else.
                columns[name] = pa.array(self._by_name[name], pa.binary()).cast(pa.string())
        return pa.table(columns)


_TEXT_COLUMNS = frozenset({"action", "observation", "info", "render_hint", "extra"})


class Steps(_Result):
    """Steps, in the order in which they were committed.

    Properties are numpy arrays, or lists where values have any shape; iterating gives `StepRecord`.
    """

    _columns = (
        *("id", "episode", "step", "reward", "terminated", "truncated", "wall_time_ns"),
        *("action", "observation", "info", "render_hint", "seed", "extra", "unknown"),
    )

    @cached_property
    def step(self) -> npt.NDArray[np.int64]:
        """Each row's index within its episode."""
        return np.array(self._by_name["step"], np.int64)

    @cached_property
    def reward(self) -> npt.NDArray[np.float64]:
        """The reward; NaN: the worker gave none."""
        return np.array(self._by_name["reward"], np.float64)

    @cached_property
    def action(self) -> list[Any]:
        """The actions, decoded."""
        return self._json("action")

    @property
    def action_json(self) -> list[bytes | None]:
        """The actions as the worker wrote them; None: it gave none."""
        return list(self._by_name["action"])

    @cached_property
    def observation(self) -> list[Any]:
        """The observations, decoded."""
        return self._json("observation")

    @property
    def observation_json(self) -> list[bytes | None]:
        """The observations as the worker wrote them; None: it gave none."""
        return list(self._by_name["observation"])

    @cached_property
    def render_hint(self) -> list[Any]:
        """The render hints, decoded."""
        return self._json("render_hint")

    @property
    def render_hint_json(self) -> list[bytes | None]:
        """The render hints as the worker wrote them; None: it gave none."""
        return list(self._by_name["render_hint"])

    def to_arrow(self) -> Any:
        """A `pyarrow.Table`; values of any shape are JSON text."""
        return self._arrow("reward", step=self.step)

    def __iter__(self) -> Iterator[StepRecord]:
        for row in self._rows:
            stream_id, worker_id, agent_id = self._tracks[row[0] >> TRACK_SHIFT]
            yield StepRecord(
                run_id=self.run_id,
                stream_id=stream_id,
                seq=row[0] & _SEQ_MASK,
                worker_id=worker_id,
                agent_id=agent_id,
                episode=row[1],
                step=row[2],
                reward=row[3],
                terminated=bool(row[4]),
                truncated=bool(row[5]),
                wall_time_ns=row[6],
                action=decode_json(row[7]),
                observation=decode_json(row[8]),
                info=decode_json(row[9]),
                render_hint=decode_json(row[10]),
                seed=row[11],
                extra=decode_object(row[12]),
            )


class Episodes(_Result):
    """Finished episodes, in the order in which they were committed; see `Steps`."""

    _columns = (
        *("id", "episode", "episode_return", "length", "terminated", "truncated"),
        *("wall_time_ns", "seed", "info", "extra", "unknown"),
    )

    @cached_property
    def episode_return(self) -> npt.NDArray[np.float64]:
        """The sum of rewards; NaN: the worker gave none."""
        return np.array(self._by_name["episode_return"], np.float64)

    @cached_property
    def length(self) -> npt.NDArray[np.int64]:
        """The number of steps."""
        return np.array(self._by_name["length"], np.int64)

    def to_arrow(self) -> Any:
        """A `pyarrow.Table`; values of any shape are JSON text."""
        return self._arrow("episode_return", length=self.length)

    def __iter__(self) -> Iterator[EpisodeRecord]:
        for row in self._rows:
            stream_id, worker_id, agent_id = self._tracks[row[0] >> TRACK_SHIFT]
            yield EpisodeRecord(
                run_id=self.run_id,
                stream_id=stream_id,
                seq=row[0] & _SEQ_MASK,
                worker_id=worker_id,
                agent_id=agent_id,
                episode=row[1],
                episode_return=row[2],
                length=row[3],
                terminated=bool(row[4]),
                truncated=bool(row[5]),
                wall_time_ns=row[6],
                seed=row[7],
                info=decode_json(row[8]),
                extra=decode_object(row[9]),
            )
