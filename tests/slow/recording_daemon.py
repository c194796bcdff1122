"""A real gRPC server that keeps events in memory, with switches for what a daemon seldom does.

And a relay, to cut a connection in the middle of a message.
"""

# ruff: noqa: N802 (rpcs are named by the protocol)

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections import defaultdict, deque
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc

from lanekit.slow.batches import rows_to_steps
from lanekit.slow.limits import MAX_MESSAGE_BYTES
from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.proto import telemetry_pb2_grpc as pb_grpc
from patience import patience, until


class Stream:
    def __init__(self) -> None:
        self.rows: dict[str, list[Any]] = {"steps": [], "episodes": [], "events": []}
        self.registered: list[pb.RegisterWorkerRequest] = []


class RecordingDaemon(pb_grpc.TrainerServiceServicer):
    """Serves on a Unix socket; what it "committed" survives :meth:`restart`."""

    def __init__(self, directory: Path) -> None:
        self.path = str(directory / "recording.sock")
        self.target = f"unix:{self.path}"
        self.streams: defaultdict[str, Stream] = defaultdict(Stream)
        self.lock = threading.RLock()
        self.refuse: tuple[grpc.StatusCode, str] | None = None
        """Answer every batch with this."""
        self.refuse_registration: tuple[grpc.StatusCode, str] | None = None
        self.delay = 0.0
        """Seconds between a batch's commit and its acknowledgement."""
        self.hold_acknowledgements = False
        """Commit, and never say so."""
        self.forget = False
        """Take batches and lose them."""
        self.commands: list[tuple[int, pb.ControlAction.ValueType]] = []
        self.heartbeats: list[pb.HeartbeatRequest] = []
        self.batches = 0
        self.sizes: list[tuple[int, int]] = []
        """Rows and bytes of each batch."""
        self.metadata: list[tuple[str, str]] = []
        self.server: grpc.Server | None = None

    def start(self) -> RecordingDaemon:
        Path(self.path).unlink(missing_ok=True)
        options = [
            ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
            ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
        ]
        self.server = grpc.server(futures.ThreadPoolExecutor(32), options=options)
        pb_grpc.add_TrainerServiceServicer_to_server(self, self.server)
        self.server.add_insecure_port(self.target)
        self.server.start()
        return self

    def stop(self) -> None:
        if self.server is not None:
            self.server.stop(0).wait(patience(10))
            self.server = None

    def restart(self, away: float = 0.0) -> None:
        self.stop()
        time.sleep(away)
        self.start()

    def __enter__(self) -> RecordingDaemon:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    # --- what it holds ----------------------------------------------------------------------------

    def only_stream(self) -> Stream:
        with self.lock:
            (stream,) = self.streams.values()
            return stream

    def rows(self, kind: str = "steps") -> list[Any]:
        """The rows of all streams, one after the other."""
        with self.lock:
            return [row for stream in self.streams.values() for row in stream.rows[kind]]

    def rows_of_journal(self, journal_id: str) -> dict[str, list[Any]]:
        """The rows of one journal's streams, in the order of those."""
        with self.lock:
            streams = [s for s in self.streams.values() if s.registered[0].journal_id == journal_id]
            return {
                kind: [row for stream in streams for row in stream.rows[kind]]
                for kind in ("steps", "episodes", "events")
            }

    def count(self, kind: str = "steps") -> int:
        with self.lock:
            return sum(len(stream.rows[kind]) for stream in self.streams.values())

    def event_names(self) -> list[str]:
        return [event.name for event in self.rows("events")]

    def wait_for(self, kind: str, count: int) -> None:
        until(lambda: self.count(kind) >= count, f"{count} {kind}")

    # --- rpcs -------------------------------------------------------------------------------------

    def RegisterWorker(self, request: Any, context: Any) -> pb.RegisterWorkerResponse:
        self.metadata = list(context.invocation_metadata())
        if self.refuse_registration is not None:
            context.abort(*self.refuse_registration)
        with self.lock:
            stream = self.streams[request.stream_id]
            stream.registered.append(request)
            before = self.streams.get(request.continues.stream_id)
            continued = None
            if before is not None:
                numbers = {kind: len(rows) for kind, rows in before.rows.items()}
                continued = pb.StreamPosition(stream_id=request.continues.stream_id, **numbers)
            return pb.RegisterWorkerResponse(
                continued=continued,
                committed_steps=len(stream.rows["steps"]),
                committed_episodes=len(stream.rows["episodes"]),
                committed_events=len(stream.rows["events"]),
                max_message_bytes=MAX_MESSAGE_BYTES,
            )

    def PublishRunSteps(self, requests: Any, context: Any) -> Iterator[pb.PublishAck]:
        return self._take("steps", requests, context)

    def PublishRunEpisodes(self, requests: Any, context: Any) -> Iterator[pb.PublishAck]:
        return self._take("episodes", requests, context)

    def PublishRunEvents(self, requests: Any, context: Any) -> Iterator[pb.PublishAck]:
        return self._take("events", requests, context)

    def _take(self, kind: str, requests: Any, context: Any) -> Iterator[pb.PublishAck]:
        for request in requests:
            if self.refuse is not None:
                context.abort(*self.refuse)
            if self.forget:
                continue
            with self.lock:
                if request.stream_id not in self.streams:
                    context.abort(grpc.StatusCode.NOT_FOUND, "no such stream")
                rows = self.streams[request.stream_id].rows[kind]
                new = self._rows(kind, request)
                skip = len(rows) + 1 - request.first_seq
                if skip < 0:
                    context.abort(grpc.StatusCode.FAILED_PRECONDITION, "a gap")
                rows.extend(new[skip:])
                self.batches += 1
                self.sizes.append((len(new), request.ByteSize()))
                committed = len(rows)
            if self.delay:
                time.sleep(self.delay)
            if not self.hold_acknowledgements:
                yield pb.PublishAck(committed_seq=committed)

    @staticmethod
    def _rows(kind: str, request: Any) -> list[Any]:
        if kind == "steps":
            return rows_to_steps(request.columns, request.run_id)
        return list(request.episodes if kind == "episodes" else request.events)

    def Heartbeat(self, requests: Any, context: Any) -> Iterator[pb.HeartbeatResponse]:
        answers: deque[pb.HeartbeatResponse] = deque()
        delivered = [0]

        def read() -> None:
            with contextlib.suppress(grpc.RpcError):
                for request in requests:
                    self.heartbeats.append(request)
                    delivered[0] = max(delivered[0], request.delivered_command_id)
                    answers.append(pb.HeartbeatResponse())

        threading.Thread(target=read, daemon=True).start()
        while context.is_active() and self.server is not None:
            while answers:
                yield answers.popleft()
            for number, action in list(self.commands):
                if self.heartbeats and number > delivered[0]:
                    delivered[0] = number
                    command = pb.ControlCommand(command_id=number, action=action)
                    yield pb.HeartbeatResponse(command=command)
            time.sleep(0.02)


class Relay:
    """Passes bytes between clients and a server; can cut, and can stop after so many bytes."""

    def __init__(self, directory: Path, server_path: str, name: str = "relay.sock") -> None:
        self.path = str(directory / name)
        self.target = f"unix:{self.path}"
        self._server_path = server_path
        self.budget: int | None = None
        """Bytes from the client after which every connection is cut, once."""
        self.cuts = 0
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        self._listener.listen()
        self._open = True
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        self.cuts += 1
        pairs, self._pairs = self._pairs, []
        for pair in pairs:
            for end in pair:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
                end.close()

    def close(self) -> None:
        self._open = False
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def __enter__(self) -> Relay:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _accept(self) -> None:
        while self._open:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            try:
                server.connect(self._server_path)
            except OSError:
                client.close()
                server.close()
                continue
            self._pairs.append((client, server))
            threading.Thread(target=self._pass, args=(client, server, True), daemon=True).start()
            threading.Thread(target=self._pass, args=(server, client, False), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, counted: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if counted and self.budget is not None:
                    if len(data) > self.budget:
                        target.sendall(data[: self.budget])
                        self.budget = None
                        self.cut()
                        return
                    self.budget -= len(data)
                target.sendall(data)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


def step_line(index: int, **more: Any) -> bytes:
    """A typical line: 270 bytes."""
    line = {
        "event_type": "step",
        "agent_id": "agent_0",
        "episode_index": index // 200,
        "step_index": index % 200,
        "action": index,
        "observation": [round(0.1 * (index % 7 + k), 6) for k in range(8)],
        "reward": (index % 10) * 0.25,
        "terminated": False,
        "truncated": index % 200 == 199,
        "info": {"lives": 3},
        "time_ns": 1_700_000_000_000_000_000 + index,
        **more,
    }
    return json.dumps(line).encode() + b"\n"


def actions(daemon: RecordingDaemon) -> list[int]:
    """The actions of the steps it has, which tests number."""
    return [json.loads(step.action_json) for step in daemon.rows()]
