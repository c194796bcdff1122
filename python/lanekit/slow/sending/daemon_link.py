"""A sender's connection: what is to be sent goes out, acknowledgements and commands come back.

A *session* begins with RegisterWorker, which says what is committed already, and lasts until any of
its calls ends. Then everything not acknowledged is sent again in the next session, for as long as
it takes. What the daemon refuses for good ends that: the link reports it and sends no more.

One stream at a time: `switch` ends a session whose stream is all acknowledged, and the next session
announces the stream that continues it.
"""

from __future__ import annotations

import os
import random
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import grpc

from lanekit.slow.endpoint import token_metadata
from lanekit.slow.limits import MAX_RECEIVED_BYTES, SEND_WINDOW
from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.request_parts import PublishRequest, cut
from lanekit.slow.sending.heartbeats import Command, Heartbeats, Session
from lanekit.slow.sending.journal_reader import Request
from lanekit.slow.sending.spool import KINDS, Checkpoint, Spool

WINDOW_BYTES = 32 * 2**20
"""Sent ahead of acknowledgements in all; a batch that is larger goes alone."""
_SERVICE = "/lanekit.telemetry.v1.TrainerService/"
_METHODS = {
    "steps": _SERVICE + "PublishRunSteps",
    "episodes": _SERVICE + "PublishRunEpisodes",
    "events": _SERVICE + "PublishRunEvents",
}
_REQUESTS: dict[str, type[PublishRequest]] = {
    "steps": pb.PublishRunStepsRequest,
    "episodes": pb.PublishRunEpisodesRequest,
    "events": pb.PublishRunEventsRequest,
}
_REFUSALS = {
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.OUT_OF_RANGE,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.UNIMPLEMENTED,
    grpc.StatusCode.ALREADY_EXISTS,
}
"""Answers that the same request would get again."""
_CONSUMER_PATIENCE = 5.0
_ATTEMPTS = 3
"""How often a request is tried again all the same: a daemon may just have been replaced."""
_CREDENTIALS = {grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED}
_BEHIND_INTERVAL = 5.0
"""Seconds until a daemon that has less than it acknowledged is asked again ..."""
_BEHIND_INTERVAL_AT_THE_END = 0.5
"""... and when nothing else is left to wait for."""


class Lane:
    """The requests of one kind: those not acknowledged, and of them those not sent yet."""

    def __init__(self, guard: threading.Lock) -> None:
        self.unacknowledged: deque[Request] = deque()
        self.unsent: deque[Request] = deque()
        self.acknowledged = 0
        self.ready = threading.Condition(guard)


class DaemonLink:
    """Sends requests until they are acknowledged."""

    def __init__(
        self,
        spool: Spool,
        channel: grpc.Channel,
        *,
        token: str | None = None,
        require_run: bool = False,
        worker_pid: int | None = None,
        on_acknowledged: Callable[[], None],
        on_command: Callable[[Command], bool] | None = None,
        vital_signs: Callable[[], tuple[int, int]] = lambda: (0, 0),
        is_complete: Callable[[], bool] = lambda: False,
        position: Checkpoint,
        report: Callable[[str], None],
    ) -> None:
        self._spool = spool
        self._channel = channel
        self._metadata = token_metadata(token)
        self._require_run = require_run
        self._worker_pid = worker_pid
        self._on_acknowledged = on_acknowledged
        self._is_complete = is_complete
        self._report = report
        self._guard = threading.Lock()
        self._heartbeats = Heartbeats(spool, self._guard, on_command, vital_signs)
        self._heartbeats.begin_stream(position.published_id)
        self._begin = position
        """Where this link began to send the stream: what is before it was acknowledged."""
        self._told: set[str] = set()
        self._lanes = {kind: Lane(self._guard) for kind in KINDS}
        self._bytes = 0
        self._session: Session | None = None
        self._stopping = threading.Event()
        self._acknowledgements = 0
        self._largest_message = MAX_RECEIVED_BYTES
        self._away = ""
        self._behind: str | None = None
        self.refused: str | None = None
        """Why the daemon will not take what is next, if so."""
        self._thread = threading.Thread(target=self._run, name="lanekit-link", daemon=True)

    def start(self) -> None:
        """Begin to connect."""
        self._thread.start()

    def has_room(self) -> bool:
        """Tell whether another request of any kind may be handed over."""
        with self._guard:
            if self._bytes >= WINDOW_BYTES:
                return False
            return all(len(lane.unacknowledged) < SEND_WINDOW for lane in self._lanes.values())

    def put(self, request: Request) -> None:
        """Take a request; what is committed already is recognised here."""
        lane = self._lanes[request.kind]
        with self._guard:
            if request.last_seq <= lane.acknowledged:
                return
            lane.unacknowledged.append(request)
            lane.unsent.append(request)
            self._bytes += len(request.data)
            lane.ready.notify()
            if self._session is not None and request.kind not in self._session.calls:
                self._session.changed.notify_all()

    def acknowledged(self) -> dict[str, int]:
        """Return the highest number committed of each kind."""
        with self._guard:
            return {kind: lane.acknowledged for kind, lane in self._lanes.items()}

    def switch(self, position: Checkpoint) -> None:
        """Send another stream from here on; all of the one before must be acknowledged."""
        with self._guard:
            self._begin = position
            self._heartbeats.begin_stream(position.published_id)
            for lane in self._lanes.values():
                assert not lane.unacknowledged
                lane.acknowledged = 0
            if self._session is not None:
                # Acknowledgements that are still under way count for nothing from here on.
                self._session.over = True
                self._session.changed.notify_all()

    def say_last(self, timeout: float) -> None:
        """Let the daemon know the last count of rejected lines, if it is there."""
        with self._guard:
            session = self._session
        if session is not None:
            self._heartbeats.say_last(session, timeout)

    def close(self) -> None:
        """End the calls and the threads. What is not acknowledged stays in the spool."""
        self._stopping.set()
        with self._guard:
            if self._session is not None:
                self._session.over = True
                self._session.changed.notify_all()
        self._channel.close()
        self._thread.join()

    # --- sessions ---------------------------------------------------------------------------------

    def _run(self) -> None:
        delay, futile, behind = 0.1, 0, 0
        while not self._stopping.is_set() and self.refused is None:
            before, position = self._acknowledgements, self._begin
            began = time.monotonic()
            error = self._hold_session()
            if self._stopping.is_set():
                return
            if self._begin is not position:
                delay, futile, behind = 0.1, 0, 0
                continue
            if self._behind is not None:
                behind = behind + 1 if self._is_complete() else 0
                if behind > _ATTEMPTS:
                    self._give_up(self._behind)
                    return
                self._wait_while_behind()
                continue
            behind = 0
            code = error.code() if error is not None else None
            if self._acknowledgements != before:
                futile = 0
            if code in _REFUSALS and not is_busy(error):
                futile += 1
                if futile > _ATTEMPTS:
                    self._refuse(error)
                    return
            if self._acknowledgements != before or time.monotonic() - began > 2.0:
                delay = 0.1
            self._say_away(error)
            longest = 5.0 if code in _CREDENTIALS else 2.0
            self._stopping.wait(delay * random.uniform(0.5, 1.0))
            delay = min(2 * delay, longest)

    def _hold_session(self) -> grpc.RpcError | None:
        """Connect, and stay until a call ends; return its error."""
        position = self._begin
        try:
            response = self._register(position)
        except (grpc.RpcError, ValueError) as error:  # ValueError: the channel was closed
            return error if isinstance(error, grpc.RpcError) else None
        session = Session(self._guard)
        if not self._resume_from(response, position, session):
            return None
        if self._away:
            self._away = ""
            self._report("the daemon is there again")
        threads = [self._open(session, "heartbeat")]
        with self._guard:
            while not session.over:
                missing = [k for k in KINDS if self._lanes[k].unsent and k not in session.calls]
                if missing:
                    session.calls[missing[0]] = None
                    self._guard.release()
                    try:
                        threads.append(self._open(session, missing[0]))
                    finally:
                        self._guard.acquire()
                else:
                    session.changed.wait()
            self._session = None
            for lane in self._lanes.values():
                lane.ready.notify_all()
            calls = [call for call in session.calls.values() if call is not None]
        for call in calls:
            call.cancel()
        for thread in threads:
            thread.join()
        for consumer in session.consumers:
            consumer.join(_CONSUMER_PATIENCE)
        return session.error

    def _register(self, position: Checkpoint) -> pb.RegisterWorkerResponse:
        method = self._channel.unary_unary(
            _SERVICE + "RegisterWorker",
            request_serializer=pb.RegisterWorkerRequest.SerializeToString,
            response_deserializer=pb.RegisterWorkerResponse.FromString,
        )
        request = pb.RegisterWorkerRequest(
            run_id=self._spool.run_id,
            stream_id=position.published_id,
            worker_id=self._spool.worker_id,
            pid=self._worker_pid if self._worker_pid is not None else os.getpid(),
            host=socket.gethostname(),
            spool_directory=str(self._spool.directory),
            require_run=self._require_run,
            journal_id=self._spool.journal_id,
            continues=pb.StreamPosition(**position.continues) if position.continues else None,
        )
        response: pb.RegisterWorkerResponse = method(request, timeout=10, metadata=self._metadata)
        return response

    def _resume_from(
        self, response: pb.RegisterWorkerResponse, position: Checkpoint, session: Session
    ) -> bool:
        """Go on after what the daemon has; False if it has less than it said once.

        Then it may have been started with another store by mistake, so it is asked again.
        """
        committed = {
            "steps": response.committed_steps,
            "episodes": response.committed_episodes,
            "events": response.committed_events,
        }
        self._behind = None
        with self._guard:
            if self._begin is not position:
                return False  # all of it is acknowledged: the next stream is to be announced
            before = position.continues
            for kind, lane in self._lanes.items():
                kept = max(lane.acknowledged, position.next_seq[kind] - 1)
                found, had = committed[kind], kept
                stream_id = position.published_id
                if before and getattr(response.continued, kind) < before[kind]:
                    found, had = getattr(response.continued, kind), before[kind]
                    stream_id = before["stream_id"]
                if found < had:
                    self._behind = (
                        f"the daemon has only {found} {kind} of stream {stream_id}, but had "
                        f"acknowledged {had}: its store was replaced, or lost its newest part. "
                        "Bring the old store back, or send the rest as a new stream, once this "
                        "process has ended: `lanekit proxy --adopt "
                        f"{self._spool.directory} --new-stream`"
                    )
                    return False
            for kind, lane in self._lanes.items():
                self._acknowledge(lane, committed[kind])
                lane.unsent = deque(lane.unacknowledged)
            self._largest_message = response.max_message_bytes
            self._session = session
        if response.notice and position.published_id not in self._told:
            self._told.add(position.published_id)
            self._report(response.notice)
        self._on_acknowledged()
        return True

    def _wait_while_behind(self) -> None:
        if self._behind is not None and self._away != "behind":
            self._away = "behind"
            self._report(f"{self._behind}. Until then events are kept there")
        began = time.monotonic()
        while not self._stopping.wait(0.1):
            complete = self._is_complete()
            pause = _BEHIND_INTERVAL_AT_THE_END if complete else _BEHIND_INTERVAL
            if time.monotonic() - began >= pause:
                return

    def _open(self, session: Session, kind: str) -> threading.Thread:
        """Begin one call; a thread reads what comes back."""
        method: Any
        if kind == "heartbeat":
            method = self._channel.stream_stream(
                _SERVICE + "Heartbeat",
                request_serializer=pb.HeartbeatRequest.SerializeToString,
                response_deserializer=pb.HeartbeatResponse.FromString,
            )
            requests: Iterator[Any] = self._heartbeats.requests(session)
        else:
            method = self._channel.stream_stream(
                _METHODS[kind],
                request_serializer=None,
                response_deserializer=pb.PublishAck.FromString,
            )
            requests = self._requests(session, self._lanes[kind])
        thread = threading.Thread(
            target=self._listen,
            args=(session, kind, method, requests),
            name=f"lanekit-{kind}",
            daemon=True,
        )
        thread.start()
        return thread

    def _listen(self, session: Session, kind: str, method: Any, requests: Iterator[Any]) -> None:
        error: grpc.RpcError | None = None
        try:
            call = method(requests, metadata=self._metadata)
            with self._guard:
                session.calls[kind] = call
                over = session.over
            if over:
                call.cancel()
            for response in call:
                if kind == "heartbeat":
                    self._heartbeats.take(session, response)
                else:
                    with self._guard:
                        if session.over:
                            break  # the numbers may be another stream's by now
                        self._acknowledge(self._lanes[kind], response.committed_seq)
                    self._on_acknowledged()
        except grpc.RpcError as ended:
            error = ended
        except ValueError:
            pass  # the channel was closed
        with self._guard:
            if not session.over:
                session.over, session.error = True, error
                session.changed.notify_all()

    def _requests(self, session: Session, lane: Lane) -> Iterator[bytes]:
        session.consumers.append(threading.current_thread())
        while True:
            with self._guard:
                while not lane.unsent and not session.over:
                    lane.ready.wait()
                if session.over:
                    return
                request = lane.unsent.popleft()
            kind, run_id = _REQUESTS[request.kind], self._spool.run_id
            yield from cut(kind, run_id, request.data, self._largest_message)

    def _acknowledge(self, lane: Lane, committed: int) -> None:
        if committed > lane.acknowledged:
            lane.acknowledged = committed
            self._acknowledgements += 1
        while lane.unacknowledged and lane.unacknowledged[0].last_seq <= committed:
            self._bytes -= len(lane.unacknowledged.popleft().data)

    # --- words ------------------------------------------------------------------------------------

    def _say_away(self, error: grpc.RpcError | None) -> None:
        """Say once that events are kept here, and why."""
        reason = "it ended the call" if error is None else f"{error.code().name}: {error.details()}"
        code = reason.split(":")[0]
        if self._away != code:
            self._away = code
            self._report(
                f"the daemon does not take events now ({reason}); they are kept in "
                f"{self._spool.directory} and sent later"
            )

    def _refuse(self, error: grpc.RpcError | None) -> None:
        reason = "it ended the call" if error is None else f"{error.code().name}: {error.details()}"
        self._give_up(
            f"the daemon refuses this stream's events ({reason}); nothing more is sent. They are "
            f"kept in {self._spool.directory}; once the cause is removed, "
            f"`lanekit proxy --adopt {self._spool.directory}` sends them"
        )

    def _give_up(self, why: str) -> None:
        self.refused = why
        self._report(why)
        self._on_acknowledged()


def is_busy(error: Any) -> bool:
    """Tell whether the daemon itself says that it has too much to do: later it takes the same."""
    return error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED and any(
        key == "lanekit-answer" for key, _ in error.trailing_metadata() or ()
    )
