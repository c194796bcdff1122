"""A test's roles in processes of their own, `python <file> ROLE ...`, and children to be killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from inspect import getfile
from typing import Any

from patience import patience


def start_role(role: Callable[..., None], *arguments: object) -> subprocess.Popen[str]:
    """Run a function of a test's file, with its arguments as strings, in a process of its own."""
    return subprocess.Popen(
        [sys.executable, getfile(role), role.__name__, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONFAULTHANDLER": "1"},
    )


class Processes:
    """Runs roles in processes, none of which outlives the test."""

    def __init__(self) -> None:
        self.started: list[subprocess.Popen[str]] = []

    def start(self, role: Callable[..., None], *arguments: object) -> subprocess.Popen[str]:
        process = start_role(role, *arguments)
        self.started.append(process)
        return process

    def run(self, role: Callable[..., None], *arguments: object) -> Any:
        return outcome(self.start(role, *arguments))

    def end(self) -> None:
        for process in self.started:
            process.kill()
            process.communicate()


def outcome(process: subprocess.Popen[str]) -> Any:
    """Let a role end, and return what it printed."""
    out, err = process.communicate(timeout=patience(250))
    assert process.returncode == 0, f"ended with {process.returncode}:\n{err}"
    return json.loads(out)


def fork(life: Callable[[], None]) -> int:
    """Run `life` in a forked child, which is expected to be killed; return its pid."""
    pid = os.fork()
    if pid == 0:
        try:
            life()
        except BaseException as error:
            print(f"child: {error!r}", file=sys.stderr, flush=True)
        finally:
            os._exit(70)
    return pid


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status), (
        f"a child ended by itself with {os.waitstatus_to_exitcode(status)}"
    )
    assert os.WTERMSIG(status) == signal.SIGKILL
