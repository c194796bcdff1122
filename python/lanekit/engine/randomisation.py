"""Applies contracts: model fields and initial states that differ between environments.

All environments share one model. A field that a contract varies gets values for each environment,
in MuJoCo's own batch; the others stay shared. So a thousand environments with masses of their own
take a thousand times those few arrays, not a thousand models.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mujoco
import numpy as np
import numpy.typing as npt
from mujoco.batch import Batch

from lanekit.engine.contract import SimulationContract
from lanekit.engine.dice import Dice, Ids, Numbers
from lanekit.engine.tasks.task import StateArrays
from lanekit.errors import EngineError

_FREE, _BALL = int(mujoco.mjtJoint.mjJNT_FREE), int(mujoco.mjtJoint.mjJNT_BALL)
_SCALABLE = {int(mujoco.mjtGain.mjGAIN_FIXED), int(mujoco.mjtGain.mjGAIN_AFFINE)}
_MOST_CONTRACTS = 64

REPORTED = ("friction", "mass_scale", "motor_strength", "gravity_scale")
"""What each environment got is told for these; of the others, the range alone."""


class Randomisation:
    """The contracts of all environments, and what each environment got."""

    def __init__(self, batch: Batch, state: StateArrays, dice: Dice) -> None:
        """Begin without a contract."""
        self._batch = batch
        self._model: mujoco.MjModel = batch.model
        self._state = state
        self._dice = dice
        count = batch.nsim
        self._contracts = [SimulationContract()]
        self._which: npt.NDArray[np.intp] = np.zeros(count, np.intp)
        self._varied: set[str] = set()
        friction = float(self._model.geom_friction[0, 0]) if self._model.ngeom else 1.0
        self.values: dict[str, Numbers] = {
            name: np.full(count, friction if name == "friction" else 1.0) for name in REPORTED
        }
        self.control_offset: Numbers | None = None
        """[num_envs, nu], if a contract asked for one."""
        self._next_push = np.full(count, np.inf)
        self._pushing = False
        kinds = self._model.jnt_type.tolist()
        self._limited = [
            joint
            for joint in range(self._model.njnt)
            if self._model.jnt_limited[joint] and kinds[joint] not in (_FREE, _BALL)
        ]
        self._simple = [j for j in range(self._model.njnt) if kinds[j] not in (_FREE, _BALL)]
        self._free = [j for j in range(self._model.njnt) if kinds[j] == _FREE]
        self._rotating = [j for j in range(self._model.njnt) if kinds[j] in (_FREE, _BALL)]

    # --- contracts -------------------------------------------------------------------------------

    def check(self, contract: SimulationContract) -> None:
        """Refuse what this model can not do."""
        if contract.pushes and not self._free:
            raise EngineError(
                "the contract asks for pushes, and the model has no free body to push"
            )
        asks_for_pose = any(contract.pose_position_noise) or contract.pose_orientation_noise
        if asks_for_pose and not self._rotating:
            raise EngineError(
                "the contract asks for noise of a pose, and the model has no free body; "
                "joint_position_noise is for hinges and slides"
            )
        if contract.motor_strength is not None:
            kinds = set(self._model.actuator_gaintype.tolist())
            others = [mujoco.mjtGain(kind).name for kind in kinds - _SCALABLE]
            if others:
                raise EngineError(
                    "the contract varies motor_strength, and the model has actuators whose gain "
                    f"is no plain number: {', '.join(others)}"
                )

    def assign(self, ids: Ids, contract: SimulationContract) -> None:
        """Give environments another contract; it counts from their next reset on."""
        self.check(contract)
        if contract not in self._contracts:
            if len(self._contracts) >= _MOST_CONTRACTS:
                self._forget_unused(ids)
            self._contracts.append(contract)
        self._which[ids] = self._contracts.index(contract)
        self._pushing = any(kept.pushes for kept in self._contracts)

    def contract_of(self, env: int) -> SimulationContract:
        """Return the contract of one environment."""
        return self._contracts[int(self._which[env])]

    def _forget_unused(self, leaving: Ids) -> None:
        staying = np.delete(self._which, leaving)
        used = sorted(set(staying.tolist()))
        places = np.zeros(len(self._contracts), np.intp)
        places[used] = np.arange(len(used))
        self._contracts = [self._contracts[place] for place in used]
        self._which = places[self._which]

    # --- at a reset ------------------------------------------------------------------------------

    def vary_models(self, ids: Ids) -> None:
        """Draw the models of environments that are being reset."""
        for contract, group in self._groups(ids):
            self._vary(contract, group)

    def vary_states(self, ids: Ids) -> None:
        """Draw initial states; the model's own, with the task's changes, are set already."""
        for contract, group in self._groups(ids):
            self._scatter(contract, group)
            if contract.pushes:
                assert isinstance(contract.push_interval, tuple)
                waits = self._dice.between(group, *contract.push_interval)[:, 0]
                self._next_push[group] = self._state.time[group] + waits
            elif self._pushing:
                self._next_push[group] = np.inf

    def _groups(self, ids: Ids) -> list[tuple[SimulationContract, Ids]]:
        if len(self._contracts) == 1:
            return [(self._contracts[0], ids)]
        which = self._which[ids]
        return [(self._contracts[code], ids[which == code]) for code in np.unique(which)]

    def _vary(self, contract: SimulationContract, ids: Ids) -> None:
        self._draw(contract, "friction", ids, self._set_friction)
        derived = self._draw(contract, "mass_scale", ids, self._set_mass)
        derived |= self._draw(contract, "com_offset", ids, self._set_centre)
        self._draw(contract, "motor_strength", ids, self._set_strength)
        self._draw(contract, "motor_offset", ids, self._set_offset)
        derived |= self._draw(contract, "gravity_scale", ids, self._set_gravity)
        if derived:
            self._batch.set_const(ids.astype(np.int32))

    def _draw(
        self,
        contract: SimulationContract,
        name: str,
        ids: Ids,
        apply: Callable[[Ids, Numbers | None], None],
    ) -> bool:
        """Apply one range; without one, put the model's own values back if they were varied."""
        span = contract.span(name)
        if span is None and name not in self._varied:
            return False
        count = {"com_offset": 3, "motor_offset": self._model.nu}.get(name, 1)
        drawn = None if span is None else self._dice.between(ids, *span, count)
        self._varied.add(name)
        apply(ids, drawn)
        return True

    def _set_friction(self, ids: Ids, drawn: Numbers | None) -> None:
        field, own = self._batch.expand("geom_friction"), self._model.geom_friction
        field[ids, :, 0] = own[:, 0] if drawn is None else drawn
        self.values["friction"][ids] = own[0, 0] if drawn is None else drawn[:, 0]

    def _set_mass(self, ids: Ids, drawn: Numbers | None) -> None:
        scale = np.ones((len(ids), 1)) if drawn is None else drawn
        self._batch.expand("body_mass")[ids] = scale * self._model.body_mass
        self._batch.expand("body_inertia")[ids] = scale[:, :, None] * self._model.body_inertia
        self.values["mass_scale"][ids] = scale[:, 0]

    def _set_centre(self, ids: Ids, drawn: Numbers | None) -> None:
        root = int(self._model.jnt_bodyid[0])
        own = self._model.body_ipos[root]
        self._batch.expand("body_ipos")[ids, root] = own if drawn is None else own + drawn

    def _set_strength(self, ids: Ids, drawn: Numbers | None) -> None:
        scale = np.ones((len(ids), 1)) if drawn is None else drawn
        # A servo's gain pulls towards the control, and its bias, of the same size, away from it.
        for name in ("actuator_gainprm", "actuator_biasprm"):
            self._batch.expand(name)[ids] = scale[:, :, None] * getattr(self._model, name)
        self.values["motor_strength"][ids] = scale[:, 0]

    def _set_offset(self, ids: Ids, drawn: Numbers | None) -> None:
        if self.control_offset is None:
            self.control_offset = np.zeros((self._batch.nsim, self._model.nu))
        self.control_offset[ids] = 0.0 if drawn is None else drawn

    def _set_gravity(self, ids: Ids, drawn: Numbers | None) -> None:
        scale = np.ones((len(ids), 1)) if drawn is None else drawn
        self._batch.expand("opt.gravity")[ids] = scale * self._model.opt.gravity
        self.values["gravity_scale"][ids] = scale[:, 0]

    def _scatter(self, contract: SimulationContract, ids: Ids) -> None:
        model, state, dice = self._model, self._state, self._dice
        if contract.joint_position_noise and self._simple:
            noise = dice.normal(ids, len(self._simple)) * contract.joint_position_noise
            places = model.jnt_qposadr[self._simple]
            state.qpos[np.ix_(ids, places)] += noise
            for joint in self._limited:
                place = model.jnt_qposadr[joint]
                state.qpos[ids, place] = np.clip(state.qpos[ids, place], *model.jnt_range[joint])
        if contract.joint_velocity_noise and self._simple:
            noise = dice.normal(ids, len(self._simple)) * contract.joint_velocity_noise
            state.qvel[np.ix_(ids, model.jnt_dofadr[self._simple])] += noise
        if any(contract.pose_position_noise):
            for joint in self._free:
                place = model.jnt_qposadr[joint]
                noise = dice.normal(ids, 3) * contract.pose_position_noise
                state.qpos[ids, place : place + 3] += noise
        if contract.pose_orientation_noise:
            for joint in self._rotating:
                place = model.jnt_qposadr[joint] + (3 if joint in self._free else 0)
                turn = dice.normal(ids, 3) * (contract.pose_orientation_noise / np.sqrt(3.0))
                state.qpos[ids, place : place + 4] = _turned(
                    state.qpos[ids, place : place + 4], turn
                )

    # --- at a step -------------------------------------------------------------------------------

    def push(self, ids: Ids) -> Ids:
        """Push those whose time has come; returns which."""
        if not self._pushing:
            return ids[:0]
        due = ids[self._state.time[ids] >= self._next_push[ids]]
        for contract, group in self._groups(due) if len(due) else ():
            assert isinstance(contract.push_velocity, tuple)
            assert isinstance(contract.push_interval, tuple)
            speed = self._dice.between(group, *contract.push_velocity)[:, 0]
            angle = self._dice.between(group, 0.0, 2 * np.pi)[:, 0]
            dof = int(self._model.jnt_dofadr[self._free[0]])
            self._state.qvel[group, dof] += speed * np.cos(angle)
            self._state.qvel[group, dof + 1] += speed * np.sin(angle)
            waits = self._dice.between(group, *contract.push_interval)[:, 0]
            self._next_push[group] = self._state.time[group] + waits
        return due


def _turned(rotations: Numbers, turn: Numbers) -> Numbers:
    """Return rotations [n, 4] followed by small turns [n, 3], in radians."""
    angle = np.linalg.norm(turn, axis=1, keepdims=True)
    axis = turn / np.maximum(angle, 1e-12)
    tw, txyz = np.cos(angle / 2), axis * np.sin(angle / 2)
    qw, qxyz = rotations[:, :1], rotations[:, 1:]
    w = tw * qw - np.sum(txyz * qxyz, axis=1, keepdims=True)
    xyz: Any = tw * qxyz + qw * txyz + np.cross(txyz, qxyz)
    turned = np.concatenate([w, xyz], axis=1)
    unit: Numbers = turned / np.linalg.norm(turned, axis=1, keepdims=True)
    return unit
