"""Where the daemon listens, and the locks that keep two daemons out of each other's way."""

from __future__ import annotations

import fcntl
import os
import resource
import socket
import stat
from pathlib import Path

import grpc

from lanekit import errors
from lanekit.slow.endpoint import MAX_SOCKET_PATH
from lanekit.slow.limits import MAX_MESSAGE_BYTES, MAX_RECEIVED_BYTES

SERVER_OPTIONS: list[tuple[str, int]] = [
    # gRPC receives a message whole before anybody sees it, so messages are small.
    ("grpc.max_receive_message_length", MAX_RECEIVED_BYTES),
    # No message is compressed (1: the algorithm that does nothing): it would be unpacked, to any
    # size, before it is measured.
    ("grpc.compression_enabled_algorithms_bitset", 1),
    # No more than this of a message that nobody has asked for yet, and not more on a fast network.
    ("grpc.http2.lookahead_bytes", 65_536),
    ("grpc.http2.bdp_probe", 0),
    # A publish request of several parts goes out in one message, with what the daemon adds to it.
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES + 2**20),
    # Notice a peer that vanished without a word (cable, power) within a minute ...
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 15_000),
    ("grpc.keepalive_permit_without_calls", 1),
    # ... and let clients ask as often, also while nothing else is sent.
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 5_000),
    # Two daemons must not share a port: the kernel would deal their clients out at random.
    ("grpc.so_reuseport", 0),
]

MAX_TCP_CONNECTIONS = 1024


def tcp_options() -> list[tuple[str, int]]:
    """Return the settings of a port that anybody can connect to.

    They bound how many connections there are, and how long one lasts that is of no use: with TLS
    not finished, or without a call.
    """
    return [
        *SERVER_OPTIONS,
        ("grpc.max_allowed_incoming_connections", min(MAX_TCP_CONNECTIONS, file_limit() // 2)),
        ("grpc.server_handshake_timeout_ms", 20_000),
        ("grpc.max_connection_idle_ms", 600_000),
        ("grpc.max_concurrent_streams", 1024),
    ]


def file_limit() -> int:
    """Return how many files and connections this process may have open (``ulimit -n``)."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 2**20 if soft == resource.RLIM_INFINITY else soft


class FileLock:
    """A lock that ends with the process, however it ends."""

    def __init__(self, path: Path, what: str, remedy: str) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.read(self._descriptor, 32).decode("ascii", "replace").strip() or "unknown"
            os.close(self._descriptor)
            raise errors.StoreBusy(
                f"{what} is in use by another daemon (process {owner}); {remedy}"
            ) from None
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Let go. The file stays: removing it would race with the next owner."""
        os.close(self._descriptor)


def prepare_socket(path: Path) -> None:
    """Make room for a Unix socket: a private directory, no stale file, nobody who answers."""
    if (size := len(os.fsencode(path))) > MAX_SOCKET_PATH:
        raise errors.TelemetryError(
            f"socket path {path} takes {size} bytes, and the system allows {MAX_SOCKET_PATH}: "
            "choose a shorter --socket"
        )
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise errors.TelemetryError(f"{path} exists and is no socket: choose another --socket")
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(2.0)
        try:
            probe.connect(os.fspath(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)  # its daemon is dead
            return
        except FileNotFoundError:
            return
        except OSError as error:
            # Also a time-out: somebody listens, however slow.
            raise errors.TelemetryError(
                f"somebody may be listening at {path} ({error}): choose another --socket"
            ) from error
    raise errors.StoreBusy(
        f"another daemon answers at {path}: use that one, or choose another --socket"
    )


def add_unix_socket(server: grpc.aio.Server, path: Path) -> None:
    """Listen on a Unix socket that only this user can open."""
    before = os.umask(0o177)
    try:
        server.add_insecure_port(f"unix:{path}")
    except RuntimeError as error:
        raise errors.TelemetryError(f"can not listen at {path}: {error}") from error
    finally:
        os.umask(before)
    path.chmod(0o600)


def add_tcp_port(
    server: grpc.aio.Server, host: str, port: int, credentials: grpc.ServerCredentials | None
) -> str:
    """Listen on TCP; return the address with the port really taken (0 picks a free one)."""
    shown = f"[{host}]" if ":" in host else host
    address = f"{shown}:{port}"
    try:
        if credentials is None:
            taken = server.add_insecure_port(address)
        else:
            taken = server.add_secure_port(address, credentials)
    except RuntimeError as error:
        raise errors.TelemetryError(_can_not_listen(address)) from error
    if taken == 0:
        raise errors.TelemetryError(_can_not_listen(address))
    return f"{shown}:{taken}"


def _can_not_listen(address: str) -> str:
    port = address.rpartition(":")[2]
    return (
        f"can not listen at {address}: the port is taken, or the address not this machine's; "
        f"`ss -ltnp 'sport = :{port}'` shows who has it, --listen HOST:PORT takes another"
    )
