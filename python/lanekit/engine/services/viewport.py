"""Viewport: what people look at."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from lanekit.command import Viewport as ViewportMethods
from lanekit.command import messages as m
from lanekit.engine.drawing_threads import DrawingThreads
from lanekit.engine.services.camera import check_format, drawn_frames
from lanekit.engine.viewport import MAIN, Viewport
from lanekit.errors import EngineError


class ViewportService:
    """Tells about the viewport and streams it."""

    def __init__(self, viewport: Viewport, drawing: DrawingThreads) -> None:
        """Serve a viewport."""
        self._viewport = viewport
        self._drawing = drawing
        self._streams = 0

    def handlers(self) -> Mapping[Any, Callable[[Any], Any]]:
        """Return the methods."""
        return {
            ViewportMethods.GetViewportInfo: self.info,
            ViewportMethods.StreamViewport: self.stream,
        }

    def info(self, request: m.GetViewportInfoRequest) -> m.GetViewportInfoResponse:
        """Tell which viewports there are, and how this one looks."""
        viewport = self._viewport
        return m.GetViewportInfoResponse(
            available_viewports=[MAIN],
            current_config=m.ViewportConfig(
                viewport_name=MAIN,
                streaming=self._streams > 0 or viewport.watched,
                fps=round(viewport.fps),
                width=viewport.width,
                height=viewport.height,
                camera_name=viewport.camera,
                env_id=viewport.env,
                fast_lane_run=viewport.run,
            ),
        )

    def stream(self, request: m.StreamViewportRequest) -> Iterator[m.ImageFrame | None]:
        """Look at an environment, and send pictures of it again and again."""
        check_format(request.format)
        if request.viewport_name not in ("", MAIN):
            raise EngineError(f"there is no viewport {request.viewport_name!r} but {MAIN!r}")
        viewport = self._viewport
        viewport.turn_to(request.env_id, request.camera_name)
        width, height = request.width or viewport.width, request.height or viewport.height
        camera = viewport.settings
        self._drawing.try_out(viewport.env, camera, width, height)  # told at once, if it can not be
        return self._frames(width, height)

    def _frames(self, width: int, height: int) -> Iterator[m.ImageFrame | None]:
        viewport = self._viewport
        self._streams += 1
        try:
            yield from drawn_frames(
                self._drawing, lambda: (viewport.look(width, height), viewport.env)
            )
        finally:
            self._streams -= 1
