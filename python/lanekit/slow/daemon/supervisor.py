"""The processes of runs that the daemon starts: a telemetry proxy each, and under it the worker.

Proxy and worker have sessions of their own and outlive the daemon. A worker is never started
twice. A proxy that died while its worker lives, or before all it took in was acknowledged, is
replaced by one that adopts its spool - at once while the daemon runs, else when it starts - and
that is recorded as an event ``proxy_restarted`` of the run.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lanekit import errors
from lanekit.slow.daemon.own_events import OwnEvents
from lanekit.slow.daemon.patience import Patience
from lanekit.slow.daemon.process_groups import alive, send_signal
from lanekit.slow.daemon.spools import (
    SpoolState,
    is_own,
    look,
    run_of_spool,
    running_worker,
    spool_is_named,
)
from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.store.database import Durability
from lanekit.slow.store.db_sink import TelemetryDBSink
from lanekit.slow.store.life_cycle import DAEMON_STREAM
from lanekit.slow.store.telemetry_store import TelemetryStore

logger = logging.getLogger(__name__)

WAIT_FOR_WORKER = 20.0
"""Seconds in which a new proxy must have started its worker, for a cancellation to find it."""
SWEEP_INTERVAL = 10.0
"""Seconds between two looks at all spools."""
POLL = 0.02
ABANDONED = "the daemon ended before the worker was started; submit it again"


@dataclass(frozen=True, slots=True)
class WorkerRequest:
    """A worker to start."""

    run_id: str
    worker_id: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    directory: Path
    mirror_frames: bool = False


@dataclass(slots=True)
class Proxy:
    """A live proxy: our child, or one from before this daemon."""

    run_id: str
    spool: Path
    pid: int
    pidfd: int
    child: subprocess.Popen[bytes] | None
    started: float = field(default_factory=time.monotonic)
    deletion_logged: bool = False


class Supervisor:
    """Starts proxies, notices their end, replaces those that left something undone."""

    def __init__(
        self,
        root: Path,
        target: str,
        token_file: Path | None,
        sink: TelemetryDBSink,
        durability: Durability = "normal",
        own_stream: str = DAEMON_STREAM,
    ) -> None:
        self._root = root
        self._sink = sink
        self._durability = durability
        self._connection = ["--daemon", target]
        if token_file is not None:
            self._connection += ["--token-file", str(token_file.absolute())]
        self._loop = asyncio.get_running_loop()
        self._proxies: dict[Path, Proxy] = {}
        self._began_ns = time.time_ns()
        self._abandoned: set[str] | None = None
        self._patience = Patience()
        self._own_events = OwnEvents(sink, own_stream)
        self._judged: set[Path] = set()  # their proxy's end is being looked into
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    def close(self) -> None:
        """Stop watching. Proxies and workers go on."""
        self._closed = True
        for task in self._tasks:
            task.cancel()
        for proxy in self._proxies.values():
            self._loop.remove_reader(proxy.pidfd)
            os.close(proxy.pidfd)
            if proxy.child is not None:
                proxy.child.returncode = 0  # no longer ours: silences Popen's own warning
        self._proxies.clear()

    async def start(self, request: WorkerRequest) -> None:
        """Start a proxy that starts the worker."""
        spool = self._root / f"{request.run_id}-{uuid.uuid4().hex[:8]}"
        arguments = ["--run", request.run_id, "--spool", str(spool)]
        if request.worker_id:
            arguments.append(f"--worker={request.worker_id}")
        if request.mirror_frames:
            arguments.append("--mirror-frames")
        if self._durability == "full":
            arguments.append("--fsync")
        self._spawn(
            request.run_id,
            spool,
            [*arguments, *self._connection, "--", *request.command],
            environment=request.environment,
            directory=request.directory,
        )

    def sweep(self) -> None:
        """Go on looking for orphans: also those of proxies that were started by hand."""

        async def look_now_and_then() -> None:
            while True:
                await asyncio.sleep(SWEEP_INTERVAL)
                for proxy in tuple(self._proxies.values()):
                    self._log_deletion(proxy)
                await self.adopt_orphans()
                await self.fail_abandoned()

        self._later(look_now_and_then())

    def has_spool(self, directory: str) -> bool:
        """Tell whether a path is in the daemon's own directory of spools."""
        return Path(directory).is_relative_to(self._root)

    async def adopt_orphans(self) -> None:
        """Look at every spool: watch its proxy, or replace it if work is left."""
        for state in await asyncio.to_thread(self._unattended):
            spool = state.directory
            if spool in self._proxies or spool in self._judged:
                continue
            if self._patience.is_due(spool):
                try:
                    await self._take_care(state)
                except (errors.LanekitError, OSError) as error:
                    logger.error("spool %s is not adopted: %s", state.directory, error)

    async def fail_abandoned(self) -> None:
        """Fail the runs of a daemon before this one that ended before their proxy could begin."""
        with contextlib.suppress(errors.StoreError):  # the next sweep tries again
            if self._abandoned is None:
                runs = await asyncio.wrap_future(self._sink.call(lambda store: store.own_runs()))
                self._abandoned = {
                    run.run_id
                    for run in runs
                    if not_begun(run) and run.created_wall_time_ns < self._began_ns
                }
            for run_id in tuple(self._abandoned):
                await self._fail_if_abandoned(run_id)

    async def _fail_if_abandoned(self, run_id: str) -> None:
        assert self._abandoned is not None
        begun = any(proxy.run_id == run_id for proxy in self._proxies.values())
        if not begun and not await asyncio.to_thread(self._spool_begun, run_id):
            name = re.escape(os.fsencode(self._root / run_id)) + b"-[0-9a-f]{8}"
            if await asyncio.to_thread(spool_is_named, name):
                return  # its proxy is about to begin: the next sweep will see
            await self._fail(run_id, ABANDONED)
        self._abandoned.discard(run_id)

    def _spool_begun(self, run_id: str) -> bool:
        begun = (look(path) for path in self._root.glob(f"{run_id}-*"))
        return any(state is not None and state.run_id == run_id for state in begun)

    def _unattended(self) -> list[SpoolState]:
        found = (look(path) for path in sorted(self._root.iterdir()) if path.is_dir())
        return [state for state in found if state is not None and not state.finished]

    async def end_workers(self, run: pb.Run, grace: float) -> None:
        """Send a run's workers here SIGTERM, and SIGKILL to those left after ``grace`` seconds."""
        spools = {proxy.spool for proxy in self._proxies.values() if proxy.run_id == run.run_id}
        host = socket.gethostname()
        named = [
            Path(worker.spool_directory)
            for worker in run.workers
            if worker.spool_directory and worker.host == host
        ]
        # Whoever registered as a worker said where its spool is: it may be another run's.
        spools |= {spool for spool in named if is_own(spool) and run_of_spool(spool) == run.run_id}
        groups = {
            group for spool in spools if (group := await self._worker_group(spool)) is not None
        }
        send_signal(groups, signal.SIGTERM)
        deadline = self._loop.time() + grace
        while (groups := alive(groups)) and self._loop.time() < deadline:
            await asyncio.sleep(POLL)
        send_signal(groups, signal.SIGKILL)
        while groups := alive(groups):
            await asyncio.sleep(POLL)

    async def _worker_group(self, spool: Path) -> int | None:
        """Find the worker's process group; a proxy that has just begun gets time to start it."""
        deadline = self._loop.time() + WAIT_FOR_WORKER
        while True:
            # Looked at first: a worker noted between the two looks is found by the next one.
            noted = (spool / "worker.json").exists()
            group = running_worker(spool)
            proxy = self._proxies.get(spool)
            new = proxy is not None and time.monotonic() - proxy.started < WAIT_FOR_WORKER
            if group is not None or noted or not new or self._loop.time() > deadline:
                return group
            await asyncio.sleep(POLL)

    async def _take_care(self, state: SpoolState, status: int | None = None) -> None:
        """Do what a spool needs: watch its proxy, replace it, or nothing."""
        if state.proxy_pid is not None:
            self._watch(state.run_id, state.directory, state.proxy_pid, None)
        elif state.finished:
            self._patience.forget(state.directory)
        elif not state.began:
            await self._never_began(state, status)
        else:
            await self._adopt(state, status)

    async def _adopt(self, state: SpoolState, status: int | None = None) -> None:
        logger.warning(
            "run %s: its telemetry proxy is gone (status %s); a new one takes over %s",
            state.run_id,
            "unknown" if status is None else status,
            state.directory,
        )
        self._spawn(
            state.run_id,
            state.directory,
            ["--adopt", str(state.directory), *self._connection],
        )
        self._record(
            state.run_id,
            "proxy_restarted",
            {
                "spool": state.directory.name,
                "status": status,
                "worker_alive": state.worker_alive,
            },
        )

    def _spawn(
        self,
        run_id: str,
        spool: Path,
        arguments: list[str],
        environment: Mapping[str, str] | None = None,
        directory: Path | None = None,
    ) -> None:
        spool.mkdir(mode=0o700, exist_ok=True)
        log = os.open(
            spool / "proxy.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600
        )
        try:
            child = subprocess.Popen(
                # -P: what lies in the worker's directory must not become part of the proxy.
                [sys.executable, "-P", "-m", "lanekit", "proxy", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=None if environment is None else {**os.environ, **environment},
                cwd=directory,
                start_new_session=True,  # no signal for the daemon reaches it
            )
        finally:
            os.close(log)
        self._watch(run_id, spool, child.pid, child)

    def _watch(
        self, run_id: str, spool: Path, pid: int, child: subprocess.Popen[bytes] | None
    ) -> None:
        try:
            pidfd = os.pidfd_open(pid)
        except ProcessLookupError:  # gone since it was looked up
            self._later(self._ended(Proxy(run_id, spool, pid, -1, child)))
            return
        proxy = self._proxies[spool] = Proxy(run_id, spool, pid, pidfd, child)
        self._loop.add_reader(pidfd, self._pidfd_readable, proxy)

    def _pidfd_readable(self, proxy: Proxy) -> None:
        self._loop.remove_reader(proxy.pidfd)
        os.close(proxy.pidfd)
        if self._proxies.get(proxy.spool) is proxy:
            del self._proxies[proxy.spool]
        self._later(self._ended(proxy))

    def _later(self, work: Any) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _ended(self, proxy: Proxy) -> None:
        """Judge what a proxy left behind when it ended."""
        status = None if proxy.child is None else proxy.child.wait()
        self._judged.add(proxy.spool)
        try:
            self._log_deletion(proxy)
            state = await self._look_twice(proxy.spool)
            if state is None:
                await self._fail(proxy.run_id, proxy_reason(proxy.spool, status))
                return
            if state.began and not state.finished and state.proxy_pid is None:
                lived = time.monotonic() - proxy.started
                delay = self._patience.delay(proxy.spool, lived, status)
                if delay is None:
                    await self._give_up(state, status)
                    return
                await asyncio.sleep(delay)
            await self._take_care(state, status)
        except (errors.LanekitError, OSError) as error:
            # The next sweep tries again.
            logger.error("run %s: its telemetry proxy is not replaced: %s", proxy.run_id, error)
        finally:
            self._judged.discard(proxy.spool)

    def _log_deletion(self, proxy: Proxy) -> None:
        """Say once that somebody deleted a spool that is in use."""
        if proxy.deletion_logged or proxy.spool.is_dir():
            return
        proxy.deletion_logged = True
        logger.error(
            "run %s: its spool was deleted (%s); what its telemetry proxy has read still comes, "
            "but if that proxy dies nobody can go on for it",
            proxy.run_id,
            proxy.spool,
        )

    async def _look_twice(self, spool: Path) -> SpoolState | None:
        """Look again after a moment when no worker is there: it may be starting on its own."""
        state = await asyncio.to_thread(look, spool)
        if state is None or state.began or state.start_error is not None:
            return state
        await asyncio.sleep(1.0)
        return await asyncio.to_thread(look, spool)

    async def _give_up(self, state: SpoolState, status: int | None) -> None:
        """Leave a spool alone for a while, and say so in the log, in the run and as an event."""
        delay = self._patience.give_up(state.directory)
        reason = (
            f"its telemetry proxy ended again (status {status}); what it holds is kept, and tried "
            f"again in {delay / 60:.0f} min. See {state.directory / 'proxy.log'}, then: "
            f"lanekit proxy --adopt {state.directory}"
        )
        logger.error("run %s: %s", state.run_id, reason)
        self._record(
            state.run_id, "proxy_given_up", {"spool": state.directory.name, "status": status}
        )

        def leave_reason(store: TelemetryStore) -> None:
            run = store.run(state.run_id)
            store.set_run_state(state.run_id, run.state, reason=run.reason or reason)

        await asyncio.wrap_future(self._sink.call(leave_reason))

    async def _never_began(self, state: SpoolState, status: int | None) -> None:
        self._patience.give_up_for_good(state.directory)
        if state.start_error is not None:
            await self._fail(
                state.run_id, f"the worker could not be started: {state.start_error}", 127
            )
        else:
            await self._fail(state.run_id, proxy_reason(state.directory, status))

    async def _fail(self, run_id: str, reason: str, exit_status: int | None = None) -> None:
        """Record that a run that was submitted here will never begin."""

        def fail(store: TelemetryStore) -> bool:
            run = store.run(run_id)
            if run.state != pb.RUN_STATE_SUBMITTED or not run.command:
                return False
            store.set_run_state(
                run_id,
                pb.RUN_STATE_FAILED,
                ended_ns=time.time_ns(),
                reason=reason,
                exit_status=exit_status,
            )
            return True

        if await asyncio.wrap_future(self._sink.call(fail)):
            logger.error("run %s: %s", run_id, reason)

    def _record(self, run_id: str, name: str, payload: dict[str, object]) -> None:
        self._later(self._own_events.record(run_id, name, payload))


def proxy_reason(spool: Path, status: int | None) -> str:
    """Say that a proxy ended too early."""
    how = "" if status is None else f" with status {status}"
    return (
        f"the telemetry proxy ended{how} before the worker was started; see {spool / 'proxy.log'}"
    )


def not_begun(run: pb.Run) -> bool:
    """Tell whether a run was submitted, and nothing was heard of its worker yet."""
    return run.state == pb.RUN_STATE_SUBMITTED and bool(run.command) and not run.workers
