"""A Gymnasium vector environment whose environments run elsewhere, behind a step lane."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
from gymnasium import error as gymnasium_errors
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from lanekit._core import WaitStrategy
from lanekit.errors import OutOfTurn
from lanekit.integrations.stepping.description import (
    FINAL,
    PRESENCE,
    SEPARATOR,
    LaneDescription,
)
from lanekit.step import StepClient
from lanekit.step.lane_end import describe

Array = npt.NDArray[Any]
Flags = npt.NDArray[np.bool_]
Results = tuple[Array, Array, Flags, Flags, dict[str, Any]]

_SEED_MAX = 2**64 - 1


class LaneVectorEnv(VectorEnv[Any, Any, Any]):
    """The environments of a step lane, as a trainer steps them.

    >>> envs = LaneVectorEnv("CartPole-v1")  # as `lanekit serve CartPole-v1` runs them
    >>> observations, infos = envs.reset(seed=1)

    Everything is as with Gymnasium's ``SyncVectorEnv`` of the same environments: spaces, seeds,
    autoreset mode, observations, rewards and infos, bit by bit. Of the infos those numbers are
    carried that the server was told to. `reset` takes ``options["reset_mask"]`` and no others;
    calls into the environments (`call`, `get_attr`, `set_attr`) are not carried.
    """

    def __init__(
        self,
        name: str | None = None,
        *,
        copy: bool = True,
        timeout: float | None = 60.0,
        wait: WaitStrategy = "hybrid",
    ) -> None:
        """Take the trainer's place at a lane; without a name ``LUCKY_SHM_NAME`` gives it.

        copy: whether observations are yours to keep; else they are the shared memory itself, which
            the next step overwrites.
        timeout: how many seconds to wait for the server to appear, and for each of its answers;
            None: for ever. After a :class:`~lanekit.WaitTimeout` the step is still under way:
            :meth:`step_wait` waits on.
        """
        client = StepClient.attach(name, timeout=timeout, wait=wait)
        try:
            said = LaneDescription.from_lane(client.config, describe(client.name))
        except BaseException:
            client.close()
            raise
        self._client = client
        self._timeout = timeout
        self.copy = copy
        self.env_id = said.env_id
        self.num_envs = count = client.config.num_envs
        self.autoreset_mode = said.autoreset_mode
        self.single_observation_space = said.observation_space
        self.single_action_space = said.action_space
        self.observation_space = batch_space(said.observation_space, count)
        self.action_space = batch_space(said.action_space, count)
        self.metadata = {**said.metadata, "autoreset_mode": said.autoreset_mode}
        self.render_mode = None if client.images is None else "rgb_array"
        shape = (count, *(said.observation_space.shape or ()))
        self._obs: Array = client.obs.reshape(shape)
        self._final_obs = None if client.final_obs is None else client.final_obs.reshape(shape)
        # Bytes that another process wrote: any but 0 is true.
        self._terminated, self._truncated = (
            flags.view(np.uint8) for flags in (client.dones, client.truncateds)
        )
        self._infos = [
            InfoRow(name.split(SEPARATOR), dtype, client, name, said.autoreset_mode)
            for name, dtype in said.infos.items()
        ]
        self._halves = 2 if client.config.pipelined else 1
        self._to_reset = np.ones(count, np.bool_)
        """Those whose next step would be a mistake."""
        self._reset_needed = True

    # --- stepping --------------------------------------------------------------------------------

    def step(self, actions: Any) -> Results:
        """Step all environments; those that are over are reset as the autoreset mode says."""
        self._check_step()
        try:
            self._client.step(self._checked(actions), self._timeout)
        except OutOfTurn:
            self._refuse_second_step()
        return self._results()

    def step_async(self, actions: Any) -> None:
        """Hand the actions over and return at once; :meth:`step_wait` brings the results."""
        self._check_step()
        values = self._checked(actions)
        try:
            for _ in range(self._halves):
                self._client.send(values[self._client.next_envs])
        except OutOfTurn:
            self._refuse_second_step()

    def step_wait(self, timeout: float | None = None) -> Results:
        """Wait for the results of a step that was begun; by default as long as always."""
        self._check_open()
        if not self._client.under_way:
            raise OutOfTurn(f"{self!r}: no step is under way: call step_async() first")
        while self._client.under_way:
            self._client.recv(self._timeout if timeout is None else timeout)
        return self._results()

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Array, dict[str, Any]]:
        """Reset all environments, or those of ``options["reset_mask"]``.

        `seed` gives environment `i` the number ``seed + i``, or its own from a sequence. The
        results of a step that is still under way are dropped.
        """
        self._check_open()
        chosen = self._chosen(options or {})
        ids, seeds = np.flatnonzero(chosen), self._seeds(seed)
        while self._client.under_way:  # a step that timed out, or that Ctrl-C came into
            self._client.recv(self._timeout)
        self._client.reset(ids, seed=[seeds[int(i)] for i in ids], timeout=self._timeout)
        self._to_reset &= ~chosen
        self._reset_needed = bool(self._to_reset.any())
        return self._observations(), self._reported({}, final=False)

    # --- what Gymnasium's vector environments offer besides ---------------------------------------

    def render(self) -> tuple[Array, ...]:
        """Return the pictures that came with the last step, if the lane carries any."""
        self._check_open()
        images = self._client.images
        if images is None:
            raise NotImplementedError(
                f"{self!r}: the lane carries no pictures; serve it with image=True "
                "(`lanekit serve --image`)"
            )
        return tuple(images.copy())

    def call(self, name: str, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse: a lane carries steps, not calls."""
        self._refuse(f"call {name!r}")

    def get_attr(self, name: str) -> NoReturn:
        """Refuse: a lane carries steps, not attributes."""
        self._refuse(f"read {name!r}")

    def set_attr(self, name: str, values: Any) -> NoReturn:
        """Refuse: a lane carries steps, not attributes."""
        self._refuse(f"set {name!r}")

    def close_extras(self, **kwargs: Any) -> None:
        """Leave the lane to another trainer. The server stays."""
        client = vars(self).get("_client")  # not there after a refusal in __init__
        if client is not None:
            client.close()

    def __repr__(self) -> str:
        client = vars(self).get("_client")
        if client is None:
            return f"<{type(self).__name__}, not attached>"
        of_what = f", {self.env_id}" if self.env_id else ""
        return f"{type(self).__name__}({client.name!r}{of_what}, num_envs={self.num_envs})"

    # --- results ---------------------------------------------------------------------------------

    def _results(self) -> Results:
        terminated, truncated = self._terminated != 0, self._truncated != 0
        infos: dict[str, Any] = {}
        if self.autoreset_mode is not AutoresetMode.NEXT_STEP:
            over = terminated | truncated
            if over.any():
                if self.autoreset_mode is AutoresetMode.SAME_STEP:
                    self._add_finals(infos, over)
                else:
                    self._to_reset |= over
                    self._reset_needed = True
        return (
            self._observations(),
            self._client.rewards.copy(),
            terminated,
            truncated,
            self._reported(infos, final=False),
        )

    def _observations(self) -> Array:
        return self._obs.copy() if self.copy else self._obs

    def _add_finals(self, infos: dict[str, Any], over: Flags) -> None:
        assert self._final_obs is not None
        final_obs = np.full(self.num_envs, None, object)
        for i in np.flatnonzero(over):
            final_obs[i] = self._final_obs[i].copy()
        infos["final_obs"], infos["_final_obs"] = final_obs, over
        infos["final_info"] = self._reported({}, final=True)
        infos["_final_info"] = over.copy()

    def _reported(self, infos: dict[str, Any], *, final: bool) -> dict[str, Any]:
        for row in self._infos:
            row.add_to(infos, final=final)
        return infos

    # --- checks ----------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self.closed:
            raise gymnasium_errors.ClosedEnvironmentError(
                f"{self!r}: was closed; make another LaneVectorEnv"
            )

    def _check_step(self) -> None:
        self._check_open()
        if self._reset_needed:
            which = ", ".join(map(str, np.flatnonzero(self._to_reset)[:10]))
            raise gymnasium_errors.ResetNeeded(
                f"{self!r}: environments {which} have to be reset first: they never were, or "
                "their episodes are over and autoreset is disabled; "
                "reset(options={'reset_mask': ...}) resets some"
            )

    def _checked(self, actions: Any) -> Array:
        values = np.asarray(actions)
        if values.shape != self.action_space.shape:
            raise ValueError(
                f"{self!r}: actions have shape {values.shape} instead of {self.action_space.shape}"
            )
        return values

    def _chosen(self, options: dict[str, Any]) -> Flags:
        """Return which environments a reset is for."""
        others = sorted(set(options) - {"reset_mask"})
        if others:
            raise ValueError(
                f"{self!r}: a lane carries no options of a reset but 'reset_mask', got {others}; "
                "give them to the environments when they are made, on the server's side"
            )
        if "reset_mask" not in options:
            return np.ones(self.num_envs, np.bool_)
        mask = options["reset_mask"]
        if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_:
            kind = getattr(mask, "dtype", type(mask).__name__)
            raise TypeError(f"{self!r}: 'reset_mask' is an array of bool, not {kind}")
        if mask.shape != (self.num_envs,) or not mask.any():
            raise ValueError(
                f"{self!r}: 'reset_mask' has {self.num_envs} entries, at least one of them true; "
                f"got shape {mask.shape} with {np.count_nonzero(mask)}"
            )
        return mask

    def _seeds(self, seed: int | Sequence[int | None] | None) -> Sequence[int | None]:
        if seed is None:
            return [None] * self.num_envs
        if isinstance(seed, int | np.integer):
            seed = range(int(seed), int(seed) + self.num_envs)
        if len(seed) != self.num_envs:
            raise ValueError(
                f"{self!r}: {self.num_envs} environments have as many seeds, got {len(seed)}"
            )
        for number in seed:
            if number is not None and not 0 <= number <= _SEED_MAX:
                raise ValueError(f"{self!r}: a seed is from 0 to 2**64 - 1, not {number}")
        return seed

    def _refuse_second_step(self) -> NoReturn:
        raise OutOfTurn(
            f"{self!r}: a step is still under way: step_wait() brings its results, reset() drops "
            "them"
        ) from None

    def _refuse(self, what: str) -> NoReturn:
        raise NotImplementedError(
            f"{self!r}: can not {what}: its environments live in another process, and a lane "
            "carries steps and resets only; do that where they are made, on the server's side"
        )


class InfoRow:
    """One named number of each environment, and where it belongs in Gymnasium's infos."""

    def __init__(
        self,
        path: list[str],
        dtype: np.dtype[Any],
        client: StepClient,
        name: str,
        mode: AutoresetMode,
    ) -> None:
        """Find its rows among the lane's."""
        self._path = path
        self._dtype = dtype
        self._rows = client.infos.get(name), client.infos.get(PRESENCE + name)
        self._final_rows: tuple[Array | None, Array | None] = (None, None)
        if mode is AutoresetMode.SAME_STEP:
            self._final_rows = (
                client.infos.get(FINAL + name),
                client.infos.get(PRESENCE + FINAL + name),
            )

    def add_to(self, infos: dict[str, Any], *, final: bool) -> None:
        """Add it to the infos, with the mask of those that reported it, if any did."""
        values, there = self._final_rows if final else self._rows
        if values is None:
            return
        mask = np.ones(len(values), np.bool_) if there is None else there != 0
        if not mask.any():
            return
        for key in self._path[:-1]:
            flags = infos.setdefault(f"_{key}", np.zeros(len(values), np.bool_))
            flags |= mask
            infos = infos.setdefault(key, {})
        with np.errstate(invalid="ignore"):  # whatever another process wrote there
            infos[self._path[-1]] = np.where(mask, values, 0).astype(self._dtype)
        infos[f"_{self._path[-1]}"] = mask
