"""The tracks of one stream, as its writer finds and makes them."""

from __future__ import annotations

from collections.abc import Sequence

from lanekit.errors import InvalidEvent
from lanekit.slow.limits import MAX_TRACK
from lanekit.slow.store.ledger import Ledger, StreamEntry


class StreamTracks:
    """Numbers the pairs of worker and agent in a stream. For one transaction."""

    def __init__(self, ledger: Ledger, stream: StreamEntry) -> None:
        self._ledger = ledger
        self._stream = stream

    def find(self, worker_id: str, agent_id: str) -> int:
        """The number of a worker's and an agent's track, made when new."""
        key = (worker_id, agent_id)
        track = self._stream.tracks.get(key)
        if track is None:
            track = self._stream.tracks[key] = self._find_or_make(worker_id, agent_id)
        return track

    def note_episodes(self, track: int, episodes: Sequence[int]) -> None:
        """Note the episodes of a track's next steps: whether the track is still in their order."""
        newest = self._stream.newest_episodes
        if track not in newest:
            newest[track] = self._newest_episode(track)
        before = newest[track]
        if before is None:
            return
        if before <= episodes[0] and sorted(episodes) == episodes:
            newest[track] = episodes[-1]
        else:
            newest[track] = None
            self._ledger.database.write(
                "UPDATE tracks SET episodes_in_order = 0 WHERE track = ?", (track,)
            )

    def _newest_episode(self, track: int) -> int | None:
        """The episode that no later step of the track may fall below; None: it is in no order."""
        row = self._ledger.connection.execute(
            "SELECT episodes_in_order, (SELECT episode FROM steps WHERE id BETWEEN track << 40"
            " AND ((track + 1) << 40) - 1 ORDER BY id DESC LIMIT 1) FROM tracks WHERE track = ?",
            (track,),
        ).fetchone()
        assert row is not None  # the track was found, or made, in this transaction
        in_order, newest = row
        if not in_order:
            return None
        return -(2**63) if newest is None else int(newest)

    def _find_or_make(self, worker_id: str, agent_id: str) -> int:
        key = (self._stream.stream, worker_id, agent_id)
        find = "SELECT track FROM tracks WHERE stream = ? AND worker_id = ? AND agent_id = ?"
        connection = self._ledger.connection
        row = connection.execute(find, key).fetchone()
        if row is None:
            (row,) = connection.execute(
                "INSERT INTO tracks (track, run, stream, worker_id, agent_id, episodes_in_order)"
                " VALUES (?, ?, ?, ?, ?, 1) RETURNING track",
                (self._ledger.database.new_track(), self._stream.run.run, *key),
            ).fetchall()
        track = int(row[0])
        if track > MAX_TRACK:
            raise InvalidEvent(
                f"a store keeps apart at most {MAX_TRACK} agents of all its workers, and one more"
                f" came ({worker_id!r}, {agent_id!r}); name agents, not single events, or use"
                " another --store"
            )
        return track
