"""Calls and streams between a client and a server, over real rings and within one process."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import numpy as np
import pytest
from memory_channel import memory_channels
from pumping import A_MINUTE, Pumped, until
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
    Agent,
    AgentSchema,
    Bytes,
    Camera,
    Channel,
    CommandClient,
    CommandServer,
    GetAgentSchemaRequest,
    GetAgentSchemaResponse,
    GetEntityRequest,
    GetEntityResponse,
    GetSceneInfoResponse,
    ImageFrame,
    Method,
    Range,
    ResetAgentRequest,
    ResetAgentResponse,
    Scene,
    SimulationContract,
    StreamCameraRequest,
    StreamTelemetryRequest,
    Telemetry,
    TelemetryFrame,
)
from lanekit.command.envelope import pack, unpack
from lanekit.command.messages import Envelope, Kind

Echo = Method("Test.Echo", Bytes, Bytes)


@pytest.fixture(params=["rings", "memory"])
def ends(request: pytest.FixtureRequest) -> Iterator[tuple[Channel, Channel]]:
    """A server's and a client's channel."""
    if request.param == "memory":
        yield memory_channels()
        return
    run = f"test-{uuid.uuid4().hex[:12]}"
    server = RingEnd(run, "server", 65536)
    client = RingEnd(run, "client", 65536)
    yield server.channel, client.channel
    client.close()
    server.close()


def echo(request: Bytes) -> Bytes:
    return request


# --- calls ----------------------------------------------------------------------------------------


def test_a_call_brings_a_typed_answer(ends: tuple[Channel, Channel]) -> None:
    seen: list[Any] = []

    def schema(request: GetAgentSchemaRequest) -> GetAgentSchemaResponse:
        seen.append((request, threading.get_ident()))
        return GetAgentSchemaResponse(AgentSchema(request.agent_name, ["height"], ["hip"], 1, 1))

    server = CommandServer(ends[0], {Agent.GetAgentSchema: schema})
    with CommandClient(ends[1], timeout=A_MINUTE) as client:
        future = client.submit(Agent.GetAgentSchema, GetAgentSchemaRequest("walker"))
        assert server.pump(timeout=A_MINUTE) == 1
        answer = future.result(A_MINUTE)
        assert answer.schema is not None
        assert answer.schema.observation_names == ("height",)
        assert seen == [(GetAgentSchemaRequest("walker"), threading.get_ident())]
        assert server.pump() == 0
        with Pumped(server):
            by_name = client.call("Agent.GetAgentSchema", timeout=A_MINUTE)
            assert by_name.schema.agent_name == ""  # without a request: an empty one


def test_a_reset_carries_its_contract(ends: tuple[Channel, Channel]) -> None:
    contract = SimulationContract(
        friction_range=Range(0.5, 1.25), mass_scale_range=Range(0.9, 1.1), terrain_type="stairs"
    )
    applied: list[ResetAgentRequest] = []
    server = CommandServer(ends[0])

    @server.handles(Agent.ResetAgent)
    def reset(request: ResetAgentRequest) -> ResetAgentResponse:
        applied.append(request)
        return ResetAgentResponse(success=True, message=f"{len(request.env_ids)} reset")

    with CommandClient(ends[1], timeout=A_MINUTE) as client, Pumped(server):
        request = ResetAgentRequest("walker", contract, env_ids=np.array([0, 2]), seed=7)
        assert client.call(Agent.ResetAgent, request, timeout=A_MINUTE).message == "2 reset"
    assert applied == [request]


def test_many_threads_have_many_calls_in_flight(ends: tuple[Channel, Channel]) -> None:
    wrong: list[object] = []

    def work(client: CommandClient, thread: int) -> None:
        futures: list[tuple[bytes, Future[Bytes]]] = []
        for i in range(40):
            data = bytes([thread, i]) * (i + 1)
            futures.append((data, client.submit(Echo, Bytes(data), timeout=A_MINUTE)))
        for data, future in futures:
            if future.result(A_MINUTE).data != data:
                wrong.append((thread, data))

    with (
        CommandClient(ends[1], timeout=A_MINUTE) as client,
        Pumped(CommandServer(ends[0], {Echo: echo})),
    ):
        threads = [threading.Thread(target=work, args=(client, n)) for n in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []
        assert client.stats.discarded == 0


def test_a_future_can_be_awaited(ends: tuple[Channel, Channel]) -> None:
    async def ask(client: CommandClient) -> list[bytes]:
        futures = [client.submit(Echo, Bytes(bytes([n]))) for n in range(10)]
        answers = await asyncio.gather(*map(asyncio.wrap_future, futures))
        return [answer.data for answer in answers]

    with (
        CommandClient(ends[1], timeout=A_MINUTE) as client,
        Pumped(CommandServer(ends[0], {Echo: echo})),
    ):
        assert asyncio.run(ask(client)) == [bytes([n]) for n in range(10)]


def test_pump_handles_as_many_as_it_is_told(ends: tuple[Channel, Channel]) -> None:
    server = CommandServer(ends[0], {Echo: echo})
    with CommandClient(ends[1], timeout=A_MINUTE) as client:
        futures = [client.submit(Echo, Bytes(bytes([n]))) for n in range(5)]
        assert server.pump(max=2, timeout=A_MINUTE) == 2
        assert server.pump(max=2, timeout=A_MINUTE) == 2
        assert server.pump() == 1
        assert [f.result(A_MINUTE).data for f in futures] == [bytes([n]) for n in range(5)]
        assert server.stats.requests == 5
    with pytest.raises(ValueError, match="1 or more"):
        server.pump(max=0)


# --- each error its own ---------------------------------------------------------------------------


def test_an_unknown_method_is_named(ends: tuple[Channel, Channel]) -> None:
    with (
        CommandClient(ends[1], timeout=A_MINUTE) as client,
        Pumped(CommandServer(ends[0], {Echo: echo})),
    ):
        with pytest.raises(UnknownMethod, match=r"Scene.GetSceneInfo: .* handled are: Test.Echo"):
            client.call(Scene.GetSceneInfo, timeout=A_MINUTE)
        with pytest.raises(UnknownMethod), client.stream(Telemetry.StreamTelemetry) as stream:
            stream.next(A_MINUTE)
        with pytest.raises(ValueError, match=r"no method 'Scene.Gravity' in the schema"):
            client.call("Scene.Gravity")


def test_what_a_handler_raises_reaches_the_caller(ends: tuple[Channel, Channel]) -> None:
    class TooSteep(ValueError):
        pass

    def fail(request: Bytes) -> Bytes:
        raise TooSteep(f"not on {request.data!r} \ud800")

    server = CommandServer(ends[0], {Echo: fail, Scene.GetEntity: lambda _: Bytes(b"x")})
    with CommandClient(ends[1], timeout=A_MINUTE) as client, Pumped(server):
        with pytest.raises(RemoteError, match=r"Test.Echo: .*TooSteep: not on b'hill'") as told:
            client.call(Echo, Bytes(b"hill"), timeout=A_MINUTE)
        assert told.value.remote_type.endswith("TooSteep")
        assert told.value.remote_message == "not on b'hill' ?"
        with pytest.raises(RemoteError, match="gave a Bytes instead of a GetEntityResponse"):
            client.call(Scene.GetEntity, timeout=A_MINUTE)
    assert server.stats.failed == 2


def test_ctrl_c_in_a_handler_ends_the_pump_and_tells_the_caller(
    ends: tuple[Channel, Channel],
) -> None:
    def interrupt(_: Bytes) -> Bytes:
        raise KeyboardInterrupt

    server = CommandServer(ends[0], {Echo: interrupt})
    with CommandClient(ends[1], timeout=A_MINUTE) as client:
        future = client.submit(Echo, Bytes(b""))
        with pytest.raises(KeyboardInterrupt):
            server.pump(timeout=A_MINUTE)
        with pytest.raises(RemoteError, match="KeyboardInterrupt"):
            future.result(A_MINUTE)


def test_a_reply_after_the_timeout_is_dropped_and_counted(ends: tuple[Channel, Channel]) -> None:
    entered, leave = threading.Event(), threading.Event()

    def slow(request: Bytes) -> Bytes:
        entered.set()
        leave.wait(A_MINUTE)
        return request

    server = CommandServer(ends[0], {Echo: slow})
    with CommandClient(ends[1], timeout=A_MINUTE) as client, Pumped(server):
        future = client.submit(Echo, Bytes(b"first"), timeout=A_MINUTE)
        assert entered.wait(A_MINUTE)
        with pytest.raises(ReplyTimeout, match=r"Test.Echo: no answer within 0.05 s") as told:
            client.call(Echo, Bytes(b"second"), timeout=0.05)
        assert isinstance(told.value, WaitTimeout)
        leave.set()
        assert future.result(A_MINUTE).data == b"first"
        # The second was found after its deadline, and not run: it was the reply that came late.
        until(lambda: client.stats.late_replies == 1)
        assert server.stats.refused == 1
        assert client.call(Echo, Bytes(b"third"), timeout=A_MINUTE).data == b"third"


def test_a_future_ends_by_itself_at_its_timeout(ends: tuple[Channel, Channel]) -> None:
    with CommandClient(ends[1], timeout=A_MINUTE) as client:
        future = client.submit(Echo, Bytes(b""), timeout=0.02)
        assert isinstance(future.exception(A_MINUTE), ReplyTimeout)


def test_a_cancelled_future_is_forgotten(ends: tuple[Channel, Channel]) -> None:
    server = CommandServer(ends[0], {Echo: echo})
    with CommandClient(ends[1], timeout=A_MINUTE) as client:
        future = client.submit(Echo, Bytes(b"x"), timeout=None)
        assert future.cancel()
        assert server.pump(timeout=A_MINUTE) == 1
        until(lambda: client.stats.late_replies == 1)


def test_what_is_too_large_is_said_with_the_limit(ends: tuple[Channel, Channel]) -> None:
    limit = ends[0].max_size
    big = Method("Test.Big", Bytes, Bytes)
    server = CommandServer(ends[0], {big: lambda _: Bytes(bytes(limit))})
    with CommandClient(ends[1], timeout=A_MINUTE) as client, Pumped(server):
        with pytest.raises(TooLarge, match=rf"Test.Echo: .*{limit}"):
            client.call(Echo, Bytes(bytes(limit)))
        with pytest.raises(TooLarge, match=rf"Test.Big: the answer has .* carries {limit}"):
            client.call(big, Bytes(b""), timeout=A_MINUTE)
        largest = Bytes(bytes(limit - 200))
        server.register(Echo, echo)
        assert client.call(Echo, largest, timeout=A_MINUTE) == largest


def test_a_full_lane_is_told_at_the_callers_limit(ends: tuple[Channel, Channel]) -> None:
    with CommandClient(ends[1], timeout=A_MINUTE) as client:
        part = Bytes(bytes(ends[1].max_size // 2 - 400))
        futures = [client.submit(Echo, part, timeout=None) for _ in range(2)]
        with pytest.raises(ReplyTimeout, match=r"the lane is full; is the server pumping"):
            client.call(Echo, part, timeout=0.02)
        with Pumped(CommandServer(ends[0], {Echo: echo})):
            assert all(future.result(A_MINUTE) == part for future in futures)


@pytest.mark.parametrize("wrong", [b"", b"nonsense that is long enough", bytes(64)])
def test_bytes_that_are_no_message_are_dropped_and_counted(
    ends: tuple[Channel, Channel], wrong: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    server = CommandServer(ends[0], {Echo: echo})
    ends[1].send(wrong, A_MINUTE)
    ends[0].send(wrong, A_MINUTE)
    with CommandClient(ends[1], timeout=A_MINUTE) as client, Pumped(server):
        assert client.call(Echo, Bytes(b"x"), timeout=A_MINUTE).data == b"x"
        assert (server.stats.discarded, client.stats.discarded) == (1, 1)


def test_a_malformed_request_is_answered_as_such(ends: tuple[Channel, Channel]) -> None:
    server = CommandServer(ends[0], {Echo: echo})
    good = pack(Envelope(session=3, correlation_id=4, method=Echo.name, payload=Bytes(b"abcdefgh")))
    at = good.index(b"abcdefgh") - 4
    ends[1].send(good[:at] + b"\xff\xff\xff\x7f" + good[at + 4 :], A_MINUTE)
    ends[1].send(pack(Envelope(session=3, correlation_id=5, method=Echo.name)), A_MINUTE)
    assert server.pump(timeout=A_MINUTE) >= 1
    server.pump(timeout=0)
    for number, told in ((4, "claims 2147483647 elements"), (5, "takes a Bytes, not a NoneType")):
        message = ends[1].receive(A_MINUTE)
        assert message is not None
        reply = unpack(message)
        assert (reply.correlation_id, reply.error_code.name) == (number, "MALFORMED_REQUEST")
        assert told in reply.error_message


def test_a_malformed_answer_fails_its_own_call_only(ends: tuple[Channel, Channel]) -> None:
    with CommandClient(ends[1], timeout=A_MINUTE) as client:
        first = client.submit(Echo, Bytes(b"1"), timeout=A_MINUTE)
        second = client.submit(Echo, Bytes(b"2"), timeout=A_MINUTE)
        third = client.submit(Echo, Bytes(b"3"), timeout=A_MINUTE)
        requests = [ends[0].receive(A_MINUTE) for _ in range(3)]
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
            ends[0].send(data, A_MINUTE)
        with pytest.raises(MalformedMessage, match=r"Test.Echo: malformed message: Bytes.data"):
            first.result(A_MINUTE)
        with pytest.raises(MalformedMessage, match="a GetSceneInfoResponse instead of a Bytes"):
            second.result(A_MINUTE)
        assert third.result(A_MINUTE).data == b"abcdefgh"


def test_a_lost_server_fails_what_is_pending() -> None:
    server_end, client_end = memory_channels()
    with CommandClient(client_end, timeout=None) as client:
        future = client.submit(Echo, Bytes(b""))
        stream = client.stream(Telemetry.StreamTelemetry)
        server_end.leave()
        with pytest.raises(PeerLost, match=r"Test.Echo: .*gone"):
            future.result(A_MINUTE)
        with pytest.raises(PeerLost):
            stream.next(A_MINUTE)
        with pytest.raises(PeerLost):
            client.call(Echo, timeout=A_MINUTE)


def test_a_spoilt_ring_is_told_to_everybody_who_waits() -> None:
    run = f"test-{uuid.uuid4().hex[:12]}"
    server, client_end = RingEnd(run, "server", 4096), RingEnd(run, "client", 4096)
    with CommandClient(client_end.channel, timeout=None) as client:
        future = client.submit(Echo, Bytes(b""))
        server.spoil(0, b"\xff" * 8)  # the position up to which it has written
        with pytest.raises(SegmentCorrupt):
            future.result(A_MINUTE)
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
            future.result(A_MINUTE)
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
    waiter = threading.Thread(target=lambda: received.append(server.channel.receive(A_MINUTE)))
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
        future.result(A_MINUTE)
    with pytest.raises(HandleClosed):
        stream.next(A_MINUTE)
    with pytest.raises(HandleClosed):
        client.call(Echo)
    stream.cancel()


def test_wrong_use_is_told_before_anything_is_sent(ends: tuple[Channel, Channel]) -> None:
    with CommandClient(ends[1], timeout=A_MINUTE) as client:
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
        leave.wait(A_MINUTE)
        server.pump()
        return request

    with CommandClient(ends[1], timeout=A_MINUTE) as client:
        future = client.submit(Echo, Bytes(b""), timeout=A_MINUTE)
        with Pumped(server):
            assert entered.wait(A_MINUTE)
            with pytest.raises(ConcurrentUse):
                server.pump()
            leave.set()
            with pytest.raises(RemoteError, match="must not pump") as told:
                future.result(A_MINUTE)
            assert told.value.remote_type.endswith(OutOfTurn.__name__)


# --- streams --------------------------------------------------------------------------------------


def frames(count: int) -> Callable[[StreamTelemetryRequest], Iterator[TelemetryFrame]]:
    def handler(_: StreamTelemetryRequest) -> Iterator[TelemetryFrame]:
        for n in range(count):
            yield TelemetryFrame(frame_number=n, observation_qpos=np.full(20, n))

    return handler


def test_a_stream_gives_all_its_items_and_ends(ends: tuple[Channel, Channel]) -> None:
    server = CommandServer(ends[0], {Telemetry.StreamTelemetry: frames(500)})
    with CommandClient(ends[1], timeout=A_MINUTE) as client, Pumped(server):
        with client.stream(Telemetry.StreamTelemetry, keep="all", buffer=7) as stream:
            got = [frame.frame_number for frame in stream]
        assert got == list(range(500))
        assert stream.dropped == 0
        assert stream.next() is None
    assert server.streams == 0


def test_back_pressure_stops_the_generator(ends: tuple[Channel, Channel]) -> None:
    made: list[int] = []

    def handler(_: StreamTelemetryRequest) -> Iterator[TelemetryFrame]:
        for n in range(100):
            made.append(n)
            yield TelemetryFrame(frame_number=n)

    server = CommandServer(ends[0], {Telemetry.StreamTelemetry: handler})
    with CommandClient(ends[1], timeout=A_MINUTE) as client:
        stream = client.stream(Telemetry.StreamTelemetry, keep="all", buffer=4)
        for _ in range(50):
            server.pump(timeout=0.001)
        assert made == [0, 1, 2, 3]  # as many as may wait at the client, and not one more
        with Pumped(server):
            assert [frame.frame_number for frame in stream] == list(range(100))


def test_a_slow_reader_gets_the_newest_items(ends: tuple[Channel, Channel]) -> None:
    server = CommandServer(ends[0], {Telemetry.StreamTelemetry: frames(300)})
    with CommandClient(ends[1], timeout=A_MINUTE) as client:
        stream = client.stream(Telemetry.StreamTelemetry, buffer=3)
        assert server.pump(timeout=A_MINUTE) == 1
        while server.streams:
            server.pump()  # one item each
        until(lambda: stream._feed.ended)
        got = [frame.frame_number for frame in stream]
        assert got == [297, 298, 299]
        assert stream.dropped == 297


def test_a_reader_that_takes_nothing_fills_the_lane_and_holds_up_nobody() -> None:
    server_end, client_end = memory_channels(8192)
    server = CommandServer(server_end, {Telemetry.StreamTelemetry: frames(1000), Echo: echo})
    request = Envelope(
        session=1,
        correlation_id=1,
        method=Telemetry.StreamTelemetry.name,
        payload=StreamTelemetryRequest(),
    )
    client_end.send(pack(request), 0.0)
    while server.streams or not server.stats.requests:
        server.pump()  # never waits for the client, though the lane is full for long
    kept: list[Envelope] = []
    while (message := client_end.receive(0.0)) is not None:
        kept.append(unpack(message))
    items = [one for one in kept if one.kind == Kind.STREAM_ITEM]
    assert 10 < len(items) < 100
    numbers = [one.payload.frame_number for one in items if isinstance(one.payload, TelemetryFrame)]
    assert numbers == list(range(len(items)))


def test_what_the_lane_had_no_room_for_is_counted() -> None:
    server_end, client_end = memory_channels(4096)
    server = CommandServer(server_end, {Telemetry.StreamTelemetry: None})
    client_end.send(
        pack(
            Envelope(
                session=1,
                correlation_id=1,
                method=Telemetry.StreamTelemetry.name,
                payload=StreamTelemetryRequest(),
            )
        ),
        0.0,
    )
    assert server.pump() == 1
    assert server.watched(Telemetry.StreamTelemetry)
    sent = sum(
        server.publish(Telemetry.StreamTelemetry, TelemetryFrame(frame_number=n))
        for n in range(200)
    )
    assert 0 < sent < 200
    for _ in range(sent):
        assert client_end.receive(0.0) is not None
    assert client_end.receive(0.0) is None
    assert server.publish(Telemetry.StreamTelemetry, TelemetryFrame(frame_number=200)) == 1
    message = client_end.receive(0.0)
    assert message is not None
    assert unpack(message).skipped == 200 - sent


def test_without_a_rate_each_pump_gives_one_item(ends: tuple[Channel, Channel]) -> None:
    made: list[int] = []

    def handler(_: StreamTelemetryRequest) -> Iterator[TelemetryFrame]:
        while True:
            made.append(len(made))
            yield TelemetryFrame()

    server = CommandServer(ends[0], {Telemetry.StreamTelemetry: handler})
    with (
        CommandClient(ends[1], timeout=A_MINUTE) as client,
        client.stream(Telemetry.StreamTelemetry),
    ):
        server.pump(timeout=A_MINUTE)
        for n in range(1, 6):
            server.pump(timeout=0.01)  # a step's worth of waiting makes no more of them
            assert len(made) == n


def test_a_rate_is_kept_while_the_server_waits(ends: tuple[Channel, Channel]) -> None:
    server = CommandServer(ends[0], {Telemetry.StreamTelemetry: frames(1000)})
    with CommandClient(ends[1], timeout=A_MINUTE) as client:
        begun = time.monotonic()
        request = StreamTelemetryRequest(target_fps=200)
        with client.stream(Telemetry.StreamTelemetry, request, keep="all") as stream:
            with Pumped(server):
                for n in range(20):
                    frame = stream.next(A_MINUTE)
                    assert frame is not None
                    assert frame.frame_number == n
        assert time.monotonic() - begun >= 19 / 200 - 1 / 200  # not faster than asked


def test_items_can_be_pushed_to_whoever_listens(ends: tuple[Channel, Channel]) -> None:
    server = CommandServer(ends[0], {Camera.StreamCamera: None})
    assert not server.watched(Camera.StreamCamera)
    picture = ImageFrame(data=bytes(range(12)), width=2, height=2, channels=3, format="raw")
    assert server.publish(Camera.StreamCamera, picture) == 0
    with CommandClient(ends[1], timeout=A_MINUTE) as client:
        stream = client.stream(Camera.StreamCamera, StreamCameraRequest(name="front"))
        server.pump(timeout=A_MINUTE)
        assert server.watched(Camera.StreamCamera)
        assert server.publish(Camera.StreamCamera, picture) == 1
        assert stream.next(A_MINUTE) == picture
        with pytest.raises(TypeError, match="streams ImageFrame, not TelemetryFrame"):
            server.publish(Camera.StreamCamera, TelemetryFrame())  # type: ignore[arg-type]
        stream.cancel()
        assert stream.next(A_MINUTE) is None
        until(lambda: server.pump() == 0 and not server.watched(Camera.StreamCamera))


def test_a_pushed_stream_keeps_to_the_rate_that_was_asked_for(
    ends: tuple[Channel, Channel],
) -> None:
    server = CommandServer(ends[0], {Telemetry.StreamTelemetry: None})
    with CommandClient(ends[1], timeout=A_MINUTE) as client:
        request = StreamTelemetryRequest(target_fps=1)
        with client.stream(Telemetry.StreamTelemetry, request):
            server.pump(timeout=A_MINUTE)
            begun = time.monotonic()
            sent = sum(
                server.publish(Telemetry.StreamTelemetry, TelemetryFrame()) for _ in range(100)
            )
            assert 1 <= sent <= 2 + (time.monotonic() - begun)


def test_a_failing_generator_ends_its_stream_with_the_error(
    ends: tuple[Channel, Channel],
) -> None:
    def handler(_: StreamTelemetryRequest) -> Iterator[TelemetryFrame | None]:
        yield TelemetryFrame(frame_number=1)
        yield None  # nothing new yet
        raise RuntimeError("sensor lost")

    with CommandClient(ends[1], timeout=A_MINUTE) as client:
        with Pumped(CommandServer(ends[0], {Telemetry.StreamTelemetry: handler})):
            stream = client.stream(Telemetry.StreamTelemetry)
            first = stream.next(A_MINUTE)
            assert first is not None
            assert first.frame_number == 1
            with pytest.raises(RemoteError, match="RuntimeError: sensor lost"):
                stream.next(A_MINUTE)


def test_cancelling_ends_the_generator(ends: tuple[Channel, Channel]) -> None:
    put_away = threading.Event()

    def handler(_: StreamTelemetryRequest) -> Iterator[TelemetryFrame]:
        try:
            while True:
                yield TelemetryFrame()
        finally:
            put_away.set()

    with CommandClient(ends[1], timeout=A_MINUTE) as client:
        with Pumped(CommandServer(ends[0], {Telemetry.StreamTelemetry: handler})):
            with client.stream(Telemetry.StreamTelemetry) as stream:
                assert stream.next(A_MINUTE) is not None
            assert put_away.wait(A_MINUTE)
            # The same for a stream that nobody holds any more.
            put_away.clear()
            forgotten = client.stream(Telemetry.StreamTelemetry)
            assert forgotten.next(A_MINUTE) is not None
            del forgotten, stream
            gc.collect()
            assert put_away.wait(A_MINUTE)


def test_an_item_that_is_too_large_ends_its_stream(ends: tuple[Channel, Channel]) -> None:
    limit = ends[0].max_size

    def handler(_: StreamCameraRequest) -> Iterator[ImageFrame]:
        yield ImageFrame(data=bytes(limit))

    with CommandClient(ends[1], timeout=A_MINUTE) as client:
        with Pumped(CommandServer(ends[0], {Camera.StreamCamera: handler})):
            with pytest.raises(TooLarge, match=f"carries {limit}"):
                client.stream(Camera.StreamCamera).next(A_MINUTE)


def test_calls_are_answered_between_the_items_of_a_stream(ends: tuple[Channel, Channel]) -> None:
    def for_ever(_: StreamTelemetryRequest) -> Iterator[TelemetryFrame]:
        while True:
            yield TelemetryFrame(observation_qpos=np.zeros(100))

    server = CommandServer(ends[0], {Telemetry.StreamTelemetry: for_ever, Echo: echo})
    with CommandClient(ends[1], timeout=A_MINUTE) as client, Pumped(server):
        with client.stream(Telemetry.StreamTelemetry, buffer=2) as stream:
            for n in range(100):
                data = Bytes(n.to_bytes(2, "little"))
                assert client.call(Echo, data, timeout=A_MINUTE) == data
            assert stream.next(A_MINUTE) is not None


def test_a_new_client_is_not_told_what_the_old_one_asked(ends: tuple[Channel, Channel]) -> None:
    def for_ever(_: StreamTelemetryRequest) -> Iterator[TelemetryFrame]:
        while True:
            yield TelemetryFrame()

    server = CommandServer(ends[0], {Telemetry.StreamTelemetry: for_ever, Echo: echo})
    old = CommandClient(ends[1], timeout=A_MINUTE)
    stream = old.stream(Telemetry.StreamTelemetry)
    server.pump(timeout=A_MINUTE)
    server.pump()
    assert stream.next(A_MINUTE) is not None
    unanswered = old.submit(Echo, Bytes(b"old"), timeout=None)
    old.close()  # without a word, as if it had died
    assert unanswered.exception(A_MINUTE) is not None
    with CommandClient(ends[1], timeout=A_MINUTE) as client, Pumped(server):
        assert client.call(Echo, Bytes(b"new"), timeout=A_MINUTE).data == b"new"
        until(lambda: server.streams == 0)
        assert client.stats.discarded >= 1  # answers to the old one's questions


def test_a_server_that_closes_ends_its_streams(ends: tuple[Channel, Channel]) -> None:
    server = CommandServer(ends[0], {Telemetry.StreamTelemetry: None})
    with CommandClient(ends[1], timeout=A_MINUTE) as client:
        stream = client.stream(Telemetry.StreamTelemetry)
        server.pump(timeout=A_MINUTE)
        server.close()
        assert stream.next(A_MINUTE) is None


def test_a_lost_client_is_no_error_for_the_server() -> None:
    server_end, client_end = memory_channels()
    server = CommandServer(server_end, {Telemetry.StreamTelemetry: frames(10**6)})
    with CommandClient(client_end) as client:
        client.stream(Telemetry.StreamTelemetry)
        server.pump(timeout=A_MINUTE)
        assert server.streams == 1
    client_end.leave()
    while server_end.peer._incoming.qsize():
        client_end.receive(0.0) if not client_end.gone else client_end._incoming.get()
    until(lambda: server.pump(timeout=0.01) == 0 and server.streams == 0)


def test_a_forgotten_client_takes_its_thread_with_it(ends: tuple[Channel, Channel]) -> None:
    before = threading.active_count()
    client = CommandClient(ends[1], timeout=A_MINUTE)
    client.submit(Echo, Bytes(b""))
    assert threading.active_count() == before + 1
    del client
    gc.collect()
    until(lambda: threading.active_count() == before)


def test_a_stream_keeps_its_client(ends: tuple[Channel, Channel]) -> None:
    server = CommandServer(ends[0], {Telemetry.StreamTelemetry: frames(50)})
    with Pumped(server):
        stream = CommandClient(ends[1], timeout=A_MINUTE).stream(
            Telemetry.StreamTelemetry, keep="all"
        )
        gc.collect()
        assert [frame.frame_number for frame in stream] == list(range(50))


def test_timeouts_of_any_size_are_taken(ends: tuple[Channel, Channel]) -> None:
    with (
        CommandClient(ends[1], timeout=1e300) as client,
        Pumped(CommandServer(ends[0], {Echo: echo})),
    ):
        assert client.call(Echo, Bytes(b"x")).data == b"x"
        assert client.call(Echo, Bytes(b"x"), timeout=1e12).data == b"x"
        with pytest.raises(ReplyTimeout):
            client.call(Echo, Bytes(b"x"), timeout=-1)
        with pytest.raises(ValueError, match="NaN"):
            client.stream(Telemetry.StreamTelemetry, timeout=float("nan"))


def test_every_error_has_the_one_root() -> None:
    kinds = [UnknownMethod, RemoteError, ReplyTimeout, MalformedMessage, TooLarge, PeerLost]
    assert all(issubclass(kind, LanekitError) for kind in kinds)
    copied = RemoteError("a", "b", "c").__reduce__()
    assert copied[0](*copied[1]).remote_message == "c"


def test_an_entity_that_is_not_there_is_an_answer(ends: tuple[Channel, Channel]) -> None:
    def find(request: GetEntityRequest) -> GetEntityResponse:
        return GetEntityResponse()

    with (
        CommandClient(ends[1], timeout=A_MINUTE) as client,
        Pumped(CommandServer(ends[0], {Scene.GetEntity: find})),
    ):
        assert client.call(Scene.GetEntity, GetEntityRequest(id=5), timeout=A_MINUTE).entity is None
