"""The frame tap: newest wins, at the rate and size asked for, and only while somebody watches."""

from __future__ import annotations

import asyncio
import io
import itertools
import time
from collections.abc import Awaitable, Callable

import numpy as np
import pytest
from picture_worker import PictureWorker
from PIL import Image

from lanekit import (
    FastLaneConfig,
    FastLaneFrame,
    FastLaneMetrics,
    FastLaneReader,
    FastLaneWriter,
)
from lanekit.integrations.showing.lanes import slot_lane_of, state_lane_of
from lanekit.slow.daemon.frames.encoding import encode
from lanekit.slow.daemon.frames.lanes import find_lanes, lane_id
from lanekit.slow.daemon.frames.tap import FrameTap, FrameUpdate, FrameWatch, Recipe, WatchedFrame
from lanekit.slow.watched_frames import MIN_RATE

RAW = Recipe("raw")
Act = Callable[[FrameTap], Awaitable[None]]

_numbers = itertools.count()


@pytest.fixture
def run_id(worker_id: str) -> str:
    return f"tap-{worker_id}-{time.time_ns()}-{next(_numbers)}"


def with_tap(act: Act) -> None:
    async def run() -> None:
        tap = FrameTap()
        try:
            await act(tap)
        finally:
            tap.close()

    asyncio.run(run())


async def next_frame(watch: FrameWatch) -> WatchedFrame:
    async for update in watch:
        if update.frame is not None:
            return update.frame
    raise AssertionError("the watch has ended")


async def until(watch: FrameWatch, condition: Callable[[FrameUpdate], bool]) -> FrameUpdate:
    async for update in watch:
        if condition(update):
            return update
    raise AssertionError("the watch has ended")


def test_a_frame_comes_with_everything_that_was_published_with_it(
    run_id: str, worker: PictureWorker
) -> None:
    async def act(tap: FrameTap) -> None:
        with tap.watch(run_id, recipe=RAW) as watch:
            frame = await next_frame(watch)
            n = frame.seq
            assert frame.metrics == FastLaneMetrics(float(n), 2.0 * n, 200.0)
            assert frame.metadata == b'{"step": %d}' % n
            assert frame.picture.data == bytes([n % 256]) * (64 * 48 * 3)
            assert (frame.source_width, frame.source_height) == (64, 48)
            looked_at = frame.published_unix_ns + frame.age_ns
            assert frame.published_unix_ns <= looked_at <= time.time_ns()

    with_tap(act)


def test_a_worker_draws_while_somebody_watches_and_no_longer(
    run_id: str, worker: PictureWorker
) -> None:
    async def act(tap: FrameTap) -> None:
        assert find_lanes(run_id)[0].frames == 0
        with tap.watch(run_id, rate=0.5) as watch:  # far apart: the worker draws between, too
            await next_frame(watch)
            assert tap.watches == 1
            worker.wait_for("watched")
        assert tap.watches == 0
        await asyncio.to_thread(worker.wait_for, "alone")
        drawn = find_lanes(run_id)[0].frames
        assert drawn > 0

    with_tap(act)


def test_a_watcher_that_does_not_ask_any_more_lets_the_worker_rest(
    run_id: str, worker: PictureWorker
) -> None:
    async def act(tap: FrameTap) -> None:
        with tap.watch(run_id) as watch:
            await next_frame(watch)
            await asyncio.to_thread(worker.wait_for, "alone")
            # And when it asks again, it is given something new.
            before = await next_frame(watch)
            assert (await next_frame(watch)).seq > before.seq

    with_tap(act)


def test_a_slow_watcher_gets_the_newest_frame_and_is_told_what_it_missed(
    run_id: str, worker: PictureWorker
) -> None:
    async def act(tap: FrameTap) -> None:
        with (
            tap.watch(run_id, rate=240, recipe=RAW) as quick,
            tap.watch(run_id, rate=240, recipe=RAW) as slow,
        ):
            first = await next_frame(slow)
            seen = [await next_frame(quick) for _ in range(20)]
            last = await next_frame(slow)
            assert last.seq >= seen[-1].seq
            assert last.skipped == last.seq - first.seq - 1 >= 18
            assert sum(frame.skipped + 1 for frame in seen[1:]) == seen[-1].seq - seen[0].seq

    with_tap(act)


def test_watchers_who_want_the_same_share_one_picture(run_id: str) -> None:
    async def act(tap: FrameTap) -> None:
        with PictureOf(run_id):
            with tap.watch(run_id) as one, tap.watch(run_id) as other, tap.watch(run_id) as third:
                third.change(recipe=Recipe("jpeg", max_width=8))
                pictures = [(await next_frame(watch)).picture for watch in (one, other, third)]
                assert pictures[0] is pictures[1]
                assert (pictures[2].width, pictures[2].height) == (8, 6)

    with_tap(act)


def test_a_lane_that_is_not_there_yet_is_waited_for_and_a_dead_writer_replaced(
    run_id: str,
) -> None:
    async def act(tap: FrameTap) -> None:
        with tap.watch(run_id, recipe=RAW) as watch:
            first = await anext(watch)
            assert (first.status, first.frame) == ("fastlane-unavailable", None)
            assert "no such segment" in first.problem
            worker = PictureWorker(run_id)
            assert (await until(watch, lambda u: u.frame is not None)).status == "connected"
            worker.kill()
            await until(watch, lambda u: u.status == "reconnecting")
            # The next worker publishes another size.
            worker = PictureWorker(run_id, 32, 16)
            update = await until(watch, lambda u: u.frame is not None and u.status == "connected")
            while update.frame is None or update.frame.source_width != 32:
                update = await anext(watch)
            assert update.status == "connected"
            assert len(update.frame.picture.data) == 32 * 16 * 3
            worker.leave()
            assert (await until(watch, lambda u: u.status != "connected")).status == "reconnecting"

    with_tap(act)


def test_a_silence_is_broken_with_the_newest_numbers(run_id: str) -> None:
    async def act(tap: FrameTap) -> None:
        with FastLaneWriter.create(run_id, FastLaneConfig(4, 4)) as writer:
            with tap.watch(run_id) as watch:
                assert (await anext(watch)).status == "connected"
                writer.update_metrics(FastLaneMetrics(1.0, 2.0, 3.0))
                update = await until(watch, lambda u: u.metrics == FastLaneMetrics(1.0, 2.0, 3.0))
                assert update.frame is None

    with_tap(act)


def test_closing_ends_whoever_waits(run_id: str) -> None:
    async def act(tap: FrameTap) -> None:
        watch = tap.watch(run_id)
        await anext(watch)
        waiting = asyncio.create_task(anext(watch, None))
        await asyncio.sleep(0)
        watch.close()
        watch.close()
        assert await waiting is None
        pacing = tap.watch(run_id, rate=0.02)
        with PictureOf(run_id):
            await next_frame(pacing)
            waiting = asyncio.create_task(anext(pacing, None))
            await asyncio.sleep(0)
            tap.close()
            assert await waiting is None

    with_tap(act)


def test_frames_come_no_faster_than_asked(run_id: str, worker: PictureWorker) -> None:
    async def act(tap: FrameTap) -> None:
        with tap.watch(run_id, rate=MIN_RATE) as slow, tap.watch(run_id, rate=100) as fast:
            slow._interval = 1e9  # seconds: never again in this test
            await next_frame(slow)
            waiting = asyncio.create_task(next_frame(slow))
            for _ in range(5):
                await next_frame(fast)
            assert not waiting.done()
            waiting.cancel()

    with_tap(act)


@pytest.mark.parametrize("pixel_format", ["RGB", "RGBA", "BGRX", "GRAY"])
@pytest.mark.parametrize("encoding", ["png", "raw", "jpeg", "webp"])
def test_every_format_becomes_a_picture_with_the_same_colours(
    run_id: str, pixel_format: str, encoding: str
) -> None:
    colour = {"RGB": (200, 40, 90), "RGBA": (200, 40, 90, 0), "BGRX": (90, 40, 200, 0)}.get(
        pixel_format, (120,)
    )
    shown = (120,) if pixel_format == "GRAY" else (200, 40, 90)
    pixels = np.empty((40, 60, len(colour)), np.uint8)
    pixels[:] = colour
    config = FastLaneConfig(60, 40, len(colour), pixel_format)  # type: ignore[arg-type]
    with FastLaneWriter.create(run_id, config) as writer:
        writer.publish(pixels)
        with FastLaneReader.attach(run_id) as reader:
            frame = reader.latest_frame()
    assert frame is not None
    made = encode(frame, Recipe(encoding, max_height=20, quality=95))  # type: ignore[arg-type]
    assert (made.width, made.height) == (30, 20)
    if encoding == "raw":
        image = np.frombuffer(made.data, np.uint8).reshape(20, 30, len(shown))
    else:
        opened = Image.open(io.BytesIO(made.data))
        if encoding == "webp" and pixel_format == "GRAY":
            shown = (120, 120, 120)
        image = np.asarray(opened).reshape(20, 30, len(shown))
    assert np.abs(image.astype(int) - shown).max() <= (0 if encoding in ("raw", "png") else 4)
    whole = encode(frame, RAW)
    assert (whole.data, whole.pixel_format) == (frame.data, pixel_format)


def test_what_can_not_be_asked_for_is_refused(run_id: str) -> None:
    for wrong in (
        {"encoding": "gif"},
        {"max_width": -1},
        {"quality": 0},
        {"quality": 101},
    ):
        with pytest.raises(ValueError, match=r"encoding|picture|quality"):
            Recipe(**wrong)  # type: ignore[arg-type]

    async def act(tap: FrameTap) -> None:
        for rate in (0.0, -1.0, 241.0, float("nan"), float("inf")):
            with pytest.raises(ValueError, match="rate"):
                tap.watch(run_id, rate=rate)
        for lane in ("state", "env-", "env-1/state", "../x", "env-1234567890"):
            with pytest.raises(ValueError, match="lane"):
                tap.watch(run_id, lane)
        assert tap.watches == 0

    with_tap(act)


def test_a_frame_that_an_encoding_has_no_room_for_is_refused_with_a_way_out() -> None:
    wide = FastLaneFrame(bytes(20_000), 20_000, 1, 1, FastLaneMetrics(), None, 1, 1, "GRAY")
    with pytest.raises(ValueError, match=r"20000x1.*WEBP.*smaller"):
        encode(wide, Recipe("webp"))
    assert encode(wide, Recipe("webp", max_width=1000)).width == 1000
    assert encode(wide, Recipe("png")).width == 20_000


def test_a_recipe_keeps_proportions_and_enlarges_nothing() -> None:
    assert Recipe(max_width=100).size_of(400, 300) == (100, 75)
    assert Recipe(max_width=100, max_height=30).size_of(400, 300) == (40, 30)
    assert Recipe(max_width=1000).size_of(400, 300) == (400, 300)
    assert Recipe(max_width=1).size_of(1000, 3) == (1, 1)


def test_the_lanes_of_a_run_are_listed_without_those_that_carry_states(run_id: str) -> None:
    slots = [slot_lane_of(run_id, slot) for slot in (10, 2)]
    names = [run_id, *slots, *(state_lane_of(name) for name in (run_id, *slots)), f"{run_id}-x"]
    writers = [FastLaneWriter.create(name, FastLaneConfig(8, 4)) for name in names]
    try:
        found = find_lanes(run_id)
        assert [lane.lane for lane in found] == ["", "env-2", "env-10"]
        assert {(lane.run_id, lane.width, lane.live) for lane in found} == {(run_id, 8, True)}
        assert lane_id(run_id, "env-2") == slots[1]
        assert {run_id, f"{run_id}-x"} <= {lane.run_id for lane in find_lanes()}
    finally:
        for writer in writers:
            writer.unlink()
            writer.close()


class PictureOf:
    """A run with one frame, and a writer that does nothing more."""

    def __init__(self, run_id: str) -> None:
        self._writer = FastLaneWriter.create(run_id, FastLaneConfig(64, 48))
        self._writer.publish(np.zeros((48, 64, 3), np.uint8))

    def __enter__(self) -> FastLaneWriter:
        return self._writer

    def __exit__(self, *_: object) -> None:
        self._writer.unlink()
        self._writer.close()
