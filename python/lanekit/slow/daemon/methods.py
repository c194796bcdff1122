"""The service's methods as gRPC handlers: what is the same for every call.

Who calls is known, and that there is room for the call, before a request is read; whose run it is
about, and how many rows it has, before it is parsed. Requests that are no protobuf get
INVALID_ARGUMENT, lanekit's exceptions get their status code, calls are counted so that a drain
knows when the last has ended, and a response may be given as ready bytes.
"""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

import grpc
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from lanekit import errors
from lanekit.slow.daemon.access import OWNER, Caller, words_for
from lanekit.slow.daemon.admission import NEXT_PART_SECONDS, AdmittedCall, Overload, TooSlow
from lanekit.slow.daemon.security import CallGate, Intrusion
from lanekit.slow.limits import MAX_BATCH_ROWS
from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.request_parts import Joined

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
    (Intrusion, grpc.StatusCode.UNAUTHENTICATED),
    (Overload, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (TooSlow, grpc.StatusCode.DEADLINE_EXCEEDED),
)

UNWRITABLE = "the daemon cannot use its store now; its owner finds the reason in its log"
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


class AdmittedContext:
    """A call's context whose requests are checked before they are parsed."""

    def __init__(self, context: Any, call: AdmittedCall, method: Any) -> None:
        self._context = context
        self._call = call
        self._method: str = method.name
        self._parse = parser(GetMessageClass(method.input_type))
        self._publishes = "part" in method.input_type.fields_by_name
        self.caller = call.caller

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    async def read(self) -> Any:
        """Return the next request, if it is about a run of the caller's.

        What was read before counts as dealt with.
        """
        self._call.release()
        request = await self._next()
        if request is grpc.aio.EOF or type(request) is Malformed or not self._publishes:
            return request
        return await self._join(request) if request.HasField("part") else request

    async def write(self, message: Message | bytes) -> None:
        """Send an answer, if the caller has read enough of those before."""
        data = serialise(message)
        with self._call.answer(len(data)):
            await self._context.write(data)

    async def _next(self) -> Any:
        async with self._call.turn():
            data = await self._context.read()
            if data is grpc.aio.EOF:
                return data
            self._call.hold(len(data))
            return self._parsed(data)

    def _parsed(self, data: bytes | bytearray) -> Any:
        if self._publishes:
            head = _read_head(data)
            if isinstance(head, pb.PublishRequestHead):
                check_access(self.caller, self._method, head)
                if (rows := max(len(head.rows), len(head.steps))) > MAX_BATCH_ROWS:
                    raise errors.InvalidEvent(
                        f"a batch holds at most {MAX_BATCH_ROWS:,} rows; got {rows:,}: send several"
                    )
        request = self._parse(data)
        if type(request) is not Malformed:
            check_access(self.caller, self._method, request)
        return request

    async def _join(self, first: Any) -> Any:
        """Read the other parts of a request, and return it."""
        joined = Joined(first.part)
        self._call.release()
        self._call.hold(joined.size)
        joined.add(first.part)
        while not joined.complete:
            try:
                async with asyncio.timeout(NEXT_PART_SECONDS):
                    request = await self._next_part()
            except TimeoutError:
                raise TooSlow(
                    f"the next part of a request of {joined.size:,} bytes did not come within "
                    f"{NEXT_PART_SECONDS:g} s"
                ) from None
            joined.add(request.part)
        whole = self._parsed(joined.content())
        if type(whole) is not Malformed and whole.HasField("part"):
            raise errors.InvalidEvent("the parts of a request make one that is a part itself")
        return whole

    async def _next_part(self) -> Any:
        data = await self._context.read()
        if data is grpc.aio.EOF:
            raise errors.InvalidEvent("the call ended in the middle of a request in parts")
        request = self._parsed(data)
        check_parsed(request)
        return request


def who_calls(context: Any) -> Caller:
    """Return the caller, as a method that is about many runs must know it."""
    return context.caller if type(context) is AdmittedContext else OWNER


def check_owner(caller: Caller, method: str) -> None:
    """Raise Refusal for a method that only the daemon's owner may call."""
    if not caller.is_owner and method in OWNERS_METHODS:
        raise Refusal(
            grpc.StatusCode.PERMISSION_DENIED,
            f"{method} {OWNERS_METHODS[method].format(name=caller.name)}",
        )


def check_access(caller: Caller, method: str, request: Any) -> None:
    """Raise Refusal unless the request is about one of the caller's runs.

    A method that is about no run in particular must be known here: what is not is refused.
    """
    if caller.is_owner:
        return
    check_owner(caller, method)
    run_id = getattr(request, "run_id", "")
    if not run_id and method in MANY_RUNS_METHODS:
        return
    if not caller.may_touch(run_id):
        raise Refusal(grpc.StatusCode.PERMISSION_DENIED, caller.refusal(run_id))


class Methods:
    """Wraps the service's methods, and knows how many calls are under way."""

    def __init__(self, gate: CallGate) -> None:
        self._gate = gate
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
        call = self._guarded(method, function)
        call.asks_the_gate = True  # type: ignore[attr-defined]
        return grpc.stream_stream_rpc_method_handler(call, response_serializer=serialise)

    def _guarded(self, method: Any, function: Method) -> Method:
        async def call(_: object, context: Any) -> None:
            if self._draining:
                await context.abort(
                    grpc.StatusCode.UNAVAILABLE, "the daemon is shutting down", ANSWERED
                )
            self._calls += 1
            self._idle.clear()
            try:
                # Not inside an except clause: the abort would carry the error along, and with it
                # all that was read.
                if (refusal := await self._refusal(method, function, context)) is not None:
                    await context.abort(*refusal)
            except grpc.aio.InternalError:
                # An answer is stuck for somebody who has left: nothing to log.
                raise asyncio.CancelledError from None
            finally:
                self._calls -= 1
                if self._calls == 0:
                    self._idle.set()

        return call

    async def _refusal(self, method: Any, function: Method, context: Any) -> Any:
        """Serve a call; return with what to abort it, or None."""
        caller: Caller | None = None  # nobody that is known yet
        try:
            with self._gate.admit(context) as admitted:
                caller = admitted.caller
                check_owner(admitted.caller, method.name)
                await self._serve(method, function, AdmittedContext(context, admitted, method))
        except grpc.aio.AbortError:
            raise
        except grpc.aio.InternalError:
            # Nobody is there any more to write to: the call was cancelled, or its peer died.
            return (grpc.StatusCode.CANCELLED,)
        except Exception as error:
            # The one place where errors become answers; what is not foreseen is logged.
            code = status_code(error)
            words = str(error) if caller is None else error_words(error, caller)
            if code is None:
                logger.exception("%s failed", method.name)
                code = grpc.StatusCode.INTERNAL
                told = caller is not None and caller.is_owner
                reason = f": {error!r}" if told else "; the daemon's log says why"
                words = f"{method.name} failed{reason}"
            forget_frames(error)
            return code, words, ANSWERED
        return None

    @staticmethod
    async def _serve(method: Any, function: Method, context: Any) -> None:
        if method.client_streaming:
            await function(None, context)
            return
        request = await context.read()
        if request is grpc.aio.EOF:
            raise errors.InvalidEvent(
                f"{method.name} takes one {method.input_type.name} message; none came"
            )
        check_parsed(request)
        answer = await function(request, context)
        if not method.server_streaming:
            await context.write(answer)


def forget_frames(error: BaseException | None) -> None:
    """Let go of what the functions held that an error went through: requests, however large.

    A call that keeps its error is a cycle of references, which is collected much later.
    """
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__context__


def parser(message: type[Message]) -> Callable[[bytes | bytearray], Message | Malformed]:
    """Return a deserialiser that answers :class:`Malformed` instead of raising.

    gRPC would log the exception and answer UNKNOWN, as if the daemon were at fault.
    """
    parse = message.FromString
    name = message.DESCRIPTOR.name

    def parse_request(data: bytes | bytearray) -> Message | Malformed:
        try:
            return parse(data)  # type: ignore[arg-type]
        except DecodeError as error:
            return Malformed(f"{len(data)} bytes are no {name} message: {error}")

    return parse_request


_read_head = parser(pb.PublishRequestHead)


def serialise(message: Message | bytes) -> bytes:
    """Return a response's bytes; what was serialised elsewhere (a reading thread) goes as it is."""
    return message if type(message) is bytes else message.SerializeToString()  # type: ignore[union-attr]
