"""A place in which a page's blocks are run: a directory, a home and a daemon of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

A_WHILE = 120.0


class PageShell:
    """Runs programs and typed lines, as somebody who follows a page would."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        own = Path(sys.executable).parent
        self._environment = {
            **os.environ,
            "HOME": str(directory),
            "LANEKIT_STATE": str(directory / "state"),
            "PATH": f"{own}{os.pathsep}{os.environ['PATH']}",
            "OPENBLAS_NUM_THREADS": "1",
        }

    def run(self, *command: str) -> str:
        """Run a command to its end and return what it printed; what it put into the background goes on."""
        out, err = self.directory / ".out", self.directory / ".err"
        with out.open("wb") as stdout, err.open("wb") as stderr:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                cwd=self.directory,
                env=self._environment,
                timeout=A_WHILE,
                check=False,
            )
        assert done.returncode == 0, f"{' '.join(command)}\n{out.read_text()}{err.read_text()}"
        return out.read_text()

    def python(self, code: str) -> str:
        """Run a Python program; a warning is an error."""
        (self.directory / "block.py").write_text(code, encoding="utf-8")
        return self.run(sys.executable, "-W", "error", "block.py")

    def bash(self, lines: list[str]) -> str:
        """Run lines in a shell that gives up at the first failure."""
        return self.run("bash", "-e", "-o", "pipefail", "-c", "\n".join(lines))

    def close(self) -> None:
        """End the daemon that a page started, and wait until it has gone."""
        lock = self.directory / "state" / "daemon.sock.lock"
        socket = lock.with_suffix("")
        if not socket.exists():
            return
        os.kill(int(lock.read_text()), signal.SIGTERM)
        limit = time.monotonic() + A_WHILE
        while socket.exists():
            assert time.monotonic() < limit, "the page's daemon does not end"
            time.sleep(0.02)
