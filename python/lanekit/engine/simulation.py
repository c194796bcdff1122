"""Many environments of one model, stepped by MuJoCo on its own threads."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import mujoco
import numpy as np
import numpy.typing as npt
from mujoco.batch import Batch, SimulationError

from lanekit.engine.contract import SimulationContract
from lanekit.engine.dice import Dice, Ids
from lanekit.engine.model_file import built_in_models, find_model, load_model
from lanekit.engine.randomisation import Randomisation
from lanekit.engine.tasks import StateArrays, Task, task_for
from lanekit.errors import EngineError

Array = npt.NDArray[Any]

INFOS = ("episode_return", "episode_length", "diverged")
"""What each environment reports beside its reward."""

MOST_ENVS = 1 << 24
"""What a step lane carries."""
MOST_THREADS = 1024

ALL = slice(None)
_SEEDED = 2  # the lane's reset flag for those with a seed
# The state after a step that is outside of this was not caught by MuJoCo's own check, which comes
# at the beginning of the next one.
_SANE = 1e10
_BAD = [
    int(warning)
    for warning in (
        mujoco.mjtWarning.mjWARN_BADQPOS,
        mujoco.mjtWarning.mjWARN_BADQVEL,
        mujoco.mjtWarning.mjWARN_BADQACC,
        mujoco.mjtWarning.mjWARN_BADCTRL,
    )
]


@dataclass(frozen=True)
class StepArrays:
    """Where the results of a step go; the lane's own memory, or anybody's."""

    obs: Array
    rewards: Array
    dones: Array
    truncateds: Array
    final_obs: Array | None = None
    infos: Mapping[str, Array] = field(default_factory=dict)

    @classmethod
    def allocate(cls, num_envs: int, obs_size: int) -> Self:
        """Return arrays in private memory."""
        return cls(
            np.zeros((num_envs, obs_size), np.float32),
            np.zeros(num_envs, np.float32),
            np.zeros(num_envs, np.bool_),
            np.zeros(num_envs, np.bool_),
            np.zeros((num_envs, obs_size), np.float32),
            {name: np.zeros(num_envs) for name in INFOS},
        )


class VectorSimulation:
    """Steps and resets many environments of one model.

    An episode that ends is followed by the next one within the same step: the observation is the
    first of the new episode, the last one of the old is in `final_obs`.
    """

    def __init__(
        self,
        model: str | Path,
        num_envs: int,
        *,
        task: str | None = None,
        seed: int = 0,
        threads: int | None = None,
        episode_steps: int | None = None,
    ) -> None:
        """Load a model; without `threads` there is one for each core."""
        if not 1 <= num_envs <= MOST_ENVS:
            raise ValueError(f"num_envs is 1 to {MOST_ENVS}, not {num_envs}")
        if threads is not None and not 1 <= threads <= MOST_THREADS:
            raise ValueError(f"threads is 1 to {MOST_THREADS}, not {threads}")
        if episode_steps is not None and episode_steps < 0:
            raise ValueError(f"episode_steps is 0 for no limit, or more, not {episode_steps}")
        self.path = find_model(model)
        self.model = load_model(self.path)
        known = built_in_models()
        built_in = self.path.stem if self.path == known.get(self.path.stem) else ""
        self.task: Task = task_for(self.model, built_in, task)
        self.num_envs = num_envs
        self.threads = threads or len(os.sched_getaffinity(0))
        self.episode_steps = self.task.episode_steps if episode_steps is None else episode_steps
        self.observation_names = self.task.observation_names
        self.obs_size = len(self.observation_names)
        self.batch = Batch(self.model, num_envs, self.threads)
        reads = self.task.reads_sensors
        self.state = StateArrays(
            qpos=self.batch.bind("qpos"),
            qvel=self.batch.bind("qvel"),
            act=self.batch.bind("act"),
            ctrl=self.batch.bind("ctrl"),
            time=self.batch.bind("time"),
            sensordata=self.batch.bind("sensordata") if reads else None,
        )
        self._stage = int(mujoco.mjtStage.mjSTAGE_VEL if reads else mujoco.mjtStage.mjSTAGE_NONE)
        self._moving = self.batch.state[:, 1 : 1 + self.model.nq + self.model.nv]
        assert np.shares_memory(self._moving, self.state.qpos)
        self.dice = Dice(num_envs, seed)
        self.randomisation = Randomisation(self.batch, self.state, self.dice)
        self.episode_length = np.zeros(num_envs, np.int64)
        self.episode_return = np.zeros(num_envs)
        self.steps = 0
        """Steps of the lane since the beginning."""
        self.divergences = 0
        self._overrides: Array | None = None
        self._ids: Ids = np.arange(num_envs)
        self._int32 = self._ids.astype(np.int32)
        self._restart(self._ids)

    @property
    def act_size(self) -> int:
        """Numbers of an action: one for each actuator."""
        return int(self.model.nu)

    @property
    def step_seconds(self) -> float:
        """Simulated seconds of one step."""
        return float(self.task.frame_skip * self.model.opt.timestep)

    def action_limits(self) -> tuple[Array, Array]:
        """Return the least and the most of each action; infinite where there is no limit."""
        limited = self.model.actuator_ctrllimited.astype(bool)
        low, high = (
            np.where(limited, self.model.actuator_ctrlrange[:, side], sign * np.inf)
            for side, sign in ((0, -1), (1, 1))
        )
        return low.astype(np.float32), high.astype(np.float32)

    # --- resets ----------------------------------------------------------------------------------

    def reset(
        self,
        out: StepArrays,
        ids: npt.ArrayLike | None = None,
        *,
        seeds: npt.ArrayLike | None = None,
        contract: SimulationContract | None = None,
        keyframe: int | None = None,
    ) -> None:
        """Begin new episodes, with seeds, a contract and a keyframe of their own if given."""
        chosen = self._ids if ids is None else np.atleast_1d(np.asarray(ids)).astype(np.intp)
        if chosen.size:
            self.checked_env(int(chosen.min()))
            self.checked_env(int(chosen.max()))
        numbers = None if seeds is None else np.atleast_1d(np.asarray(seeds, np.uint64))
        if numbers is not None and len(numbers) != len(chosen):
            raise ValueError(f"{len(numbers)} seeds for {len(chosen)} environments")
        # In the order of their numbers, each once: so MuJoCo wants them.
        chosen, first = np.unique(chosen, return_index=True)
        if contract is not None:
            self.randomisation.assign(chosen, contract)
        if numbers is not None:
            self.dice.seed(chosen, numbers[first])
        self._restart(chosen, -1 if keyframe is None else keyframe)
        self._clear(out, chosen)

    def reset_flagged(self, out: StepArrays, rows: slice, flags: Array, seeds: Array) -> None:
        """Begin new episodes where the lane's flags say so."""
        flagged = self._ids[rows][flags[rows] != 0]
        if len(flagged):
            seeded = flagged[flags[flagged] == _SEEDED]
            if len(seeded):
                self.dice.seed(seeded, seeds[seeded])
            self._restart(flagged)
            self._clear(out, flagged)

    def _restart(self, ids: Ids, keyframe: int = -1) -> None:
        """Begin new episodes, the state alone; keyframe -1 is the model's own initial state."""
        if not len(ids):
            return
        narrow = ids.astype(np.int32)
        self.randomisation.vary_models(ids)
        self.batch.reset(narrow, keyframe, stage=int(mujoco.mjtStage.mjSTAGE_NONE))
        self.batch.warning[ids] = 0
        self.task.begin(self.state, ids, self.dice)
        self.randomisation.vary_states(ids)
        if self._stage:
            self.batch.forward(narrow, stage=self._stage)
        self.episode_length[ids] = 0
        self.episode_return[ids] = 0.0

    def _clear(self, out: StepArrays, ids: Ids) -> None:
        """Write the results of environments that were reset and not stepped."""
        self._observe(out.obs, ids)
        out.rewards[ids] = 0.0
        out.dones[ids] = False
        out.truncateds[ids] = False
        for row in out.infos.values():
            row[ids] = 0.0

    def _observe(self, obs: Array, ids: Ids) -> None:
        rows = np.empty((len(ids), self.obs_size), obs.dtype)
        self.task.observe(self.state, ids, rows)
        obs[ids] = rows

    # --- steps -----------------------------------------------------------------------------------

    def step(
        self,
        actions: Array,
        out: StepArrays,
        rows: slice = ALL,
        flags: Array | None = None,
        seeds: Array | None = None,
    ) -> None:
        """Step a range of environments; those that are flagged are reset instead."""
        ids = self._ids[rows]
        flagged = ids[flags[rows] != 0] if flags is not None and flags[rows].any() else ids[:0]
        self.state.ctrl[rows] = actions[rows]
        offset = self.randomisation.control_offset
        if offset is not None:
            self.state.ctrl[rows] += offset[rows]
        if self._overrides is not None:
            self._apply_overrides(ids)
        self.randomisation.push(ids)
        self.task.remember(self.state, rows)
        failed = self._physics(ids, flagged)
        self.episode_length[rows] += 1
        self.steps += 1

        moving = self._moving[rows]
        bad = self.batch.warning[rows][:, _BAD, 1].any(axis=1)
        bad |= ~(np.abs(moving).max(axis=1) < _SANE)
        if len(failed):
            bad |= np.isin(ids, failed)
        if len(flagged):
            bad &= ~np.isin(ids, flagged)
        # What a diverged environment observed last is what it saw before.
        diverged = ids[bad]
        before = out.obs[diverged]

        obs, rewards, dones = out.obs[rows], out.rewards[rows], out.dones[rows]
        with np.errstate(all="ignore"):  # a diverged one may hold anything
            self.task.observe(self.state, rows, obs)
            self.task.judge(self.state, rows, rewards, dones)
        if len(diverged):
            out.obs[diverged] = before
            out.rewards[diverged] = 0.0
            dones |= bad
            self.divergences += len(diverged)
        self.episode_return[rows] += rewards
        truncateds = out.truncateds[rows]
        if self.episode_steps:
            np.greater_equal(self.episode_length[rows], self.episode_steps, out=truncateds)
            truncateds &= ~dones
        else:
            truncateds[:] = False
        if out.infos:
            out.infos["episode_return"][rows] = self.episode_return[rows]
            out.infos["episode_length"][rows] = self.episode_length[rows]
            out.infos["diverged"][rows] = bad
        if len(flagged):
            out.dones[flagged] = False
            out.truncateds[flagged] = False
        over = ids[dones | truncateds]
        if len(over):
            if out.final_obs is not None:
                out.final_obs[over] = out.obs[over]
            self._restart(over)
            self._observe(out.obs, over)
        if len(flagged):
            assert flags is not None
            assert seeds is not None
            self.reset_flagged(out, rows, flags, seeds)

    def _physics(self, ids: Ids, flagged: Ids) -> Ids:
        """Let MuJoCo step; returns those that it gave up."""
        chosen: npt.NDArray[np.int32] | None = self._int32[ids]
        if len(flagged):
            chosen = np.setdiff1d(ids, flagged).astype(np.int32)
        elif len(ids) == self.num_envs:
            chosen = None
        try:
            self.batch.step(chosen, nstep=self.task.frame_skip, stage=self._stage)
        except SimulationError as error:
            failed: Ids = np.asarray(error.ids, np.intp)
            return failed
        return ids[:0]

    def override(self, ids: Ids, places: Array, values: Array) -> None:
        """Set some controls of the next step, whatever its actions say."""
        if self._overrides is None:
            self._overrides = np.full((self.num_envs, self.act_size), np.nan)
        self._overrides[np.ix_(ids, places)] = values

    def _apply_overrides(self, ids: Ids) -> None:
        assert self._overrides is not None
        wanted = self._overrides[ids]
        self.state.ctrl[ids] = np.where(np.isnan(wanted), self.state.ctrl[ids], wanted)
        self._overrides[ids] = np.nan
        if np.isnan(self._overrides).all():
            self._overrides = None

    # --- one environment -------------------------------------------------------------------------

    def checked_env(self, env: int) -> int:
        """Return the number of an environment that there is."""
        if not 0 <= env < self.num_envs:
            raise EngineError(f"environments are numbered from 0 to {self.num_envs - 1}, not {env}")
        return env

    def set_qpos(self, env: int, places: Array, values: npt.ArrayLike) -> None:
        """Set positions of one environment; quaternions are brought to length 1."""
        positions = self.state.qpos[env].copy()
        positions[places] = values
        if not np.isfinite(positions).all():
            raise EngineError("positions are finite numbers")
        mujoco.mj_normalizeQuat(self.model, positions)
        self.state.qpos[env] = positions

    def data(self, env: int, into: mujoco.MjData | None = None) -> mujoco.MjData:
        """Return one environment as MuJoCo's own data, everything in it computed anew."""
        data = self.batch.get_data(env, into)
        mujoco.mj_forward(self.model_of(env), data)
        return data

    def model_of(self, env: int) -> mujoco.MjModel:
        """Return one environment's model: a copy if a contract has varied it."""
        if self.randomisation.contract_of(env) == SimulationContract():
            return self.model
        return self.batch.get_model(env)


def silence_warnings() -> None:
    """Keep MuJoCo from writing each divergence into a file where the process runs.

    They are counted and told to the trainer; the file would grow with every one. MuJoCo's threads
    call what is set here, so it must be C: strlen takes the text and changes nothing.
    """
    mujoco.set_mju_user_warning(
        ctypes.cast(ctypes.CDLL(None).strlen, ctypes.CFUNCTYPE(None, ctypes.c_char_p))
    )
