"""Who may talk to the daemon: TLS on TCP, and a token that every call must bring.

The Unix socket is private by its permissions. TCP needs both a certificate and a token; without TLS
it is refused, except on loopback and when asked for by name, and then the token is still needed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc

from lanekit import errors
from lanekit.slow.daemon.access import Caller, Tokens
from lanekit.slow.endpoint import is_loopback

METADATA_KEY = "authorization"


def server_credentials(certificate: Path, key: Path) -> grpc.ServerCredentials:
    """Return TLS credentials from two PEM files."""
    parts = []
    for path, marker in ((certificate, b"CERTIFICATE"), (key, b"PRIVATE KEY")):
        try:
            data = path.read_bytes()
        except OSError as error:
            raise errors.TelemetryError(f"{path}: {error.strerror}") from error
        if b"-----BEGIN " not in data or marker not in data:
            raise errors.TelemetryError(f"{path} is no PEM file with a {marker.decode().lower()}")
        parts.append(data)
    return grpc.ssl_server_credentials([(parts[1], parts[0])])


def check_listen(
    address: str, *, tls: bool, token: bool, insecure_loopback: bool
) -> tuple[str, int]:
    """Return host and port of a TCP address that may be listened on; ValueError says what lacks."""
    host, separator, port_text = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not separator or not host or not port_text.isascii() or not port_text.isdigit():
        raise ValueError(f"--listen takes HOST:PORT, such as 127.0.0.1:7070; got {address!r}")
    port = int(port_text)
    if port > 65535:
        raise ValueError(f"--listen {address}: a port is at most 65535")
    if not token:
        raise ValueError(f"--listen {address} needs --token-file FILE: TCP is open to every user")
    if tls:
        return host, port
    if not insecure_loopback:
        raise ValueError(
            f"--listen {address} needs --tls-cert and --tls-key "
            "(or --insecure-loopback, for connections within this machine only)"
        )
    if not is_loopback(host):
        raise ValueError(
            f"--insecure-loopback allows 127.0.0.0/8 and ::1 only, not {host!r}: "
            "use --tls-cert and --tls-key"
        )
    return host, port


def check_web(address: str, *, tls: bool) -> tuple[str, int]:
    """Return host and port that ``PORT`` or ``HOST:PORT`` names; ValueError says what is wrong."""
    host, separator, port_text = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") if separator else "127.0.0.1"
    if not host or not (port_text.isascii() and port_text.isdigit()) or int(port_text) > 65535:
        raise ValueError(
            f"--web takes PORT or HOST:PORT, such as 7071 or 127.0.0.1:7071; got {address!r}"
        )
    if not tls and not is_loopback(host):
        raise ValueError(
            f"--web {address} needs --tls-cert and --tls-key: without TLS the page, and the token "
            "with it, goes over loopback only (127.0.0.0/8, ::1)"
        )
    return host, int(port_text)


class TokenInterceptor(grpc.aio.ServerInterceptor):
    """Ends every call - health and reflection too - that does not bring a token."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

        async def refuse(_: object, context: Any) -> None:
            given = any(key == METADATA_KEY for key, _ in context.invocation_metadata() or ())
            await context.abort(
                grpc.StatusCode.UNAUTHENTICATED,
                "the token that came with this call is none of this daemon's: check --token-file"
                if given
                else "this daemon needs its token with each call: --token-file, "
                "or metadata 'authorization: Bearer TOKEN'",
            )

        # A stream handler answers each of the four kinds of call, and before it reads a request.
        self._refusal: grpc.RpcMethodHandler[Any, Any] = grpc.stream_stream_rpc_method_handler(
            refuse
        )

    async def intercept_service(
        self,
        continuation: Callable[
            [grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any] | None]
        ],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        """Let the call through, or hand it to the refusal."""
        if caller_of(self._tokens, handler_call_details.invocation_metadata) is None:
            return self._refusal
        return await continuation(handler_call_details)


def caller_of(tokens: Tokens, metadata: Any) -> Caller | None:
    """Return whose token a call's metadata brings; None for nobody that is known."""
    return tokens.caller(value for key, value in metadata or () if key == METADATA_KEY)
