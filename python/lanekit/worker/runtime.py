"""What surrounds a training: its life-cycle events, its heartbeat, and whoever wants it to stop."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from types import FrameType
from typing import Any, Generic, TypeVar

from lanekit.slow.control import ControlInbox
from lanekit.slow.emit import Emitter
from lanekit.worker.config import WorkerConfig

Config = TypeVar("Config", bound=WorkerConfig)

HEARTBEAT_SECONDS = 2.0


class WorkerRuntime(ABC, Generic[Config]):
    """Runs a training as the slow lane knows it. Derive, and write :meth:`train`.

    Around it, ``run_started``, a ``heartbeat`` every other second, and ``run_completed`` or
    ``run_failed`` are reported. SIGTERM and the commands of ``lanekit control`` reach the training
    through :meth:`keep_going`.
    """

    def __init__(self, config: Config, *, telemetry: Emitter | None = None) -> None:
        self.config = config
        self.telemetry = telemetry or Emitter()
        self._inbox = ControlInbox.from_environment(self.telemetry)
        self._terminated = threading.Event()
        self._over = threading.Event()
        self._step = 0
        self._numbers: dict[str, Any] = {}

    @abstractmethod
    def train(self) -> Mapping[str, Any] | None:
        """Train, and return what shall be said about it at the end.

        Call :meth:`keep_going` every few steps, and return soon after it said False.
        """

    def keep_going(self) -> bool:
        """Stay here while the run is paused; False means: end the training now."""
        # A pause must not outlast SIGTERM, so it is slept through in slices.
        while not self._terminated.is_set():
            if not self._inbox.wait_while_paused(timeout=0.1):
                return False
            if not self._inbox.paused:
                return not self._terminated.is_set()
        return False

    def progress(self, step: int, **numbers: Any) -> None:
        """Say how far the training is; the next heartbeat tells it on."""
        self._step = step
        if numbers:
            self._numbers = numbers

    def run(self) -> dict[str, Any]:
        """Train from start to end, and return the summary that was reported."""
        began = time.monotonic()
        with self._sigterm_ends_the_training(), contextlib.closing(self._inbox):
            self.telemetry.run_started(**self.config.to_dict())
            beating = threading.Thread(target=self._beat, name="lanekit-heartbeat", daemon=True)
            beating.start()
            try:
                result = self.train()
            except BaseException as error:
                self._stop_beating(beating)
                self.telemetry.run_failed(error)
                raise
            self._stop_beating(beating)
            summary = {
                "status": "stopped" if self._was_stopped() else "completed",
                "seconds": round(time.monotonic() - began, 3),
                **(result or {}),
            }
            self.telemetry.run_completed(**summary)
            return summary

    def _was_stopped(self) -> bool:
        return self._terminated.is_set() or self._inbox.stopped

    def _beat(self) -> None:
        while not self._over.wait(HEARTBEAT_SECONDS):
            total = getattr(self.config, "total_steps", None)
            self.telemetry.heartbeat(step=self._step, total_steps=total, **self._numbers)

    def _stop_beating(self, beating: threading.Thread) -> None:
        self._over.set()
        beating.join()

    @contextlib.contextmanager
    def _sigterm_ends_the_training(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield  # only the main thread may handle signals
            return

        def terminate(number: int, frame: FrameType | None) -> None:
            self._terminated.set()

        before = signal.signal(signal.SIGTERM, terminate)
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, before)
