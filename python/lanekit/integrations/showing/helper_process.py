"""A process that fills a run's lane in the training process's stead, while somebody watches.

Until a viewer comes, :class:`StandIn` holds the run's lane itself, empty. Then it starts
``python -m lanekit.integrations.shadow``, and when that is ready, leaves the lane to it; viewers
follow. If the process dies, the lane is taken back and the process started again, a few times.

The request goes to the process in a file (its standard input), the word that it is ready comes back
through a pipe, and its last words, should it fail, are in a file: none of these can make the
training process wait. The process ends by itself when its parent is gone, however that came about.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Callable
from typing import IO

from lanekit.errors import LanekitError
from lanekit.integrations.child_process import end_child
from lanekit.integrations.showing.lanes import PictureLane

ATTEMPTS = 3
"""How often the process is started before it is given up."""

_CHECK_EVERY_NS = 250_000_000


class HelperFailed(LanekitError):
    """The process that should draw has died too often."""


class HelperProcess:
    """One running ``python -m lanekit.integrations.shadow``."""

    def __init__(self, request: bytes) -> None:
        self._last_words: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        with tempfile.TemporaryFile() as order:
            order.write(request)
            order.seek(0)
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "lanekit.integrations.shadow"],
                stdin=order,
                stdout=subprocess.PIPE,
                stderr=self._last_words,
                env=_environment(),
                process_group=0,  # Ctrl-C is for the training process, which ends this one
            )
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)
        self._ready = False
        self._finalizer = weakref.finalize(self, _end, self._process, self._last_words, os.getpid())

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._process.poll() is None

    @property
    def ready(self) -> bool:
        """Whether it has said that it can draw."""
        if not self._ready:
            assert self._process.stdout is not None
            self._ready = bool(self._process.stdout.read(1))
        return self._ready

    @property
    def last_words(self) -> str:
        """The last line it wrote."""
        self._last_words.seek(0)
        lines = self._last_words.read().decode("utf-8", "replace").split("\n")
        said = [line.strip() for line in lines if line.strip()]
        status = self._process.poll()
        return said[-1] if said and status != 0 and (status or 0) > 0 else f"status {status}"

    def stop(self) -> None:
        """End it, and wait until it has removed its segment."""
        self._finalizer()


def _environment() -> dict[str, str]:
    """Return the variables of a process that draws off screen and computes little."""
    ours = {
        "SDL_NO_SIGNAL_HANDLERS": "1",
        "SDL_VIDEODRIVER": "dummy",
        "SDL_AUDIODRIVER": "dummy",
        "PYGAME_HIDE_SUPPORT_PROMPT": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
    }
    environment = {**os.environ, **ours}
    if "DISPLAY" not in environment and "WAYLAND_DISPLAY" not in environment:
        environment.setdefault("MUJOCO_GL", "egl")
    return environment


def _end(process: subprocess.Popen[bytes], last_words: IO[bytes], owner: int) -> None:
    last_words.close()
    assert process.stdout is not None
    process.stdout.close()
    end_child(process, owner)


class StandIn:
    """Holds a run's lane while nobody watches, and has a process fill it while somebody does."""

    def __init__(self, run_id: str, request: Callable[[], bytes]) -> None:
        self._run_id = run_id
        self._request = request
        self._lane: PictureLane | None = PictureLane(run_id, capacity=1)
        self._helper: HelperProcess | None = None
        self._attempts = 0
        self._check_at_ns = 0

    @property
    def helper_pid(self) -> int | None:
        """The process id of the helper, if there is one."""
        return None if self._helper is None else self._helper.pid

    def attend(self, now_ns: int) -> None:
        """Do what is due: start the process, leave it the lane, notice that it died.

        Never waits. Raises :class:`HelperFailed` when the process has died too often.
        """
        if self._lane is not None:
            if self._helper is None:
                if self._lane.watched:
                    self._attempts += 1
                    self._helper = HelperProcess(self._request())
            elif self._helper.ready:
                self._lane.close()
                self._lane = None
                return
        if self._helper is not None and now_ns >= self._check_at_ns:
            self._check_at_ns = now_ns + _CHECK_EVERY_NS
            if not self._helper.alive:
                self._recover()

    def _recover(self) -> None:
        assert self._helper is not None
        words = self._helper.last_words
        self._helper.stop()
        self._helper = None
        if self._attempts >= ATTEMPTS:
            raise HelperFailed(
                f"the process that draws run {self._run_id!r} ended {self._attempts} times, the "
                f"last time with: {words}"
            )
        if self._lane is None:
            self._lane = PictureLane(self._run_id, capacity=1)

    def close(self) -> None:
        """End the process and remove the lane."""
        if self._helper is not None:
            self._helper.stop()
            self._helper = None
        if self._lane is not None:
            self._lane.close()
            self._lane = None
