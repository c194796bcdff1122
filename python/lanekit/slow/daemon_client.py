"""Everything a daemon can be asked, from Python: submit, watch, control and read runs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, NoReturn, Self

import grpc

from lanekit import errors
from lanekit.slow.endpoint import default_socket, open_channel, parse_target, token_metadata
from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.proto.telemetry_pb2_grpc import TrainerServiceStub

_ACTIONS: dict[str, pb.ControlAction.ValueType] = {
    "pause": pb.CONTROL_ACTION_PAUSE,
    "resume": pb.CONTROL_ACTION_RESUME,
    "stop": pb.CONTROL_ACTION_STOP,
}


class DaemonClient:
    """Asks a daemon. Every method raises :class:`~lanekit.errors.DaemonError` or a kind of it."""

    def __init__(
        self,
        target: str | None = None,
        *,
        token: str | None = None,
        ca_file: str | os.PathLike[str] | None = None,
        insecure: bool = False,
        timeout: float = 20.0,
    ) -> None:
        self.target = parse_target(target or default_socket())
        self._channel = open_channel(self.target, token, ca_file, insecure)
        self._stub = TrainerServiceStub(self._channel)
        self._metadata = token_metadata(token)
        self._timeout = timeout

    def submit_run(
        self,
        command: Sequence[str],
        *,
        run_id: str = "",
        environment: Mapping[str, str] | None = None,
        working_directory: str = "",
        config_json: bytes = b"",
        worker_id: str = "",
        mirror_frames: bool = False,
    ) -> pb.Run:
        """Have the daemon start a worker and look after it."""
        request = pb.SubmitRunRequest(
            run_id=run_id,
            command=command,
            environment=environment or {},
            working_directory=working_directory,
            config_json=config_json,
            worker_id=worker_id,
            mirror_frames=mirror_frames,
        )
        with self._translated(run_id):
            return self._stub.SubmitRun(request, **self._once()).run

    def cancel_run(self, run_id: str, *, grace: float | None = None) -> pb.Run:
        """End a run's workers, politely for `grace` seconds; returns the run once they are gone."""
        request = pb.CancelRunRequest(run_id=run_id, grace_seconds=grace)
        with self._translated(run_id):
            options = {
                **self._once(),
                "timeout": self._timeout + (10.0 if grace is None else grace),
            }
            return self._stub.CancelRun(request, **options).run

    def archive_run(self, run_id: str, *, archived: bool = True) -> pb.Run:
        """Hide a run from listings, or show it again."""
        request = pb.ArchiveRunRequest(run_id=run_id, archived=archived)
        with self._translated(run_id):
            return self._stub.ArchiveRun(request, **self._once()).run

    def list_runs(self, *, include_archived: bool = False, limit: int = 0) -> list[pb.Run]:
        """Return the runs, newest first."""
        request = pb.ListRunsRequest(include_archived=include_archived, limit=limit)
        with self._translated(""):
            return list(self._stub.ListRuns(request, **self._once()).runs)

    def run(self, run_id: str) -> pb.Run:
        """Return one run as it is now."""
        request = pb.ListRunsRequest(run_id=run_id, include_archived=True)
        with self._translated(run_id):
            return self._stub.ListRuns(request, **self._once()).runs[0]

    def control_run(self, run_id: str, action: str) -> tuple[int, int]:
        """Ask a run's workers to pause, resume or stop.

        Returns the command's number, and how many workers are connected to get it at once.
        """
        if action not in _ACTIONS:
            raise ValueError(f"an action is one of {', '.join(_ACTIONS)}, not {action!r}")
        request = pb.ControlRunRequest(run_id=run_id, action=_ACTIONS[action])
        with self._translated(run_id):
            response = self._stub.ControlRun(request, **self._once())
        return response.command_id, response.connected_workers

    def watch_runs(self, after_revision: int = 0) -> Iterator[pb.WatchRunsResponse]:
        """Yield every run as it is now, then each change as it happens."""
        request = pb.WatchRunsRequest(after_revision=after_revision)
        return self._stream("", self._stub.WatchRuns, request)

    def stream_steps(
        self,
        run_id: str,
        *,
        cursor: int = 0,
        history_only: bool = False,
        row_wise: bool = False,
        agent_id: str | None = None,
    ) -> Iterator[pb.StreamRunStepsResponse]:
        """Yield a run's committed steps from a cursor on: history, then live."""
        request = pb.StreamRunStepsRequest(
            run_id=run_id,
            cursor=cursor,
            history_only=history_only,
            row_wise=row_wise,
            agent_id=agent_id,
        )
        return self._stream(run_id, self._stub.StreamRunSteps, request)

    def stream_episodes(
        self, run_id: str, *, cursor: int = 0, history_only: bool = False
    ) -> Iterator[pb.StreamRunEpisodesResponse]:
        """Yield a run's committed episodes from a cursor on."""
        request = pb.StreamRunEpisodesRequest(
            run_id=run_id, cursor=cursor, history_only=history_only
        )
        return self._stream(run_id, self._stub.StreamRunEpisodes, request)

    def stream_events(
        self, run_id: str, *, cursor: int = 0, history_only: bool = False
    ) -> Iterator[pb.StreamRunEventsResponse]:
        """Yield a run's committed log events from a cursor on."""
        request = pb.StreamRunEventsRequest(run_id=run_id, cursor=cursor, history_only=history_only)
        return self._stream(run_id, self._stub.StreamRunEvents, request)

    def close(self) -> None:
        """End the connection."""
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _once(self) -> dict[str, Any]:
        return {"timeout": self._timeout, "metadata": self._metadata}

    def _stream(self, run_id: str, method: Any, request: Any) -> Iterator[Any]:
        with self._translated(run_id):
            call = method(request, metadata=self._metadata)
            try:
                yield from call
            finally:
                call.cancel()

    @contextmanager
    def _translated(self, run_id: str) -> Iterator[None]:
        try:
            yield
        except grpc.RpcError as error:
            self._fail(error, run_id)

    def _fail(self, error: Any, run_id: str) -> NoReturn:
        code: grpc.StatusCode = error.code()
        details = error.details() or code.name
        if code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
            raise errors.DaemonUnavailable(
                f"no daemon answers at {self.target} ({details}); `lanekit daemon` starts one",
                code.name,
            ) from error
        if code is grpc.StatusCode.NOT_FOUND:
            raise errors.RunNotFound(details) from error
        if code is grpc.StatusCode.ALREADY_EXISTS:
            raise errors.RunExists(details) from error
        if code is grpc.StatusCode.UNAUTHENTICATED:
            details += "; give the daemon's token (--token-file FILE)"
        raise errors.DaemonError(
            f"the daemon at {self.target} refused: {details}", code.name
        ) from (error)
