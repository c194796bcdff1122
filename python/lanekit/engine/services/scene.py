"""Scene: the bodies of an environment, and how its time goes on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import mujoco
import numpy as np

from lanekit.command import Scene
from lanekit.command import messages as m
from lanekit.engine.model_file import name_of, names_of
from lanekit.engine.pace import Mode, Pace
from lanekit.engine.simulation import VectorSimulation
from lanekit.errors import EngineError

_MODES = {
    m.SimulationMode.REALTIME: Mode.REALTIME,
    m.SimulationMode.DETERMINISTIC: Mode.DETERMINISTIC,
    m.SimulationMode.FAST: Mode.FAST,
    m.SimulationMode.PAUSED: Mode.PAUSED,
}
_NAMES = {mode: message for message, mode in _MODES.items()}


class SceneService:
    """Entities are the model's bodies, numbered as in MuJoCo; the world, 0, is none."""

    def __init__(self, simulation: VectorSimulation, pace: Pace) -> None:
        """Serve a simulation that steps at a pace."""
        self._simulation = simulation
        self._pace = pace
        model = simulation.model
        self._names = names_of(model, mujoco.mjtObj.mjOBJ_BODY, model.nbody)
        self._data = mujoco.MjData(model)

    def handlers(self) -> Mapping[Any, Callable[[Any], Any]]:
        """Return the methods."""
        return {
            Scene.GetSceneInfo: self.info,
            Scene.ListEntities: self.entities,
            Scene.GetEntity: self.entity,
            Scene.SetEntityTransform: self.set_transform,
            Scene.SetSimulationMode: self.set_mode,
            Scene.GetSimulationMode: self.mode,
        }

    def info(self, request: m.GetSceneInfoRequest) -> m.GetSceneInfoResponse:
        """Tell what is simulated."""
        return m.GetSceneInfoResponse(
            scene_name=self._simulation.path.stem,
            scene_path=str(self._simulation.path),
            entity_count=len(self._names) - 1,
        )

    def entities(self, request: m.ListEntitiesRequest) -> m.ListEntitiesResponse:
        """List all bodies, with where they are if wanted."""
        env = self._simulation.checked_env(request.env_id)
        data = self._simulation.data(env, self._data) if request.include_transforms else None
        return m.ListEntitiesResponse(
            entities=[
                self._described(body, data, components=request.include_components)
                for body in range(1, len(self._names))
            ]
        )

    def entity(self, request: m.GetEntityRequest) -> m.GetEntityResponse:
        """Tell where one body is."""
        env = self._simulation.checked_env(request.env_id)
        body = self._find(request.id, request.name)
        data = self._simulation.data(env, self._data)
        return m.GetEntityResponse(entity=self._described(body, data, components=True))

    def set_transform(self, request: m.SetEntityTransformRequest) -> m.SetEntityTransformResponse:
        """Put a body elsewhere; what is absent of the transform stays as it is."""
        env = self._simulation.checked_env(request.env_id)
        body = self._find(request.id, "")
        wanted = request.transform
        if wanted is None or (wanted.position is None and wanted.rotation is None):
            raise EngineError("the request has no position and no rotation")
        if wanted.scale is not None and (wanted.scale.x, wanted.scale.y, wanted.scale.z) != (
            1.0,
            1.0,
            1.0,
        ):
            raise EngineError("bodies can not be scaled: their sizes are in the model file")
        at = wanted.position
        position = None if at is None else np.array([at.x, at.y, at.z])
        turn = wanted.rotation
        rotation = None if turn is None else np.array([turn.w, turn.x, turn.y, turn.z])
        self._place(env, body, position, rotation)
        return m.SetEntityTransformResponse(success=True)

    def set_mode(self, request: m.SetSimulationModeRequest) -> m.SetSimulationModeResponse:
        """Go over to another mode."""
        mode = _MODES[m.SimulationMode(request.mode)]
        self._pace.set(mode, request.steps)
        return m.SetSimulationModeResponse(
            success=True, message=mode.value, current_mode=_NAMES[self._pace.mode]
        )

    def mode(self, request: m.GetSimulationModeRequest) -> m.GetSimulationModeResponse:
        """Tell the mode."""
        return m.GetSimulationModeResponse(
            mode=_NAMES[self._pace.mode],
            steps_left=self._pace.steps_left,
            realtime_factor=self._pace.realtime_factor,
        )

    # --- bodies ----------------------------------------------------------------------------------

    def _find(self, number: int, name: str) -> int:
        if number:
            if number < len(self._names):
                return number
            raise EngineError(
                f"there is no entity {number}; they are numbered from 1 to {len(self._names) - 1}"
            )
        if name in self._names[1:]:
            return self._names.index(name)
        raise EngineError(f"there is no entity {name!r}; there are {', '.join(self._names[1:])}")

    def _described(
        self, body: int, data: mujoco.MjData | None, *, components: bool
    ) -> m.EntityInfo:
        transform = None
        if data is not None:
            w, x, y, z = data.xquat[body].tolist()
            transform = m.Transform(
                position=m.Vec3(*data.xpos[body].tolist()),
                rotation=m.Quat(x, y, z, w),
                scale=m.Vec3(1.0, 1.0, 1.0),
            )
        parts = self._components(body) if components else []
        return m.EntityInfo(id=body, name=self._names[body], transform=transform, components=parts)

    def _components(self, body: int) -> list[str]:
        model = self._simulation.model
        parts = []
        for kind, first, count in (
            (mujoco.mjtObj.mjOBJ_JOINT, model.body_jntadr[body], model.body_jntnum[body]),
            (mujoco.mjtObj.mjOBJ_GEOM, model.body_geomadr[body], model.body_geomnum[body]),
        ):
            label = kind.name.removeprefix("mjOBJ_").lower()
            parts += [f"{label}:{name_of(model, kind, first + i)}" for i in range(count)]
        if model.body_mocapid[body] >= 0:
            parts.append("mocap")
        return parts

    def _place(self, env: int, body: int, position: Any, rotation: Any) -> None:
        model = self._simulation.model
        if rotation is not None:
            length = np.linalg.norm(rotation)
            if not 0.5 < length < 2.0:
                raise EngineError("a rotation is a quaternion of length 1")
            rotation = rotation / length
        if position is not None and not np.isfinite(position).all():
            raise EngineError("a position has finite numbers")
        mocap = int(model.body_mocapid[body])
        if mocap >= 0:
            batch = self._simulation.batch
            if position is not None:
                batch.bind("mocap_pos")[env, mocap] = position
            if rotation is not None:
                batch.bind("mocap_quat")[env, mocap] = rotation
            return
        joint = int(model.body_jntadr[body])
        if joint < 0 or int(model.jnt_type[joint]) != int(mujoco.mjtJoint.mjJNT_FREE):
            raise EngineError(
                f"entity {self._names[body]!r} hangs on its joints and can not be placed; "
                "SetQpos moves them. Free bodies and mocap bodies can be placed"
            )
        place = int(model.jnt_qposadr[joint])
        if position is not None:
            self._simulation.set_qpos(env, np.arange(place, place + 3), position)
        if rotation is not None:
            self._simulation.set_qpos(env, np.arange(place + 3, place + 7), rotation)
