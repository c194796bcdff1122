"""What surrounds a training: its life-cycle events, its heartbeat, and whoever wants it to stop."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from lanekit.slow.control import ControlInbox
from lanekit.slow.emit import Emitter
from lanekit.worker.config import WorkerConfig
from lanekit.worker.lasting_emitter import LastingEmitter, warn
from lanekit.worker.termination import Terminated, Termination

Config = TypeVar("Config", bound=WorkerConfig)

HEARTBEAT_SECONDS = 2.0
LOOK_SECONDS = 0.02
"""How often :meth:`WorkerRuntime.keep_going` looks for commands: a look is a system call."""
PAUSE_SLICE = 0.1
"""SIGTERM ends a pause within this many seconds."""


class WorkerRuntime(ABC, Generic[Config]):
    """Runs a training as the slow lane knows it. Derive, and write :meth:`train`.

    Around it, ``run_started``, a ``heartbeat`` every other second and one at the end, and
    ``run_completed`` or ``run_failed`` are reported. SIGTERM and the commands of ``lanekit
    control`` reach the training through :meth:`keep_going`. A training that does not ask is ended
    some seconds after SIGTERM, by an exception; a second SIGTERM does that at once.
    """

    def __init__(self, config: Config, *, telemetry: Emitter | None = None) -> None:
        self.config = config
        self.telemetry = telemetry or LastingEmitter()
        self._inbox = _open_inbox(self.telemetry)
        self._termination = Termination()
        self._over = threading.Event()
        self._next_look = 0.0
        self._step = 0
        self._numbers: dict[str, Any] = {}

    @abstractmethod
    def train(self) -> Mapping[str, Any] | None:
        """Train, and return what shall be said about it at the end.

        Call :meth:`keep_going` every few steps, and return soon after it said False.
        """

    def keep_going(self) -> bool:
        """Stay here while the run is paused; False means: end the training now."""
        if self.stopped:
            return False
        now = time.monotonic()
        if now < self._next_look:
            return True
        # A pause must not outlast SIGTERM, so it is slept through in slices.
        while self._inbox.wait_while_paused(timeout=PAUSE_SLICE) and self._inbox.paused:
            if self._termination.asked:
                return False
        self._next_look = time.monotonic() + LOOK_SECONDS
        return not self.stopped

    @property
    def stopped(self) -> bool:
        """Whether the training was asked to end early."""
        return self._termination.asked or self._inbox.stopped

    def progress(self, step: int, **numbers: Any) -> None:
        """Say how far the training is; the next heartbeat tells it on."""
        self._step = step
        if numbers:
            self._numbers = numbers

    def run(self) -> dict[str, Any]:
        """Train from start to end, and return the summary that was reported."""
        # A window library that an environment draws with would take SIGTERM for itself.
        os.environ.setdefault("SDL_NO_SIGNAL_HANDLERS", "1")
        began = time.monotonic()
        self._over.clear()
        beating = threading.Thread(target=self._beat, name="lanekit-heartbeat", daemon=True)
        with contextlib.closing(self._inbox), self._termination.watched():
            try:
                self.telemetry.run_started(**self.config.to_dict())
                beating.start()
                result = self._train()
            except KeyboardInterrupt:
                self._finish_beating(beating)
                self.telemetry.run_completed(status="stopped", reason="Ctrl-C")
                raise
            except BaseException as error:
                self._finish_beating(beating)
                self.telemetry.run_failed(error)
                raise
            self._finish_beating(beating)
            summary = {
                "seconds": round(time.monotonic() - began, 3),
                **result,
                "status": "stopped" if self.stopped else "completed",
            }
            self._report_completed(summary)
            return summary

    def _train(self) -> Mapping[str, Any]:
        try:
            with self._termination.enforced():
                result = self.train()
        except Terminated:
            warn("train() did not ask keep_going() in time after SIGTERM; it was interrupted")
            return {"interrupted": True}
        if result is not None and not isinstance(result, Mapping):
            raise TypeError(f"train() returns a mapping or None, not {type(result).__name__}")
        return {} if result is None else {str(key): value for key, value in result.items()}

    def _report_completed(self, summary: dict[str, Any]) -> None:
        try:
            self.telemetry.run_completed(**summary)
        except (TypeError, ValueError) as error:  # the training itself went well
            warn(f"what train() returned can not be told: {error}")
            own = {key: summary[key] for key in ("seconds", "status")}
            self.telemetry.run_completed(**own, problem=str(error))

    def _beat(self) -> None:
        complained = False
        while True:
            over = self._over.wait(HEARTBEAT_SECONDS)
            total = getattr(self.config, "total_steps", None)
            numbers = {"step": self._step, "total_steps": total, **self._numbers}
            try:
                self.telemetry.heartbeat(**numbers)
            except (TypeError, ValueError) as error:
                self.telemetry.heartbeat(step=self._step)
                if not complained:
                    warn(f"what progress() was given can not be told: {error}")
                complained = True
            if over:
                return
            self._termination.insist()

    def _finish_beating(self, beating: threading.Thread) -> None:
        self._over.set()
        if beating.ident is not None:
            beating.join()


def _open_inbox(telemetry: Emitter) -> ControlInbox:
    try:
        return ControlInbox.from_environment(telemetry)
    except OSError as error:
        path = os.environ.get("LANEKIT_CONTROL_FIFO")
        warn(
            f"no command can reach this worker: {path} (LANEKIT_CONTROL_FIFO) can not be opened: "
            f"{error.strerror}; training goes on. Only a proxy should set that variable"
        )
        return ControlInbox(None)
