"""A real daemon in a process of its own, and the events that tests send it."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # tools take it from here, too

from lanekit.slow.limits import MAX_RECEIVED_BYTES
from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.proto.telemetry_pb2_grpc import TrainerServiceStub
from lanekit.slow.request_parts import cut
from patience import patience

OPTIONS = [
    ("grpc.max_send_message_length", 2**28),
    ("grpc.max_receive_message_length", 2**28),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.min_reconnect_backoff_ms", 5_000),  # how long it may take to connect
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 200),
]


class DaemonProcess:
    """Starts, ends and kills ``lanekit daemon`` on one store."""

    def __init__(self, directory: Path, *options: str, **constants: float) -> None:
        self.directory = directory
        self.store = directory / "lanekit.db"
        self.socket = directory / "d.sock"
        self.log = directory / "daemon.log"
        self.spools = directory / "spool"
        self.options = options
        # Times of the daemon's that a test can not wait for: silence__LOST_AFTER=1.0
        self.constants = constants
        self.process: subprocess.Popen[bytes] | None = None
        self.announcement = ""
        self.prefix: list[str] = []
        """What goes before its command."""

    @property
    def target(self) -> str:
        return f"unix:{self.socket}"

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def command(self, *options: str) -> list[str]:
        arguments = ["daemon", "--store", str(self.store), "--socket", str(self.socket), *options]
        if not self.constants:
            return [*self.prefix, sys.executable, "-m", "lanekit", *arguments]
        lines = ["import sys, importlib", "from lanekit.cli import main"]
        for name, value in self.constants.items():
            module, _, constant = name.rpartition("__")
            # web__connections__HEADER_SECONDS is the page's; a module alone is the daemon's.
            path = module.replace("__", ".") if "__" in module else f"daemon.{module}"
            place = f"importlib.import_module('lanekit.slow.{path}')"
            lines.append(f"{place}.{constant} = {value}")
        return [sys.executable, "-c", "\n".join([*lines, "sys.exit(main())"]), *arguments]

    def start(self) -> DaemonProcess:
        """Start it and wait until it answers."""
        assert self.process is None
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command(*self.options),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                bufsize=0,
            )
        assert self.process.stdout is not None
        readable, _, _ = select.select([self.process.stdout], [], [], patience())
        line = self.process.stdout.readline().decode() if readable else ""
        assert line.startswith("listening on "), f"{line!r}; {self.log.read_text()}"
        self.announcement = line.strip()
        return self

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Ask it to end, and return its status."""
        self.signal(number)
        return self.wait()

    def kill(self) -> None:
        """End it without a chance to tidy up."""
        self.signal(signal.SIGKILL)
        self.wait()

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def wait(self) -> int:
        assert self.process is not None
        assert self.process.stdout is not None
        status = self.process.wait(patience())
        self.process.stdout.close()
        self.process = None
        return status

    def close(self) -> None:
        if self.process is not None:
            self.kill()

    def said(self) -> str:
        """All it ever logged."""
        return self.log.read_text() if self.log.exists() else ""

    def end_children(self) -> None:
        """Kill the proxies and workers that outlived the daemon, as they are meant to."""
        for spool in self.spools.glob("*/"):
            pids = []
            with contextlib.suppress(OSError, ValueError):
                worker = json.loads((spool / "worker.json").read_text())
                pids += [worker["pid"], worker.get("keeper_pid", 0)]
            with contextlib.suppress(OSError, ValueError):
                pids.append(int((spool / "lock").read_text()))
            for pid in pids:
                with contextlib.suppress(OSError):
                    if (
                        str(spool) in Path(f"/proc/{pid}/environ").read_text()
                        or str(spool) in Path(f"/proc/{pid}/cmdline").read_text()
                    ):
                        os.kill(pid, signal.SIGKILL)

    def refusal(self, *options: str) -> tuple[int, str]:
        """Start another daemon that must not come up; return its status and what it says."""
        result = subprocess.run(
            self.command(*options), capture_output=True, timeout=patience(), check=False
        )
        assert b"listening on" not in result.stdout
        return result.returncode, result.stderr.decode()

    def memory(self) -> int:
        """Resident bytes."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    @contextmanager
    def connect(self) -> Iterator[TrainerServiceStub]:
        """Open a channel."""
        with grpc.insecure_channel(self.target, OPTIONS) as channel:
            yield TrainerServiceStub(channel)


def obeying_permissions() -> list[str]:
    """What goes before a command so that files' permissions hold for it, even if it is root's."""
    if os.geteuid():
        return []
    return ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def columns(rows: int, first: int = 0, agent: str = "a", text: bytes = b"[0.5, 1]") -> Any:
    """Steps whose step index tells them apart."""
    return pb.StepColumns(
        rows=rows,
        names=["w", agent],
        worker_index=[0] * rows,
        agent_index=[1] * rows,
        episode=[first // 100] * rows,
        step=range(first, first + rows),
        observation_json=[text] * rows,
        reward=[0.5] * rows,
        wall_time_ns=range(first, first + rows),
    )


def steps(run: str, first_seq: int, rows: int, stream: str = "s1", agent: str = "a") -> Any:
    return pb.PublishRunStepsRequest(
        run_id=run,
        stream_id=stream,
        first_seq=first_seq,
        columns=columns(rows, first_seq - 1, agent),
    )


def events(run: str, first_seq: int, *names: str, stream: str = "s1", payload: bytes = b"") -> Any:
    return pb.PublishRunEventsRequest(
        run_id=run,
        stream_id=stream,
        first_seq=first_seq,
        events=[pb.RunEvent(name=name, wall_time_ns=1, payload_json=payload) for name in names],
    )


def register(stub: TrainerServiceStub, run: str, stream: str = "s1", **more: Any) -> Any:
    return stub.RegisterWorker(
        pb.RegisterWorkerRequest(run_id=run, stream_id=stream, **more), timeout=patience(30)
    )


def publish(method: Any, *requests: Any) -> list[int]:
    """Publish and return the acknowledged numbers."""
    messages = (message for request in requests for message in in_parts(request))
    return [ack.committed_seq for ack in method(messages, timeout=patience())]


def in_parts(request: Any) -> Iterator[Any]:
    """The messages that carry a request: itself, or its parts if it is too large for one."""
    kind, data = type(request), request.SerializeToString()
    for message in cut(kind, request.run_id, data, MAX_RECEIVED_BYTES):
        yield kind.FromString(message)


def publish_steps(
    stub: TrainerServiceStub, run: str, rows: int, stream: str = "s1", agent: str = "a"
) -> None:
    """Register a stream and fill it."""
    first = register(stub, run, stream).committed_steps + 1
    batches = [
        steps(run, seq, min(1000, first + rows - seq), stream, agent)
        for seq in range(first, first + rows, 1000)
    ]
    assert publish(stub.PublishRunSteps, *batches)[-1] == first + rows - 1


def history(stub: TrainerServiceStub, run: str, cursor: int = 0, **more: Any) -> list[Any]:
    """The steps of a run that are committed now."""
    request = pb.StreamRunStepsRequest(
        run_id=run, cursor=cursor, history_only=True, row_wise=True, **more
    )
    return [
        step for page in stub.StreamRunSteps(request, timeout=patience()) for step in page.steps
    ]


def run_of(stub: TrainerServiceStub, run: str) -> Any:
    return stub.ListRuns(pb.ListRunsRequest(run_id=run), timeout=patience(30)).runs[0]


def event_names(stub: TrainerServiceStub, run: str) -> list[str]:
    request = pb.StreamRunEventsRequest(run_id=run, history_only=True)
    return [
        e.name for page in stub.StreamRunEvents(request, timeout=patience()) for e in page.events
    ]


class OpenCall:
    """A bidirectional call that a test feeds one request at a time."""

    def __init__(self, method: Any) -> None:
        self._requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._call = method(iter(self._requests.get, None), timeout=patience(120))

    def send(self, *requests: Any) -> None:
        for request in requests:
            self._requests.put(request)

    def read(self) -> Any:
        return next(self._call)

    def read_until(self, seq: int) -> None:
        while self.read().committed_seq < seq:
            pass

    def finish(self) -> list[Any]:
        """Say that no more comes, and return what the daemon still answers."""
        self._requests.put(None)
        return list(self._call)

    def failure(self) -> grpc.RpcError:
        """Read to the call's end, which must be an error."""
        try:
            for _ in self._call:
                pass
        except grpc.RpcError as error:
            return error
        finally:
            self._requests.put(None)
        raise AssertionError("the call ended without an error")

    def cancel(self) -> None:
        self._call.cancel()
        self._requests.put(None)


def failure_of(call: Callable[[], Any]) -> grpc.RpcError:
    """Return the error that a call, or reading its answers, ends with."""
    try:
        answer = call()
        if isinstance(answer, Iterable):
            list(answer)
    except grpc.RpcError as error:
        return error
    raise AssertionError("the call succeeded")
