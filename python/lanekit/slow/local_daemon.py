"""A daemon of this machine, started by whoever needs one and finds none."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lanekit.errors import TelemetryError
from lanekit.slow.daemon_client import START_PATIENCE
from lanekit.slow.endpoint import default_store, state_directory
from lanekit.slow.log_tail import last_lines

STOP_SECONDS = 15.0
"""How long a daemon may take to end: it commits what it has received."""
START_SECONDS = 60.0
"""How long a daemon may take to listen: it may have a long log to recover."""
_PAUSE = 0.05

# What one user's processes share. The rest belongs to the command that happens to start the
# daemon, and would reach the workers of all later ones: its CUDA_VISIBLE_DEVICES, its keys.
_INHERITED = ("HOME", "PATH", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TMPDIR")
_INHERITED_PREFIXES = ("LC_", "LD_", "XDG_", "PYTHON")
_STATE_VARIABLE = "LANEKIT_STATE"
_ROOM_TO_SPEAK = 64 * 1024
"""Bytes that a daemon needs to begin; less than that is called full."""
_DATABASE_PREFIX = "PG"
"""What libpq reads: a password, where certificates are. Only for a store that is a database."""


@dataclass(frozen=True)
class StartedDaemon:
    """A daemon that was not there before."""

    pid: int
    log: Path

    def __str__(self) -> str:
        return (
            f"started a daemon, process {self.pid}; it stays until `kill {self.pid}`, its log is "
            f"{self.log}"
        )

    def stop(self) -> bool:
        """End it, for the process that started it; False if it had to be killed."""
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(self.pid, signal.SIGTERM)
            give_up_at = time.monotonic() + STOP_SECONDS
            while os.waitpid(self.pid, os.WNOHANG) == (0, 0):
                if time.monotonic() > give_up_at:
                    os.kill(self.pid, signal.SIGKILL)
                    os.waitpid(self.pid, 0)
                    return False
                time.sleep(_PAUSE)
        return True


def start_if_absent(
    socket_path: str, token_file: Path | None = None, options: Sequence[str] = ()
) -> StartedDaemon | None:
    """See to it that a daemon listens at a Unix socket, on the usual store.

    It outlives its starter. `options` are more arguments of ``lanekit daemon``. Returns None if
    one was there, or if somebody else was quicker.
    """
    if somebody_listens(socket_path):
        return None
    state = state_directory().absolute()
    try:
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Those who need one at the same moment take turns, and all but the first find one.
        with (state / "daemon.starting").open("a") as turn:
            fcntl.flock(turn, fcntl.LOCK_EX)
            if somebody_listens(socket_path):
                return None
            return _start(socket_path, state, token_file, options)
    except OSError as error:
        raise TelemetryError(
            f"no daemon runs, and none can be started: {error.filename or state}: "
            f"{error.strerror or error}; {_STATE_VARIABLE}=DIR names another place for its files"
        ) from error


def somebody_listens(socket_path: str) -> bool:
    """Tell whether a daemon takes calls at a Unix socket."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(2.0)
        try:
            probe.connect(socket_path)
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        except OSError:
            return True  # it may be busy, or another user's: the call itself will tell
    return True


def _start(
    socket_path: str, state: Path, token_file: Path | None, options: Sequence[str]
) -> StartedDaemon | None:
    command = [sys.executable, "-P", "-m", "lanekit", "daemon", "--socket", socket_path]
    command += ["--state", str(state), *options]
    if "--store" not in options:
        command += ["--store", str(default_store().absolute())]
    if token_file is not None:
        command += ["--token-file", str(token_file.absolute())]
    log = state / "daemon.log"
    with os.fdopen(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as file:
        said_before = file.seek(0, os.SEEK_END)
        daemon = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            env=_environment(options),
            cwd=state,  # not here: nobody could unmount this directory any more
            start_new_session=True,  # a Ctrl-C for its starter is none for the daemon
        )
    try:
        listens = _wait_until_somebody_listens(socket_path, daemon)
    except BaseException:
        daemon.terminate()
        raise
    if not listens:
        status = daemon.poll()
        daemon.kill()
        how = "did not listen in time" if status is None else f"ended with status {status}"
        words = last_lines(log, after=said_before) or _why_silent(state)
        raise TelemetryError("\n  ".join([f"the daemon {how}; its log {log} says:", *words]))
    if daemon.poll() is not None:
        return None
    daemon.returncode = 0  # no longer ours: silences Popen's own warning
    return StartedDaemon(daemon.pid, log)


def _why_silent(state: Path) -> list[str]:
    """Return what keeps a log empty, if that can be seen."""
    if shutil.disk_usage(state).free < _ROOM_TO_SPEAK:
        disk = f"the disk of {state} is full: `df -h {state}` shows it"
        return [f"{disk}; {_STATE_VARIABLE}=DIR names another place"]
    return ["nothing"]


def _wait_until_somebody_listens(socket_path: str, daemon: subprocess.Popen[bytes]) -> bool:
    give_up_at = time.monotonic() + START_SECONDS
    ended = False
    while not somebody_listens(socket_path):
        if not ended and daemon.poll() is not None:
            # Perhaps because of one that was started by hand, and does not listen yet.
            ended, give_up_at = True, time.monotonic() + START_PATIENCE
        if time.monotonic() > give_up_at:
            return False
        time.sleep(_PAUSE)
    return True


def _environment(options: Sequence[str]) -> dict[str, str]:
    prefixes: tuple[str, ...] = _INHERITED_PREFIXES
    if any(each.startswith(("postgresql:", "postgres:")) for each in options):
        prefixes = (*prefixes, _DATABASE_PREFIX)
    return {
        name: value
        for name, value in os.environ.items()
        if name in _INHERITED or name.startswith(prefixes)
    }
