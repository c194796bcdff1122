"""What the two ends of a step lane have in common: the arrays, the waiting, the way to leave."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self

from lanekit._core import STRATEGIES, CData, check, fail, ffi
from lanekit.segments import segment_name
from lanekit.step.config import StepLaneConfig
from lanekit.step.exchange import StepState, state_of
from lanekit.step.regions import Array, StepRegions

if TYPE_CHECKING:
    from lanekit.command import RingChannel


def strategy_code(wait: str) -> int:
    """Return the core's number of a wait strategy."""
    if wait not in STRATEGIES:
        raise ValueError(f"wait is one of {', '.join(STRATEGIES)}, not {wait!r}")
    return STRATEGIES[wait]


def describe(name: str) -> str:
    """Return how messages name a lane."""
    return f"step lane {name!r} (segment {segment_name('step', name)})"


class StepLaneEnd:
    """One end of a step lane. Used by one thread at a time."""

    def __init__(
        self,
        handle: CData,
        name: str,
        config: StepLaneConfig,
        wait: str,
        lend: Callable[[CData, CData, CData], int],
    ) -> None:
        """Take over a core handle."""
        self._handle = handle
        self._name = name
        self._config = config
        self._what = describe(name)
        self._strategy = strategy_code(wait)
        self._exchange = ffi.new("struct lk_step_exchange *")
        self._channel: RingChannel | None = None
        regions = StepRegions(lambda segment, out: lend(handle, segment, out), self._what, config)
        self.obs: Array = regions.obs
        """[num_envs, obs_size], written by the server."""
        self.actions: Array = regions.actions
        """[num_envs, act_size], written by the client."""
        self.rewards: Array = regions.rewards
        self.dones: Array = regions.dones
        self.truncateds: Array = regions.truncateds
        self.resets: Array = regions.resets
        """1: reset this environment; 2: with its number in `seeds`. The server's commit clears."""
        self.seeds: Array = regions.seeds
        self.final_obs: Array | None = regions.final_obs
        """The last observations of episodes that ended in this step, if the lane carries them."""
        self.infos: Mapping[str, Array] = regions.infos
        self.images: Array | None = regions.images
        """[num_envs, height, width, channels], if the lane carries images."""
        self.base: int = regions.base
        """The address of the shared memory in this process: ``obs`` begins ``offsets["obs"]``
        bytes behind it."""
        self.offsets: Mapping[str, int] = regions.offsets

    @property
    def name(self) -> str:
        """The lane's name."""
        return self._name

    @property
    def segment(self) -> str:
        """The segment's name in ``/dev/shm``."""
        return segment_name("step", self._name)

    @property
    def config(self) -> StepLaneConfig:
        """The lane's shape."""
        return self._config

    def _open_commands(self, find: Callable[[CData], CData]) -> RingChannel:
        """Return the lane's command channel; the same one each time."""
        if self._channel is None:
            # Here, because its messages are many, and a lane is used without them as well.
            from lanekit.command import RingChannel

            if self._config.command_ring == 0:
                raise ValueError(
                    f"{self._what}: was created with command_ring=0, so it carries no commands"
                )
            self._channel = RingChannel(find(self._handle), self._what, self)
        return self._channel

    def close(self) -> None:
        """Leave the lane. Arrays that were taken from it stay readable."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"{self._what}: the end of a lane belongs to its process and can not be pickled or "
            "copied; create or attach in the process that uses it"
        )

    def __repr__(self) -> str:
        c = self._config
        return (
            f"<{type(self).__name__} {self._name!r} {c.num_envs} environments x "
            f"{c.obs_size} {c.obs_dtype} -> {c.act_size} {c.act_dtype}>"
        )

    def _state(self, ask: Callable[[Any, CData], int]) -> StepState:
        out = ffi.new("struct lk_step_state *")
        check(ask(self._handle, out), self._what)
        return state_of(out)

    def _fail(self, status: int) -> NoReturn:
        fail(status, self._what)
