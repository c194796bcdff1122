"""The processes of the remote measurements: a worker, a daemon on TCP, a sender of plain bytes."""

from __future__ import annotations

import json
import re
import select
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Self

import numpy as np

from bench.slow_processes import _LANEKIT, _Process, wait_until
from lanekit import FastLaneConfig, FastLaneMetrics, FastLaneWriter
from lanekit.slow.certificates import make_certificates
from lanekit.slow.daemon_client import DaemonClient

TOKEN = "a-token-for-the-benchmark"
HEAD = struct.Struct("<qI")
"""When a message was begun, on the wall clock, and how many bytes follow."""


class TcpDaemon(_Process):
    """A `lanekit daemon` on loopback, in plain text or with TLS."""

    def __init__(self, directory: Path, *, tls: bool) -> None:
        directory.mkdir()
        token = directory / "token"
        token.write_text(TOKEN)
        token.chmod(0o600)
        security = ["--insecure-loopback"]
        self._authority = None
        if tls:
            made = make_certificates(directory / "certs")
            self._authority = made.authority
            security = ["--tls-cert", str(made.certificate), "--tls-key", str(made.key)]
        # Unix sockets have short names; a disk far down may not.
        command = [
            *(*_LANEKIT, "daemon", "--store", str(directory / "lanekit.db")),
            *("--socket", f"/tmp/lk-bench-{time.time_ns()}", "--listen", "127.0.0.1:0"),
            *("--token-file", str(token), *security),
        ]
        super().__init__(command, directory / "log", {})

    def client(self) -> DaemonClient:
        """Return a client once it listens."""
        wait_until(lambda: self.check_alive() or "listening" in self.output(), "it listens")
        found = re.search(r"(127\.0\.0\.1:\d+)", self.output())
        assert found is not None
        insecure = self._authority is None
        return DaemonClient(found[1], token=TOKEN, ca_file=self._authority, insecure=insecure)


class Child:
    """This module in a process of its own, told what to do by one line of JSON."""

    def __init__(self, **task: Any) -> None:
        self.process = subprocess.Popen(
            (sys.executable, "-m", "bench.remote_process", json.dumps(task)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.first_line = self.process.stdout.readline().strip()

    def forget(self) -> None:
        """Have it forget what it measured so far."""
        assert self.process.stdin is not None
        self.process.stdin.write("forget\n")
        self.process.stdin.flush()

    def end(self) -> dict[str, Any]:
        """End it; return what it measured."""
        out, _ = self.process.communicate("")
        answer: dict[str, Any] = json.loads(out.splitlines()[-1])
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()


def _is_told(until: float) -> bool:
    return bool(select.select([sys.stdin], [], [], max(0.0, until - time.monotonic()))[0])


def _picture(width: int, height: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return something with edges and gradients, as environments draw: JPEG is not flattered."""
    y, x = np.mgrid[0:height, 0:width]
    picture = np.stack([x * 255 // width, y * 255 // height, (x // 16 + y // 16) % 2 * 200], 2)
    return picture.astype(np.uint8)


def _publish(run_id: str, width: int, height: int, rate: float) -> dict[str, Any]:
    """Publish at an even rate; return how long each publish took."""
    picture = _picture(width, height)
    took: list[int] = []
    config = FastLaneConfig(width, height, capacity=4, metadata_size=64)
    with FastLaneWriter.create(run_id, config) as writer:
        print("ready", flush=True)
        due = time.monotonic()
        while True:
            if _is_told(due):
                if not sys.stdin.readline():
                    break
                took.clear()
            picture[:8, :8] = len(took) % 256
            metrics = FastLaneMetrics(1.0, float(len(took)), rate)
            before = time.perf_counter_ns()
            writer.publish(picture, metrics=metrics)
            took.append(time.perf_counter_ns() - before)
            due = max(due + 1 / rate, time.monotonic() - 0.1)
    p50, p99 = np.percentile(took, (50, 99)) if took else (0.0, 0.0)
    return {"frames": len(took), "p50_us": p50 / 1e3, "p99_us": p99 / 1e3}


def _send(size: int, rate: float) -> dict[str, Any]:
    """Send so many bytes at an even rate over TCP: nothing between the program and the kernel."""
    payload = bytes(size)
    with socket.create_server(("127.0.0.1", 0)) as server:
        print(server.getsockname()[1], flush=True)
        connection, _ = server.accept()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sent = 0
    with connection:
        due = time.monotonic()
        while not _is_told(due):
            connection.sendall(HEAD.pack(time.time_ns(), size))
            connection.sendall(payload)
            sent += 1
            due = max(due + 1 / rate, time.monotonic() - 0.1)
    return {"sent": sent}


def main() -> None:
    """Do as told until standard input ends."""
    task = json.loads(sys.argv[1])
    do = {"publish": _publish, "send": _send}[task.pop("do")]
    print(json.dumps(do(**task)), flush=True)


if __name__ == "__main__":
    main()
