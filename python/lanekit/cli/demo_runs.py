"""The demo's training: under a daemon that keeps its run, or as a mere process of its own."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from lanekit import (
    LanekitError,
    SegmentExists,
    SegmentNotFound,
    inspect_segment,
    reclaim_segment,
    segment_name,
)
from lanekit.cli.connection import connect
from lanekit.cli.progress_bar import Reading
from lanekit.cli.quantities import number
from lanekit.errors import DaemonUnavailable, InvalidEvent, RunExists, TelemetryError

if TYPE_CHECKING:
    from lanekit.cli.followed_run import FollowedRun
    from lanekit.slow.local_daemon import StartedDaemon
    from lanekit.viewer.window.daemon_access import DaemonAccess

RUN_ID = "demo"
"""What the run is called, if nobody else is called so."""

UPDATE_SECONDS = 0.8
"""Left alone the learner is done within seconds, too fast to see."""

RECORD_MEGABYTES = 64
"""Of pictures: about the first minute and a half."""

STOP_SECONDS = 3.0
"""How long a training may take to stop by itself."""

_MODULE = "lanekit.demo.worker"
_LOOK_EVERY = 0.5


class DemoRun(ABC):
    """A training that was started for the demo, and ends with it."""

    recorded_in = ""
    """The store that keeps the run; empty: none does."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.remarks: list[str] = []
        """What the user should know about how it was started."""
        self.frames_shown = 0

    @abstractmethod
    def alive(self) -> bool:
        """Whether the training goes on."""

    @abstractmethod
    def failure(self) -> str:
        """Say how a training ended that nobody asked to."""

    @abstractmethod
    def summary(self) -> str:
        """Say what came of it."""

    @abstractmethod
    def stop(self) -> None:
        """End it, and all that was started for it."""

    def daemon_access(self) -> DaemonAccess | None:
        """Return how a window reaches the daemon; None if there is none."""
        return None

    def web_address(self) -> str | None:
        """Have the daemon serve the browser's page, and return where this run is on it."""
        return None

    def progress(self) -> Reading:
        """Return how far it is."""
        return Reading()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        # A process that was killed could not tidy up. Most often there is nothing left to remove;
        # if the run turns out to be somebody else's, it stays.
        with suppress(SegmentNotFound, SegmentExists):
            reclaim_segment(segment_name("frame", self.run_id))


def obstacle_to_recording(args: argparse.Namespace) -> str | None:
    """Say why no run can be kept under the id that was asked for; None: one can, or none shall."""
    if args.no_record or args.run_id is None:
        return None
    try:
        from lanekit.slow.batches import check_run_id
    except ModuleNotFoundError:
        return None  # nothing will be recorded, and a lane takes any name
    try:
        check_run_id(args.run_id)
    except InvalidEvent as error:
        return str(error)
    return None


def start_run(args: argparse.Namespace, patience: float) -> DemoRun:
    """Start the training, recorded if that is possible and wanted."""
    if args.no_record:
        return PlainRun(args, patience)
    try:
        return RecordedRun(args, patience)
    except RunExists:
        raise
    except TelemetryError as reason:
        plain = PlainRun(args, patience)
        plain.remarks.insert(0, f"nothing is recorded: {reason}")
        return plain


def _configuration(args: argparse.Namespace, run_id: str, **more: Any) -> dict[str, Any]:
    return {
        "run_id": run_id,
        "env_id": args.env,
        "seed": args.seed,
        "total_steps": 0,
        "update_seconds": UPDATE_SECONDS,
        "parent": os.getpid(),
        **more,
    }


class PlainRun(DemoRun):
    """A process of our own: pictures and numbers are live, and gone afterwards."""

    def __init__(self, args: argparse.Namespace, patience: float) -> None:
        super().__init__(args.run_id or RUN_ID)
        if args.run_id is None:
            self._avoid_others()
        self._complaints = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115
        self._process = subprocess.Popen(
            [sys.executable, "-m", _MODULE],
            env={
                **_worker_environment(dict(os.environ)),
                "LANEKIT_CONFIG_JSON": json.dumps(
                    _configuration(args, self.run_id, wait_for_viewer=patience)
                ),
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._complaints,
            process_group=0,  # Ctrl-C is for the viewer, which then ends the training
        )

    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    def failure(self) -> str:
        """Say how it ended, and what it said."""
        self._complaints.seek(0)
        words = without_tracebacks(self._complaints.read().splitlines()[-40:])
        how = f"the training process ended with status {self._process.returncode}"
        return "\n".join([how, *words])

    def summary(self) -> str:
        """Say how much was seen."""
        return f"run {self.run_id!r} is over: {self.frames_shown:,} frames shown, nothing recorded"

    def stop(self) -> None:
        """End the process."""
        self._process.terminate()
        try:
            self._process.wait(timeout=STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _avoid_others(self) -> None:
        """Take a run id of our own if another process publishes under the usual one."""
        try:
            other = inspect_segment(segment_name("frame", self.run_id))
        except SegmentNotFound:
            return
        except LanekitError as problem:
            reason = str(problem)
        else:
            if other.orphan:
                return
            reason = f"process {other.owner_pid} publishes run {self.run_id!r}"
        self.run_id = f"{RUN_ID}-{os.getpid()}"
        self.remarks.append(f"{reason}; this is run {self.run_id!r}")


class RecordedRun(DemoRun):
    """A run of the daemon's, started with the demo if none was there, and stopped with it then."""

    def __init__(self, args: argparse.Namespace, patience: float) -> None:
        where = argparse.Namespace(
            daemon=None, token_file=None, tls_ca=None, insecure_loopback=False
        )
        self._client = connect(where)
        from lanekit.slow.batches import new_run_id
        from lanekit.slow.endpoint import default_store
        from lanekit.slow.local_daemon import start_if_absent

        super().__init__(args.run_id or new_run_id(RUN_ID))
        target = self._client.target
        if not target.is_unix:
            raise TelemetryError(f"LANEKIT_DAEMON names {target}, a daemon that may be elsewhere")
        self._own_daemon: StartedDaemon | None = start_if_absent(target.path)
        self.recorded_in = str(default_store())
        if self._own_daemon is not None:
            self.remarks.append(
                f"started a daemon, process {self._own_daemon.pid}; it stops with the demo"
            )
        self._next_look = 0.0
        self._reading = Reading()
        try:
            self._followed = self._submit(args, patience)
        except BaseException:
            self._stop_own_daemon()
            raise

    def _submit(self, args: argparse.Namespace, patience: float) -> FollowedRun:
        from lanekit.cli.followed_run import FollowedRun
        from lanekit.worker.submission import environment_to_send

        config = _configuration(
            args, self.run_id, wait_for_viewer=patience, record_megabytes=RECORD_MEGABYTES
        )
        submitted = self._client.submit_run(
            [sys.executable, "-m", _MODULE],
            run_id=self.run_id,
            environment=_worker_environment(environment_to_send()),
            working_directory=os.getcwd(),
            config_json=json.dumps(config).encode(),
            worker_id="demo",
        )
        return FollowedRun(self._client, submitted, total=None, one_agent=False)

    def daemon_access(self) -> DaemonAccess | None:
        """Return how a window reaches the daemon."""
        from lanekit.slow.daemon_client import DaemonClient
        from lanekit.viewer.window.daemon_access import DaemonAccess

        target = self._client.target
        return DaemonAccess(lambda: DaemonClient(str(target)), target)

    def web_address(self) -> str | None:
        """Have the daemon serve the page at the usual port, or at any if that is taken."""
        from lanekit.cli.web import USUAL_PORT, address_of

        try:
            page = self._client.open_web(USUAL_PORT)
        except DaemonUnavailable:
            page = self._client.open_web(0)
        return address_of(page, run_id=self.run_id)

    def progress(self) -> Reading:
        """Return what the last look has shown."""
        return self._reading

    def alive(self) -> bool:
        """Whether the daemon says that the run goes on; asked twice a second."""
        if time.monotonic() >= self._next_look:
            self._reading = self._followed.look()
            self._next_look = time.monotonic() + _LOOK_EVERY
        return not self._followed.record.state.is_over

    def failure(self) -> str:
        """Say how it ended, and what the worker said."""
        record = self._followed.record
        reason = f": {record.reason}" if record.reason else ""
        words = without_tracebacks(self._followed.last_words())
        return "\n".join([f"the run {self._followed.state}{reason}", *words])

    def summary(self) -> str:
        """Say what the store has of it."""
        from lanekit.demo.recording import LEARNER
        from lanekit.slow.store.run_store import RunStore

        record = self._followed.record
        text = f"{self.run_id}: {record.steps:,} steps shown, {record.episodes:,} episodes"
        with suppress(TelemetryError), RunStore.open(None) as store:
            returns = store.episodes(self.run_id, agent=LEARNER).episode_return
            if len(returns) >= 20:
                before, after = float(returns[:20].mean()), float(returns[-20:].mean())
                text += f"; return {number(round(before, 1))} → {number(round(after, 1))}"
        return text

    def stop(self) -> None:
        """Stop the run, wait until the store has all of it, and stop the daemon if it is ours."""
        try:
            self._end_run()
        finally:
            self._stop_own_daemon()

    def _end_run(self) -> None:
        followed = self._followed
        with suppress(TelemetryError):
            followed.look()
            if not followed.record.state.is_over:
                self._client.control_run(self.run_id, "stop")
            give_up_at = time.monotonic() + STOP_SECONDS
            while not followed.over:
                followed.look()
                if not followed.record.state.is_over and time.monotonic() > give_up_at:
                    self._client.cancel_run(self.run_id, grace=1.0)
                time.sleep(0.05)

    def _stop_own_daemon(self) -> None:
        if self._own_daemon is None:
            self._client.close()
            return
        others: list[Any] = []
        with suppress(TelemetryError):
            from lanekit.slow.store.records import RunRecord

            records = map(RunRecord.from_message, self._client.list_runs())
            others = [r for r in records if not r.state.is_over and r.run_id != self.run_id]
        self._client.close()  # first: gRPC remarks on a daemon that hangs up
        if others:
            pid = self._own_daemon.pid
            print(
                f"lanekit demo: the daemon stays, since {others[0].run_id} still runs; "
                f"`kill {pid}` stops it",
                file=sys.stderr,
            )
        else:
            self._own_daemon.stop()
        self._own_daemon = None


def without_tracebacks(lines: list[str]) -> list[str]:
    """Leave out where in our own code something failed; what failed is the line after that."""
    kept, inside, margin = [], False, ""
    for line in lines:
        if line.lstrip().startswith("Traceback (most recent call last)"):
            inside, margin = True, line[: len(line) - len(line.lstrip())]
        elif inside and line.startswith(margin + " "):
            continue
        else:
            inside = False
            kept.append(line)
    return kept


def _worker_environment(environment: dict[str, str]) -> dict[str, str]:
    # The networks are small: more threads would only get into the way of whoever watches.
    return {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", **environment}
