"""Environments in processes of their own, which are stepped side by side."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import suppress

from gymnasium.vector.utils import CloudpickleWrapper

from lanekit._core import WaitStrategy
from lanekit.errors import LanekitError, PeerLost, SegmentExists, SegmentNotFound, SegmentNotReady
from lanekit.integrations.child_process import end_child
from lanekit.integrations.stepping.description import LaneDescription
from lanekit.integrations.stepping.env_rows import EnvironmentFailed, EnvMaker, words_of
from lanekit.integrations.stepping.env_worker import (
    END,
    MAKE,
    RESET,
    STEP,
    WorkerIdentity,
    WorkerTask,
)
from lanekit.integrations.stepping.shared_rows import LanePlace
from lanekit.segments import reclaim_segment, segment_name
from lanekit.step import StepClient, StepServer
from lanekit.step.exchange import StepRequest

_START = "from lanekit.integrations.stepping.env_worker import main; raise SystemExit(main())"
_LOOK_EVERY = 0.2
_PATIENCE = 5.0


class WorkerCrew:
    """The processes that run the environments of one lane."""

    def __init__(
        self,
        maker: EnvMaker,
        workers: int,
        server: StepServer,
        description: LaneDescription,
        wait: WaitStrategy,
    ) -> None:
        """Start them, and wait until they have made their environments."""
        self._workers: list[WorkerProcess] = []
        packed = CloudpickleWrapper(maker)
        place = LanePlace.of(server)
        try:
            for number, envs in enumerate(shares(server.config.num_envs, workers)):
                task = WorkerTask(packed, envs.start, len(envs), description, place)
                name = f"{server.name}/worker-{number}-{os.getpid()}"
                self._workers.append(WorkerProcess(number, name, task, wait))
            for worker in self._workers:
                worker.attach()
            self._order(MAKE)
        except BaseException:
            self.close()
            raise

    def exchange(self, request: StepRequest) -> None:
        """Have all do what the client asked for, at the same time."""
        self._order(STEP if request == "step" else RESET)

    def _order(self, order: int) -> None:
        for worker in self._workers:
            worker.begin(order)
        for worker in self._workers:
            worker.finish()

    @property
    def pids(self) -> list[int]:
        """The ids of the processes."""
        return [worker.pid for worker in self._workers]

    def close(self) -> None:
        """Have all close their environments, and end them."""
        for worker in self._workers:
            worker.dismiss()
        for worker in self._workers:
            worker.end()


class WorkerProcess:
    """One process with some of the environments; see ``env_worker.py``."""

    def __init__(self, number: int, name: str, task: WorkerTask, wait: WaitStrategy) -> None:
        self._number = number
        self._name = name
        self._wait = wait
        self._orders: StepClient | None = None
        identity = WorkerIdentity(list(sys.path), name, os.getpid(), wait)
        with tempfile.TemporaryFile() as given:  # a pipe might fill, and make us wait
            pickle.dump(identity, given)
            try:
                pickle.dump(task, given)
            except Exception as error:
                raise EnvironmentFailed(
                    "the function that makes the environments can not be sent to another process "
                    f"({words_of(error)}): take what it holds on to out of it, or use workers=1"
                ) from error
            given.seek(0)
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _START],
                stdin=given,
                process_group=0,  # Ctrl-C is for the server, which ends this one
            )
        self._finalizer = weakref.finalize(self, _end, self._process, name, os.getpid())

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def attach(self) -> None:
        """Take the other end of its lane, as soon as it is there."""
        while self._orders is None:
            try:
                self._orders = StepClient.attach(self._name, timeout=_LOOK_EVERY, wait=self._wait)
            except (SegmentNotFound, SegmentNotReady, PeerLost):
                if self._process.poll() is not None:
                    raise EnvironmentFailed(self._how_it_ended()) from None

    def begin(self, order: int) -> None:
        """Say what to do."""
        assert self._orders is not None
        self._orders.actions[0, 0] = order
        try:
            self._orders.send()
        except PeerLost:
            self._fail()

    def finish(self) -> None:
        """Wait until it is done."""
        assert self._orders is not None
        try:
            self._orders.recv()
        except PeerLost:
            self._fail()

    def _fail(self) -> None:
        assert self._orders is not None
        raise EnvironmentFailed(self._orders.failure or self._how_it_ended()) from None

    def _how_it_ended(self) -> str:
        who = f"worker process {self._number} (pid {self.pid})"
        try:
            status = self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            return f"{who} left its lane"
        if status >= 0:
            return f"{who} ended with status {status}"
        try:
            name = signal.Signals(-status).name
        except ValueError:
            name = f"signal {-status}"
        return f"{who} was killed ({name})"

    def dismiss(self) -> None:
        """Tell it to close its environments, unless it is busy or gone."""
        if self._orders is not None:
            with suppress(LanekitError):
                if not self._orders.under_way:
                    self._orders.actions[0, 0] = END
                    self._orders.send()

    def end(self) -> None:
        """Wait until it has ended; by force if it does not."""
        if self._orders is not None:
            with suppress(LanekitError, subprocess.TimeoutExpired):
                if self._orders.under_way:
                    self._orders.recv(_PATIENCE)
                    if self._orders.actions[0, 0] == END:
                        self._process.wait(_PATIENCE)
            self._orders.close()
        self._finalizer()


def shares(count: int, parts: int) -> Iterator[range]:
    """Give each part its share of so many environments; none has two more than another."""
    for part in range(parts):
        yield range(count * part // parts, count * (part + 1) // parts)


def _end(process: subprocess.Popen[bytes], name: str, owner: int) -> None:
    if end_child(process, owner):
        # One that was killed could not tidy up.
        with suppress(SegmentNotFound, SegmentExists):
            reclaim_segment(segment_name("step", name))
