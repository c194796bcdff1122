"""Threads and the fast lane: misuse is told, and right use works, with or without a GIL."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

import lanekit
from lanekit import FastLaneConfig, FastLaneMetrics, FastLaneReader, FastLaneWriter

CONFIG = FastLaneConfig(width=30, height=20, capacity=4, metadata_size=16)


def picture(seed: int, shape: tuple[int, ...] = (20, 30, 3)) -> npt.NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def test_two_threads_in_one_reader_are_told_so(run_id: str) -> None:
    told: list[lanekit.ConcurrentUse] = []

    def use(call: Callable[[], object]) -> None:
        try:
            call()
        except lanekit.ConcurrentUse as error:
            told.append(error)

    with FastLaneWriter.create(run_id, CONFIG), FastLaneReader.attach(run_id) as reader:
        wait = functools.partial(reader.wait, 3, strategy="block")
        waiter = threading.Thread(target=use, args=[wait])
        waiter.start()
        while waiter.is_alive() and not told:  # whoever comes second is told, be it the waiter
            use(reader.latest_frame)
        waiter.join()
    assert "own reader" in str(told[0])


def test_two_threads_in_one_reader_get_whole_frames_or_an_error(run_id: str) -> None:
    """Pixels, metrics and metadata come from one frame, however calls from two threads fall."""
    config = FastLaneConfig(width=30, height=20, capacity=3, metadata_size=8)
    wrong: list[str] = []
    whole: list[int] = []
    done = threading.Event()

    def watch(reader: FastLaneReader) -> None:
        while not done.is_set():
            try:
                frame = reader.latest_frame()
            except lanekit.ConcurrentUse:
                continue
            if frame is None:
                continue
            number = frame.seq
            told = (frame.array[0, 0, 0], frame.metrics.last_reward, frame.metadata)
            if told != (number % 251, number, number.to_bytes(8, "little")):
                wrong.append(f"frame {number} told {told}")
            whole.append(number)

    with FastLaneWriter.create(run_id, config) as writer, FastLaneReader.attach(run_id) as reader:
        threads = [threading.Thread(target=watch, args=[reader]) for _ in range(2)]
        for thread in threads:
            thread.start()
        for seq in range(1, 20_001):
            pixels = np.full(config.shape, seq % 251, np.uint8)
            metadata = seq.to_bytes(8, "little")
            writer.publish(pixels, metrics=FastLaneMetrics(seq), metadata=metadata)
        done.set()
        for thread in threads:
            thread.join()
    assert wrong == []
    assert whole


def test_asking_from_another_thread_does_not_disturb_the_one_that_publishes(run_id: str) -> None:
    done = threading.Event()

    def ask(writer: FastLaneWriter) -> None:
        while not done.is_set():
            _ = writer.watched
            writer.heartbeat()

    with FastLaneWriter.create(run_id, CONFIG) as writer:
        thread = threading.Thread(target=ask, args=[writer])
        thread.start()
        for seq in range(1, 5001):
            assert writer.publish(picture(0)) == seq
        done.set()
        thread.join()


def test_closing_ends_a_wait_in_another_thread(run_id: str) -> None:
    ended: list[Exception] = []

    def wait(reader: FastLaneReader) -> None:
        try:
            reader.wait()
        except lanekit.HandleClosed as error:
            ended.append(error)

    with FastLaneWriter.create(run_id, CONFIG):
        reader = FastLaneReader.attach(run_id)
        thread = threading.Thread(target=wait, args=[reader])
        thread.start()
        reader.close()
        thread.join()
    assert len(ended) == 1


def test_many_threads_hammering_one_writer_lose_calls_but_corrupt_nothing(run_id: str) -> None:
    published: list[int] = []
    refused: list[int] = []
    start = threading.Barrier(4)

    def hammer(value: int, writer: FastLaneWriter) -> None:
        frame = np.full(CONFIG.shape, value, np.uint8)
        start.wait()
        for _ in range(3000):
            try:
                published.append(writer.publish(frame))
            except lanekit.ConcurrentUse:
                refused.append(value)

    with FastLaneWriter.create(run_id, CONFIG) as writer, FastLaneReader.attach(run_id) as reader:
        threads = [threading.Thread(target=hammer, args=[v, writer]) for v in (1, 2, 3, 4)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            frame = reader.latest_frame()
            if frame is not None:
                assert frame.data.count(frame.data[0]) == len(frame.data)
        for thread in threads:
            thread.join()
        assert sorted(published) == list(range(1, len(published) + 1))
        assert len(published) + len(refused) == 12_000


def test_reader_threads_see_whole_frames_from_a_writer_thread(run_id: str) -> None:
    """Without a GIL these run truly at once; the small ring makes the writer lap them."""
    config = FastLaneConfig(width=64, height=64, capacity=2, metadata_size=8)
    frames = 5000
    problems: list[str] = []
    done = threading.Event()

    def watch(how: str, seen: threading.Event) -> None:
        out = np.zeros(config.shape, np.uint8)
        last = 0
        with FastLaneReader.attach(run_id) as reader:
            while not done.is_set():
                if how == "read_into":
                    seq = reader.read_into(out, fresh=True)
                    info = reader.last_frame_info
                    pixels, metadata = out, info.metadata if info else None
                else:
                    frame = reader.latest_frame(fresh=True)
                    seq = frame.seq if frame else 0
                    if frame is not None:
                        pixels, metadata = frame.array, frame.metadata
                if seq == 0:
                    continue
                if (pixels != seq % 251).any() or metadata != seq.to_bytes(8, "little"):
                    problems.append(f"{how}: frame {seq} is mixed")
                if seq <= last:
                    problems.append(f"{how}: {seq} after {last}")
                last = seq
                seen.set()

    with FastLaneWriter.create(run_id, config) as writer:
        watchers = [(how, threading.Event()) for how in ("read_into", "copy") * 2]
        threads = [threading.Thread(target=watch, args=watcher) for watcher in watchers]
        for thread in threads:
            thread.start()
        seq = 0
        # Each of them must have had one: a busy machine may let none run for thousands of frames.
        while seq < frames or not all(seen.is_set() for _, seen in watchers):
            seq += 1
            pixels = np.full(config.shape, seq % 251, np.uint8)
            writer.publish(pixels, metadata=seq.to_bytes(8, "little"))
        done.set()
        for thread in threads:
            thread.join()
    assert problems == []


def test_a_handle_closed_under_a_running_reader_ends_it_cleanly(run_id: str) -> None:
    ended: list[Exception] = []

    def watch(reader: FastLaneReader) -> None:
        out = np.zeros(CONFIG.shape, np.uint8)
        try:
            while True:
                reader.read_into(out)
                reader.latest_frame()
        except lanekit.LanekitError as error:
            ended.append(error)

    with FastLaneWriter.create(run_id, CONFIG) as writer:
        for _ in range(20):
            reader = FastLaneReader.attach(run_id)
            thread = threading.Thread(target=watch, args=[reader])
            thread.start()
            for seq in range(50):
                writer.publish(picture(seq))
            reader.close()
            thread.join()
    assert [type(error) for error in ended] == [lanekit.HandleClosed] * 20
