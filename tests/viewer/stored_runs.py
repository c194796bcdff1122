"""A real daemon with runs in its store, for the tests of the live numbers."""

from __future__ import annotations

import itertools
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "slow"))

from daemon_process import DaemonProcess, register, run_of

from lanekit.slow.daemon_client import DaemonClient
from lanekit.slow.proto import telemetry_pb2 as pb
from patience import patience, until

__all__ = ["RUN", "SLOW_TESTS", "DaemonProcess", "Sender", "connect_to", "running_daemon", "until"]

RUN = "numbers"
SLOW_TESTS = Path(__file__).resolve().parent.parent / "slow"


@contextmanager
def running_daemon() -> Iterator[DaemonProcess]:
    """Have a daemon on a store of its own, in a directory short enough for its socket."""
    directory = Path(tempfile.mkdtemp(prefix="lk-"))
    daemon = DaemonProcess(directory)
    try:
        yield daemon.start()
    finally:
        daemon.close()
        daemon.end_children()
        said = daemon.said()
        shutil.rmtree(directory)
    assert "Traceback" not in said, said


def connect_to(daemon: DaemonProcess) -> DaemonClient:
    """Return a client as the window makes them."""
    return DaemonClient(daemon.target)


class Sender:
    """Sends events whose numbers tell them apart; goes on where the store ends."""

    def __init__(self, daemon: DaemonProcess, run_id: str = RUN) -> None:
        self.daemon = daemon
        self.run_id = run_id
        with daemon.connect() as stub:
            register(stub, run_id)

    def steps(self, count: int, agents: Sequence[str] = ("",), text: bytes = b"[0.5]") -> None:
        """Add steps, the agents in turn; a step's reward is its place in the run."""
        with self.daemon.connect() as stub:
            done = register(stub, self.run_id).committed_steps
            turns = itertools.cycle(range(len(agents)))
            for first in range(done, done + count, 5000):
                rows = min(5000, done + count - first)
                columns = pb.StepColumns(
                    rows=rows,
                    names=[*agents, "worker"],
                    worker_index=[len(agents)] * rows,
                    agent_index=list(itertools.islice(turns, rows)),
                    episode=[place // 100 for place in range(first, first + rows)],
                    step=[place % 100 for place in range(first, first + rows)],
                    observation_json=[text] * rows,
                    action_json=[b"1"] * rows,
                    reward=range(first, first + rows),
                )
                request = pb.PublishRunStepsRequest(
                    run_id=self.run_id, stream_id="s1", first_seq=first + 1, columns=columns
                )
                list(stub.PublishRunSteps(iter([request]), timeout=patience()))

    def episodes(self, count: int, agents: Sequence[str] = ("",)) -> None:
        """Add episodes, the agents in turn; an episode's number and return are its place."""
        with self.daemon.connect() as stub:
            done = register(stub, self.run_id).committed_episodes
            for first in range(done, done + count, 5000):
                made = [
                    pb.Episode(
                        agent_id=agents[place % len(agents)],
                        episode=place,
                        episode_return=place,
                        length=place % 7,
                        terminated=place % 2 == 0,
                        truncated=place % 2 == 1,
                    )
                    for place in range(first, min(first + 5000, done + count))
                ]
                request = pb.PublishRunEpisodesRequest(
                    run_id=self.run_id, stream_id="s1", first_seq=first + 1, episodes=made
                )
                list(stub.PublishRunEpisodes(iter([request]), timeout=patience()))

    def committed(self) -> pb.Run:
        """Return the run as the store has it now."""
        with self.daemon.connect() as stub:
            run: pb.Run = run_of(stub, self.run_id)
            return run
