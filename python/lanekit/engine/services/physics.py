"""Mujoco: joints, actuators and the state of single environments."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import mujoco
import numpy as np
import numpy.typing as npt

from lanekit.command import Mujoco
from lanekit.command import messages as m
from lanekit.engine.dice import seeds_from
from lanekit.engine.model_file import name_of, names_of
from lanekit.engine.simulation import StepArrays, VectorSimulation
from lanekit.errors import EngineError

_JOINT_TYPES = {
    mujoco.mjtJoint.mjJNT_FREE: m.JointType.FREE,
    mujoco.mjtJoint.mjJNT_BALL: m.JointType.BALL,
    mujoco.mjtJoint.mjJNT_SLIDE: m.JointType.SLIDE,
    mujoco.mjtJoint.mjJNT_HINGE: m.JointType.HINGE,
}


class MujocoService:
    """Answers for the model that is simulated; it is the one robot."""

    def __init__(
        self, simulation: VectorSimulation, out: StepArrays, controls: npt.NDArray[np.float32]
    ) -> None:
        """Serve a simulation; `controls` are what the engine steps with by itself."""
        self._simulation = simulation
        self._out = out
        self._controls = controls
        model = simulation.model
        self._joints = names_of(model, mujoco.mjtObj.mjOBJ_JOINT, model.njnt)
        self._actuators = names_of(model, mujoco.mjtObj.mjOBJ_ACTUATOR, model.nu)

    def handlers(self) -> Mapping[Any, Callable[[Any], Any]]:
        """Return the methods."""
        return {
            Mujoco.GetJointState: self.joint_state,
            Mujoco.StreamJointState: self.stream_joint_state,
            Mujoco.GetMujocoInfo: self.info,
            Mujoco.SendControl: self.send_control,
            Mujoco.GetModelInfo: self.model_info,
            Mujoco.GetFullState: self.full_state,
            Mujoco.SetQpos: self.set_qpos,
            Mujoco.ResetScene: self.reset_scene,
        }

    def joint_state(self, request: m.GetJointStateRequest) -> m.GetJointStateResponse:
        """Tell positions and velocities."""
        self._check_name(request.robot_name)
        return self._joint_state(self._simulation.checked_env(request.env_id))

    def stream_joint_state(
        self, request: m.StreamJointStateRequest
    ) -> Iterator[m.GetJointStateResponse]:
        """Tell them again and again."""
        self._check_name(request.robot_name)
        env = self._simulation.checked_env(request.env_id)
        return (self._joint_state(env) for _ in iter(int, 1))

    def info(self, request: m.GetMujocoInfoRequest) -> m.GetMujocoInfoResponse:
        """Tell sizes and names."""
        self._check_name(request.robot_name)
        model = self._simulation.model
        return m.GetMujocoInfoResponse(
            success=True,
            nq=model.nq,
            nv=model.nv,
            nu=model.nu,
            joint_names=self._joints,
            actuator_names=self._actuators,
        )

    def send_control(self, request: m.SendControlRequest) -> m.SendControlResponse:
        """Set what the engine steps with by itself."""
        self._check_name(request.robot_name)
        env = self._simulation.checked_env(request.env_id)
        if len(request.controls) != self._simulation.act_size:
            raise EngineError(
                f"there are {self._simulation.act_size} actuators, and {len(request.controls)} "
                "controls were sent"
            )
        if not np.isfinite(request.controls).all():
            raise EngineError("controls are finite numbers")
        self._controls[env] = request.controls
        self._simulation.state.ctrl[env] = request.controls
        return m.SendControlResponse(success=True)

    def model_info(self, request: m.GetModelInfoRequest) -> m.GetModelInfoResponse:
        """Tell about all joints and actuators."""
        model = self._simulation.model
        joints = [
            m.JointDescriptor(
                index=joint,
                name=self._joints[joint],
                type=_JOINT_TYPES[mujoco.mjtJoint(model.jnt_type[joint])],
                qpos_adr=int(model.jnt_qposadr[joint]),
                qvel_adr=int(model.jnt_dofadr[joint]),
                range=m.Range(*model.jnt_range[joint].tolist())
                if model.jnt_limited[joint]
                else None,
            )
            for joint in range(model.njnt)
        ]
        in_joint = (int(mujoco.mjtTrn.mjTRN_JOINT), int(mujoco.mjtTrn.mjTRN_JOINTINPARENT))
        actuators = [
            m.ActuatorDescriptor(
                index=actuator,
                name=name_of(model, mujoco.mjtObj.mjOBJ_ACTUATOR, actuator),
                ctrl_range=m.Range(*model.actuator_ctrlrange[actuator].tolist())
                if model.actuator_ctrllimited[actuator]
                else None,
                target_joint_index=int(model.actuator_trnid[actuator, 0])
                if int(model.actuator_trntype[actuator]) in in_joint
                else -1,
            )
            for actuator in range(model.nu)
        ]
        return m.GetModelInfoResponse(
            success=True, nq=model.nq, nv=model.nv, nu=model.nu, joints=joints, actuators=actuators
        )

    def full_state(self, request: m.GetFullStateRequest) -> m.GetFullStateResponse:
        """Tell the whole state of an environment."""
        env = self._simulation.checked_env(request.env_id)
        state = self._simulation.state
        nothing = np.zeros(0, np.float32)
        return m.GetFullStateResponse(
            success=True,
            qpos=state.qpos[env] if request.include_qpos else nothing,
            qvel=state.qvel[env] if request.include_qvel else nothing,
            ctrl=state.ctrl[env] if request.include_ctrl else nothing,
            time=float(state.time[env]),
            frame_number=self._simulation.steps,
        )

    def set_qpos(self, request: m.SetQposRequest) -> m.SetQposResponse:
        """Set positions; quaternions are normalised, velocities stay."""
        env = self._simulation.checked_env(request.env_id)
        places = np.asarray(request.indices, np.intp)
        count = self._simulation.model.nq
        if not len(places):
            places = np.arange(count)
        if len(places) != len(request.qpos):
            raise EngineError(
                f"{len(request.qpos)} positions for {len(places)} places; without indices all "
                f"{count} are given"
            )
        if places.max() >= count:
            raise EngineError(f"positions are numbered from 0 to {count - 1}")
        self._simulation.set_qpos(env, places, request.qpos)
        return m.SetQposResponse(success=True, values_written=len(places))

    def reset_scene(self, request: m.ResetSceneRequest) -> m.ResetSceneResponse:
        """Begin new episodes, from a keyframe if one is named."""
        simulation = self._simulation
        ids = np.asarray(request.env_ids, np.intp)
        if not len(ids):
            ids = np.arange(simulation.num_envs)
        simulation.checked_env(int(ids.max()))
        keyframe = None
        if request.keyframe:
            keyframe = mujoco.mj_name2id(
                simulation.model, mujoco.mjtObj.mjOBJ_KEY, request.keyframe
            )
            if keyframe < 0:
                known = names_of(simulation.model, mujoco.mjtObj.mjOBJ_KEY, simulation.model.nkey)
                raise EngineError(
                    f"the model has no keyframe {request.keyframe!r}; "
                    f"it has {', '.join(known) or 'none'}"
                )
        seeds = seeds_from(request.seed, len(ids)) if request.seeded else None
        simulation.reset(self._out, ids, seeds=seeds, keyframe=keyframe)
        return m.ResetSceneResponse(success=True, message=f"{len(ids)} environments were reset")

    def _joint_state(self, env: int) -> m.GetJointStateResponse:
        state = self._simulation.state
        found = m.JointState(positions=state.qpos[env], velocities=state.qvel[env])
        return m.GetJointStateResponse(success=True, state=found)

    def _check_name(self, name: str) -> None:
        model = self._simulation.path.stem
        if name not in ("", model):
            raise EngineError(f"there is no robot {name!r} but {model!r}")
