"""Runs: started, listed, watched, cancelled, put away."""

from __future__ import annotations

import asyncio
import math
import time
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import msgspec

from lanekit.errors import RunNotFound
from lanekit.slow.batches import check_run_id, check_worker_id, new_run_id
from lanekit.slow.daemon.access import Caller, words_for
from lanekit.slow.daemon.methods import UNWRITABLE, Context, Method, Refusal, who_calls
from lanekit.slow.daemon.pulse import Pulse
from lanekit.slow.daemon.run_states import ended
from lanekit.slow.daemon.streams import Streams
from lanekit.slow.daemon.supervisor import Supervisor, WorkerRequest
from lanekit.slow.daemon.workers import Workers
from lanekit.slow.limits import CANCEL_GRACE
from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.run_bus import Topic
from lanekit.slow.store.db_sink import TelemetryDBSink
from lanekit.slow.store.run_rows import select_runs
from lanekit.slow.store.run_store import RunStore
from lanekit.slow.store.sql_connection import NO_LIMIT
from lanekit.slow.store.store_file import store_errors

WATCH_INTERVAL = 0.1
"""Seconds between two responses to one WatchRuns call; what changes between goes together."""
MAX_GRACE = 3600.0
MAX_CONFIG_BYTES = 120_000
"""Linux takes at most 128 KiB in one environment variable."""
MAX_REVISION = 2**63 - 1
"""The largest number that a database takes."""


class Runs:
    """The rpcs about runs as a whole."""

    def __init__(
        self,
        sink: TelemetryDBSink,
        streams: Streams,
        pulse: Pulse,
        supervisor: Supervisor,
        workers: Workers,
    ) -> None:
        self._workers = workers
        self._sink = sink
        self._streams = streams
        self._pulse = pulse
        self._supervisor = supervisor
        self._cancelling: set[asyncio.Task[pb.Run]] = set()

    def methods(self) -> dict[str, Method]:
        """Return the rpcs by name."""
        return {
            "SubmitRun": self.submit,
            "CancelRun": self.cancel,
            "ArchiveRun": self.archive,
            "ListRuns": self.list,
            "WatchRuns": self.watch,
        }

    async def run(self, run_id: str) -> pb.Run:
        """Return a run as it is in the store."""
        run: pb.Run = await asyncio.wrap_future(self._sink.call(lambda store: store.run(run_id)))
        return run

    async def submit(self, request: Any, _: Context) -> pb.SubmitRunResponse:
        """Record a run, then start its worker."""
        wanted = worker_request(request)
        await asyncio.wrap_future(
            self._sink.call(
                lambda store: store.create_run(
                    wanted.run_id,
                    command=list(wanted.command),
                    config_json=request.config_json,
                )
            )
        )
        try:
            await self._supervisor.start(wanted)
        except (OSError, ValueError) as error:
            reason = f"its telemetry proxy could not be started: {error}"
            await asyncio.wrap_future(
                self._sink.call(
                    lambda store: store.set_run_state(
                        wanted.run_id,
                        pb.RUN_STATE_FAILED,
                        ended_ns=time.time_ns(),
                        reason=reason,
                    )
                )
            )
            raise Refusal(
                grpc.StatusCode.RESOURCE_EXHAUSTED, f"run {wanted.run_id!r}: {reason}"
            ) from error
        return pb.SubmitRunResponse(run=await self.run(wanted.run_id))

    async def cancel(self, request: Any, context: Context) -> pb.CancelRunResponse:
        """End a run's workers. Goes on even if the caller leaves meanwhile."""
        run_id = check_run_id(request.run_id)
        grace = request.grace_seconds if request.HasField("grace_seconds") else CANCEL_GRACE
        if not math.isfinite(grace) or not 0 <= grace <= MAX_GRACE:
            raise Refusal(
                grpc.StatusCode.INVALID_ARGUMENT,
                f"grace_seconds is a number from 0 to {MAX_GRACE:g}; got {grace}",
            )
        task = asyncio.create_task(self._cancel(run_id, grace))
        self._cancelling.add(task)
        task.add_done_callback(self._cancelling.discard)
        run = await asyncio.shield(task)
        return pb.CancelRunResponse(run=self._run_for(who_calls(context), run))

    async def _cancel(self, run_id: str, grace: float) -> pb.Run:
        run = await self.run(run_id)
        if not ended(run):
            # Before the signal: the worker's exit is then part of the cancellation, no failure.
            await asyncio.wrap_future(
                self._sink.call(
                    lambda store: store.set_run_state(
                        run_id, pb.RUN_STATE_CANCELLED, ended_ns=time.time_ns(), reason="cancelled"
                    )
                )
            )
            # Those that no signal can reach (on another machine, without a proxy) hear of it too.
            await self._workers.command(run_id, pb.CONTROL_ACTION_STOP)
        await self._supervisor.end_workers(run, grace)
        return await self.run(run_id)

    async def archive(self, request: Any, context: Context) -> pb.ArchiveRunResponse:
        """Hide a run, or show it again."""
        run_id, archived = check_run_id(request.run_id), request.archived
        await asyncio.wrap_future(
            self._sink.call(lambda store: store.archive_run(run_id, archived))
        )
        run = await self.run(run_id)
        return pb.ArchiveRunResponse(run=self._run_for(who_calls(context), run))

    async def list(self, request: Any, context: Context) -> pb.ListRunsResponse:
        """Return the runs there are, newest first."""
        if request.run_id:
            check_run_id(request.run_id)
        caller, limit = who_calls(context), request.limit
        if not caller.is_owner:
            request.limit = 0  # it counts the caller's own
        # Read beside the writer: also a store that can not be written can be looked at.
        runs = await self._streams.read(partial(listed_runs, request=request))
        if not caller.is_owner:
            runs = [run for run in runs if caller.may_touch(run.run_id)][: limit or None]
        runs = [self._run_for(caller, run) for run in runs]
        return pb.ListRunsResponse(runs=runs, store_problem=self._store_problem(caller))

    def _run_for(self, caller: Caller, run: pb.Run) -> pb.Run:
        """Return a run without what only the daemon's owner may know: where its spools are."""
        if not caller.is_owner:
            run.reason = words_for(caller, run.reason)
            for worker in run.workers:
                if self._supervisor.has_spool(worker.spool_directory):
                    worker.spool_directory = ""
        return run

    def _store_problem(self, caller: Caller) -> str:
        """Why the store can not be written now; where it is, is the owner's business."""
        problem = self._sink.status().stalled
        if problem is None:
            return ""
        return problem if caller.is_owner else UNWRITABLE

    async def watch(self, request: Any, context: Context) -> None:
        """Send every run as it is, then each change."""
        revision = min(request.after_revision, MAX_REVISION)
        caller = who_calls(context)
        first, told = True, ""
        with self._pulse.listen(Topic.RUN_CHANGED) as news:
            while not self._pulse.stopped:
                news.forget()
                runs = await self._streams.read(
                    partial(RunStore.run_messages, after_revision=revision)
                )
                revision = max((run.revision for run in runs), default=revision)
                runs = [self._run_for(caller, run) for run in runs if caller.may_touch(run.run_id)]
                problem = self._store_problem(caller)
                if runs or first or problem != told:
                    await context.write(
                        pb.WatchRunsResponse(runs=runs, revision=revision, store_problem=problem)
                    )
                    first, told = False, problem
                await news.wait()
                await asyncio.sleep(WATCH_INTERVAL)
        raise Refusal(grpc.StatusCode.UNAVAILABLE, "the daemon is shutting down")


def listed_runs(store: RunStore, request: Any) -> list[pb.Run]:
    """Read the runs that a ListRuns request asks for."""
    with store_errors(store.path):
        if not request.run_id:
            where = "" if request.include_archived else "WHERE archived = 0 "
            order = f"{where}ORDER BY run DESC LIMIT ?"
            return select_runs(store.connection(), order, (request.limit or NO_LIMIT,))
        runs = select_runs(store.connection(), "WHERE run_id = ?", (request.run_id,))
    if not runs:
        raise RunNotFound(f"run {request.run_id} is not known")
    return runs


def worker_request(request: Any) -> WorkerRequest:
    """Check a SubmitRun request; Refusal says what is wrong with it."""

    def refuse(message: str) -> Refusal:
        return Refusal(grpc.StatusCode.INVALID_ARGUMENT, message)

    run_id = request.run_id or new_run_id()
    check_run_id(run_id)
    check_worker_id(request.worker_id)
    command = tuple(request.command)
    if not command or not command[0]:
        raise refuse("command is empty: name the program and its arguments")
    environment = dict(request.environment)
    if any("\0" in text for text in (*command, *environment, *environment.values())):
        raise refuse("command and environment can not hold NUL characters")
    for name in environment:
        if not name or "=" in name:
            raise refuse(f"{name!r} can not name an environment variable")
    directory = Path(request.working_directory or Path.cwd())
    if not directory.is_absolute() or "\0" in request.working_directory or not directory.is_dir():
        raise refuse(
            f"working_directory must be an absolute path of a directory on the daemon's machine; "
            f"got {request.working_directory!r}"
        )
    if request.config_json:
        try:
            msgspec.json.decode(request.config_json, type=msgspec.Raw)
            environment["LANEKIT_CONFIG_JSON"] = request.config_json.decode()
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise refuse(f"config_json must be JSON, or left out; {error}") from None
        if len(request.config_json) > MAX_CONFIG_BYTES:
            raise refuse(
                f"config_json travels in an environment variable, so it takes at most "
                f"{MAX_CONFIG_BYTES} bytes; got {len(request.config_json)}"
            )
    return WorkerRequest(
        run_id, request.worker_id, command, environment, directory, request.mirror_frames
    )
