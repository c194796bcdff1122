"""A place in which a page's blocks are run: a directory, a home and a daemon of its own."""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from patience import patience, until
from working_programs import working

# Pages use names such as "my-run", and so may somebody else on this machine: where the system
# allows it, each command has a /dev/shm of its own, in which what it left behind can be seen, too.
_OWN_SHM = (
    *("unshare", "--mount", "sh", "-c"),
    "mount -t tmpfs -o size=50% tmpfs /dev/shm; "
    '"$@"; status=$?; ls -A /dev/shm >.left; exit $status',
    "sh",
)


@functools.cache
def own_shm() -> tuple[str, ...]:
    """Return what to put before a command to give it a /dev/shm of its own, if that works here."""
    if working("unshare") is None:
        return ()
    tried = ("unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/dev/shm")
    works = (
        subprocess.run(tried, capture_output=True, timeout=patience(), check=False).returncode == 0
    )
    return _OWN_SHM if works else ()


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
        """Run a command and return what it printed; what it put into the background goes on."""
        out, err = self.directory / ".out", self.directory / ".err"
        with out.open("wb") as stdout, err.open("wb") as stderr:
            done = subprocess.run(
                [*own_shm(), *command],
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                cwd=self.directory,
                env=self._environment,
                timeout=patience(120),
                check=False,
            )
        assert done.returncode == 0, f"{' '.join(command)}\n{out.read_text()}{err.read_text()}"
        return out.read_text()

    def python(self, code: str) -> str:
        """Run a Python program; a warning is an error, and so is a lane left behind."""
        (self.directory / "block.py").write_text(code, encoding="utf-8")
        said = self.run(sys.executable, "-W", "error", "block.py")
        if own_shm():
            assert (self.directory / ".left").read_text() == ""
        return said

    def bash(self, lines: list[str]) -> str:
        """Run lines in a shell that gives up at the first failure."""
        return self.run("bash", "-e", "-o", "pipefail", "-c", "\n".join(lines))

    def close(self) -> None:
        """End the daemon that a page started, when the runs that it was given have ended."""
        lock = self.directory / "state" / "daemon.sock.lock"
        socket = lock.with_suffix("")
        if not socket.exists():
            return
        until(lambda: not self._live_runs(), "the end of a page's run", 120, pause=0.05)
        os.kill(int(lock.read_text()), signal.SIGTERM)
        until(lambda: not socket.exists(), "the end of a page's daemon")

    def _live_runs(self) -> list[str]:
        runs = json.loads(self.run("lanekit", "runs", "--json"))
        over = ("completed", "failed", "cancelled", "lost")
        return [run["run_id"] for run in runs if run["state"] not in over]
