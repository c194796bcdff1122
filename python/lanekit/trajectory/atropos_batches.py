"""Batches of scored-data groups by Atropos' rules, taken from a trajectory lane.

The rules: a batch has exactly `batch_size` sequences; a group is taken whole or not at all, the
oldest first; an environment that declared a group size gets its groups in, when one comes that is
larger or smaller, only together with others that add up to that size; an environment with a minimum
allocation has at least that share of each batch, or there is no batch yet. Weights do not choose
groups: they tell environments how much of the work is theirs, see :meth:`ScoredDataBatches.share`.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lanekit._core import lib
from lanekit.trajectory.atropos import ScoredGroup
from lanekit.trajectory.reader import TrajectoryReader

# No environment's share falls below this, so that none is starved.
_LEAST_SHARE = 0.01


@dataclass(frozen=True)
class EnvironmentRules:
    """What an environment declares when it registers."""

    group_size: int = 1
    weight: float = 1.0
    max_token_length: int = 1
    min_batch_allocation: float | None = None

    def __post_init__(self) -> None:
        """Check the ranges."""
        if self.group_size < 1:
            raise ValueError(f"a group has at least one sequence, not {self.group_size}")
        share = self.min_batch_allocation
        if share is not None and not 0.0 <= share <= 1.0:
            raise ValueError(f"min_batch_allocation is a share from 0 to 1, not {share}")


class ScoredDataBatches:
    """Forms batches of whole groups from what comes through the lane.

    >>> batches = ScoredDataBatches(reader, batch_size=32)             # doctest: +SKIP
    >>> for group in batches.next_batch(timeout=60) or []:             # doctest: +SKIP
    ...     train(group.sequences("tokens"), group.scores)

    The groups of a batch are views of the lane until the next batch is asked for, or until they are
    detached. While a batch can not be formed because the lane is full, the oldest groups are copied
    out of it, so that producers go on.
    """

    def __init__(
        self,
        reader: TrajectoryReader,
        batch_size: int,
        environments: Mapping[int, EnvironmentRules] | None = None,
    ) -> None:
        if batch_size < 1:
            raise ValueError(f"a batch has at least one sequence, not {batch_size}")
        self._reader = reader
        self.batch_size = batch_size
        self.environments = dict(environments or {})
        self._queue: list[ScoredGroup] = []
        self._buffers: dict[int, list[ScoredGroup]] = defaultdict(list)
        self._out: list[ScoredGroup] = []

    @property
    def queued(self) -> int:
        """Sequences that wait for a batch, without those that wait for company."""
        return sum(group.size for group in self._queue)

    @property
    def buffered(self) -> int:
        """Sequences in groups of another size than declared, that wait for company."""
        return sum(group.size for groups in self._buffers.values() for group in groups)

    def share(self, env_id: int) -> float:
        """Return the part of all work that falls to an environment, by weight and length."""
        everybody = sum(e.max_token_length * max(0.0, e.weight) for e in self.environments.values())
        rules = self.environments[env_id]
        own = rules.max_token_length * rules.weight
        return max(_LEAST_SHARE, own / everybody if everybody > 0 else 0.0)

    def next_batch(self, timeout: float | None = None) -> list[ScoredGroup] | None:
        """Return the next batch, None if `timeout` passed first. Ends the use of the last one."""
        for group in self._out:
            group.release()
        self._out = []
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            self._take_all()
            batch = self._form()
            if batch is not None:
                self._out = batch
                return batch
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return None
            record = self._reader.get(0.05 if left is None else min(left, 0.05))
            if record is not None:
                self._admit(ScoredGroup.of(record))
            elif lib.lk_traj_exhausted(self._reader._handle) == 1:
                self._make_room()

    # --- details ---------------------------------------------------------------------------------

    def _take_all(self) -> None:
        while (record := self._reader.try_get()) is not None:
            self._admit(ScoredGroup.of(record))

    def _admit(self, group: ScoredGroup) -> None:
        rules = None if group.env_id is None else self.environments.get(group.env_id)
        if rules is None or group.size == rules.group_size:
            self._queue.append(group)
            return
        buffer = self._buffers[int(group.env_id or 0)]
        buffer.append(group)
        together = choose([g.size for g in buffer], rules.group_size)
        if together is not None:
            self._queue += [buffer[i] for i in together]
            for i in reversed(together):
                del buffer[i]

    def _form(self) -> list[ScoredGroup] | None:
        """Take a batch out of the queue, if its groups make one."""
        sizes = [group.size for group in self._queue]
        if sum(sizes) < self.batch_size:
            return None
        needed = {
            env: int(self.batch_size * rules.min_batch_allocation)
            for env, rules in self.environments.items()
            if rules.min_batch_allocation is not None
        }
        total = sum(needed.values())
        if total > self.batch_size:  # more than there is: everybody gets in proportion
            needed = {env: n * self.batch_size // total for env, n in needed.items()}
        first: list[int] = []
        for env, least in needed.items():
            own = [i for i, group in enumerate(self._queue) if group.env_id == env]
            taken = 0
            for i in own:
                if taken >= least:
                    break
                first.append(i)
                taken += sizes[i]
            if taken < least or (least > 0 and not own):
                return None
        rest = self.batch_size - sum(sizes[i] for i in first)
        if rest < 0:
            return None
        others = [i for i in range(len(sizes)) if i not in set(first)]
        more = choose([sizes[i] for i in others], rest)
        if more is None:
            return None
        chosen = sorted([*first, *(others[i] for i in more)])
        batch = [self._queue[i] for i in chosen]
        for i in reversed(chosen):
            del self._queue[i]
        return batch

    def _make_room(self) -> None:
        """Copy everything that waits out of the lane."""
        for group in self._all_waiting():
            group.detach()

    def _all_waiting(self) -> Iterable[ScoredGroup]:
        yield from self._queue
        for groups in self._buffers.values():
            yield from groups


def choose(sizes: Sequence[int], target: int) -> list[int] | None:
    """Return the indices of sizes that add up to `target` exactly, the earliest that do."""
    if target == 0:
        return []
    taken, total = [], 0
    for i, size in enumerate(sizes):  # first come, first served, if that works out
        if size > 0 and total + size <= target:
            taken.append(i)
            total += size
            if total == target:
                return taken
    # Which sums can be made of the sizes from i on: bit s of reachable[i].
    reachable = [1] * (len(sizes) + 1)
    mask = (1 << (target + 1)) - 1
    for i in range(len(sizes) - 1, -1, -1):
        reachable[i] = (reachable[i + 1] | reachable[i + 1] << sizes[i]) & mask
    if not reachable[0] >> target & 1:
        return None
    taken, left = [], target
    for i, size in enumerate(sizes):
        if 0 < size <= left and reachable[i + 1] >> (left - size) & 1:
            taken.append(i)
            left -= size
    return taken
