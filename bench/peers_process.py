"""The two processes of one way to move frames: a writer and a reader, each on its core.

Both answer every message: ``("open", task)``, what they are asked to do, and ``"close"``. What
goes wrong is an answer, too, so that a way that fails is listed with its reason.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from bench import machine
from bench.companion import Companion
from bench.peers.frames import ARRAYS, FramePeer, Pixels, Publish, Receive, Task
from bench.samples import undisturbed

_SLEEP = 0.1
_OPENING = 30.0
_GAPS_SECONDS = (0.0002, 0.002)
_SETTLE_SECONDS = 0.05
_BLOCKED_NS = 5_000_000
_FEW_NS, _NONE_NS = 100_000_000, 10_000_000_000
END = 2**64 - 1
"""The mark of a frame that only ends a wait."""


class Failed(Exception):
    """One of the two processes said why it can not go on."""


# --- the writer -----------------------------------------------------------------------------------


class _Writer:
    """Publishes frames that it marks beforehand, several in turn, as an environment makes them."""

    def __init__(self, publish: Publish, task: Task) -> None:
        random = np.random.default_rng(1)
        self._publish = publish
        made = [random.integers(0, 256, task.shape, np.uint8) for _ in range(ARRAYS)]
        self._frames: Iterator[tuple[Pixels, Any]] = itertools.cycle(
            (frame, memoryview(frame.reshape(-1)).cast("Q")) for frame in made
        )
        self._number = 0

    def _next(self, mark: int) -> Pixels:
        frame, words = next(self._frames)
        words[0] = words[-1] = mark
        return frame

    def time(self, count: int) -> list[int]:
        """Return the nanoseconds of each of so many calls, flat out; dropping a frame is none."""
        now, publish, samples = time.perf_counter_ns, self._publish, []
        begun = now()
        # Some take few frames in a second, or none before the one before is through.
        while len(samples) < count and now() - begun < (_FEW_NS if samples else _NONE_NS):
            self._number += 1
            frame = self._next(self._number)
            start = now()
            taken = publish(frame)
            passed = now() - start
            if taken is not False:
                samples.append(passed)
        if not samples:
            raise RuntimeError("every frame was dropped")
        return samples

    def flat_out(self, seconds: float) -> tuple[int, float]:
        """Publish for some seconds; return how many were taken, and the seconds it was."""
        now, publish, taken = time.perf_counter, self._publish, 0
        start = now()
        while (passed := now() - start) < seconds:
            for _ in range(8):
                self._number += 1
                taken += publish(self._next(self._number)) is not False
                if now() - start > seconds:  # a call may wait for its reader
                    break
        return taken, passed

    def fill(self) -> None:
        """Publish until there is no more room in between, or for a moment."""
        end = time.monotonic() + _SETTLE_SECONDS
        blocked = False
        while time.monotonic() < end and not blocked:
            start = time.perf_counter_ns()
            taken = self._publish(self._next(0))
            blocked = taken is False or time.perf_counter_ns() - start > _BLOCKED_NS

    def at_random(self, count: int) -> None:
        """Publish at random moments, each frame marked with the time."""
        gaps = np.random.default_rng(2).uniform(*_GAPS_SECONDS, count) * 1e9
        with undisturbed():
            for gap in gaps:
                end = time.monotonic_ns() + int(gap)
                while time.monotonic_ns() < end:  # a trainer computes between frames
                    pass
                self._publish(self._next(time.monotonic_ns()))

    def end_wait(self) -> None:
        """Publish a frame for a reader that sleeps until one comes."""
        self._publish(self._next(END))


def write(conn: Connection, peer: FramePeer) -> None:
    """Be the writer."""
    _serve(conn, lambda task: peer.writer(task), _Writer)


# --- the reader -----------------------------------------------------------------------------------


class _Reader:
    def __init__(self, receive: Receive, _: Task) -> None:
        self._receive = receive

    def read(self, conn: Connection, hz: float) -> dict[str, int]:
        """Read at a rate, 0 being flat out, until told to stop; return what came."""
        marks: set[int] = set()
        torn = 0
        due = time.monotonic()
        told = False
        while not told:
            told = conn.poll()  # before a last look: whoever was told to stop has looked once
            for _ in range(1 if hz else 16):
                found = self._receive(0)
                if found is None:
                    continue
                if found[0] == found[1]:
                    marks.add(found[0])
                else:
                    torn += 1
            if hz and not told:
                due = max(due + 1 / hz, time.monotonic())
                conn.poll(max(0.0, due - time.monotonic()))
        return {"received": len(marks - {END}), "torn": torn}

    def latency(self, conn: Connection, sleep: bool) -> list[int]:
        """Take frames as they come; return how long each was under way."""
        found = []
        begun = time.monotonic_ns()
        told = False
        with undisturbed():
            for looks in itertools.count():
                marks = self._receive(0 if told or not sleep else _SLEEP)
                now = time.monotonic_ns()
                if marks is not None and begun <= marks[0] != END:
                    found.append(now - marks[0])
                elif told:
                    break  # only now: a frame that was there all the time has been taken
                elif sleep or looks % 16 == 0:
                    told = conn.poll()
        return found


def read(conn: Connection, peer: FramePeer) -> None:
    """Be the reader."""
    _serve(conn, lambda task: peer.reader(task), _Reader)


# --- both -----------------------------------------------------------------------------------------


def _serve(conn: Connection, enter: Callable[[Task], Any], kind: Callable[..., Any]) -> None:
    while (message := conn.recv()) != "end":
        try:
            _, task = message
            with enter(task) as opened:
                conn.send(("done", None))
                _answer(conn, kind(opened, task))
            conn.send(("done", None))
        except EOFError:
            raise
        except Exception as error:  # whatever a library raises: it is listed with its reason
            conn.send(("failed", f"{type(error).__name__}: {error}"[:300]))


def _answer(conn: Connection, side: Any) -> None:
    while (message := conn.recv()) != "close":
        if message == "end":  # the other side failed, and nobody will close this one
            raise EOFError
        name, *arguments = message
        if name in ("read", "latency"):  # these go on until the next message
            conn.send(("done", None))
            found = getattr(side, name)(conn, *arguments)
            conn.recv()
        else:
            found = getattr(side, name)(*arguments)
        conn.send(("done", found))


class Pair:
    """One way's writer and reader; see :meth:`open`."""

    def __init__(self, peer: FramePeer) -> None:
        self.peer = peer
        self._writer = Companion(machine.WRITER_CORE, write, peer)
        self._reader = Companion(machine.READER_CORE, read, peer)

    def open(self, task: Task) -> None:
        """Open both sides, and send until a frame has come through."""
        self.write("open", task)
        _said(self._reader.ask(("open", task)))
        if not self.peer.delivers:
            return
        self.begin_reading("read", 0.0)
        received, end = 0, time.monotonic() + _OPENING
        while received == 0:
            if time.monotonic() > end:
                raise Failed("no frame came through")
            self.write("time", 1)
            time.sleep(0.01)
            received = self.end_reading()["received"]
            self.begin_reading("read", 0.0)
        self.end_reading()

    def close(self) -> None:
        """Close both sides; the processes stay for another task."""
        for side in (self._writer, self._reader):
            _said(side.ask("close"))

    def write(self, *message: Any) -> Any:
        """Let the writer do something; return its answer."""
        return _said(self._writer.ask(message))

    def begin_reading(self, *message: Any) -> None:
        """Let the reader go on reading in a way."""
        _said(self._reader.ask(message))

    def end_reading(self) -> Any:
        """Return what it found. One that sleeps for a frame is given one."""
        self._reader.tell("stop")
        while not self._reader.answers(_SLEEP * 2):
            self.write("end_wait")
        return _said(self._reader.answer())

    def end(self) -> None:
        """End both processes."""
        for side in (self._reader, self._writer):
            side.__exit__(None, None, None)


def _said(answer: Any) -> Any:
    kind, found = answer
    if kind == "failed":
        raise Failed(found)
    return found
