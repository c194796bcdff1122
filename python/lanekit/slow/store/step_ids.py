"""Which ids the steps of a batch get."""

from __future__ import annotations

from collections.abc import Sequence

from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.store.database import Tracks

TRACK_SHIFT = 40
"""An event's id is its track's number, shifted by this, and its number within the stream."""


def step_ids(columns: pb.StepColumns, first_seq: int, tracks: Tracks) -> Sequence[int]:
    """The ids of a batch's steps; a range when they are all of one track."""
    names, rows = list(columns.names), columns.rows
    workers, agents = list(columns.worker_index), list(columns.agent_index)
    # Most batches are of one worker and one agent: their ids are a range.
    if _is_constant(workers) and _is_constant(agents):
        worker = names[workers[0]] if workers else ""
        agent = names[agents[0]] if agents else ""
        first_id = (tracks.find(worker, agent) << TRACK_SHIFT) + first_seq
        return range(first_id, first_id + rows)
    # An index that is not there stands for the empty name.
    names.append("")
    unnamed = [len(names) - 1] * rows
    # A worker and an agent as one small number: cheaper to look up than the pair.
    count = len(names)
    pairs = [
        worker * count + agent
        for worker, agent in zip(workers or unnamed, agents or unnamed, strict=True)
    ]
    first_ids = {
        pair: tracks.find(names[pair // count], names[pair % count]) << TRACK_SHIFT
        for pair in set(pairs)
    }
    return [first_ids[pair] + seq for seq, pair in enumerate(pairs, first_seq)]


def _is_constant(indexes: Sequence[int]) -> bool:
    return not indexes or indexes.count(indexes[0]) == len(indexes)
