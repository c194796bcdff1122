"""Camera: pictures of environments, in messages or in the lane's image region."""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from lanekit.command import Camera
from lanekit.command import messages as m
from lanekit.engine.drawing_threads import DrawingThreads
from lanekit.engine.pictures import CameraSettings, PictureMaker, Pixels, Sight
from lanekit.engine.simulation import VectorSimulation
from lanekit.errors import EngineError

_RAW = "raw"


@dataclass(eq=False)
class ImageSubscription:
    """A camera whose pictures go into the lane's image region."""

    camera: CameraSettings
    envs: list[int]
    interval: float
    due: float = 0.0
    rounds: int = 0
    """How often all of its environments were drawn."""


class CameraService:
    """Draws what cameras see."""

    def __init__(
        self,
        simulation: VectorSimulation,
        pictures: PictureMaker,
        drawing: DrawingThreads,
        images: npt.NDArray[np.uint8] | None,
    ) -> None:
        """Serve the pictures; `images` is the lane's region, if it has one."""
        self._simulation = simulation
        self._pictures = pictures
        self._drawing = drawing
        self._images = images
        self._subscriptions: list[ImageSubscription] = []

    def handlers(self) -> Mapping[Any, Callable[[Any], Any]]:
        """Return the methods."""
        return {
            Camera.ListCameras: self.cameras,
            Camera.StreamCamera: self.stream,
            Camera.GetCameraConfig: self.config,
            Camera.SetCameraConfig: self.set_config,
        }

    def cameras(self, request: m.ListCamerasRequest) -> m.ListCamerasResponse:
        """List the model's cameras and the free one."""
        return m.ListCamerasResponse(
            cameras=[m.CameraInfo(camera.id, camera.name) for camera in self._pictures.cameras]
        )

    def config(self, request: m.GetCameraConfigRequest) -> m.GetCameraConfigResponse:
        """Tell how a camera looks."""
        camera = self._pictures.camera(request.id, request.name)
        return m.GetCameraConfigResponse(config=_message(camera))

    def set_config(self, request: m.SetCameraConfigRequest) -> m.SetCameraConfigResponse:
        """Change how a camera looks; numbers that are 0 leave it as it is."""
        wanted = request.config
        if wanted is None:
            raise EngineError("the request has no camera in it")
        before = self._pictures.camera(wanted.id, wanted.name)
        now = self._pictures.configure(
            replace(
                before,
                width=wanted.width or before.width,
                height=wanted.height or before.height,
                target_fps=wanted.target_fps or before.target_fps,
                field_of_view=wanted.field_of_view_degrees or before.field_of_view,
                near=wanted.near_clip or before.near,
                far=wanted.far_clip or before.far,
                enabled=wanted.enabled,
            )
        )
        return m.SetCameraConfigResponse(success=True, config=_message(now))

    def stream(self, request: m.StreamCameraRequest) -> Iterator[m.ImageFrame | None]:
        """Send pictures again and again, or write them into the image region."""
        check_format(request.format)
        camera = self._pictures.camera(request.id, request.name)
        envs = [self._simulation.checked_env(int(env)) for env in request.env_ids] or [0]
        if request.into_images:
            return self._announced(self._subscribe(request, camera, envs))
        width, height = request.width or camera.width, request.height or camera.height
        # The first one now: what can not be drawn is told at once, not by a stream that ends.
        self._drawing.try_out(envs[0], camera, width, height)
        return self._frames(camera.id, envs, width, height)

    # --- in messages -----------------------------------------------------------------------------

    def _frames(
        self, camera_id: int, envs: list[int], width: int, height: int
    ) -> Iterator[m.ImageFrame | None]:
        turns = itertools.cycle(envs)

        def look() -> tuple[Sight, int]:
            env = next(turns)
            return self._pictures.look(env, self._pictures.camera(camera_id), width, height), env

        return drawn_frames(self._drawing, look)

    # --- in the image region ---------------------------------------------------------------------

    def _subscribe(
        self, request: m.StreamCameraRequest, camera: CameraSettings, envs: list[int]
    ) -> ImageSubscription:
        if self._images is None:
            raise EngineError(
                "the lane has no image region; start the engine with --image WIDTHxHEIGHT, or "
                "stream without into_images"
            )
        _, height, width, channels = self._images.shape
        if (request.width or width, request.height or height) != (width, height):
            raise EngineError(
                f"the lane's images have {width}x{height} pixels, not "
                f"{request.width}x{request.height}; leave the size out, or start the engine with "
                "another --image"
            )
        if channels != 3:
            raise EngineError(f"the lane's images have {channels} channels, and pictures have 3")
        self._drawing.try_out(envs[0], camera, width, height)
        interval = 1.0 / request.target_fps if request.target_fps else 0.0
        return ImageSubscription(camera, envs, interval)

    def _announced(self, subscription: ImageSubscription) -> Iterator[m.ImageFrame | None]:
        self._subscriptions.append(subscription)
        told = 0
        try:
            while True:
                if subscription.rounds == told or self._images is None:
                    yield None
                    continue
                told = subscription.rounds
                _, height, width, channels = self._images.shape
                yield m.ImageFrame(
                    width=width,
                    height=height,
                    channels=channels,
                    format=_RAW,
                    timestamp_ms=time.time_ns() // 1_000_000,
                    frame_number=told,
                    env_id=subscription.envs[0],
                )
        finally:
            self._subscriptions.remove(subscription)

    @property
    def writing_images(self) -> bool:
        """Whether somebody wants pictures in the image region."""
        return bool(self._subscriptions)

    def write_images(self) -> None:
        """Draw what is due into the image region. Only while the lane is the engine's to write."""
        if self._images is None:
            return
        now = time.monotonic()
        _, height, width, _ = self._images.shape
        for subscription in self._subscriptions:
            if now < subscription.due:
                continue
            subscription.due = max(subscription.due + subscription.interval, now)
            camera = self._pictures.camera(subscription.camera.id)
            if camera.enabled:
                envs = subscription.envs
                sights = [self._pictures.look(env, camera, width, height) for env in envs]
                self._drawing.fill(sights, [self._images[env] for env in envs])
                subscription.rounds += 1


def drawn_frames(
    drawing: DrawingThreads, look: Callable[[], tuple[Sight, int]]
) -> Iterator[m.ImageFrame | None]:
    """Yield what `look` sees, and of which environment, again and again; None while it is drawn."""
    for number in itertools.count(1):
        sight, env = look()
        made = drawing.begin(sight, functools.partial(image_frame, number=number, env=env))
        try:
            while not made.done():
                yield None
        finally:
            made.cancel()
        yield made.result()


def check_format(name: str) -> None:
    """Refuse formats that would need a library."""
    if name not in ("", _RAW):
        raise EngineError(f"pictures are sent as {_RAW!r}, not as {name!r}")


def image_frame(pixels: Pixels, number: int, env: int) -> m.ImageFrame:
    """Return a picture as a message."""
    height, width, channels = pixels.shape
    return m.ImageFrame(
        data=pixels.tobytes(),
        width=width,
        height=height,
        channels=channels,
        format=_RAW,
        timestamp_ms=time.time_ns() // 1_000_000,
        frame_number=number,
        env_id=env,
    )


def _message(camera: CameraSettings) -> m.CameraConfig:
    return m.CameraConfig(
        id=camera.id,
        name=camera.name,
        width=camera.width,
        height=camera.height,
        target_fps=camera.target_fps,
        field_of_view_degrees=camera.field_of_view,
        near_clip=camera.near,
        far_clip=camera.far,
        enabled=camera.enabled,
    )
