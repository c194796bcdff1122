"""The run bus: everyone gets what they asked for, and the slow ones hold up nobody."""

from __future__ import annotations

import logging
import threading

import pytest
from made_batches import RUN, steps

from lanekit.slow.limits import RUNBUS_UI_PATH_QUEUE_SIZE
from lanekit.slow.run_bus import BusEvent, Overflow, RunBus, Topic
from patience import patience


def event(number: int = 0, topic: Topic = Topic.STEP_APPENDED, run_id: str = RUN) -> BusEvent:
    return BusEvent(topic, run_id, position=number, rows=1)


def publish(bus: RunBus, count: int, first: int = 0) -> None:
    for number in range(first, first + count):
        bus.publish(Topic.STEP_APPENDED, event(number))


def test_a_subscriber_gets_the_topics_and_the_run_it_asked_for() -> None:
    bus = RunBus()
    with (
        bus.subscribe([Topic.STEP_APPENDED, Topic.CONTROL]) as some,
        bus.subscribe(Topic.STEP_APPENDED, run_id="other") as other,
        bus.subscribe(list(Topic)) as everything,
    ):
        for topic in (Topic.STEP_APPENDED, Topic.RUN_STARTED, Topic.CONTROL):
            bus.publish(topic, event(topic=topic))
        bus.publish(Topic.STEP_APPENDED, event(run_id="other"))
        assert [e.topic for e in some.drain()] == [
            Topic.STEP_APPENDED,
            Topic.CONTROL,
            Topic.STEP_APPENDED,
        ]
        assert [e.run_id for e in other.drain()] == ["other"]
        assert len(everything) == 4


def test_events_come_in_order_and_nothing_is_a_result() -> None:
    bus = RunBus()
    with bus.subscribe(Topic.STEP_APPENDED) as subscription:
        assert subscription.try_get() is None
        assert subscription.get(timeout=0.01) is None
        publish(bus, 3)
        first = subscription.get()
        assert first is not None
        assert first.position == 0
        assert [e.position for e in subscription.drain()] == [1, 2]
        assert subscription.dropped == 0


def test_a_waiting_reader_is_woken_by_an_event_and_by_close() -> None:
    bus = RunBus()
    subscription = bus.subscribe(Topic.STEP_APPENDED)
    got: list[int] = []
    reader = threading.Thread(target=lambda: got.extend(e.position for e in subscription))
    reader.start()
    publish(bus, 5)
    subscription.close()
    reader.join(patience(30))
    assert not reader.is_alive()
    assert got == [0, 1, 2, 3, 4]
    publish(bus, 1)
    assert subscription.try_get() is None


def test_one_that_never_reads_loses_its_oldest_and_takes_no_more_memory() -> None:
    bus = RunBus()
    with bus.subscribe(Topic.STEP_APPENDED, size=10) as sleeper:
        publish(bus, 10_000)
        assert len(sleeper) == 10
        assert sleeper.dropped == 9_990
        assert [e.position for e in sleeper.drain()] == list(range(9_990, 10_000))


def test_large_batches_are_bounded_by_their_bytes() -> None:
    bus = RunBus()
    batch = steps(1, 100)
    with bus.subscribe(Topic.STEP_APPENDED, max_bytes=5 * batch.nbytes) as sleeper:
        for number in range(100):
            bus.publish(Topic.STEP_APPENDED, BusEvent(Topic.STEP_APPENDED, RUN, number, 100, batch))
        assert 1 <= len(sleeper) <= 5
        assert len(sleeper) + sleeper.dropped == 100
    with bus.subscribe(Topic.STEP_APPENDED, max_bytes=1) as tiny:
        bus.publish(Topic.STEP_APPENDED, BusEvent(Topic.STEP_APPENDED, RUN, 0, 100, batch))
        assert len(tiny) == 1


def test_an_overflow_is_told_once_for_each_burst() -> None:
    bus = RunBus()
    with (
        bus.subscribe(Topic.OVERFLOW) as news,
        bus.subscribe(Topic.STEP_APPENDED, size=4, name="the view") as slow,
    ):
        publish(bus, 20)
        assert news.drain() == []
        slow.drain()
        assert [e.payload for e in news.drain()] == [Overflow("the view", RUN, 16)]
        publish(bus, 4)
        slow.try_get()
        publish(bus, 1)
        slow.get()
        assert news.drain() == []
        publish(bus, 4)
        assert slow.get() is not None
        assert [e.payload for e in news.drain()] == [Overflow("the view", RUN, 3)]
        assert slow.dropped == 19


def test_one_that_closes_without_taking_tells_what_it_lost() -> None:
    bus = RunBus()
    with bus.subscribe(Topic.OVERFLOW) as news:
        with bus.subscribe(Topic.STEP_APPENDED, size=4, name="the view"):
            publish(bus, 4_492)
        assert [e.payload for e in news.drain()] == [Overflow("the view", RUN, 4_488)]


def test_one_that_waits_for_room_does_not_wait_for_itself_when_it_tells_of_losses() -> None:
    bus = RunBus()
    with (
        bus.subscribe([Topic.OVERFLOW, Topic.CONTROL], size=1, on_overflow="wait") as careful,
        bus.subscribe(Topic.STEP_APPENDED, size=1) as slow,
    ):
        bus.publish(Topic.CONTROL, event(topic=Topic.CONTROL))
        publish(bus, 2)
        slow.drain()
        assert [e.topic for e in careful.drain()] == [Topic.CONTROL]
        assert careful.dropped == 1


def test_what_people_look_at_has_a_short_queue() -> None:
    bus = RunBus()
    with bus.subscribe_ui(Topic.STEP_APPENDED) as view:
        publish(bus, 2 * RUNBUS_UI_PATH_QUEUE_SIZE)
        assert len(view) == view.dropped == RUNBUS_UI_PATH_QUEUE_SIZE


def test_news_of_losses_that_are_themselves_lost_make_no_further_news() -> None:
    bus = RunBus()
    with (
        bus.subscribe(Topic.OVERFLOW, size=1) as news,
        bus.subscribe(Topic.STEP_APPENDED, size=1) as slow,
    ):
        for _ in range(5):
            publish(bus, 2)
            slow.drain()
        assert len(news) == 1
        assert news.dropped == 4


def test_one_that_must_miss_nothing_makes_the_publisher_wait() -> None:
    bus = RunBus()
    with bus.subscribe(Topic.STEP_APPENDED, size=3, on_overflow="wait") as careful:
        publisher = threading.Thread(target=publish, args=(bus, 50))
        publisher.start()
        got = []
        while len(got) < 50:
            taken = careful.get(timeout=patience(30))
            assert taken is not None
            assert len(careful) <= 3
            got.append(taken.position)
        publisher.join(patience(30))
        assert got == list(range(50))
        assert careful.dropped == 0


def test_closing_lets_a_waiting_publisher_go() -> None:
    bus = RunBus()
    careful = bus.subscribe(Topic.STEP_APPENDED, size=1, on_overflow="wait")
    publisher = threading.Thread(target=publish, args=(bus, 5))
    publisher.start()
    careful.close()
    publisher.join(patience(30))
    assert not publisher.is_alive()


def test_a_callback_that_raises_is_closed_and_the_others_go_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bus = RunBus()
    calls = []

    def fails() -> None:
        calls.append("fails")
        raise ValueError("a subscriber's mistake")

    broken = bus.subscribe(Topic.STEP_APPENDED, notify=fails, name="broken")
    with bus.subscribe(Topic.STEP_APPENDED, notify=lambda: calls.append("works")) as sound:
        with caplog.at_level(logging.ERROR):
            publish(bus, 3)
        assert calls == ["fails", "works", "works", "works"]
        assert broken.closed
        assert len(sound) == 3
    assert "broken failed and was closed" in caplog.text
    assert "a subscriber's mistake" in caplog.text


def test_a_callback_may_read_subscribe_and_close() -> None:
    bus = RunBus()
    seen: list[int] = []

    def take() -> None:
        seen.extend(e.position for e in subscription.drain())
        bus.subscribe(Topic.CONTROL).close()
        if len(seen) == 2:
            subscription.close()

    subscription = bus.subscribe(Topic.STEP_APPENDED, notify=take)
    publish(bus, 5)
    assert seen == [0, 1]


def test_several_publishers_and_readers_lose_nothing() -> None:
    bus = RunBus()
    subscriptions = [
        bus.subscribe(Topic.STEP_APPENDED, size=8, on_overflow="wait") for _ in range(3)
    ]
    got: list[list[int]] = [[] for _ in subscriptions]

    def read(index: int) -> None:
        while len(got[index]) < 400:
            taken = subscriptions[index].get(timeout=patience(30))
            assert taken is not None
            got[index].append(taken.position)

    readers = [threading.Thread(target=read, args=(index,)) for index in range(3)]
    writers = [threading.Thread(target=publish, args=(bus, 100, 100 * n)) for n in range(4)]
    for thread in readers + writers:
        thread.start()
    for thread in readers + writers:
        thread.join(patience())
    assert [sorted(numbers) for numbers in got] == [list(range(400))] * 3


def test_misuse_is_named() -> None:
    bus = RunBus()
    with pytest.raises(ValueError, match="at least 1"):
        bus.subscribe(Topic.CONTROL, size=0)
    with pytest.raises(ValueError, match="'drop_oldest' or 'wait'"):
        bus.subscribe(Topic.CONTROL, on_overflow="never")  # type: ignore[arg-type]
