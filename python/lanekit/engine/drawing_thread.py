"""The thread that draws, so that steps need not wait for pictures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from lanekit.engine.pictures import CameraSettings, PictureMaker, Pixels, Sight

T = TypeVar("T")


class DrawingThread:
    """Draws pictures in a thread of its own, one after the other.

    What OpenGL needs is made, used and given back there. The thread begins with the first picture.
    """

    def __init__(self, pictures: PictureMaker) -> None:
        """Draw with this one, which nobody else draws with."""
        self._pictures = pictures
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="lanekit-drawing")
        self._used = False

    def begin(self, sight: Sight, then: Callable[[Pixels], T]) -> Future[T]:
        """Let a picture be drawn, and return at once; `then` takes it in the drawing thread."""
        return self._submit(lambda: then(self._pictures.draw(sight)))

    def fill(self, sights: Sequence[Sight], out: Sequence[Pixels]) -> None:
        """Draw pictures into arrays, and return when they are done."""

        def draw_all() -> None:
            for sight, pixels in zip(sights, out, strict=True):
                self._pictures.draw(sight, pixels)

        self._submit(draw_all).result()

    def try_out(self, env: int, camera: CameraSettings, width: int, height: int) -> None:
        """Draw one picture for nobody: what can not be drawn is raised here."""
        sight = self._pictures.look(env, camera, width, height)
        self._submit(lambda: self._pictures.draw(sight)).result()

    def close(self) -> None:
        """End the thread, after the picture that it is at."""
        if self._used:
            self._used = False
            self._thread.submit(self._pictures.close).result()
        self._thread.shutdown()

    def _submit(self, job: Callable[[], Any]) -> Future[Any]:
        self._used = True
        return self._thread.submit(job)
