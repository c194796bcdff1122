"""Each thing that can go wrong with a call, told by an error of its own."""

from __future__ import annotations

import logging
import threading
import uuid

import pytest
from echo_method import Echo, echo
from memory_channel import memory_channels
from pumping import Pumped
from ring_ends import RingEnd

from lanekit import (
    ConcurrentUse,
    HandleClosed,
    LanekitError,
    MalformedMessage,
    OutOfTurn,
    PeerLost,
    RemoteError,
    ReplyTimeout,
    SegmentCorrupt,
    TooLarge,
    UnknownMethod,
    WaitTimeout,
)
from lanekit.command import (
    Bytes,
    Channel,
    CommandClient,
    CommandServer,
    GetSceneInfoResponse,
    Method,
    Scene,
    Telemetry,
)
from lanekit.command.envelope import pack, unpack
from lanekit.command.messages import Envelope, Kind
from patience import patience, until


def test_an_unknown_method_is_named(ends: tuple[Channel, Channel]) -> None:
    with (
        CommandClient(ends[1], timeout=patience()) as client,
        Pumped(CommandServer(ends[0], {Echo: echo})),
    ):
        with pytest.raises(UnknownMethod, match=r"Scene.GetSceneInfo: .* handled are: Test.Echo"):
            client.call(Scene.GetSceneInfo, timeout=patience())
        with pytest.raises(UnknownMethod), client.stream(Telemetry.StreamTelemetry) as stream:
            stream.next(patience())
        with pytest.raises(ValueError, match=r"no method 'Scene.Gravity' in the schema"):
            client.call("Scene.Gravity")


def test_what_a_handler_raises_reaches_the_caller(ends: tuple[Channel, Channel]) -> None:
    class TooSteep(ValueError):
        pass

    def fail(request: Bytes) -> Bytes:
        raise TooSteep(f"not on {request.data!r} \ud800")

    server = CommandServer(ends[0], {Echo: fail, Scene.GetEntity: lambda _: Bytes(b"x")})
    with CommandClient(ends[1], timeout=patience()) as client, Pumped(server):
        with pytest.raises(RemoteError, match=r"Test.Echo: .*TooSteep: not on b'hill'") as told:
            client.call(Echo, Bytes(b"hill"), timeout=patience())
        assert told.value.remote_type.endswith("TooSteep")
        assert told.value.remote_message == "not on b'hill' ?"
        with pytest.raises(RemoteError, match="gave a Bytes instead of a GetEntityResponse"):
            client.call(Scene.GetEntity, timeout=patience())
    assert server.stats.failed == 2


def test_ctrl_c_in_a_handler_ends_the_pump_and_tells_the_caller(
    ends: tuple[Channel, Channel],
) -> None:
    def interrupt(_: Bytes) -> Bytes:
        raise KeyboardInterrupt

    server = CommandServer(ends[0], {Echo: interrupt})
    with CommandClient(ends[1], timeout=patience()) as client:
        future = client.submit(Echo, Bytes(b""))
        with pytest.raises(KeyboardInterrupt):
            server.pump(timeout=patience())
        with pytest.raises(RemoteError, match="KeyboardInterrupt"):
            future.result(patience())


def test_a_reply_after_the_timeout_is_dropped_and_counted(ends: tuple[Channel, Channel]) -> None:
    entered, leave = threading.Event(), threading.Event()

    def slow(request: Bytes) -> Bytes:
        entered.set()
        leave.wait(patience())
        return request

    server = CommandServer(ends[0], {Echo: slow})
    with CommandClient(ends[1], timeout=patience()) as client, Pumped(server):
        future = client.submit(Echo, Bytes(b"first"), timeout=patience())
        assert entered.wait(patience())
        with pytest.raises(ReplyTimeout, match=r"Test.Echo: no answer within 0.05 s") as told:
            client.call(Echo, Bytes(b"second"), timeout=0.05)
        assert isinstance(told.value, WaitTimeout)
        leave.set()
        assert future.result(patience()).data == b"first"
        # The second was found after its deadline, and not run: it was the reply that came late.
        until(lambda: client.stats.late_replies == 1)
        assert server.stats.refused == 1
        assert client.call(Echo, Bytes(b"third"), timeout=patience()).data == b"third"


def test_a_future_ends_by_itself_at_its_timeout(ends: tuple[Channel, Channel]) -> None:
    with CommandClient(ends[1], timeout=patience()) as client:
        future = client.submit(Echo, Bytes(b""), timeout=0.02)
        assert isinstance(future.exception(patience()), ReplyTimeout)


def test_a_cancelled_future_is_forgotten(ends: tuple[Channel, Channel]) -> None:
    server = CommandServer(ends[0], {Echo: echo})
    with CommandClient(ends[1], timeout=patience()) as client:
        future = client.submit(Echo, Bytes(b"x"), timeout=None)
        assert future.cancel()
        assert server.pump(timeout=patience()) == 1
        until(lambda: client.stats.late_replies == 1)


def test_what_is_too_large_is_said_with_the_limit(ends: tuple[Channel, Channel]) -> None:
    limit = ends[0].max_size
    big = Method("Test.Big", Bytes, Bytes)
    server = CommandServer(ends[0], {big: lambda _: Bytes(bytes(limit))})
    with CommandClient(ends[1], timeout=patience()) as client, Pumped(server):
        with pytest.raises(TooLarge, match=rf"Test.Echo: .*{limit}"):
            client.call(Echo, Bytes(bytes(limit)))
        with pytest.raises(TooLarge, match=rf"Test.Big: the answer has .* carries {limit}"):
            client.call(big, Bytes(b""), timeout=patience())
        largest = Bytes(bytes(limit - 200))
        server.register(Echo, echo)
        assert client.call(Echo, largest, timeout=patience()) == largest


def test_a_full_lane_is_told_at_the_callers_limit(ends: tuple[Channel, Channel]) -> None:
    with CommandClient(ends[1], timeout=patience()) as client:
        part = Bytes(bytes(ends[1].max_size // 2 - 400))
        futures = [client.submit(Echo, part, timeout=None) for _ in range(2)]
        with pytest.raises(ReplyTimeout, match=r"the lane is full; is the server pumping"):
            client.call(Echo, part, timeout=0.02)
        with Pumped(CommandServer(ends[0], {Echo: echo})):
            assert all(future.result(patience()) == part for future in futures)


@pytest.mark.parametrize("wrong", [b"", b"nonsense that is long enough", bytes(64)])
def test_bytes_that_are_no_message_are_dropped_and_counted(
    ends: tuple[Channel, Channel], wrong: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    server = CommandServer(ends[0], {Echo: echo})
    ends[1].send(wrong, patience())
    ends[0].send(wrong, patience())
    with CommandClient(ends[1], timeout=patience()) as client, Pumped(server):
        assert client.call(Echo, Bytes(b"x"), timeout=patience()).data == b"x"
        assert (server.stats.discarded, client.stats.discarded) == (1, 1)


def test_a_malformed_request_is_answered_as_such(ends: tuple[Channel, Channel]) -> None:
    server = CommandServer(ends[0], {Echo: echo})
    good = pack(Envelope(session=3, correlation_id=4, method=Echo.name, payload=Bytes(b"abcdefgh")))
    at = good.index(b"abcdefgh") - 4
    ends[1].send(good[:at] + b"\xff\xff\xff\x7f" + good[at + 4 :], patience())
    ends[1].send(pack(Envelope(session=3, correlation_id=5, method=Echo.name)), patience())
    assert server.pump(timeout=patience()) >= 1
    server.pump(timeout=0)
    for number, told in ((4, "claims 2147483647 elements"), (5, "takes a Bytes, not a NoneType")):
        message = ends[1].receive(patience())
        assert message is not None
        reply = unpack(message)
        assert (reply.correlation_id, reply.error_code.name) == (number, "MALFORMED_REQUEST")
        assert told in reply.error_message


def test_a_malformed_answer_fails_its_own_call_only(ends: tuple[Channel, Channel]) -> None:
    with CommandClient(ends[1], timeout=patience()) as client:
        first = client.submit(Echo, Bytes(b"1"), timeout=patience())
        second = client.submit(Echo, Bytes(b"2"), timeout=patience())
        third = client.submit(Echo, Bytes(b"3"), timeout=patience())
        requests = [ends[0].receive(patience()) for _ in range(3)]
        for number, message in enumerate(requests):
            assert message is not None
            request = unpack(message)
            payload = GetSceneInfoResponse() if number == 1 else Bytes(b"abcdefgh")
            reply = Envelope(
                session=request.session,
                correlation_id=request.correlation_id,
                kind=Kind.RESPONSE,
                payload=payload,
            )
            data = pack(reply)
            if number == 0:
                at = data.index(b"abcdefgh") - 4
                data = data[:at] + b"\xff\xff\xff\x7f" + data[at + 4 :]
            ends[0].send(data, patience())
        with pytest.raises(MalformedMessage, match=r"Test.Echo: malformed message: Bytes.data"):
            first.result(patience())
        with pytest.raises(MalformedMessage, match="a GetSceneInfoResponse instead of a Bytes"):
            second.result(patience())
        assert third.result(patience()).data == b"abcdefgh"


def test_a_lost_server_fails_what_is_pending() -> None:
    server_end, client_end = memory_channels()
    with CommandClient(client_end, timeout=None) as client:
        future = client.submit(Echo, Bytes(b""))
        stream = client.stream(Telemetry.StreamTelemetry)
        server_end.leave()
        with pytest.raises(PeerLost, match=r"Test.Echo: .*gone"):
            future.result(patience())
        with pytest.raises(PeerLost):
            stream.next(patience())
        with pytest.raises(PeerLost):
            client.call(Echo, timeout=patience())


def test_a_spoilt_ring_is_told_to_everybody_who_waits() -> None:
    run = f"test-{uuid.uuid4().hex[:12]}"
    server, client_end = RingEnd(run, "server", 4096), RingEnd(run, "client", 4096)
    with CommandClient(client_end.channel, timeout=None) as client:
        future = client.submit(Echo, Bytes(b""))
        server.spoil(0, b"\xff" * 8)  # the position up to which it has written
        with pytest.raises(SegmentCorrupt):
            future.result(patience())
        with pytest.raises(SegmentCorrupt):
            client.call(Echo)
    client_end.close()
    server.close()


def test_closing_the_lane_ends_the_calls_of_its_clients() -> None:
    run = f"test-{uuid.uuid4().hex[:12]}"
    server, client_end = RingEnd(run, "server", 4096), RingEnd(run, "client", 4096)
    with CommandClient(client_end.channel, timeout=None) as client:
        future = client.submit(Echo, Bytes(b""))
        client_end.close()
        with pytest.raises(HandleClosed):
            future.result(patience())
        with pytest.raises(HandleClosed):
            client.call(Echo)
    with pytest.raises(HandleClosed):
        client_end.channel.receive(0.0)
    server.close()
    with pytest.raises(HandleClosed):
        CommandServer(server.channel).pump()


def test_two_threads_may_not_receive_from_one_ring() -> None:
    run = f"test-{uuid.uuid4().hex[:12]}"
    server, client_end = RingEnd(run, "server", 4096), RingEnd(run, "client", 4096)
    received: list[bytes | None] = []
    waiter = threading.Thread(target=lambda: received.append(server.channel.receive(patience())))
    waiter.start()
    until(server.channel._receiving.locked)
    with pytest.raises(ConcurrentUse, match="another thread is receiving"):
        server.channel.receive(0.0)
    assert server.channel.send(b"there", 0.0)  # sending is another matter
    client_end.channel.send(b"back", 0.0)
    waiter.join()
    assert received == [b"back"]
    client_end.close()
    server.close()


def test_closing_a_client_ends_its_calls_and_streams(ends: tuple[Channel, Channel]) -> None:
    client = CommandClient(ends[1], timeout=None)
    future = client.submit(Echo, Bytes(b""))
    stream = client.stream(Telemetry.StreamTelemetry)
    client.close()
    client.close()
    with pytest.raises(HandleClosed, match=r"Test.Echo"):
        future.result(patience())
    with pytest.raises(HandleClosed):
        stream.next(patience())
    with pytest.raises(HandleClosed):
        client.call(Echo)
    stream.cancel()


def test_wrong_use_is_told_before_anything_is_sent(ends: tuple[Channel, Channel]) -> None:
    with CommandClient(ends[1], timeout=patience()) as client:
        with pytest.raises(TypeError, match="takes a GetEntityRequest, not Bytes"):
            client.call(Scene.GetEntity, Bytes(b""))  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="use stream"):
            client.call(Telemetry.StreamTelemetry)
        with pytest.raises(ValueError, match="use call"):
            client.stream(Scene.GetEntity)
        with pytest.raises(ValueError, match="keep is"):
            client.stream(Telemetry.StreamTelemetry, keep="oldest")  # type: ignore[call-overload]
        with pytest.raises(ValueError, match="buffer must be"):
            client.stream(Telemetry.StreamTelemetry, buffer=0)
        with pytest.raises(TypeError, match="a timeout is a number"):
            client.call(Scene.GetEntity, timeout="1")  # type: ignore[call-overload]
        assert ends[0].receive(0.0) is None
    server = CommandServer(ends[0])
    with pytest.raises(ValueError, match="needs a handler"):
        server.register(Scene.GetEntity, None)
    with pytest.raises(ValueError, match="no method 'X'"):
        server.register("X", echo)
    with pytest.raises(TypeError, match="not callable"):
        CommandServer(ends[0], {Echo: 5})  # type: ignore[dict-item]


def test_a_server_is_pumped_by_one_at_a_time(ends: tuple[Channel, Channel]) -> None:
    server = CommandServer(ends[0])
    entered, leave = threading.Event(), threading.Event()

    @server.handles(Echo)
    def pump_inside(request: Bytes) -> Bytes:
        entered.set()
        leave.wait(patience())
        server.pump()
        return request

    with CommandClient(ends[1], timeout=patience()) as client:
        future = client.submit(Echo, Bytes(b""), timeout=patience())
        with Pumped(server):
            assert entered.wait(patience())
            with pytest.raises(ConcurrentUse):
                server.pump()
            leave.set()
            with pytest.raises(RemoteError, match="must not pump") as told:
                future.result(patience())
            assert told.value.remote_type.endswith(OutOfTurn.__name__)


def test_every_error_has_the_one_root() -> None:
    kinds = [UnknownMethod, RemoteError, ReplyTimeout, MalformedMessage, TooLarge, PeerLost]
    assert all(issubclass(kind, LanekitError) for kind in kinds)
    copied = RemoteError("a", "b", "c").__reduce__()
    assert copied[0](*copied[1]).remote_message == "c"
