"""The engine's end of a step lane."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NoReturn, Self, Unpack, overload

from lanekit import errors
from lanekit._core import (
    SLICE_NS,
    CData,
    WaitStrategy,
    check,
    fail,
    ffi,
    finalize_at_exit,
    lib,
    protect_process,
    seconds_to_ns,
)
from lanekit.segments import human_size, owner_of, segment_name, shared_memory_space
from lanekit.step.config import StepLaneConfig, StepLaneOptions, lane_name
from lanekit.step.exchange import StepExchange, StepState, exchange_of
from lanekit.step.lane_end import StepLaneEnd, describe, strategy_code

if TYPE_CHECKING:
    from lanekit.command import RingChannel


def _end(handle: CData) -> None:
    lib.lk_step_server_unlink(handle)
    lib.lk_step_server_close(handle)


class StepServer(StepLaneEnd):
    """Serves vectorised environments to one trainer at a time.

    >>> with StepServer.create("engine", 4096, 100, 12) as server:      # doctest: +SKIP
    ...     while True:
    ...         exchange = server.wait_actions()
    ...         simulate(server.actions, server.resets, out=server.obs)
    ...         server.commit()
    """

    @overload
    @classmethod
    def create(
        cls, name: str | None, config: StepLaneConfig, /, *, wait: WaitStrategy = "hybrid"
    ) -> Self: ...

    @overload
    @classmethod
    def create(
        cls,
        name: str | None,
        num_envs: int,
        obs_size: int,
        act_size: int,
        *,
        wait: WaitStrategy = "hybrid",
        **options: Unpack[StepLaneOptions],
    ) -> Self: ...

    @classmethod
    def create(
        cls,
        name: str | None,
        num_envs: StepLaneConfig | int,
        obs_size: int | None = None,
        act_size: int | None = None,
        *,
        wait: WaitStrategy = "hybrid",
        **options: Unpack[StepLaneOptions],
    ) -> Self:
        """Create the lane, reserving all its memory, and become its engine.

        The shape is a :class:`StepLaneConfig`, or num_envs, obs_size and act_size with that class's
        options by name. Without a name the environment variable ``LUCKY_SHM_NAME`` gives it. What
        a dead server of the same name left is replaced; a live one raises
        :class:`~lanekit.SegmentExists`.
        """
        name, encoded = lane_name(name)
        strategy_code(wait)  # refused before there is anything to undo
        if isinstance(num_envs, StepLaneConfig):
            config = num_envs
            if obs_size is not None or act_size is not None or options:
                raise TypeError("with a StepLaneConfig no other shape is given")
        elif obs_size is None or act_size is None:
            raise TypeError("give num_envs, obs_size and act_size, or a StepLaneConfig")
        else:
            config = StepLaneConfig(num_envs, obs_size, act_size, **options)
        protect_process()
        shape, info_names, description = config.to_c()
        out = ffi.new("lk_step_server **")
        status = lib.lk_step_create(out, encoded, len(encoded), shape, info_names, description)
        if status < 0:
            _fail_to_create(status, name, config)
        return cls(ffi.gc(out[0], lib.lk_step_server_free), name, config, wait)

    def __init__(self, handle: CData, name: str, config: StepLaneConfig, wait: str) -> None:
        """Take over a core handle; use :meth:`create`."""
        super().__init__(handle, name, config, wait, lib.lk_step_server_regions)
        self._finalizer = finalize_at_exit(self, _end, handle)

    def wait_actions(self, timeout: float | None = None) -> StepExchange | None:
        """Wait for the client's next actions; None if none came within `timeout` seconds.

        A client that died raises :class:`~lanekit.PeerLost`, once; calling again waits for its
        successor. Actions that it was still writing are never seen.
        """
        patience = seconds_to_ns(timeout)
        handle, exchange, strategy = self._handle, self._exchange, self._strategy
        wait = lib.lk_step_wait_actions
        if patience is not None and patience <= SLICE_NS:
            status = wait(handle, patience, strategy, exchange)
        else:
            deadline = None if patience is None else time.monotonic_ns() + patience
            while True:
                left = SLICE_NS if deadline is None else deadline - time.monotonic_ns()
                status = wait(handle, max(0, min(left, SLICE_NS)), strategy, exchange)
                if status != 0 or left <= 0:
                    break
        if status < 0:
            self._fail_to_wait(status)
        return exchange_of(exchange) if status else None

    def commit(self) -> None:
        """Complete the exchange: what was written into the arrays is the client's to read."""
        status = lib.lk_step_commit(self._handle)
        if status < 0:
            if status == lib.LK_E_OUT_OF_TURN:
                raise errors.OutOfTurn(
                    f"{self._what}: nothing to commit: no actions were taken with wait_actions() "
                    "since the last commit"
                )
            self._fail(status)

    def fail(self, reason: str) -> None:
        """End the lane because of an error; the client's call raises with this reason."""
        encoded = reason.encode("utf-8", "replace")
        check(lib.lk_step_fail(self._handle, encoded, len(encoded)), self._what)

    @property
    def commands(self) -> RingChannel:
        """The lane's command channel: hand it to a :class:`~lanekit.command.CommandServer`."""
        return self._open_commands(lib.lk_step_server_commands)

    @property
    def state(self) -> StepState:
        """How far the lane has come."""
        return self._state(lib.lk_step_server_state)

    def close(self) -> None:
        """End the lane: the client's next call raises :class:`~lanekit.PeerLost`."""
        _end(self._handle)

    def _fail_to_wait(self, status: int) -> NoReturn:
        if status == lib.LK_E_PEER_LOST:
            state = self.state
            raise errors.PeerLost(
                f"{self._what}: the client (pid {state.client_pid}) died; {state.completed} "
                "exchanges are complete, and none is under way. Wait again for the next client"
            )
        if status == lib.LK_E_OUT_OF_TURN:
            raise errors.OutOfTurn(
                f"{self._what}: the exchange before is still to be completed: call commit() first"
            )
        self._fail(status)


def _fail_to_create(status: int, name: str, config: StepLaneConfig) -> NoReturn:
    what = describe(name)
    if status == lib.LK_E_BAD_GEOMETRY:
        raise ValueError(f"{what}: no lane can have this shape: {config}")
    if status == lib.LK_E_NO_SPACE:
        raise errors.OutOfSharedMemory(
            f"{what}: needs {human_size(config.size)} of shared memory, but /dev/shm has "
            f"{shared_memory_space()}; `lanekit clean` removes what dead processes left, fewer "
            "environments or a smaller image need less, or enlarge it (in a container: --shm-size)"
        )
    if status == lib.LK_E_EXISTS:
        pid, owner = owner_of(segment_name("step", name))
        raise errors.SegmentExists(
            f"{what}: {owner} serves this lane; end it, or use another name", pid
        )
    fail(status, what)
