"""Streams between a client and a server: back pressure, rates, and how they end."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from echo_method import Echo, echo
from memory_channel import memory_channels
from pumping import Pumped

from lanekit import RemoteError, TooLarge
from lanekit.command import (
    Bytes,
    Camera,
    Channel,
    CommandClient,
    CommandServer,
    ImageFrame,
    StreamCameraRequest,
    StreamTelemetryRequest,
    Telemetry,
    TelemetryFrame,
)
from lanekit.command import server as command_server
from lanekit.command.envelope import pack, unpack
from lanekit.command.messages import Envelope, Kind
from patience import patience, until


class Clock:
    """The server's, which goes on only when a test says so."""

    now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def monotonic_ns(self) -> int:
        return int(self.now * 1e9)

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(command_server, "time", made)
    return made


def frames(count: int) -> Callable[[StreamTelemetryRequest], Iterator[TelemetryFrame]]:
    def handler(_: StreamTelemetryRequest) -> Iterator[TelemetryFrame]:
        for n in range(count):
            yield TelemetryFrame(frame_number=n, observation_qpos=np.full(20, n))

    return handler


def test_a_stream_gives_all_its_items_and_ends(ends: tuple[Channel, Channel]) -> None:
    server = CommandServer(ends[0], {Telemetry.StreamTelemetry: frames(500)})
    with CommandClient(ends[1], timeout=patience()) as client, Pumped(server):
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
    with CommandClient(ends[1], timeout=patience()) as client:
        stream = client.stream(Telemetry.StreamTelemetry, keep="all", buffer=4)
        for _ in range(50):
            server.pump(timeout=0.001)
        assert made == [0, 1, 2, 3]  # as many as may wait at the client, and not one more
        with Pumped(server):
            assert [frame.frame_number for frame in stream] == list(range(100))


def test_a_slow_reader_gets_the_newest_items(ends: tuple[Channel, Channel]) -> None:
    server = CommandServer(ends[0], {Telemetry.StreamTelemetry: frames(300)})
    with CommandClient(ends[1], timeout=patience()) as client:
        stream = client.stream(Telemetry.StreamTelemetry, buffer=3)
        assert server.pump(timeout=patience()) == 1
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
        CommandClient(ends[1], timeout=patience()) as client,
        client.stream(Telemetry.StreamTelemetry),
    ):
        server.pump(timeout=patience())
        for n in range(1, 6):
            server.pump(timeout=0.01)  # a step's worth of waiting makes no more of them
            assert len(made) == n


def test_a_rate_is_kept_while_the_server_waits(ends: tuple[Channel, Channel]) -> None:
    server = CommandServer(ends[0], {Telemetry.StreamTelemetry: frames(1000)})
    with CommandClient(ends[1], timeout=patience()) as client:
        request = StreamTelemetryRequest(target_fps=200)
        with client.stream(Telemetry.StreamTelemetry, request, keep="all") as stream:
            with Pumped(server):
                for n in range(20):
                    frame = stream.next(patience())
                    assert frame is not None
                    assert frame.frame_number == n


def test_a_stream_is_no_faster_than_asked(ends: tuple[Channel, Channel], clock: Clock) -> None:
    made: list[int] = []

    def handler(_: StreamTelemetryRequest) -> Iterator[TelemetryFrame]:
        while True:
            made.append(len(made))
            yield TelemetryFrame()

    server = CommandServer(ends[0], {Telemetry.StreamTelemetry: handler})
    with CommandClient(ends[1], timeout=patience()) as client:
        request = StreamTelemetryRequest(target_fps=4)
        with client.stream(Telemetry.StreamTelemetry, request):
            until(server.pump)
            for n in range(1, 6):
                for _ in range(10):
                    server.pump()
                assert len(made) == n
                clock.now += 0.25


def test_an_item_that_takes_time_comes_when_it_is_there_and_not_some_intervals_later(
    ends: tuple[Channel, Channel],
) -> None:
    def handler(_: StreamTelemetryRequest) -> Iterator[TelemetryFrame | None]:
        for number in range(2):
            yield from [None] * 200  # at one look a second, this would be minutes
            yield TelemetryFrame(frame_number=number)

    server = CommandServer(ends[0], {Telemetry.StreamTelemetry: handler})
    with CommandClient(ends[1], timeout=patience()) as client:
        request = StreamTelemetryRequest(target_fps=1)
        with client.stream(Telemetry.StreamTelemetry, request) as stream, Pumped(server):
            for number in range(2):
                frame = stream.next(patience())
                assert frame is not None
                assert frame.frame_number == number


def test_items_can_be_pushed_to_whoever_listens(ends: tuple[Channel, Channel]) -> None:
    server = CommandServer(ends[0], {Camera.StreamCamera: None})
    assert not server.watched(Camera.StreamCamera)
    picture = ImageFrame(data=bytes(range(12)), width=2, height=2, channels=3, format="raw")
    assert server.publish(Camera.StreamCamera, picture) == 0
    with CommandClient(ends[1], timeout=patience()) as client:
        stream = client.stream(Camera.StreamCamera, StreamCameraRequest(name="front"))
        server.pump(timeout=patience())
        assert server.watched(Camera.StreamCamera)
        assert server.publish(Camera.StreamCamera, picture) == 1
        assert stream.next(patience()) == picture
        with pytest.raises(TypeError, match="streams ImageFrame, not TelemetryFrame"):
            server.publish(Camera.StreamCamera, TelemetryFrame())  # type: ignore[arg-type]
        stream.cancel()
        assert stream.next(patience()) is None
        until(lambda: server.pump() == 0 and not server.watched(Camera.StreamCamera))


def test_a_pushed_stream_keeps_to_the_rate_that_was_asked_for(
    ends: tuple[Channel, Channel], clock: Clock
) -> None:
    server = CommandServer(ends[0], {Telemetry.StreamTelemetry: None})
    with CommandClient(ends[1], timeout=patience()) as client:
        request = StreamTelemetryRequest(target_fps=1)
        with client.stream(Telemetry.StreamTelemetry, request):
            until(server.pump)
            for _ in range(3):
                sent = [
                    server.publish(Telemetry.StreamTelemetry, TelemetryFrame()) for _ in range(100)
                ]
                assert sent == [1] + 99 * [0]
                clock.now += 1.0


def test_a_failing_generator_ends_its_stream_with_the_error(
    ends: tuple[Channel, Channel],
) -> None:
    def handler(_: StreamTelemetryRequest) -> Iterator[TelemetryFrame | None]:
        yield TelemetryFrame(frame_number=1)
        yield None  # nothing new yet
        raise RuntimeError("sensor lost")

    with CommandClient(ends[1], timeout=patience()) as client:
        with Pumped(CommandServer(ends[0], {Telemetry.StreamTelemetry: handler})):
            stream = client.stream(Telemetry.StreamTelemetry)
            first = stream.next(patience())
            assert first is not None
            assert first.frame_number == 1
            with pytest.raises(RemoteError, match="RuntimeError: sensor lost"):
                stream.next(patience())


def test_cancelling_ends_the_generator(ends: tuple[Channel, Channel]) -> None:
    put_away = threading.Event()

    def handler(_: StreamTelemetryRequest) -> Iterator[TelemetryFrame]:
        try:
            while True:
                yield TelemetryFrame()
        finally:
            put_away.set()

    with CommandClient(ends[1], timeout=patience()) as client:
        with Pumped(CommandServer(ends[0], {Telemetry.StreamTelemetry: handler})):
            with client.stream(Telemetry.StreamTelemetry) as stream:
                assert stream.next(patience()) is not None
            assert put_away.wait(patience())
            # The same for a stream that nobody holds any more.
            put_away.clear()
            forgotten = client.stream(Telemetry.StreamTelemetry)
            assert forgotten.next(patience()) is not None
            del forgotten, stream
            gc.collect()
            assert put_away.wait(patience())


def test_an_item_that_is_too_large_ends_its_stream(ends: tuple[Channel, Channel]) -> None:
    limit = ends[0].max_size

    def handler(_: StreamCameraRequest) -> Iterator[ImageFrame]:
        yield ImageFrame(data=bytes(limit))

    with CommandClient(ends[1], timeout=patience()) as client:
        with Pumped(CommandServer(ends[0], {Camera.StreamCamera: handler})):
            with pytest.raises(TooLarge, match=f"carries {limit}"):
                client.stream(Camera.StreamCamera).next(patience())


def test_calls_are_answered_between_the_items_of_a_stream(ends: tuple[Channel, Channel]) -> None:
    def for_ever(_: StreamTelemetryRequest) -> Iterator[TelemetryFrame]:
        while True:
            yield TelemetryFrame(observation_qpos=np.zeros(100))

    server = CommandServer(ends[0], {Telemetry.StreamTelemetry: for_ever, Echo: echo})
    with CommandClient(ends[1], timeout=patience()) as client, Pumped(server):
        with client.stream(Telemetry.StreamTelemetry, buffer=2) as stream:
            for n in range(100):
                data = Bytes(n.to_bytes(2, "little"))
                assert client.call(Echo, data, timeout=patience()) == data
            assert stream.next(patience()) is not None


def test_a_new_client_is_not_told_what_the_old_one_asked(ends: tuple[Channel, Channel]) -> None:
    def for_ever(_: StreamTelemetryRequest) -> Iterator[TelemetryFrame]:
        while True:
            yield TelemetryFrame()

    server = CommandServer(ends[0], {Telemetry.StreamTelemetry: for_ever, Echo: echo})
    old = CommandClient(ends[1], timeout=patience())
    stream = old.stream(Telemetry.StreamTelemetry)
    server.pump(timeout=patience())
    server.pump()
    assert stream.next(patience()) is not None
    unanswered = old.submit(Echo, Bytes(b"old"), timeout=None)
    old.close()  # without a word, as if it had died
    assert unanswered.exception(patience()) is not None
    with CommandClient(ends[1], timeout=patience()) as client, Pumped(server):
        assert client.call(Echo, Bytes(b"new"), timeout=patience()).data == b"new"
        until(lambda: server.streams == 0)
        assert client.stats.discarded >= 1  # answers to the old one's questions


def test_a_server_that_closes_ends_its_streams(ends: tuple[Channel, Channel]) -> None:
    server = CommandServer(ends[0], {Telemetry.StreamTelemetry: None})
    with CommandClient(ends[1], timeout=patience()) as client:
        stream = client.stream(Telemetry.StreamTelemetry)
        server.pump(timeout=patience())
        server.close()
        assert stream.next(patience()) is None


def test_a_lost_client_is_no_error_for_the_server() -> None:
    server_end, client_end = memory_channels()
    server = CommandServer(server_end, {Telemetry.StreamTelemetry: frames(10**6)})
    with CommandClient(client_end) as client:
        client.stream(Telemetry.StreamTelemetry)
        server.pump(timeout=patience())
        assert server.streams == 1
    client_end.leave()
    while server_end.peer._incoming.qsize():
        client_end.receive(0.0) if not client_end.gone else client_end._incoming.get()
    until(lambda: server.pump(timeout=0.01) == 0 and server.streams == 0)


def test_a_stream_keeps_its_client(ends: tuple[Channel, Channel]) -> None:
    server = CommandServer(ends[0], {Telemetry.StreamTelemetry: frames(50)})
    with Pumped(server):
        stream = CommandClient(ends[1], timeout=patience()).stream(
            Telemetry.StreamTelemetry, keep="all"
        )
        gc.collect()
        assert [frame.frame_number for frame in stream] == list(range(50))
