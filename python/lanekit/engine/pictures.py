"""Pictures of environments, drawn off screen by MuJoCo."""

from __future__ import annotations

import copy
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Any, Literal

import mujoco
import numpy as np
import numpy.typing as npt

from lanekit.engine.drawing import Drawing, Shape, draw_into
from lanekit.engine.model_file import names_of
from lanekit.engine.simulation import VectorSimulation
from lanekit.errors import EngineError

Pixels = npt.NDArray[np.uint8]
Quality = Literal["plain", "fine"]

FREE_CAMERA = "free"
"""The camera that every model has: it looks at the middle from outside."""
LARGEST = 4096
"""Pixels along a side."""
_MOST_SIZES = 6
_ROOM_FOR_SHAPES = 2100


@dataclass(frozen=True)
class CameraSettings:
    """How a camera looks at its environment."""

    id: int
    """From 1; 0 means that the name counts."""
    name: str
    width: int
    height: int
    target_fps: int
    field_of_view: float
    """Vertical, in degrees."""
    near: float
    """In metres; what is nearer is not drawn."""
    far: float
    enabled: bool = True


@dataclass(frozen=True)
class Sight:
    """All that a picture is made of. Taken between two steps, it can be drawn beside the next."""

    state: npt.NDArray[np.float64]
    shapes: tuple[Shape, ...]
    camera: CameraSettings
    width: int
    height: int


class PictureMaker:
    """Draws environments as their cameras see them.

    :meth:`look` and the cameras are for the thread that steps; :meth:`draw` and :meth:`close` for
    the one that draws, since OpenGL's things belong to a thread. Both may be the same.
    """

    def __init__(
        self, simulation: VectorSimulation, drawing: Drawing, quality: Quality = "plain"
    ) -> None:
        """Draw nothing yet: what OpenGL needs is made with the first picture.

        "fine" has shadows and smooth edges; without a graphics card it takes several times as long.
        """
        if quality not in ("plain", "fine"):
            raise ValueError(f"quality is 'plain' or 'fine', not {quality!r}")
        self._simulation = simulation
        self._drawing = drawing
        self._quality: Quality = quality
        self._fine = quality == "fine"
        # A copy: sizes and angles are set in it, which the simulation's model must not notice.
        self._model: mujoco.MjModel = copy.copy(simulation.model)
        self._data = mujoco.MjData(self._model)
        self._renderers: OrderedDict[tuple[int, int], Any] = OrderedDict()
        self.drawn = 0
        looks = self._model.vis.quality
        looks.offsamples = 4 if self._fine else 0
        if not self._fine:
            looks.shadowsize = 0
            looks.numslices, looks.numstacks = 16, 8
        self._cameras = self._list_cameras()

    def twin(self) -> PictureMaker:
        """Return another that draws what this one looks at, in another thread."""
        return PictureMaker(self._simulation, self._drawing, self._quality)

    # --- cameras ---------------------------------------------------------------------------------

    @property
    def cameras(self) -> list[CameraSettings]:
        """All cameras: the model's, and the free one."""
        return list(self._cameras)

    def camera(self, number: int = 0, name: str = "") -> CameraSettings:
        """Return a camera by its number from 1, or by its name when that is 0."""
        if number:
            if number <= len(self._cameras):
                return self._cameras[number - 1]
            raise EngineError(f"there is no camera {number}; {self._known()}")
        for camera in self._cameras:
            if camera.name == (name or self._cameras[0].name):
                return camera
        raise EngineError(f"there is no camera {name!r}; {self._known()}")

    def configure(self, settings: CameraSettings) -> CameraSettings:
        """Change a camera; returns how it is now."""
        self.camera(settings.id)
        check_size(settings.width, settings.height)
        if not 0 < settings.field_of_view < 180:
            raise EngineError(
                f"a field of view is between 0 and 180 degrees, not {settings.field_of_view:g}"
            )
        if not 0 < settings.near < settings.far:
            raise EngineError(
                f"a camera sees from near to far, above 0; not from {settings.near:g} to "
                f"{settings.far:g}"
            )
        self._cameras[settings.id - 1] = settings
        return settings

    def _list_cameras(self) -> list[CameraSettings]:
        model = self._model
        names = names_of(model, mujoco.mjtObj.mjOBJ_CAMERA, model.ncam)
        angles = [*model.cam_fovy.tolist(), float(model.vis.global_.fovy)]
        extent = float(model.stat.extent)
        plain = CameraSettings(
            id=0,
            name="",
            width=320,
            height=240,
            target_fps=30,
            field_of_view=45.0,
            near=float(model.vis.map.znear) * extent,
            far=float(model.vis.map.zfar) * extent,
        )
        return [
            replace(plain, id=place + 1, name=name, field_of_view=angles[place])
            for place, name in enumerate([*names, FREE_CAMERA])
        ]

    def _known(self) -> str:
        return "there are " + ", ".join(f"{c.id} {c.name!r}" for c in self._cameras)

    # --- pictures --------------------------------------------------------------------------------

    def look(self, env: int, camera: CameraSettings, width: int, height: int) -> Sight:
        """Return what there is to draw: an environment as it is now."""
        if not camera.enabled:
            raise EngineError(f"camera {camera.name!r} is switched off; SetCameraConfig enables it")
        self._simulation.checked_env(env)
        check_size(width, height)
        state = self._simulation.batch.state[env].copy()
        return Sight(state, self._drawing.shapes(env), camera, width, height)

    def draw(self, sight: Sight, out: Pixels | None = None) -> Pixels:
        """Return the picture, [height, width, 3]."""
        renderer = self._renderer(sight.width, sight.height)
        model, data = self._model, self._data
        mujoco.mj_setState(model, data, sight.state, mujoco.mjtState.mjSTATE_INTEGRATION)
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        mujoco.mj_camlight(model, data)
        renderer.update_scene(data, self._aim(sight.camera))
        draw_into(renderer.scene, sight.shapes)
        self.drawn += 1
        pixels: Pixels = renderer.render(out=out)
        return pixels

    def _aim(self, camera: CameraSettings) -> Any:
        model, extent = self._model, float(self._model.stat.extent)
        model.vis.map.znear, model.vis.map.zfar = camera.near / extent, camera.far / extent
        if camera.id <= model.ncam:
            model.cam_fovy[camera.id - 1] = camera.field_of_view
            return camera.id - 1
        model.vis.global_.fovy = camera.field_of_view
        return -1

    def _renderer(self, width: int, height: int) -> Any:
        found = self._renderers.get((width, height))
        if found is None:
            while len(self._renderers) >= _MOST_SIZES:
                _, oldest = self._renderers.popitem(last=False)
                oldest.close()
            self._model.vis.global_.offwidth = width
            self._model.vis.global_.offheight = height
            found = self._made(width, height)
            found.scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = self._fine
            found.scene.flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = self._fine
            self._renderers[width, height] = found
        self._renderers.move_to_end((width, height))
        return found

    def _made(self, width: int, height: int) -> Any:
        # Room for the model's geoms several times over: their frames and contacts may be drawn too.
        room = 8 * self._model.ngeom + _ROOM_FOR_SHAPES
        try:
            return mujoco.Renderer(self._model, height, width, max_geom=room)
        except Exception as error:  # whatever the platform's OpenGL raises
            raise EngineError(
                f"no picture can be drawn off screen here: {error!r}. Install libegl1 with a "
                "driver (Mesa's needs no graphics card), and start the engine with MUJOCO_GL=egl"
            ) from error

    def close(self) -> None:
        """Give back what OpenGL holds."""
        while self._renderers:
            _, renderer = self._renderers.popitem()
            renderer.close()


def check_size(width: int, height: int) -> None:
    """Refuse pictures that are too large to draw."""
    if not (1 <= width <= LARGEST and 1 <= height <= LARGEST):
        raise EngineError(
            f"a picture has 1 to {LARGEST} pixels along each side, not {width}x{height}"
        )
