"""Everything a daemon can be asked, from Python: submit, watch, control and read runs."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, NoReturn, Self

import grpc

from lanekit import errors
from lanekit.slow.endpoint import default_socket, open_channel, parse_target, token_metadata
from lanekit.slow.frame_messages import read_lane
from lanekit.slow.frame_stream import FrameStream
from lanekit.slow.limits import CANCEL_GRACE, MAX_MESSAGE_BYTES, MAX_RECEIVED_BYTES
from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.proto.telemetry_pb2_grpc import TrainerServiceStub
from lanekit.slow.watched_frames import DEFAULT_RATE, LaneInfo, Recipe

START_PATIENCE = 5.0
"""Seconds for a daemon of this machine to begin to listen: it may just have been started."""

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
        self._channel = open_channel(self.target, ca_file, insecure)
        self._stub = TrainerServiceStub(self._channel)
        self._metadata = token_metadata(token)
        self._timeout = timeout
        self._insecure = insecure

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
        answer: pb.SubmitRunResponse = self._ask(self._stub.SubmitRun, request)
        return answer.run

    def cancel_run(self, run_id: str, *, grace: float | None = None) -> pb.Run:
        """End a run's workers, politely for `grace` seconds; returns the run once they are gone."""
        request = pb.CancelRunRequest(run_id=run_id, grace_seconds=grace)
        patience = self._timeout + (CANCEL_GRACE if grace is None else grace)
        answer: pb.CancelRunResponse = self._ask(self._stub.CancelRun, request, patience)
        return answer.run

    def archive_run(self, run_id: str, *, archived: bool = True) -> pb.Run:
        """Hide a run from listings, or show it again."""
        request = pb.ArchiveRunRequest(run_id=run_id, archived=archived)
        answer: pb.ArchiveRunResponse = self._ask(self._stub.ArchiveRun, request)
        return answer.run

    def list_runs(self, *, include_archived: bool = False, limit: int = 0) -> list[pb.Run]:
        """Return the runs, newest first."""
        request = pb.ListRunsRequest(include_archived=include_archived, limit=limit)
        answer: pb.ListRunsResponse = self._ask(self._stub.ListRuns, request)
        return list(answer.runs)

    def store_problem(self) -> str:
        """Return why the daemon cannot write its store now; empty if it can."""
        answer: pb.ListRunsResponse = self._ask(self._stub.ListRuns, pb.ListRunsRequest(limit=1))
        return answer.store_problem

    def run(self, run_id: str) -> pb.Run:
        """Return one run as it is now."""
        request = pb.ListRunsRequest(run_id=run_id, include_archived=True)
        answer: pb.ListRunsResponse = self._ask(self._stub.ListRuns, request)
        return answer.runs[0]

    def control_run(self, run_id: str, action: str) -> tuple[int, int]:
        """Ask a run's workers to pause, resume or stop.

        Returns the command's number, and how many workers are connected to get it at once.
        """
        if action not in _ACTIONS:
            raise ValueError(f"an action is one of {', '.join(_ACTIONS)}, not {action!r}")
        request = pb.ControlRunRequest(run_id=run_id, action=_ACTIONS[action])
        response: pb.ControlRunResponse = self._ask(self._stub.ControlRun, request)
        return response.command_id, response.connected_workers

    def watch_runs(self, after_revision: int = 0) -> Iterator[pb.WatchRunsResponse]:
        """Yield every run as it is now, then each change as it happens."""
        request = pb.WatchRunsRequest(after_revision=after_revision)
        return self._stream(self._stub.WatchRuns, request)

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
        return self._stream(self._stub.StreamRunSteps, request)

    def stream_episodes(
        self, run_id: str, *, cursor: int = 0, history_only: bool = False
    ) -> Iterator[pb.StreamRunEpisodesResponse]:
        """Yield a run's committed episodes from a cursor on."""
        request = pb.StreamRunEpisodesRequest(
            run_id=run_id, cursor=cursor, history_only=history_only
        )
        return self._stream(self._stub.StreamRunEpisodes, request)

    def stream_events(
        self, run_id: str, *, cursor: int = 0, history_only: bool = False
    ) -> Iterator[pb.StreamRunEventsResponse]:
        """Yield a run's committed log events from a cursor on."""
        request = pb.StreamRunEventsRequest(run_id=run_id, cursor=cursor, history_only=history_only)
        return self._stream(self._stub.StreamRunEvents, request)

    def list_lanes(self, run_id: str = "") -> list[LaneInfo]:
        """Return what can be watched on the daemon's machine: of a run, or of every run."""
        request = pb.ListLanesRequest(run_id=run_id)
        answer: pb.ListLanesResponse = self._ask(self._stub.ListLanes, request)
        return [read_lane(lane) for lane in answer.lanes]

    def watch_frames(
        self,
        run_id: str,
        lane: str = "",
        *,
        rate: float = DEFAULT_RATE,
        recipe: Recipe | None = None,
    ) -> FrameStream:
        """Watch a run's lane on the daemon's machine, whether or not it is there yet.

        `rate` is the most frames per second; `recipe` says how large and in which encoding.
        """
        return FrameStream(
            self._stub.WatchFrames,
            self._metadata,
            run_id,
            lane,
            rate,
            recipe or Recipe(),
            self._fail,
        )

    def open_web(self, port: int = 0) -> pb.OpenWebResponse:
        """Have the daemon serve the browser's page on its machine's loopback, and say where."""
        answer: pb.OpenWebResponse = self._ask(self._stub.OpenWeb, pb.OpenWebRequest(port=port))
        return answer

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

    def _ask(self, method: Any, request: Any, timeout: float | None = None) -> Any:
        """Make a call. A daemon of this machine that is not there yet gets time to start."""
        give_up_at = time.monotonic() + (START_PATIENCE if self.target.is_loopback else 0.0)
        with self._translated():
            while True:
                try:
                    return method(
                        request, timeout=timeout or self._timeout, metadata=self._metadata
                    )
                except grpc.RpcError as error:
                    # Nobody listened, so the request did not go out, and may be made again.
                    if not nobody_listens(error) or time.monotonic() > give_up_at:
                        raise
                    time.sleep(0.05)

    def _stream(self, method: Any, request: Any) -> Iterator[Any]:
        with self._translated():
            call = method(request, metadata=self._metadata)
            try:
                yield from call
            finally:
                call.cancel()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except grpc.RpcError as error:
            self._fail(error)

    def _fail(self, error: Any) -> NoReturn:
        code: grpc.StatusCode = error.code()
        details = error.details() or code.name
        if code is grpc.StatusCode.NOT_FOUND:
            raise errors.RunNotFound(
                f"{details}; `lanekit runs --all` lists what there is"
            ) from error
        if code is grpc.StatusCode.ALREADY_EXISTS:
            raise errors.RunExists(details) from error
        if code is grpc.StatusCode.DEADLINE_EXCEEDED:
            raise errors.DaemonUnavailable(
                f"the daemon at {self.target} did not answer in time; its log says whether it can "
                "write its store",
                code.name,
            ) from error
        if code is grpc.StatusCode.UNAVAILABLE and not is_answer(error):
            raise errors.DaemonUnavailable(
                f"no daemon answers at {self.target}{self._remedy(error, details)}", code.name
            ) from error
        if code is grpc.StatusCode.RESOURCE_EXHAUSTED and not is_answer(error):
            raise errors.DaemonError(
                f"the daemon at {self.target} takes messages of at most"
                f" {MAX_RECEIVED_BYTES // 2**20} MiB, and gives ones of at most"
                f" {MAX_MESSAGE_BYTES // 2**20} MiB ({details}); ask for less at once",
                code.name,
            ) from error
        kind = errors.DaemonError
        if code is grpc.StatusCode.UNAVAILABLE:
            kind, verb = errors.DaemonUnavailable, "can not do this now"
        else:
            verb = "refused"
        raise kind(f"the daemon at {self.target} {verb}: {details}", code.name) from error

    def _remedy(self, error: Any, details: str) -> str:
        """Say what may help when the connection failed."""
        if sign := nobody_listens(error):
            return f" ({sign.lower()}); `lanekit daemon` starts one"
        if self.target.is_unix:
            return f" ({details}): it may just have ended"
        if self._insecure:
            return (
                f" without TLS ({details}): if it was started with --tls-cert, leave "
                "--insecure-loopback out, and name its authority with --tls-ca FILE"
            )
        if any(word in details.lower() for word in ("ssl", "tls", "handshake", "certificate")):
            return (
                f" with a certificate that is trusted here ({details}): name its authority with "
                "--tls-ca FILE, or, if it was started with --insecure-loopback, give that here too"
            )
        return f" ({details}): is the address right, and can it be reached?"


def is_answer(error: Any) -> bool:
    """Tell whether an error is the daemon's own answer, and not gRPC's about the connection."""
    return any(key == "lanekit-answer" for key, _ in error.trailing_metadata() or ())


def nobody_listens(error: Any) -> str:
    """Return the system's word for it if there is no socket, or nobody behind it; else nothing."""
    if error.code() is not grpc.StatusCode.UNAVAILABLE or is_answer(error):
        return ""
    details = error.details() or ""
    signs = ("Connection refused", "No such file or directory")
    return next((sign for sign in signs if sign in details), "")
