"""A daemon with a run in its store: made-up learning, sent as a worker's sender would."""

from __future__ import annotations

import contextlib
import json
import math
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc

from lanekit.slow.daemon_client import DaemonClient
from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.proto.telemetry_pb2_grpc import TrainerServiceStub

PATIENCE = 30.0


class StoredRun:
    """Fills one run of a daemon that can be ended and started again."""

    def __init__(self, directory: Path, run_id: str) -> None:
        self.run_id = run_id
        self._directory = directory
        self._source = random.Random(7)
        self._steps = self._episodes = self._learned = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def target(self) -> str:
        """The daemon's address."""
        return f"unix:{self._directory}/daemon.sock"

    def connect(self) -> DaemonClient:
        """Return a client of the daemon."""
        return DaemonClient(self.target)

    def start_daemon(self) -> None:
        """Start it and wait until it listens."""
        arguments = ["--store", f"{self._directory}/lanekit.db", "--socket", self.target[5:]]
        with (self._directory / "daemon.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "lanekit", "daemon", *arguments],
                stdout=subprocess.PIPE,
                stderr=log,
            )
        assert self._process.stdout is not None
        self._process.stdout.readline()

    def end_daemon(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            self._process.communicate()
            self._process = None

    def learn(
        self, episodes: int, agents: Iterable[str] = ("",), *, steps: int = 40, pace: int = 1
    ) -> None:
        """Add episodes of agents that get better, slower with a larger `pace`, and some steps."""
        with grpc.insecure_channel(self.target) as channel:
            stub = TrainerServiceStub(channel)
            request = pb.RegisterWorkerRequest(run_id=self.run_id, stream_id="s")
            stub.RegisterWorker(request, timeout=PATIENCE)
            names = list(agents)
            made = [
                self._episode(number, place, name, pace)
                for number in range(self._learned, self._learned + episodes)
                for place, name in enumerate(names)
            ]
            for first in range(0, len(made), 2000):
                batch = pb.PublishRunEpisodesRequest(
                    run_id=self.run_id,
                    stream_id="s",
                    first_seq=self._episodes + first + 1,
                    episodes=made[first : first + 2000],
                )
                list(stub.PublishRunEpisodes(iter([batch]), timeout=PATIENCE))
            self._episodes += len(made)
            self._learned += episodes
            self.step(steps, names, stub)

    def step(self, count: int, names: list[str], stub: TrainerServiceStub) -> None:
        """Add steps of each agent, one after the other."""
        if not count:
            return
        made = [
            self._step(self._steps // len(names) + number, name)
            for number in range(count)
            for name in names
        ]
        batch = pb.PublishRunStepsRequest(
            run_id=self.run_id, stream_id="s", first_seq=self._steps + 1, steps=made
        )
        list(stub.PublishRunSteps(iter([batch]), timeout=PATIENCE))
        self._steps += len(made)

    def _episode(self, number: int, place: int, name: str, pace: int) -> pb.Episode:
        best = 500.0 / (1 + 0.35 * place)
        skill = best / (1 + math.exp(-(number / pace - 260 - 90 * place) / 70))
        gained = max(8.0, self._source.gauss(20 + skill * 0.9, 6 + skill * 0.22))
        gained = min(gained, best)
        return pb.Episode(
            agent_id=name,
            episode=number,
            episode_return=round(gained, 2),
            length=round(gained),
            terminated=gained < best,
            truncated=gained >= best,
            wall_time_ns=time.time_ns(),
        )

    def _step(self, number: int, name: str) -> pb.Step:
        seen = [round(self._source.gauss(0, 0.4), 4) for _ in range(4)]
        reward = round(1.0 - abs(seen[2]) + 0.3 * math.sin(number / 17), 3)
        return pb.Step(
            agent_id=name,
            episode=number // 200,
            step=number % 200,
            reward=reward,
            terminated=number % 200 == 199,
            action_json=str(self._source.randrange(2)).encode(),
            observation_json=json.dumps(seen).encode(),
            wall_time_ns=time.time_ns(),
        )


@contextmanager
def stored_run(run_id: str) -> Iterator[StoredRun]:
    """Have a daemon with a run for a while."""
    with tempfile.TemporaryDirectory(prefix="lk-") as directory:
        run = StoredRun(Path(directory), run_id)
        run.start_daemon()
        try:
            yield run
        finally:
            with contextlib.suppress(ProcessLookupError):
                run.end_daemon()
