"""Runs Gymnasium environments for a trainer in another process."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt
from gymnasium.vector import AutoresetMode

from lanekit._core import WaitStrategy
from lanekit.errors import PeerLost
from lanekit.integrations.stepping.description import typed_infos
from lanekit.integrations.stepping.env_rows import (
    EnvironmentFailed,
    EnvMaker,
    EnvRows,
    check_drawable,
    describe,
)
from lanekit.integrations.stepping.making import maker_of
from lanekit.integrations.stepping.worker_crew import WorkerCrew
from lanekit.step import StepServer
from lanekit.step.exchange import StepRequest

_LOOK_EVERY = 0.05
_log = logging.getLogger(__name__)


class Runner(Protocol):
    """What runs the environments: this process, or several."""

    def exchange(self, request: StepRequest) -> None:
        """Do what the client asked for."""

    def close(self) -> None:
        """Close the environments."""


def serve_vector_env(
    env: str | EnvMaker,
    num_envs: int,
    name: str | None = None,
    *,
    keep_serving: Callable[[], bool] = lambda: True,
    **options: Any,
) -> None:
    """Serve environments until `keep_serving` says no, Ctrl-C comes, or an environment fails.

    >>> serve_vector_env("CartPole-v1", 8, "my-envs", workers=2)

    `options` are those of :class:`VectorEnvServer`. `keep_serving` is asked between exchanges, many
    times a second.
    """
    with VectorEnvServer(env, num_envs, name, **options) as server:
        server.serve(keep_serving)


class VectorEnvServer:
    """Environments, in this process or several, at the engine's end of a step lane.

    - ``env``: the id of a registered environment, or a function that makes one.
    - ``name``: of the lane; without one ``LUCKY_SHM_NAME`` gives it.
    - ``workers``: how many processes run the environments; 1: this one does.
    - ``autoreset_mode``: when an environment is reset whose episode is over, as in Gymnasium.
    - ``infos``: names of numbers in the environments' infos that are carried, with their types if
      they are not float64; "episode/r" is ``info["episode"]["r"]``.
    - ``image``: whether a picture of each environment is drawn after each step, for the trainer's
      ``render()``.
    - ``flatten``: whether to wrap each environment in ``FlattenObservation``.
    - ``make_kwargs``: further arguments of ``gymnasium.make``.
    - ``wait``: how this side waits: "hybrid", "spin" or "block".
    """

    def __init__(
        self,
        env: str | EnvMaker,
        num_envs: int,
        name: str | None = None,
        *,
        workers: int = 1,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        infos: Iterable[str] | Mapping[str, npt.DTypeLike] = (),
        image: bool = False,
        flatten: bool = False,
        make_kwargs: Mapping[str, Any] | None = None,
        wait: WaitStrategy = "hybrid",
    ) -> None:
        """Make the lane and the environments. A trainer may attach meanwhile, and waits."""
        _check_count("num_envs", num_envs)
        _check_count("workers", workers)
        if workers > num_envs:
            raise ValueError(
                f"{workers} worker processes for {num_envs} environments: each needs one at least"
            )
        mode, carried = AutoresetMode(autoreset_mode), typed_infos(infos)
        maker, first, env_id = maker_of(env, image=image, flatten=flatten, make_kwargs=make_kwargs)
        try:
            description = describe(first, env_id, mode, carried)
            config = description.lane_config(num_envs, check_drawable(first) if image else None)
        finally:
            first.close()
        self._lane = StepServer.create(name, config, wait=wait)
        self._client = 0
        try:
            self._runner: Runner = (
                EnvRows([maker] * num_envs, 0, self._lane, description)
                if workers == 1
                else WorkerCrew(maker, workers, self._lane, description, wait)
            )
        except BaseException as error:
            self._leave(error)
            raise

    @property
    def name(self) -> str:
        """The lane's name."""
        return self._lane.name

    @property
    def lane(self) -> StepServer:
        """The lane itself."""
        return self._lane

    @property
    def worker_pids(self) -> list[int]:
        """The ids of the processes that run the environments; none if this one does."""
        return self._runner.pids if isinstance(self._runner, WorkerCrew) else []

    def serve(self, keep_serving: Callable[[], bool] = lambda: True) -> None:
        """Serve one trainer after the other, for as long as `keep_serving` says so.

        An environment that fails ends the lane, so that the trainer reads its error, and raises
        :class:`EnvironmentFailed`.
        """
        lane, runner = self._lane, self._runner
        try:
            while keep_serving():
                try:
                    exchange = lane.wait_actions(_LOOK_EVERY)
                except PeerLost as loss:
                    _log.warning("%s", loss)
                    self._client = 0
                    continue
                if exchange is None or self._client == 0:
                    self._note_client()
                if exchange is not None:
                    runner.exchange(exchange.request)
                    lane.commit()
        except EnvironmentFailed as failure:
            lane.fail(str(failure))
            raise

    def _note_client(self) -> None:
        """Tell who came and who left."""
        state = self._lane.state
        client = state.client_pid if state.client_alive else 0
        if client != self._client:
            if self._client:
                _log.info("the trainer (pid %d) left; waiting for the next", self._client)
            if client:
                _log.info("a trainer (pid %d) has attached", client)
            self._client = client

    def _leave(self, error: BaseException) -> None:
        if isinstance(error, EnvironmentFailed):
            self._lane.fail(str(error))
        self._lane.close()

    def close(self) -> None:
        """End the lane, of which the trainer hears at once, and close the environments."""
        self._lane.close()
        self._runner.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _check_count(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name} is a whole number, not {type(value).__name__}")
    if value < 1:
        raise ValueError(f"{name} is at least 1, not {value}")
