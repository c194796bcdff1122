"""The service's methods as gRPC handlers: what is the same for every call.

Requests that are no protobuf get INVALID_ARGUMENT, lanekit's exceptions get their status code,
calls are counted so that a drain knows when the last has ended, and a response may be given as
ready bytes. A caller whose token is for some runs only gets no further with others.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

import grpc
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from lanekit import errors
from lanekit.slow.daemon.access import OWNER, Caller, Tokens, words_for
from lanekit.slow.daemon.security import caller_of
from lanekit.slow.proto import telemetry_pb2 as pb

logger = logging.getLogger(__name__)

SERVICE = pb.DESCRIPTOR.services_by_name["TrainerService"]

ANSWERED = (("lanekit-answer", "1"),)
"""Comes with every refusal, so that clients tell the daemon's own words from gRPC's."""

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
Method: TypeAlias = Callable[[Any, Any], Awaitable[Any]]

STATUS_CODES: tuple[tuple[type[Exception], grpc.StatusCode], ...] = (
    (errors.InvalidEvent, grpc.StatusCode.INVALID_ARGUMENT),
    (errors.SequenceGap, grpc.StatusCode.FAILED_PRECONDITION),
    (errors.RunNotFound, grpc.StatusCode.NOT_FOUND),
    (errors.RunExists, grpc.StatusCode.ALREADY_EXISTS),
    (errors.StoreError, grpc.StatusCode.UNAVAILABLE),  # disk full, file locked: try again later
    (errors.MissingExtra, grpc.StatusCode.FAILED_PRECONDITION),
)

UNWRITABLE = "the daemon can not use its store now; its owner finds the reason in its log"
"""What callers who are not the owner hear of trouble with the store."""

OWNERS_METHODS = {
    "SubmitRun": (
        "runs programs on the daemon's machine, which takes its owner's token; {name} can start "
        "workers elsewhere: lanekit proxy --daemon ... --run {name}.RUN -- COMMAND"
    ),
    "OpenWeb": "opens a port on the daemon's machine, which takes its owner's token",
}
"""What is not about runs but about the machine: only its owner may. With what is said to others."""
MANY_RUNS_METHODS = frozenset({"ListRuns", "WatchRuns", "ListLanes"})
"""Those that may name no run, and then answer with the caller's own only."""


class Refusal(errors.TelemetryError):
    """Ends a call with this status code and message."""

    def __init__(self, code: grpc.StatusCode, message: str) -> None:
        super().__init__(message)
        self.code = code


class Malformed:
    """Stands for a request whose bytes are no message of the method's type."""

    __slots__ = ("reason",)

    def __init__(self, reason: str) -> None:
        self.reason = reason


def status_code(error: Exception) -> grpc.StatusCode | None:
    """Return the status code of an exception of lanekit's; None for a fault of the daemon's own."""
    if isinstance(error, Refusal):
        return error.code
    return next((code for kind, code in STATUS_CODES if isinstance(error, kind)), None)


def error_words(error: Exception, caller: Caller) -> str:
    """Return what a caller is told of an error: about the daemon's machine only if it is theirs."""
    if isinstance(error, errors.StoreError) and not caller.is_owner:
        return UNWRITABLE
    return words_for(caller, str(error))


def check_parsed(request: Any) -> None:
    """Raise InvalidEvent for a request that could not be parsed."""
    if type(request) is Malformed:
        raise errors.InvalidEvent(request.reason)


class NarrowContext:
    """A call's context for a caller who has only some of the runs: each request read is checked."""

    def __init__(self, context: Any, caller: Caller, method: str) -> None:
        self._context = context
        self._method = method
        self.caller = caller

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    async def read(self) -> Any:
        """Return the next request, if it is about a run of the caller's."""
        request = await self._context.read()
        if request is not grpc.aio.EOF and type(request) is not Malformed:
            check_access(self.caller, self._method, request)
        return request


def who_calls(context: Any) -> Caller:
    """Return the caller, as a method that is about many runs must know it."""
    return context.caller if type(context) is NarrowContext else OWNER


def check_access(caller: Caller, method: str, request: Any) -> None:
    """Raise Refusal unless the request is about one of the caller's runs.

    A method that is about no run in particular must be known here: what is not is refused.
    """
    if caller.is_owner:
        return
    if method in OWNERS_METHODS:
        raise Refusal(
            grpc.StatusCode.PERMISSION_DENIED,
            f"{method} {OWNERS_METHODS[method].format(name=caller.name)}",
        )
    run_id = getattr(request, "run_id", "")
    if not run_id and method in MANY_RUNS_METHODS:
        return
    if not caller.may_touch(run_id):
        raise Refusal(grpc.StatusCode.PERMISSION_DENIED, caller.refusal(run_id))


class Methods:
    """Wraps the service's methods, and knows how many calls are under way."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._calls = 0
        self._draining = False
        self._idle = asyncio.Event()
        self._idle.set()

    def drain(self) -> None:
        """Refuse new calls; those under way go on."""
        self._draining = True

    async def idle(self) -> None:
        """Wait until no call is under way."""
        await self._idle.wait()

    def handlers(self, methods: Mapping[str, Method]) -> grpc.GenericRpcHandler:
        """Return gRPC's handler for all methods of the service, by name."""
        missing = {method.name for method in SERVICE.methods} ^ methods.keys()
        assert not missing, f"methods without a handler, or the other way round: {missing}"
        return grpc.method_handlers_generic_handler(
            SERVICE.full_name,
            {
                method.name: self._handler(method, methods[method.name])
                for method in SERVICE.methods
            },
        )

    def _handler(self, method: Any, function: Method) -> grpc.RpcMethodHandler[Any, Any]:
        kinds = {
            (False, False): grpc.unary_unary_rpc_method_handler,
            (False, True): grpc.unary_stream_rpc_method_handler,
            (True, False): grpc.stream_unary_rpc_method_handler,
            (True, True): grpc.stream_stream_rpc_method_handler,
        }
        make: Any = kinds[method.client_streaming, method.server_streaming]
        handler: grpc.RpcMethodHandler[Any, Any] = make(
            self._guarded(method.name, function),
            request_deserializer=parser(GetMessageClass(method.input_type)),
            response_serializer=serialise,
        )
        return handler

    def _guarded(self, name: str, function: Method) -> Method:
        async def call(request: Any, context: Any) -> Any:
            if self._draining:
                await context.abort(
                    grpc.StatusCode.UNAVAILABLE, "the daemon is shutting down", ANSWERED
                )
            self._calls += 1
            self._idle.clear()
            try:
                caller = caller_of(self._tokens, context.invocation_metadata())
                if caller is None or not caller.is_owner:
                    context = self._narrowed(caller, name, context)
                check_parsed(request)
                if isinstance(request, Message):  # a stream of requests is checked as it is read
                    check_access(who_calls(context), name, request)
                return await function(request, context)
            except grpc.aio.AbortError:
                raise
            except grpc.aio.InternalError:
                # Nobody is there any more to write to: the call was cancelled, or its peer died.
                return await context.abort(grpc.StatusCode.CANCELLED)
            except Exception as error:
                # The one place where errors become answers; what is not foreseen is logged.
                code, caller = status_code(error), who_calls(context)
                if code is None:
                    logger.exception("%s failed", name)
                    code = grpc.StatusCode.INTERNAL
                    told = f": {error!r}" if caller.is_owner else "; the daemon's log says why"
                    error = Exception(f"{name} failed{told}")
                await context.abort(code, error_words(error, caller), ANSWERED)
            finally:
                self._calls -= 1
                if self._calls == 0:
                    self._idle.set()

        return call

    @staticmethod
    def _narrowed(caller: Caller | None, method: str, context: Any) -> NarrowContext:
        if caller is None:  # the interceptor lets nobody through; but this is where it counts
            raise Refusal(grpc.StatusCode.UNAUTHENTICATED, "this daemon needs its token")
        return NarrowContext(context, caller, method)


def parser(message: type[Message]) -> Callable[[bytes], Message | Malformed]:
    """Return a deserialiser that answers :class:`Malformed` instead of raising.

    gRPC would log the exception and answer UNKNOWN, as if the daemon were at fault.
    """
    parse = message.FromString
    name = message.DESCRIPTOR.name

    def parse_request(data: bytes) -> Message | Malformed:
        try:
            return parse(data)
        except DecodeError as error:
            return Malformed(f"{len(data)} bytes are no {name} message: {error}")

    return parse_request


def serialise(message: Message | bytes) -> bytes:
    """Return a response's bytes; what was serialised elsewhere (a reading thread) goes as it is."""
    return message if type(message) is bytes else message.SerializeToString()  # type: ignore[union-attr]
