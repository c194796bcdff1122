"""The trainer's end of a step lane."""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Self

import numpy as np
import numpy.typing as npt

from lanekit import errors
from lanekit._core import (
    SLICE_NS,
    CData,
    WaitStrategy,
    attach_patiently,
    check,
    fail,
    ffi,
    finalize_at_exit,
    lib,
    protect_process,
    seconds_to_ns,
    uid_pointer,
)
from lanekit.step.config import INFO_NAME_BYTES, StepLaneConfig, config_from_c, lane_name
from lanekit.step.exchange import StepExchange, StepState, exchange_of
from lanekit.step.lane_end import StepLaneEnd, describe, strategy_code
from lanekit.step.regions import Array

if TYPE_CHECKING:
    from lanekit.command import RingChannel

_STEP: int = lib.LK_STEP_STEP
_RESET: int = lib.LK_STEP_RESET
_PLAIN: int = lib.LK_RESET_PLAIN
_SEEDED: int = lib.LK_RESET_SEEDED
_FAILURE_BYTES = 1024
_SEED_MAX = 2**64 - 1


class StepResult(NamedTuple):
    """What a step brought: views of the shared memory, overwritten by the next step."""

    obs: Array
    rewards: Array
    dones: Array
    truncateds: Array


class StepClient(StepLaneEnd):
    """Steps an engine's environments in lock-step.

    >>> with StepClient.attach("engine") as client:                     # doctest: +SKIP
    ...     obs = client.reset(seed=1)
    ...     obs, rewards, dones, truncateds = client.step(policy(obs))
    """

    @classmethod
    def attach(
        cls,
        name: str | None = None,
        *,
        timeout: float | None = 0.0,
        wait: WaitStrategy = "hybrid",
        num_envs: int | None = None,
        obs_size: int | None = None,
        act_size: int | None = None,
        allow_uid: int | None = None,
    ) -> Self:
        """Take the trainer's place at a lane; without a name ``LUCKY_SHM_NAME`` gives it.

        Waits up to `timeout` seconds (None: for ever) for the server to appear, for another client
        to leave, and for what a dead client had sent to be completed. Sizes that are given must be
        those of the lane. Another user's lane is refused with
        :class:`~lanekit.SegmentPermissionDenied`, unless `allow_uid` is that user's number.
        """
        name, encoded = lane_name(name)
        strategy_code(wait)  # refused before the place is taken
        what = describe(name)
        protect_process()
        out = ffi.new("lk_step_client **")
        trusted = uid_pointer(allow_uid)
        status = attach_patiently(
            lambda: lib.lk_step_attach(out, encoded, len(encoded), trusted),
            timeout,
            (lib.LK_E_NOT_FOUND, lib.LK_E_NOT_READY, lib.LK_E_TAKEN, lib.LK_E_PEER_LOST),
        )
        if status < 0:
            _fail_to_attach(status, name, timeout)
        handle = ffi.gc(out[0], lib.lk_step_client_free)
        try:
            client = cls(handle, name, _config(handle, what), wait)
        except BaseException:
            # The error's traceback may keep the handle for long: the place is not left to that.
            lib.lk_step_client_close(handle)
            raise
        asked = {"num_envs": num_envs, "obs_size": obs_size, "act_size": act_size}
        wrong = [
            f"{key} {getattr(client.config, key)} instead of {value}"
            for key, value in asked.items()
            if value is not None and value != getattr(client.config, key)
        ]
        if wrong:
            client.close()
            raise ValueError(f"{what}: has {', '.join(wrong)}; is this the lane you mean?")
        return client

    def __init__(self, handle: CData, name: str, config: StepLaneConfig, wait: str) -> None:
        """Take over a core handle; use :meth:`attach`."""
        super().__init__(handle, name, config, wait, lib.lk_step_client_regions)
        self._result = StepResult(self.obs, self.rewards, self.dones, self.truncateds)
        self._halves = 2 if config.pipelined else 1
        self._lost = False
        # Filled by the core as it sends: an interrupt can not come between the two.
        self._sent = ffi.new("struct lk_step_exchange *", {"number": self.state.sent})
        self._finalizer = finalize_at_exit(self, lib.lk_step_client_close, handle)

    # --- exchanges -------------------------------------------------------------------------------

    def step(
        self, actions: npt.ArrayLike | None = None, timeout: float | None = None
    ) -> StepResult:
        """Step all environments and return views of what came.

        Without `actions` those that were written into :attr:`actions` are taken. After a
        :class:`~lanekit.WaitTimeout` the step is still under way: :meth:`recv` waits on.
        """
        if actions is not None:
            self._expect_under_way_at_most(0)
            self._write(self.actions, actions)
        patience = seconds_to_ns(timeout)
        if self._halves == 1:
            first = SLICE_NS if patience is None else min(patience, SLICE_NS)
            status = lib.lk_step_step(self._handle, first, self._strategy)
            if status == 1:
                return self._result
            if status < 0:
                self._fail_to_step(status)
            if patience is not None:
                patience -= first
            self._finish(patience)
        else:
            self._expect_under_way_at_most(0)
            self._round(_STEP, patience)
        return self._result

    def send(self, actions: npt.ArrayLike | None = None) -> StepExchange:
        """Hand actions to the engine and return at once: of all environments, or of the next half.

        Without `actions` those that were written into :attr:`actions` are taken.
        """
        if actions is not None:
            self._expect_under_way_at_most(self._halves - 1)
            self._write(self.actions[self.next_envs], actions)
        return self._send(_STEP)

    def recv(self, timeout: float | None = None) -> StepResult:
        """Wait for the results of the oldest :meth:`send` under way."""
        exchange = self._finish(seconds_to_ns(timeout))
        envs = exchange.envs
        return StepResult(
            self.obs[envs], self.rewards[envs], self.dones[envs], self.truncateds[envs]
        )

    def reset(
        self,
        env_ids: npt.ArrayLike | None = None,
        *,
        seed: int | Sequence[int | None] | None = None,
        timeout: float | None = None,
    ) -> Array:
        """Reset the given environments, all by default, and return a view of all observations.

        `seed` gives the first environment its number, the second the next one, and so on; a
        sequence has one for each of `env_ids`.
        """
        ids = self._ids(env_ids)
        seeds, seeded = _seeds(seed, len(ids))
        self._expect_under_way_at_most(0)
        self.seeds[ids] = seeds
        self.resets[ids] = np.where(seeded, _SEEDED, _PLAIN)
        self._round(_RESET, seconds_to_ns(timeout))
        return self.obs

    @property
    def under_way(self) -> int:
        """How many exchanges were sent and not received."""
        return check(lib.lk_step_under_way(self._handle), self._what)

    @property
    def next_envs(self) -> slice:
        """The environments that the next :meth:`send` concerns."""
        count = self._config.num_envs
        if self._halves == 1:
            return slice(0, count)
        first_half = (count + 1) // 2
        return slice(0, first_half) if self._sent.number % 2 == 0 else slice(first_half, count)

    @property
    def commands(self) -> RingChannel:
        """The lane's command channel: hand it to a :class:`~lanekit.command.CommandClient`."""
        return self._open_commands(lib.lk_step_client_commands)

    @property
    def state(self) -> StepState:
        """How far the lane has come; also readable after the server was lost."""
        return self._state(lib.lk_step_client_state)

    @property
    def failure(self) -> str:
        """The reason with which the server ended the lane; empty if it gave none, or lives."""
        out = ffi.new("char[]", _FAILURE_BYTES)
        size = lib.lk_step_failure(self._handle, out, len(out))
        return ffi.buffer(out, size)[:].decode("utf-8", "replace") if size > 0 else ""

    def close(self) -> None:
        """Leave the lane to another client. The server stays."""
        lib.lk_step_client_close(self._handle)

    # --- details ---------------------------------------------------------------------------------

    def _write(self, target: Array, actions: npt.ArrayLike) -> None:
        if actions is target:
            return
        values = np.asarray(actions)
        # All in a row, or a row for each environment: anything else would mix them up.
        by_env = values.ndim <= 1 or values.shape[0] == target.shape[0]
        if by_env and values.size == target.size:
            values = values.reshape(target.shape)
        if values.shape != target.shape:
            raise ValueError(
                f"{self._what}: actions of shape {target.shape} are expected, got {values.shape}"
            )
        try:
            np.copyto(target, values, casting="same_kind")
        except TypeError:
            raise TypeError(
                f"{self._what}: the lane's actions are {target.dtype}, which {values.dtype} does "
                f"not fit; convert with .astype({target.dtype})"
            ) from None

    def _send(self, request: int) -> StepExchange:
        status = lib.lk_step_send(self._handle, request, self._sent)
        if status < 0:
            self._fail_to_step(status)
        return exchange_of(self._sent)

    def _expect_under_way_at_most(self, count: int) -> None:
        """Refuse before anything is written where the engine may be reading."""
        if self.under_way > count:
            self._fail_to_step(lib.LK_E_OUT_OF_TURN)

    def _round(self, request: int, patience: int | None) -> None:
        """Exchange all halves."""
        deadline = None if patience is None else time.monotonic_ns() + patience
        for _ in range(self._halves):
            self._send(request)
        for _ in range(self._halves):
            self._finish(None if deadline is None else max(0, deadline - time.monotonic_ns()))

    def _finish(self, patience: int | None) -> StepExchange:
        deadline = None if patience is None else time.monotonic_ns() + patience
        while True:
            left = SLICE_NS if deadline is None else deadline - time.monotonic_ns()
            status = lib.lk_step_receive(
                self._handle, max(0, min(left, SLICE_NS)), self._strategy, self._exchange
            )
            if status == 1:
                return exchange_of(self._exchange)
            if status < 0:
                self._fail_to_step(status)
            if left <= 0:
                state = self.state
                raise errors.WaitTimeout(
                    f"{self._what}: exchange {state.completed + 1} was not completed in time; "
                    "recv() waits on for it"
                )

    def _ids(self, env_ids: npt.ArrayLike | None) -> npt.NDArray[np.int64]:
        count = self._config.num_envs
        if env_ids is None:
            return np.arange(count)
        ids = np.atleast_1d(np.asarray(env_ids))
        if ids.dtype == np.bool_:
            if ids.shape != (count,):
                raise ValueError(f"{self._what}: a mask of environments has {count} entries")
            return np.flatnonzero(ids)
        if ids.dtype.kind not in "iu" and ids.size:
            raise TypeError(f"{self._what}: env_ids are whole numbers or a mask, not {ids.dtype}")
        if ids.size and not (ids.min() >= 0 and ids.max() < count):
            raise ValueError(f"{self._what}: env_ids are from 0 to {count - 1}, got {env_ids!r}")
        return ids.astype(np.int64)

    def _fail_to_step(self, status: int) -> NoReturn:
        # The exchange that was lost stays under way for ever: its turn never comes.
        if status == lib.LK_E_PEER_LOST or (status == lib.LK_E_OUT_OF_TURN and self._lost):
            self._lost = True
            reason = self.failure
            state = self.state
            how = f"ended with: {reason}" if reason else "died or left"
            raise errors.PeerLost(
                f"{self._what}: the server {how}; {state.completed} of {state.sent} exchanges are "
                "complete. Start it again, and attach anew"
            )
        if status == lib.LK_E_OUT_OF_TURN:
            if self.under_way:
                raise errors.OutOfTurn(
                    f"{self._what}: an exchange is still under way: recv() its results first"
                )
            raise errors.OutOfTurn(f"{self._what}: nothing was sent: call send() first")
        self._fail(status)


def _config(handle: CData, what: str) -> StepLaneConfig:
    found, regions = ffi.new("struct lk_step_config *"), ffi.new("struct lk_step_regions *")
    segment = ffi.new("lk_segment **")
    check(lib.lk_step_client_config(handle, found), what)
    check(lib.lk_step_client_regions(handle, segment, regions), what)
    try:
        names = _bytes(regions.info_names, INFO_NAME_BYTES * found.info_count)
        description = _bytes(regions.description, found.description_size)
    finally:
        lib.lk_segment_release(segment[0])
    return config_from_c(found, names, description, what)


def _bytes(pointer: CData, size: int) -> bytes:
    return ffi.buffer(pointer, size)[:] if size else b""


def _seeds(
    seed: int | Sequence[int | None] | None, count: int
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.bool_]]:
    """Return a number for each environment, and which of them have one."""
    if seed is None:
        return np.zeros(count, np.uint64), np.zeros(count, np.bool_)
    if isinstance(seed, int | np.integer):
        _check_seed(int(seed))
        _check_seed(int(seed) + count - 1)
        return np.uint64(seed) + np.arange(count, dtype=np.uint64), np.ones(count, np.bool_)
    if len(seed) != count:
        raise ValueError(f"{count} environments are reset, but {len(seed)} seeds are given")
    for number in seed:
        if number is not None:
            _check_seed(number)
    given = np.array([number is not None for number in seed], np.bool_)
    return np.array([number or 0 for number in seed], np.uint64), given


def _check_seed(number: Any) -> None:
    if not isinstance(number, int | np.integer):
        raise TypeError(f"a seed is a whole number or None, not {type(number).__name__}")
    if not 0 <= number <= _SEED_MAX:
        raise ValueError(f"a seed is a number from 0 to 2**64 - 1, not {number}")


def _fail_to_attach(status: int, name: str, timeout: float | None) -> NoReturn:
    what = describe(name)
    waited = f" after {timeout:g} s" if timeout else ""
    wait_on = "a longer timeout=" if timeout else "timeout="
    if status == lib.LK_E_TAKEN:
        raise errors.PlaceTaken(
            f"{what}: another trainer is attached, and a lane has one; `lanekit ls` shows its pid"
        )
    if status == lib.LK_E_PEER_LOST:
        raise errors.PeerLost(f"{what}: its server has died or left; start it again")
    if status == lib.LK_E_NOT_FOUND:
        raise errors.SegmentNotFound(
            f"{what}: no such lane{waited}; start its server first, such as `lanekit serve ENV_ID "
            f"--name {shlex.quote(name)}`, or wait for it with {wait_on}; `lanekit ls` lists the "
            "lanes of this machine"
        )
    if status == lib.LK_E_NOT_READY:
        raise errors.SegmentNotReady(
            f"{what}: its server has yet to complete what the client before had sent (or is "
            f"starting){waited}; wait for it with {wait_on}"
        )
    fail(status, what)
