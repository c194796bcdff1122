"""Where the daemon is, and how to open a channel to it."""

from __future__ import annotations

import ipaddress
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lanekit.errors import TelemetryError
from lanekit.slow.limits import MAX_MESSAGE_BYTES

if TYPE_CHECKING:
    import grpc

MAX_SOCKET_PATH = 107
"""Bytes of a Unix socket's path: the kernel's own limit, less the final zero."""
MIN_TOKEN_CHARACTERS = 16

_HOST_PORT = re.compile(r"(?P<host>\[[0-9A-Fa-f:.%]+\]|[^\s:/\[\]]+):(?P<port>[0-9]{1,5})")


@dataclass(frozen=True)
class Target:
    """A daemon's address: a Unix socket's path, or host and port."""

    path: str = ""
    host: str = ""
    port: int = 0

    @property
    def is_unix(self) -> bool:
        """Whether this is a Unix socket."""
        return bool(self.path)

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can be meant."""
        return self.is_unix or self.host == "localhost" or is_loopback(self.host)

    def __str__(self) -> str:
        return f"unix:{self.path}" if self.is_unix else f"{self.host}:{self.port}"


def parse_target(text: str | Target) -> Target:
    """Return the address that ``unix:/path``, ``/path`` or ``host:port`` names."""
    if isinstance(text, Target):
        return text
    if text.startswith(("unix:", "/")):
        path = text.removeprefix("unix:")
        if path.startswith("//"):  # unix:///path, as other tools write it
            path = path[2:]
        if not path or "\0" in path:
            raise ValueError(f"{text!r}: expected the path of a Unix socket after `unix:`")
        path = os.path.abspath(path)
        size = len(os.fsencode(path))
        if size > MAX_SOCKET_PATH:
            raise ValueError(
                f"{path}: the path of a Unix socket has at most {MAX_SOCKET_PATH} bytes, this one "
                f"{size}; choose a shorter one (`lanekit daemon --socket PATH`, LANEKIT_DAEMON)"
            )
        return Target(path=path)
    match = _HOST_PORT.fullmatch(text)
    port = int(match["port"]) if match else 0
    if match is None or not 0 < port < 65536:
        raise ValueError(
            f"{text!r} is no daemon's address; expected unix:/path/to/daemon.sock or host:port "
            "([::1]:port for IPv6), port 1 to 65535"
        )
    return Target(host=match["host"], port=port)


def is_loopback(host: str) -> bool:
    """Tell whether a host is this machine by its address; names are not trusted to stay so."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def state_directory() -> Path:
    """Where the slow lane keeps its files: ``$LANEKIT_STATE``, or lanekit's place for state."""
    if own := os.environ.get("LANEKIT_STATE"):
        return Path(own)
    if base := os.environ.get("XDG_STATE_HOME"):
        return Path(base) / "lanekit"
    return Path.home() / ".local" / "state" / "lanekit"


def default_store() -> Path:
    """The file that holds every run's events."""
    return state_directory() / "lanekit.db"


def default_spool_directory() -> Path:
    """The directory in which senders make their spools."""
    return state_directory() / "spool"


def default_socket() -> str:
    """The daemon's address when none is given: ``$LANEKIT_DAEMON``, or its usual socket."""
    if given := os.environ.get("LANEKIT_DAEMON"):
        return given
    if runtime := os.environ.get("XDG_RUNTIME_DIR"):
        return f"unix:{Path(runtime) / 'lanekit' / 'daemon.sock'}"
    return f"unix:{state_directory() / 'daemon.sock'}"


def read_token(path: str | os.PathLike[str]) -> str:
    """Return the token that a file holds, for the daemon and for its callers alike."""
    try:
        with open(path, "rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            token = file.read(4096).strip()
    except OSError as error:
        raise TelemetryError(f"token file {path} can not be read: {error.strerror}") from None
    if mode & 0o077:
        raise TelemetryError(
            f"token file {path} can be read by others (mode {mode:03o}): chmod 600 {path}, or "
            f"make a new one: (umask 077; openssl rand -hex 32 > {path})"
        )
    make_one = f"(umask 077; openssl rand -hex 32 > {path})"
    check_token(token, f"token file {path}", make_one)
    return token.decode("ascii")


def check_token(token: bytes, where: str, make_one: str = "openssl rand -hex 32") -> None:
    """Raise TelemetryError for a token that is too short, or can not travel in a header."""
    if len(token) < MIN_TOKEN_CHARACTERS or any(not 33 <= byte <= 126 for byte in token):
        raise TelemetryError(
            f"{where} must hold one token of at least {MIN_TOKEN_CHARACTERS} printable "
            f"ASCII characters without spaces, found {len(token)} bytes; make one: {make_one}"
        )


def token_metadata(token: str | None) -> tuple[tuple[str, str], ...]:
    """Return what a call must carry so that the daemon knows the caller."""
    return (("authorization", f"Bearer {token}"),) if token else ()


def channel_options() -> list[tuple[str, int | str]]:
    """Return the settings that every channel to a daemon shares."""
    return [
        ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
        # What the daemon took in one message it gives back in one, and adds a little.
        ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES + 2**20),
        # A peer that vanished without a word is noticed within half a minute.
        ("grpc.keepalive_time_ms", 20_000),
        ("grpc.keepalive_timeout_ms", 10_000),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.initial_reconnect_backoff_ms", 100),
        # Despite its name, how long a connection may take to be made before it counts as failed.
        # A busy daemon or a far one needs more than a moment.
        ("grpc.min_reconnect_backoff_ms", 5_000),
        ("grpc.max_reconnect_backoff_ms", 2_000),
        # Proxies of the web (http_proxy) have no business between a worker and its daemon.
        ("grpc.enable_http_proxy", 0),
        # Channels of one process must not share a connection: one may be cut, the others stay.
        ("grpc.use_local_subchannel_pool", 1),
    ]


def open_channel(
    target: str | Target,
    ca_file: str | os.PathLike[str] | None = None,
    insecure: bool = False,
) -> grpc.Channel:
    """Return a channel to the daemon; it connects by itself, when used.

    A Unix socket needs neither token nor TLS. Over TCP the daemon's certificate is checked against
    `ca_file` (without one: against the system's authorities); `insecure` leaves TLS out, which only
    a loopback address allows. The token goes with each call: :func:`token_metadata`.
    """
    import grpc

    address = parse_target(target)
    if address.is_unix:
        # The authority is a host name in HTTP/2; gRPC would send the path, which some refuse.
        options = [*channel_options(), ("grpc.default_authority", "localhost")]
        return grpc.insecure_channel(f"unix:{address.path}", options)
    if insecure:
        if not address.is_loopback:
            raise ValueError(
                f"{address}: without TLS only a loopback address is allowed; give the daemon's "
                "certificate authority (--tls-ca FILE)"
            )
        return grpc.insecure_channel(str(address), channel_options())
    authority: bytes | None = None
    if ca_file is not None:
        try:
            authority = Path(ca_file).read_bytes()
        except OSError as error:
            raise ValueError(f"the certificate file {ca_file} can not be read: {error}") from None
    credentials = grpc.ssl_channel_credentials(authority)
    return grpc.secure_channel(str(address), credentials, channel_options())
