"""Starts a worker for a proxy, and stays beside it: what the proxy's death must not take along.

A proxy that is killed can not take its worker's exit status, and the kernel throws a pipe's content
away when the last process that has it open is gone. So a process that does nothing else is the
worker's parent: it holds the pipes open, waits, and puts the exit status down. It leaves when the
pipes are empty.

Run as a script with the standard library alone, so that it starts at once and takes little memory:
``worker_keeper.py SPOOL READY_FD COMMAND...``. To READY_FD it writes ``+`` once the worker is
started, and the exit status: for a proxy whose spool was deleted meanwhile.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import struct
import subprocess
import sys
import termios
import time

PIPE_BYTES = 2**20


def main(spool: str, ready: int, command: list[str]) -> int:
    """Run the command to its end; what happens is written to the spool."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        # A handler, not SIG_IGN: the worker must not inherit it.
        signal.signal(number, lambda *_: None)
    pipes = [os.path.join(spool, name) for name in ("stdout.fifo", "stderr.fifo")]
    kept = [os.open(pipe, os.O_RDONLY | os.O_NONBLOCK) for pipe in pipes]
    # Read and write: without a reader the worker then waits, instead of dying of SIGPIPE.
    ends = [os.open(pipe, os.O_RDWR) for pipe in pipes]
    for end in ends:
        with contextlib.suppress(OSError):  # this user has many pipes: the usual size works too
            fcntl.fcntl(end, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    keeper: dict[str, object] = {
        "keeper_pid": os.getpid(),
        "keeper_start_time": start_time(os.getpid()),
    }
    write(spool, "keeper.json", keeper)
    # From here on whoever adopts the spool waits for us. A proxy that died before is noticed here,
    # and nothing is started that nobody would know of.
    if reader_is_gone(ready):
        return 1
    try:
        worker = subprocess.Popen(command, stdout=ends[0], stderr=ends[1], start_new_session=True)
    except (OSError, ValueError) as error:
        missing = isinstance(error, FileNotFoundError)
        write(spool, "exit.json", {"status": 127 if missing else 126, "error": str(error)})
        return 1
    for end in ends:
        os.close(end)
    identity = {
        "pid": worker.pid,
        "start_time": start_time(worker.pid),
        "command": command,
        "pipe": pipe_identity(pipes[0]),
        **keeper,
    }
    write(spool, "worker.json", identity)
    say(ready, "+")
    status = worker.wait()
    say(ready, json.dumps({"status": status}))
    write(spool, "exit.json", {"status": status})
    while any(waiting_bytes(pipe) for pipe in kept):
        time.sleep(0.1)
    return 0


def start_time(pid: int) -> int:
    """Return when a process began, in ticks since boot: with its pid, who it is. 0: it ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return 0
    return 0 if fields[0] in (b"Z", b"X") else int(fields[19])


def pipe_identity(path: str) -> list[int]:
    """Return what tells a pipe from a copy of it under another name, or the same; [] for none."""
    try:
        found = os.stat(path)
    except OSError:
        return []
    return [found.st_dev, found.st_ino]


def say(pipe: int, text: str) -> None:
    """Write to the proxy; harmless if that is gone."""
    with contextlib.suppress(OSError):
        os.write(pipe, text.encode())


def reader_is_gone(pipe: int) -> bool:
    """Tell whether nobody can read any more what would be written to a pipe."""
    poll = select.poll()
    poll.register(pipe, 0)
    return bool(poll.poll(0))


def waiting_bytes(pipe: int) -> int:
    """Return how many bytes a pipe holds."""
    return int(struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4))[0])


def write(spool: str, name: str, content: dict[str, object]) -> None:
    """Write a file whole, for as long as that takes on a full disk."""
    draft = os.path.join(spool, f".{name}.draft")
    while True:
        try:
            with open(draft, "w", encoding="utf-8") as file:
                json.dump(content, file)
            os.replace(draft, os.path.join(spool, name))
            return
        except OSError:
            if not os.path.isdir(spool):
                return
            time.sleep(0.2)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), sys.argv[3:]))
