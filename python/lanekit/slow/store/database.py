"""The database under a store, as the store's one writer uses it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol

from lanekit.slow.batches import Batch
from lanekit.slow.store.sql_connection import SqlConnection

Durability = Literal["normal", "full"]


class Tracks(Protocol):
    """The tracks of the batch's stream."""

    def find(self, worker_id: str, agent_id: str) -> int:
        """The number of a worker's and an agent's track."""

    def note_episodes(self, track: int, episodes: Sequence[int]) -> None:
        """Hear of the episodes of a track's next steps, of which there is at least one."""


class Database(Protocol):
    """A SQLite file or a PostgreSQL database, open for writing.

    Every method raises `StoreError` or `StoreBusy` when the database can not do it now; after
    either the transaction must be rolled back, and may be tried again.
    """

    @property
    def path(self) -> str:
        """How messages call it. Never holds a password."""

    @property
    def connection(self) -> SqlConnection:
        """For reading, and for writing within a transaction."""

    @property
    def locking(self) -> str:
        """What goes behind a SELECT of one run, so that no other writer changes it meanwhile."""

    def begin(self, run_ids: Sequence[str], remembered: Mapping[str, int]) -> Iterable[str] | None:
        """Begin a transaction about these runs; no other writer can touch them until it ends.

        `remembered` are the revisions of those that the caller knows. The answer is the ones that
        somebody else has changed since; None: any run may have been changed.
        """

    def next_revision(self) -> int:
        """A number for a change of a run, not below those of any change that is committed."""

    def new_track(self) -> int | None:
        """The number of a track to be made; None: it gets one by itself."""

    def write(self, statement: str, bindings: tuple[Any, ...]) -> None:
        """Run a statement before the commit. Until then it may not show in what is read."""

    def insert(self, batch: Batch, skip: int, tracks: Tracks) -> None:
        """Store the rows of `batch` behind its first `skip`, at the latest before the commit."""

    def commit(self) -> None:
        """End the transaction and keep what was done."""

    def roll_back(self) -> None:
        """End the transaction, as if nothing had been done. Never raises."""

    def probe(self) -> None:
        """Store something, which changes nothing; connect again first, if that may help.

        Outside of any transaction.
        """

    # --- several daemons in one database ---------------------------------------------------------

    def take_over(self, stream: int) -> None:
        """Note that this daemon looks after a stream."""

    def sign_of_life(self) -> None:
        """Let other daemons know that this one lives."""

    def own_runs(self) -> str:
        """A condition for runs that this daemon made."""

    def own_streams(self) -> str:
        """A condition for streams that this daemon looks after, or whose daemon is gone."""

    def close(self) -> None:
        """Let go of the database. Harmless when repeated."""
