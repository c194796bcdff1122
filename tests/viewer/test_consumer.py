"""The consumer: from a worker's shared memory to signals, whatever the worker does."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import numpy as np
import psutil
import pytest
from known_frames import as_shown, config_of, in_format, known_rgb
from pictures import rgb_of
from PyQt6.QtTest import QTest
from pytestqt.qtbot import QtBot
from writers import StartWriter

from lanekit import FastLaneMetrics, FastLaneWriter, segment_name
from lanekit.viewer.fastlane.consumer import (
    SUSPENDED_TICK_MS,
    FastLaneConsumer,
    FastLaneFrameEvent,
)
from lanekit.viewer.fastlane.turns import TICK_MS


def mappings_of(run_id: str) -> int:
    maps = Path("/proc/self/maps").read_text(encoding="utf-8")
    return maps.count(segment_name("frame", run_id).lstrip("/"))


class Heard:
    """What a consumer has said."""

    def __init__(self, consumer: FastLaneConsumer) -> None:
        self.frames: list[FastLaneFrameEvent] = []
        self.statuses: list[str] = []
        consumer.frame_ready.connect(self.frames.append)
        consumer.status_changed.connect(self.statuses.append)


@pytest.mark.parametrize("pixel_format", ["RGB", "RGBA", "BGRX", "GRAY"])
def test_a_frame_arrives_as_it_was_published(qtbot: QtBot, run_id: str, pixel_format: str) -> None:
    rgb = known_rgb(33, 20, 5)
    with FastLaneWriter.create(run_id, config_of(33, 20, pixel_format)) as writer:
        consumer = FastLaneConsumer(run_id)
        heard = Heard(consumer)
        writer.publish(
            in_format(rgb, pixel_format),
            metrics=FastLaneMetrics(0.5, 12.345, 60.0),
            metadata=b"note",
        )
        consumer.tick()
        (event,) = heard.frames
        assert np.array_equal(rgb_of(event.image), as_shown(rgb, pixel_format))
        assert event.hud_text == "reward: 0.50\nreturn: 12.35\nstep/sec: 60.0"
        assert event.metadata == b"note"
        assert heard.statuses == ["connected"]
        consumer.stop()


def test_a_frame_is_told_once(qtbot: QtBot, run_id: str) -> None:
    with FastLaneWriter.create(run_id, config_of(8, 8)) as writer:
        consumer = FastLaneConsumer(run_id)
        heard = Heard(consumer)
        writer.publish(known_rgb(8, 8))
        for _ in range(5):
            consumer.tick()
        assert len(heard.frames) == 1
        consumer.suspend()
        consumer.resume()
        consumer.tick()  # joins anew, and finds the frame it has told already
        assert len(heard.frames) == 1
        consumer.stop()


def test_who_listens_late_is_told_how_things_stand(qtbot: QtBot, run_id: str) -> None:
    with FastLaneWriter.create(run_id, config_of(8, 8)):
        consumer = FastLaneConsumer(run_id)
        consumer.tick()
        late: list[str] = []
        consumer.status_changed.connect(late.append)
        qtbot.waitUntil(lambda: late == ["connected"])
        consumer.stop()


def test_without_a_writer_the_fast_lane_is_unavailable_until_one_comes(
    qtbot: QtBot, run_id: str
) -> None:
    consumer = FastLaneConsumer(run_id)
    heard = Heard(consumer)
    consumer.start()
    qtbot.waitUntil(lambda: heard.statuses == ["fastlane-unavailable"])
    with FastLaneWriter.create(run_id, config_of(8, 8)) as writer:
        writer.publish(known_rgb(8, 8))
        qtbot.waitUntil(lambda: len(heard.frames) == 1)
        assert heard.statuses[-1] == "connected"
    qtbot.waitUntil(lambda: heard.statuses[-1] == "reconnecting")
    consumer.stop()


def test_a_killed_writer_is_noticed_and_its_successor_found_with_another_size_and_format(
    qtbot: QtBot, run_id: str, start_writer: StartWriter
) -> None:
    first = start_writer(64, 48, "RGB")
    consumer = FastLaneConsumer(run_id)
    heard = Heard(consumer)
    consumer.start()
    qtbot.waitUntil(lambda: len(heard.frames) > 2)
    first.kill()
    qtbot.waitUntil(lambda: consumer.status == "reconnecting")
    for width, height, pixel_format in ((40, 30, "BGRX"), (40, 30, "RGBA"), (17, 90, "GRAY")):
        writer = start_writer(width, height, pixel_format)
        qtbot.waitUntil(lambda size=(width, height): _size(heard) == size and _live(consumer))
        heard.frames.clear()
        qtbot.waitUntil(lambda: len(heard.frames) > 2)
        shown = rgb_of(heard.frames[-1].image)
        assert any(
            np.array_equal(shown, as_shown(known_rgb(width, height, i), pixel_format))
            for i in range(2)
        )
        assert mappings_of(run_id) == 1  # the predecessor's memory is let go
        writer.kill()
        qtbot.waitUntil(lambda: consumer.status == "reconnecting")
    consumer.stop()
    assert mappings_of(run_id) == 0


def _size(heard: Heard) -> tuple[int, int]:
    if not heard.frames:
        return 0, 0
    image = heard.frames[-1].image
    return image.width(), image.height()


def _live(consumer: FastLaneConsumer) -> bool:
    return consumer.status == "connected"


def test_the_one_frame_of_a_new_writer_is_not_lost(qtbot: QtBot, run_id: str) -> None:
    consumer = FastLaneConsumer(run_id)
    heard = Heard(consumer)
    consumer.start()
    for size in (8, 16, 24):
        with FastLaneWriter.create(run_id, config_of(size, size)) as writer:
            writer.publish(known_rgb(size, size))
            qtbot.waitUntil(lambda size=size: _size(heard) == (size, size))
    assert len(heard.frames) == 3
    consumer.stop()


def test_what_a_dead_writer_left_is_shown_as_such(
    qtbot: QtBot, run_id: str, start_writer: StartWriter
) -> None:
    start_writer().kill()
    consumer = FastLaneConsumer(run_id)
    heard = Heard(consumer)
    consumer.tick()
    assert len(heard.frames) == 1
    assert heard.statuses == ["reconnecting"]
    consumer.stop()


def test_a_damaged_segment_is_let_go_and_the_next_one_is_read(qtbot: QtBot, run_id: str) -> None:
    writer = FastLaneWriter.create(run_id, config_of(64, 64))
    consumer = FastLaneConsumer(run_id)
    heard = Heard(consumer)
    writer.publish(known_rgb(64, 64))
    consumer.start()
    os.truncate(f"/dev/shm/{segment_name('frame', run_id).lstrip('/')}", 0)
    qtbot.waitUntil(lambda: consumer.status == "reconnecting")
    assert consumer.problem
    writer.close()
    with FastLaneWriter.create(run_id, config_of(16, 16)) as writer:
        writer.publish(known_rgb(16, 16))
        qtbot.waitUntil(lambda: _size(heard) == (16, 16))
    consumer.stop()


def test_a_suspended_consumer_does_not_count_as_a_viewer_and_still_tells_the_status(
    qtbot: QtBot, run_id: str
) -> None:
    consumer = FastLaneConsumer(run_id)
    heard = Heard(consumer)
    consumer.start()
    with FastLaneWriter.create(run_id, config_of(8, 8)) as writer:
        writer.publish(known_rgb(8, 8))
        qtbot.waitUntil(lambda: writer.watched)
        consumer.suspend()
        qtbot.waitUntil(lambda: not writer.watched)
        assert mappings_of(run_id) == 1  # the writer's own
        assert consumer.status == "connected"
        writer.publish(known_rgb(8, 8, 1))
        consumer.tick()
        assert len(heard.frames) == 1
        consumer.resume()
        qtbot.waitUntil(lambda: len(heard.frames) == 2)
        consumer.suspend()
    qtbot.waitUntil(lambda: heard.statuses[-1] == "reconnecting")
    consumer.stop()


def test_another_pace_begins_only_if_it_has_begun_to_look(qtbot: QtBot, run_id: str) -> None:
    consumer = FastLaneConsumer(run_id)
    consumer.suspend()
    consumer.resume()
    QTest.qWait(2 * TICK_MS)
    assert not consumer._timer.active
    consumer.start()
    consumer.suspend()
    assert consumer._timer.active
    assert consumer._timer.interval_ms == SUSPENDED_TICK_MS
    consumer.resume()
    assert consumer._timer.active
    assert consumer._timer.interval_ms == TICK_MS
    consumer.suspend()
    consumer.stop()
    QTest.qWait(2 * TICK_MS)
    assert not consumer._timer.active


def test_memory_stays_flat_over_hours_of_ticks(qtbot: QtBot, run_id: str) -> None:
    """100,000 ticks, a frame in each: 27 minutes at 60 Hz, with writers that come and go."""
    now = 0.0
    consumer = FastLaneConsumer(run_id, clock=lambda: now)
    emitted = 0

    def count(event: FastLaneFrameEvent) -> None:
        nonlocal emitted
        emitted += 1

    consumer.frame_ready.connect(count)
    process = psutil.Process()
    frame = known_rgb(32, 24)
    sizes: list[tuple[int, int, int, int]] = []
    for part in range(10):
        with FastLaneWriter.create(run_id, config_of(32, 24)) as writer:
            for _ in range(10_000):
                now += 0.016
                writer.publish(frame)
                consumer.tick()
        gc.collect()
        objects = len(gc.get_objects())
        maps = Path("/proc/self/maps").read_text(encoding="utf-8").count("\n")
        if part >= 2:  # what is made once is made by then
            sizes.append((objects, process.memory_info().rss, process.num_fds(), maps))
    assert emitted > 99_000
    objects_grown, rss_grown, fds_grown, maps_grown = np.subtract(sizes[-1], sizes[0])
    assert objects_grown < 100
    assert rss_grown < 4 << 20
    assert fds_grown <= 0
    assert maps_grown <= 4
    consumer.stop()
