"""Directs the workers through the rounds of a run."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Self

from lanekit import LanekitError, SegmentExists, SegmentNotFound, reclaim_segment, segment_name
from lanekit.stress.plan import Round
from lanekit.stress.verdict import Counts, Result

_TICK = 0.1
# A worker that does not answer "stop" for so long hangs; waits inside the rounds end within 1 s.
_STOP_PATIENCE = 15.0
# A busy machine may not let the parties meet within a short round: it lasts until they did.
_FIRST_FRAME_PATIENCE = 10.0


class Worker:
    """One worker process and what it said last."""

    def __init__(self) -> None:
        self._complaints = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115
        self.process = subprocess.Popen(
            [sys.executable, "-m", "lanekit.stress.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            # Numerical libraries start threads of their own, and parties are forked from here.
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
            process_group=0,  # Ctrl-C is for the session, which then asks for the verdict so far
        )
        self._buffer = b""
        self.counts = Counts()
        self.ready = False
        self.done = True
        self.problem: str | None = None

    def fileno(self) -> int:
        """Return what to wait on for its next word."""
        assert self.process.stdout is not None
        return self.process.stdout.fileno()

    def await_ready(self) -> None:
        """Wait until the process has started up, which must not count as time under stress."""
        while not self.ready and self.listen():
            pass

    def begin(self, round_: Round, role: int) -> None:
        """Set it to work on one round."""
        self.counts, self.done, self.problem = Counts(), False, None
        self._tell(json.dumps({**dataclasses.asdict(round_), "role": role}))

    def stop(self) -> None:
        """Ask it to end the round."""
        if not self.done:
            self._tell("stop")

    def listen(self) -> bool:
        """Take in what it has said; False when it will not say any more."""
        data = os.read(self.fileno(), 65536)
        if not data:
            self.fail("the worker process ended")
            return False
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            message = json.loads(line)
            self.ready = True
            self.counts = Counts(**message["counts"])
            self.done, self.problem = message["done"], message["problem"]
        return True

    def fail(self, reason: str) -> None:
        """Give up on it for this round."""
        status = self.close()
        self._complaints.seek(0)
        said = self._complaints.read().strip().splitlines()
        self.done = True
        self.problem = f"{reason} (status {status})" + (f": {said[-1]}" if said else "")

    @property
    def usable(self) -> bool:
        """Whether it can take another round."""
        return self.process.poll() is None

    def close(self) -> int:
        """End the process, by closing its input; if need be, by force."""
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        try:
            return self.process.wait(3.0)
        except subprocess.TimeoutExpired:
            self.process.terminate()
        try:
            return self.process.wait(3.0)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()

    def release(self) -> None:
        """End it and let go of its files."""
        self.close()
        if self.process.stdout is not None:
            self.process.stdout.close()
        self._complaints.close()

    def _tell(self, line: str) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()
        except (OSError, ValueError):
            pass  # it has ended, which listen() will notice


class Session:
    """Workers by the kind of parties they play; a context manager that leaves nothing behind."""

    def __init__(self) -> None:
        self._workers: dict[str, list[Worker]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in [worker for group in self._workers.values() for worker in group]:
            worker.release()

    def run(
        self,
        rounds: Sequence[Round],
        *,
        seconds: float | None,
        tick: Callable[[Round, Counts], bool],
    ) -> list[Result]:
        """Carry out the rounds until all are done, the time is up, or `tick` says to stop.

        `tick` is called several times a second with the counts of the round under way.
        """
        results: list[Result] = []
        for round_ in rounds:
            self._workers_for(round_)
        for worker in [worker for group in self._workers.values() for worker in group]:
            worker.await_ready()
        deadline = None if seconds is None else time.monotonic() + seconds
        for index, round_ in enumerate(rounds):
            now = time.monotonic()
            end = deadline
            if deadline is not None and round_.seconds is not None:
                # What earlier rounds did not use, or took too much, the later ones share.
                ahead = sum(r.seconds or 0.0 for r in rounds[index:])
                end = now + max(0.05, (deadline - now) * round_.seconds / ahead)
            asked_to_stop = self._play(round_, end, tick, results)
            over = deadline is not None and time.monotonic() >= deadline and round_.seconds is None
            if asked_to_stop or over:
                break
        return results

    def _play(
        self,
        round_: Round,
        end: float | None,
        tick: Callable[[Round, Counts], bool],
        results: list[Result],
    ) -> bool:
        workers = self._workers_for(round_)
        for worker in workers:
            worker.await_ready()
        counts = Counts()
        started = time.monotonic()
        quitting = False
        kill_at: float | None = None
        with selectors.DefaultSelector() as selector:
            for role, worker in enumerate(workers):
                worker.begin(round_, role)
                selector.register(worker, selectors.EVENT_READ)
            while not all(worker.done for worker in workers):
                now = time.monotonic()
                # Python readers in processes of their own end by themselves; their writer does not.
                readers_done = len(workers) > 1 and all(w.done for w in workers[1:])
                failed = any(w.done and w.problem for w in workers)
                grace = 0.0 if counts.frames + counts.errors > 0 else _FIRST_FRAME_PATIENCE
                over = end is not None and now >= end + grace
                if kill_at is None and (quitting or over or readers_done or failed):
                    kill_at = now + _STOP_PATIENCE
                    for worker in workers:
                        worker.stop()
                if kill_at is not None and now >= kill_at:
                    for worker in workers:
                        if not worker.done:
                            worker.fail("the round did not end when asked to")
                    break
                wait = _TICK if end is None or now >= end else min(_TICK, end - now)
                for key, _ in selector.select(wait):
                    worker = workers[workers.index(key.fileobj)]  # type: ignore[arg-type]
                    if not worker.listen():
                        selector.unregister(worker)
                counts = sum((worker.counts for worker in workers), Counts())
                quitting = tick(round_, counts) or quitting
        counts = sum((worker.counts for worker in workers), Counts())
        problem = next((worker.problem for worker in workers if worker.problem), None)
        if problem is None and counts.frames == counts.errors == 0 and not quitting:
            problem = "no frame came through"
        results.append(Result(round_, counts, time.monotonic() - started, problem))
        _tidy(round_)
        return quitting

    def _workers_for(self, round_: Round) -> list[Worker]:
        needed = 1 + len(round_.reader_cores) if round_.mode == "py-processes" else 1
        group = self._workers.setdefault(round_.mode, [])
        for worker in [worker for worker in group if not worker.usable]:
            worker.release()
            group.remove(worker)
        while len(group) < needed:
            group.append(Worker())
        return group[:needed]


def _tidy(round_: Round) -> None:
    """Remove what a worker that was killed left; most often there is nothing."""
    for run_id in (round_.run_id, f"{round_.run_id}-back"):
        try:
            reclaim_segment(segment_name("frame", run_id))
        except (SegmentNotFound, SegmentExists):
            pass
        except LanekitError as error:
            print(f"lanekit stress: {error}", file=sys.stderr)
