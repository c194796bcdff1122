"""The threads that draw, so that steps need not wait for pictures, nor pictures for each other."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, TypeVar

from lanekit.engine.pictures import CameraSettings, PictureMaker, Pixels, Sight

T = TypeVar("T")

# Fewer pictures than this for each are not worth another thread and all that OpenGL needs in it.
_LEAST_SHARE = 4
# With a screen MuJoCo takes GLFW, which is not for several threads.
_OFF_SCREEN = ("egl", "osmesa")


class DrawingThreads:
    """Draws pictures in threads of its own: single ones in the first, many at once in all of them.

    A thread begins with its first picture.
    """

    def __init__(self, pictures: PictureMaker, threads: int = 1) -> None:
        """Draw with this one, which nobody else draws with, and with up to `threads` - 1 twins."""
        self._pictures = pictures
        self._threads = threads if os.environ.get("MUJOCO_GL", "").lower() in _OFF_SCREEN else 1
        self._painters = [_Painter(pictures)]

    def begin(self, sight: Sight, then: Callable[[Pixels], T]) -> Future[T]:
        """Let a picture be drawn, and return at once; `then` takes it in the drawing thread."""
        return self._painters[0].submit(lambda: then(self._pictures.draw(sight)))

    def fill(self, sights: Sequence[Sight], out: Sequence[Pixels]) -> None:
        """Draw pictures into arrays, and return when they are done."""
        painters = self._painters_for(len(sights))
        share = -(-len(sights) // len(painters))
        jobs = []
        for place, painter in enumerate(painters):
            part = slice(place * share, (place + 1) * share)
            jobs.append(painter.submit(functools.partial(painter.fill, sights[part], out[part])))
        wait(jobs)  # all of them, also if one fails: the arrays are the caller's again after this
        for job in jobs:
            job.result()

    def try_out(self, env: int, camera: CameraSettings, width: int, height: int) -> None:
        """Draw one picture for nobody: what can not be drawn is raised here."""
        sight = self._pictures.look(env, camera, width, height)
        self._painters[0].submit(lambda: self._pictures.draw(sight)).result()

    def close(self) -> None:
        """End the threads, after the pictures that they are at."""
        for painter in self._painters:
            painter.close()

    def _painters_for(self, count: int) -> list[_Painter]:
        wanted = max(1, min(self._threads, count // _LEAST_SHARE))
        while len(self._painters) < wanted:
            self._painters.append(_Painter(self._pictures.twin()))
        return self._painters[:wanted]


class _Painter:
    """One thread: what OpenGL needs is made, used and given back there."""

    def __init__(self, pictures: PictureMaker) -> None:
        self._pictures = pictures
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="lanekit-drawing")
        self._used = False

    def submit(self, job: Callable[[], Any]) -> Future[Any]:
        self._used = True
        return self._thread.submit(job)

    def fill(self, sights: Sequence[Sight], out: Sequence[Pixels]) -> None:
        """In the thread: draw one after the other."""
        for sight, pixels in zip(sights, out, strict=True):
            self._pictures.draw(sight, pixels)

    def close(self) -> None:
        if self._used:
            self._used = False
            self._thread.submit(self._pictures.close).result()
        self._thread.shutdown()
