"""Proxies as processes of their own, and workers for them."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

from patience import patience, until

RUN = f"run-{os.getpid()}"
"""Not the run of other tests on this machine: its frames are in shared memory."""
_PROXY = "import sys; from lanekit.cli import main; sys.exit(main(['proxy', *sys.argv[1:]]))"


def script(directory: Path, body: str, name: str = "worker.py") -> list[str]:
    """Write a worker and return the command that runs it."""
    file = directory / name
    head = "import json, os, signal, sys, time\nfrom lanekit.slow import emit\n"
    file.write_text(head + textwrap.dedent(body))
    return [sys.executable, str(file)]


class ProxyProcess:
    """``lanekit proxy`` in a process of its own."""

    def __init__(self, directory: Path, target: str, spool: str = "spool") -> None:
        self.directory = directory
        self.spool = directory / spool
        self.target = target
        self.process: subprocess.Popen[bytes] | None = None
        self.said = directory / f"{spool}.said"
        self.kills = 0

    def start(self, command: list[str], *options: str, stdin: int | None = None) -> ProxyProcess:
        tail = ["--", *command] if command else []
        arguments = ["--run", RUN, "--spool", str(self.spool), *options]
        self._launch([*arguments, "--daemon", self.target, *tail], stdin)
        return self

    def adopt(self, *options: str) -> ProxyProcess:
        self._launch(["--adopt", str(self.spool), "--daemon", self.target, *options], None)
        return self

    def _launch(self, arguments: list[str], stdin: int | None) -> None:
        with self.said.open("ab") as said:
            self.process = subprocess.Popen(
                [sys.executable, "-W", "error", "-c", _PROXY, *arguments],
                stdin=subprocess.DEVNULL if stdin is None else stdin,
                stderr=said,
            )

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def kill(self) -> None:
        """SIGKILL; harmless when it has ended by itself."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        self.kills += 1

    def wait(self) -> int:
        assert self.process is not None
        return self.process.wait(patience(120))

    def running(self) -> bool:
        assert self.process is not None
        return self.process.poll() is None

    def worker(self) -> int:
        """The worker's pid, once it is there."""
        file = self.spool / "worker.json"
        until(file.exists)
        return int(json.loads(file.read_bytes())["pid"])

    def checkpoint(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads((self.spool / "checkpoint.json").read_bytes())
        return content

    def log(self) -> bytes:
        return (self.spool / "worker.log").read_bytes()

    def rejects(self) -> list[bytes]:
        lines = (self.spool / "rejects.jsonl").read_bytes().splitlines()
        return [base64.b64decode(json.loads(line)["line"]) for line in lines]

    def complaints(self) -> str:
        return self.said.read_text()

    def end(self) -> None:
        """Leave nothing running."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        with contextlib.suppress(OSError, ValueError, KeyError):
            worker = json.loads((self.spool / "worker.json").read_bytes())
            for pid in (worker["pid"], worker["keeper_pid"]):
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGKILL)


MakeProxy = Callable[..., ProxyProcess]
"""Makes a proxy for a daemon's address, with a spool of this name."""


def resident_bytes(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
