"""What a worker prints so that its run is recorded: one JSON object per line on stdout.

For example::

    from lanekit.slow import emit

    emit.run_started()
    emit.step(0, 0, action=1, observation=observation, reward=1.0)
    emit.episode(0, episode_return=23.0, length=23, terminated=True)
    emit.run_completed()

Standard library only; numpy's scalars and arrays are taken as they are. Each line is one write and
is flushed. Lines may come from several threads, from signal handlers, and from processes that were
forked off.

JSON has no NaN and no infinity. Within ``observation``, ``action``, ``info``, ``render_hint`` and
an event's payload they become null. A reward or return that is not finite is written as Python's
json writes it (``NaN``): such a line is counted and kept in the proxy's reject file, not in the
store.

When the reader is gone, emitting raises ``BrokenPipeError``, as any print does.
"""

from __future__ import annotations

import base64
import fcntl
import json
import math
import os
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, TextIO

__all__ = [
    "Emitter",
    "episode",
    "event",
    "expect_other_processes",
    "heartbeat",
    "run_completed",
    "run_failed",
    "run_started",
    "step",
    "telemetry_of_this_run",
]


class Emitter:
    """Writes telemetry lines to a stream: `sys.stdout`, whatever it is then, if none is given.

    `shared`: other processes that were not forked off write into the stream, too.
    """

    def __init__(self, stream: TextIO | None = None, *, shared: bool = False) -> None:
        self._stream = stream
        self._lock = threading.RLock()  # a signal's handler may find it in its own thread's hands
        self._writer: int | None = None  # the thread that is inside the stream
        self._late: deque[str] = deque()
        self._shared = shared or _others_are_expected
        _EMITTERS.add(self)

    def step(
        self,
        episode_index: int,
        step_index: int,
        *,
        reward: Any = None,
        action: Any = None,
        observation: Any = None,
        terminated: Any = False,
        truncated: Any = False,
        info: Any = None,
        render_hint: Any = None,
        seed: int | None = None,
        frame: Any = None,
        agent_id: str | int | None = None,
        worker_id: str | int | None = None,
    ) -> None:
        """Report one step. What is None is left out. `frame`: uint8, (h, w) or (h, w, c)."""
        line: dict[str, Any] = {
            "event_type": "step",
            "episode_index": episode_index,
            "step_index": step_index,
        }
        if action is not None:
            line["action"] = action
        if observation is not None:
            line["observation"] = observation
        if reward is not None:
            line["reward"] = reward
        if terminated:
            line["terminated"] = True
        if truncated:
            line["truncated"] = True
        if info is not None:
            line["info"] = info
        if render_hint is not None:
            line["render_hint"] = render_hint
        if frame is not None:
            line["frame"] = encode_frame(frame)
        self._finish(line, seed, agent_id, worker_id)

    def episode(
        self,
        episode_index: int,
        *,
        episode_return: Any = None,
        length: int | None = None,
        terminated: Any = False,
        truncated: Any = False,
        seed: int | None = None,
        info: Any = None,
        agent_id: str | int | None = None,
        worker_id: str | int | None = None,
    ) -> None:
        """Report a finished episode."""
        line: dict[str, Any] = {"event_type": "episode", "episode_index": episode_index}
        if episode_return is not None:
            line["return"] = episode_return
        if length is not None:
            line["length"] = length
        if terminated:
            line["terminated"] = True
        if truncated:
            line["truncated"] = True
        if info is not None:
            line["info"] = info
        self._finish(line, seed, agent_id, worker_id)

    def event(self, name: str, /, **payload: Any) -> None:
        """Report anything that happens once."""
        line: dict[str, Any] = {"event": name}
        if payload:
            line["payload"] = payload
        self._finish(line, None, None, None)

    def run_started(self, **payload: Any) -> None:
        """Tell that training begins, e.g. with its configuration."""
        self.event("run_started", **payload)

    def heartbeat(self, **payload: Any) -> None:
        """Tell that the worker is alive while it has no step to report."""
        self.event("heartbeat", **payload)

    def run_completed(self, **payload: Any) -> None:
        """Tell that training reached its end."""
        self.event("run_completed", **payload)

    def run_failed(self, error: object, **payload: Any) -> None:
        """Tell that training failed, and why."""
        if isinstance(error, BaseException):
            error = f"{type(error).__name__}: {error}"
        self.event("run_failed", error=str(error), **payload)

    def _finish(
        self,
        line: dict[str, Any],
        seed: int | None,
        agent_id: str | int | None,
        worker_id: str | int | None,
    ) -> None:
        if seed is not None:
            line["seed"] = seed
        if agent_id is not None:
            line["agent_id"] = str(agent_id)
        if worker_id is not None:
            line["worker_id"] = str(worker_id)
        line["time_ns"] = time.time_ns()
        self.write_line(_encode(line) + "\n")

    def write_line(self, text: str) -> None:
        """Write a line that was made elsewhere, whole; it must end with a line end."""
        if self._writer == threading.get_ident():
            self._late.append(text)  # a signal's handler, in the midst of a line: after that one
            return
        try:
            self._write_whole(text)
        finally:
            if self._late:  # also if the handler then ended the program by an exception
                self._write_whole()

    def _write_whole(self, text: str = "") -> None:
        with self._lock:
            self._writer = threading.get_ident()
            try:
                while self._late:
                    self._write(self._late.popleft())
                if text:
                    self._write(text)
            finally:
                self._writer = None

    def _write(self, text: str) -> None:
        stream = sys.stdout if self._stream is None else self._stream
        raw = getattr(stream, "buffer", None)
        if raw is None:
            stream.write(text)
            stream.flush()
            return
        stream.flush()  # prints before this line stay before it
        if not self._shared:
            raw.write(text.encode())
            raw.flush()
            return
        # Processes share the pipe, and it takes only short lines in one piece. Record locks
        # belong to a process, so they keep the lines of parent and children apart.
        locked = _lock(raw, fcntl.LOCK_EX)
        try:
            raw.write(text.encode())
            raw.flush()
        finally:
            if locked:
                _lock(raw, fcntl.LOCK_UN)


def _lock(file: Any, operation: int) -> bool:
    try:
        fcntl.lockf(file, operation)
    except OSError:  # not every stream can be locked
        return False
    return True


def encode_frame(frame: Any) -> dict[str, Any]:
    """Return what a line holds of a frame: a uint8 array (or buffer) of 2 or 3 dimensions."""
    if not isinstance(frame, memoryview) and hasattr(frame, "__array__"):
        import numpy  # an array is here, so numpy is too

        frame = numpy.ascontiguousarray(frame)
    view = memoryview(frame)
    if view.format != "B" or view.ndim not in (2, 3):
        raise ValueError(
            "a frame is a uint8 array of shape (height, width) or (height, width, channels); got "
            f"format {view.format!r}, {view.ndim} dimensions"
        )
    assert view.shape is not None
    channels = view.shape[2] if view.ndim == 3 else 1
    if channels not in (1, 3, 4) or 0 in view.shape:
        raise ValueError(
            f"a frame has 1, 3 or 4 channels and is not empty; got shape {tuple(view.shape)}"
        )
    return {
        "width": view.shape[1],
        "height": view.shape[0],
        "channels": channels,
        "pixels": base64.b64encode(
            view.cast("B") if view.c_contiguous else view.tobytes()
        ).decode(),
    }


def _plain(value: Any) -> Any:
    """Return what json does not know as something it does."""
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    if hasattr(value, "tolist"):  # numpy's arrays and scalars, torch's tensors
        return value.tolist()
    if isinstance(value, set | frozenset):
        return list(value)
    raise TypeError(
        f"{type(value).__name__} can not be written as JSON; convert it to numbers, text, lists "
        "and dicts"
    )


_SHAPELESS = ("observation", "action", "info", "render_hint", "payload")
_encode_finite: Callable[[Any], str] = json.JSONEncoder(
    default=_plain, separators=(",", ":"), allow_nan=False
).encode
_encode_any: Callable[[Any], str] = json.JSONEncoder(default=_plain, separators=(",", ":")).encode


def _encode(line: dict[str, Any]) -> str:
    try:
        return _encode_finite(line)
    except ValueError:
        _encode_any(line)  # raises again if it is not about a number, but a list within itself
    for key in _SHAPELESS:
        if key in line:
            line[key] = _finite(line[key])
    return _encode_any(line)


def _finite(value: Any) -> Any:
    """Return a value with null in place of each number that is none."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return _finite(_plain(value))


_EMITTERS: weakref.WeakSet[Emitter] = weakref.WeakSet()
_others_are_expected = False
_held: list[Emitter] = []


def _before_fork() -> None:
    # No line is half written while the process is copied.
    _held[:] = list(_EMITTERS)
    for emitter in _held:
        emitter._lock.acquire()
        emitter._shared = True


def _after_fork() -> None:
    for emitter in _held:
        emitter._lock.release()
    _held.clear()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)


def expect_other_processes() -> None:
    """Keep long lines whole although processes not forked off from this one write into its pipe."""
    global _others_are_expected
    _others_are_expected = True
    for emitter in list(_EMITTERS):
        emitter._shared = True


def telemetry_of_this_run() -> Emitter | None:
    """Return where this process reports to; None if no proxy listens, as in a run by hand.

    That is stdout in the worker itself and in what it forks off. A framework may start processes
    whose stdout goes elsewhere (Ray's actors, for one): these write into the worker's pipe.
    """
    path = os.environ.get("LANEKIT_TELEMETRY_FIFO")
    if not path:
        return None
    try:
        if os.path.samestat(os.stat(path), os.fstat(1)):
            return _default
        # Without waiting for a reader: the proxy, and the worker's keeper, are gone together.
        file = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    os.set_blocking(file, True)
    return Emitter(open(file, "w", encoding="utf-8"), shared=True)


_default = Emitter()
step = _default.step
episode = _default.episode
event = _default.event
run_started = _default.run_started
heartbeat = _default.heartbeat
run_completed = _default.run_completed
run_failed = _default.run_failed
