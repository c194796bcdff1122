"""What is done on a node, by a process that Ray starts there: ask that node's own daemon.

A node's daemon is the one at the usual socket of the user that Ray runs as. It is started when it
is first needed, and stays when Ray goes, with the workers in its care.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lanekit.errors import (
    ClusterError,
    DaemonUnavailable,
    LanekitError,
    TelemetryError,
    WorkerError,
)
from lanekit.slow.daemon_client import DaemonClient
from lanekit.slow.endpoint import default_socket, parse_target, read_token, state_directory
from lanekit.slow.local_daemon import START_SECONDS, somebody_listens
from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.store.address import parse_store
from lanekit.worker import find_worker

ENDING_SECONDS = 0.5
"""How long a process that was killed may keep its socket open."""
STREAMS = ("stream_episodes", "stream_events")


@dataclass(frozen=True)
class NodeDaemon:
    """How the daemons of nodes are started; the options are those of ``lanekit daemon``.

    Files are named by their paths on the nodes. One daemon that is there already is taken as it
    is, unless something else is asked for here: then that is an error.
    """

    store: str = field(default="", repr=False)  # it may hold a password
    """Where events are kept: a PostgreSQL URL for all nodes, or a path, a file on each node."""
    port: int = 0
    """Each daemon listens here on its node's address, for viewers elsewhere; 0: on no port."""
    token_file: str = ""
    tls_cert: str = ""
    tls_key: str = ""
    insecure_loopback: bool = False
    """Listen on 127.0.0.1 without TLS."""

    def options(self, address: str) -> list[str]:
        """Return the arguments of ``lanekit daemon`` on the node with this address."""
        given = {
            "--store": self.store,
            "--listen": self.listens(address),
            "--token-file": self.token_file,
            "--tls-cert": self.tls_cert,
            "--tls-key": self.tls_key,
        }
        options = [part for name, value in given.items() if value for part in (name, value)]
        return [*options, "--insecure-loopback"] if self.insecure_loopback else options

    def listens(self, address: str) -> str:
        """Return where viewers elsewhere find the daemon, if they do."""
        if not self.port:
            return ""
        host = "127.0.0.1" if self.insecure_loopback else address
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"


@dataclass(frozen=True)
class RunRequest:
    """A run that a node shall start."""

    run_id: str
    worker: str
    config_json: bytes
    environment: Mapping[str, str] = field(default_factory=dict)


def submit(
    request: RunRequest, daemon: NodeDaemon, address: str, node: str, gpus: str | None
) -> str:
    """Have this node's daemon start a run; returns where that daemon is found."""
    try:
        worker = find_worker(request.worker)
    except WorkerError as error:
        raise WorkerError(
            f"node {node}: {error} (there: with {sys.executable}; a worker is installed on every "
            "node that may run it)"
        ) from None
    environment = dict(request.environment)
    if gpus is not None:
        environment["CUDA_VISIBLE_DEVICES"] = gpus
    try:
        listens = ensure_daemon(daemon, address)
        _note_placed(request.run_id, listens)  # first: a run must not be there and not be found
        with client(daemon.token_file) as asked:
            asked.submit_run(
                worker.command(),
                run_id=request.run_id,
                environment=environment,
                config_json=request.config_json,
                worker_id=worker.name,
            )
    except ClusterError as error:
        raise ClusterError(f"node {node}: {error}") from None
    return listens


def ensure_daemon(daemon: NodeDaemon, address: str) -> str:
    """See to it that this node has a daemon; returns where it listens."""
    socket, options = own_socket(), daemon.options(address)
    command = [sys.executable, "-P", "-m", "lanekit.slow.start_daemon", socket, json.dumps(options)]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=START_SECONDS * 2
    )
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        raise ClusterError(f"its daemon can not be started: {done.stderr.strip()}") from None
    if "error" in answer:
        raise ClusterError(f"its daemon can not be started: {answer['error']}")
    known = answer["started"]
    if options and (known is None or known["options"] != options):
        was = "in a way that nobody noted" if known is None else f"with {_shown(known['options'])}"
        who = "" if known is None else f" (kill {known['pid']})"
        raise ClusterError(
            f"a daemon runs there already, started {was}, not with {_shown(options)}; end it{who}, "
            "or leave these options out to take it as it is"
        )
    return daemon.listens(address) or _noted_listen(known) or f"unix:{socket}"


def _shown(options: list[str]) -> list[str]:
    """Return the options as they may be told: a database's URL without its password."""
    return [
        str(parse_store(each)) if each.startswith(("postgresql:", "postgres:")) else each
        for each in options
    ]


def own_socket() -> str:
    """Return the path of this node's daemon's socket."""
    target = parse_target(default_socket())
    if not target.is_unix:
        raise ClusterError(f"LANEKIT_DAEMON names {target} there, which is no Unix socket")
    return target.path


def client(token_file: str = "") -> DaemonClient:
    """Return a client of this node's daemon."""
    token = read_token(token_file) if token_file else None
    return DaemonClient(f"unix:{own_socket()}", token=token)


def ask_daemon(token_file: str, method: str, *arguments: Any, **options: Any) -> Any:
    """Call a method of the daemon's client here; of a stream, the history."""
    with client(token_file) as asked:
        answer = getattr(asked, method)(*arguments, **options)
        return list(answer) if method in STREAMS else answer


def placed_here(token_file: str = "") -> list[tuple[pb.Run, str]]:
    """Return the runs that were placed on this node, and where its daemon is found."""
    placed = dict(_placed())
    if not placed or not somebody_listens(own_socket()):
        return []
    try:
        with client(token_file) as asked:
            runs = asked.list_runs(include_archived=True)
    except DaemonUnavailable:
        time.sleep(ENDING_SECONDS)
        if somebody_listens(own_socket()):
            raise
        return []  # it was just ending
    return [(run, placed[run.run_id]) for run in runs if run.run_id in placed]


def end_of_stderr(spool_directory: str) -> list[str]:
    """Return the last lines that a worker here wrote to stderr."""
    from lanekit.slow.log_tail import last_lines

    return last_lines(Path(spool_directory) / "worker.err")


def hold_until_over(run_id: str, token_file: str, pause: float = 1.0) -> None:
    """Return when a run is over; a daemon that is away for a while is waited for."""
    from lanekit.slow.store.records import RunRecord

    while True:
        try:
            with client(token_file) as asked:
                while not RunRecord.from_message(asked.run(run_id)).state.is_over:
                    time.sleep(pause)
                return
        except LanekitError:
            time.sleep(pause)


def _note_placed(run_id: str, listens: str) -> None:
    """Keep which runs are this node's: in a shared store are everybody's."""
    line = json.dumps({"run_id": run_id, "daemon": listens}) + "\n"
    descriptor = os.open(_placed_file(), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


def _placed() -> list[tuple[str, str]]:
    try:
        lines = _placed_file().read_text().splitlines()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise TelemetryError(f"{_placed_file()} can not be read: {error.strerror}") from None
    return [(entry["run_id"], entry["daemon"]) for entry in map(json.loads, lines)]


def _placed_file() -> Path:
    return state_directory() / "placed.jsonl"


def _noted_listen(known: dict[str, Any] | None) -> str:
    options = known["options"] if known else []
    return options[options.index("--listen") + 1] if "--listen" in options else ""
