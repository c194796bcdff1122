"""Who may talk to the daemon: TLS on TCP, and a token that every call must bring.

The Unix socket is private by its permissions. TCP needs both a certificate and a token; without TLS
it is refused, except on loopback and when asked for by name, and then the token is still needed.

To gRPC every method is a stream, whichever kind it is: the handler of a stream reads the requests
itself, so nothing of them is received before the gate has let the call in.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc

from lanekit import errors
from lanekit.slow.daemon.access import Tokens, caller_of, token_of
from lanekit.slow.daemon.admission import Admission, AdmittedCall, Overload, TooSlow
from lanekit.slow.daemon.guesses import Guesses, host_of_peer, wait_message
from lanekit.slow.endpoint import is_loopback


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


class CallGate:
    """Decides about each call before anything of it is read: whose it is, and if there is room."""

    def __init__(self, tokens: Tokens, guesses: Guesses, admission: Admission) -> None:
        self.tokens = tokens
        self.guesses = guesses
        self._admission = admission

    @contextmanager
    def admit(self, context: Any) -> Iterator[AdmittedCall]:
        """Let a call in for as long as it lasts; Intrusion or Overload if it may not come in."""
        metadata = context.invocation_metadata()
        caller = caller_of(self.tokens, metadata)
        if self.tokens.needed and (given := token_of(metadata)) is not None:
            wait = self.guesses.judge(host_of_peer(context.peer()), given, caller)
            if wait > 0.0:
                raise Overload(wait_message(wait))
        if caller is None:
            raise Intrusion(
                "this daemon needs its token with each call: --token-file, "
                "or metadata 'authorization: Bearer TOKEN'"
                if token_of(metadata) is None
                else "the token that came with this call is none of this daemon's: check "
                "--token-file"
            )
        with self._admission.call(caller) as call:
            yield call


class Intrusion(errors.TelemetryError):
    """Ends a call that brings no token, or a wrong one."""


class GateInterceptor(grpc.aio.ServerInterceptor):
    """Puts the gate before the services that are not lanekit's own: health, reflection, none.

    lanekit's methods ask the gate themselves, and say their answers in their own way.
    """

    def __init__(self, gate: CallGate) -> None:
        self._gate = gate
        self._nothing: grpc.RpcMethodHandler[Any, Any] = grpc.stream_stream_rpc_method_handler(
            self._gated(None)
        )

    async def intercept_service(
        self,
        continuation: Callable[
            [grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any] | None]
        ],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        """Return the handler that asks the gate first."""
        handler: Any = await continuation(handler_call_details)
        if handler is None:
            return self._nothing
        if getattr(handler.stream_stream, "asks_the_gate", False):
            return handler  # type: ignore[no-any-return]
        return grpc.stream_stream_rpc_method_handler(
            self._gated(handler), response_serializer=handler.response_serializer
        )

    def _gated(self, handler: Any) -> Callable[[Any, Any], Awaitable[None]]:
        async def call(_: object, context: Any) -> None:
            try:
                with self._gate.admit(context) as admitted:
                    if handler is None:
                        await context.abort(grpc.StatusCode.UNIMPLEMENTED, "no such method")
                    await serve_foreign(handler, admitted, context)
                return
            except Intrusion as error:
                refusal = grpc.StatusCode.UNAUTHENTICATED, str(error)
            except Overload as error:
                refusal = grpc.StatusCode.RESOURCE_EXHAUSTED, str(error)
            except TooSlow as error:
                refusal = grpc.StatusCode.DEADLINE_EXCEEDED, str(error)
            await context.abort(*refusal)

        return call


async def serve_foreign(handler: Any, admitted: AdmittedCall, context: Any) -> None:
    """Serve a call of a service that is not lanekit's. What it is asked is small."""

    async def requests() -> AsyncIterator[Any]:
        while True:
            admitted.release()
            async with admitted.turn():
                data = await context.read()
            if data is grpc.aio.EOF:
                return
            admitted.hold(len(data))
            try:
                request = handler.request_deserializer(data)
            except Exception:
                await context.abort(
                    grpc.StatusCode.INVALID_ARGUMENT, f"{len(data)} bytes are no such message"
                )
            yield request

    if handler.request_streaming:
        asked: Any = requests()
    else:
        asked = await anext(requests(), None)
        if asked is None:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "this call takes one message")
    method = (
        handler.stream_stream or handler.stream_unary or handler.unary_stream or handler.unary_unary
    )
    answer = method(asked, context)
    if isinstance(answer, AsyncIterator):
        async for message in answer:
            await context.write(message)
        return
    message = await answer
    if not handler.response_streaming:
        await context.write(message)
