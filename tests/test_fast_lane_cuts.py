"""Segments cut short under their readers and writers: an error, never a crash.

The roles at the end of this file run in processes of their own; see spoilt_lanes.py.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lanekit
from patience import Watchdog, patience
from spoilt_frame_lane import (
    CAPACITY,
    CONFIG,
    HEIGHT,
    METADATA_SIZE,
    PUBLISHED,
    WIDTH,
    expect_true,
    metrics_of,
    path_of,
    pixels_of,
    publish,
)
from spoilt_lanes import Notebook, run

CUTS: dict[str, Callable[[int], int]] = {
    "to nothing": lambda size: 0,
    "inside the header": lambda size: 2048,
    "to the header": lambda size: 4096,
    "to half": lambda size: size // 2 // 4096 * 4096,
    "by one byte": lambda size: size - 1,
}


@pytest.fixture
def run_id(spoilt_run_id: str) -> str:
    return spoilt_run_id


@pytest.mark.parametrize("cut", CUTS)
def test_a_reader_survives_its_segment_being_cut_and_finds_the_next_writer(
    run_id: str, cut: str, note: Path
) -> None:
    found = run(read_a_cut_segment, run_id, cut, note=note)
    assert found["recovered"]
    assert set(found["answers"]) <= {"true frame", "nothing", "SegmentTruncated", "SegmentCorrupt"}
    if cut == "by one byte":
        assert set(found["answers"]) <= {"true frame", "nothing"}
    if cut in ("to nothing", "to the header"):
        assert "SegmentTruncated" in found["answers"]


@pytest.mark.parametrize("cut", CUTS)
def test_a_writer_survives_its_segment_being_cut_and_can_start_anew(
    run_id: str, cut: str, note: Path
) -> None:
    found = run(write_a_cut_segment, run_id, cut, note=note)
    assert found["recovered"]
    expected = "published" if cut == "by one byte" else "SegmentTruncated"
    assert set(found["answers"]) == {expected}


def test_cutting_segments_under_busy_readers_and_writers_kills_nobody(
    run_id: str, seed: int, note: Path
) -> None:
    peers = [
        subprocess.Popen(
            [sys.executable, __file__, role.__name__, run_id, str(note)],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONFAULTHANDLER": "1"},
        )
        for role in (publish_whatever_happens, read_whatever_happens, read_whatever_happens)
    ]
    chance = random.Random(seed)
    cuts = 0
    watchdog = Watchdog("the writer to come back", 200)
    try:
        while cuts < 300 and all(peer.poll() is None for peer in peers):
            watchdog.check()
            time.sleep(0.002 + chance.random() * 0.01)
            try:
                if os.path.getsize(path_of(run_id)) == CONFIG.segment_size:
                    page = chance.randrange(CONFIG.segment_size // 4096)
                    os.truncate(path_of(run_id), page * 4096)
                    cuts += 1
            except FileNotFoundError:
                pass
        for peer in peers:
            _, err = peer.communicate(timeout=patience(200))  # they end when their stdin does
            assert peer.returncode == 0, err
    finally:
        for peer in peers:
            peer.kill()
            peer.communicate()
    assert cuts == 300


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_cut_segment_is_survived_also_with_faulthandler_enabled(
    run_id: str, when: str, note: Path
) -> None:
    assert run(read_with_faulthandler, run_id, when, note=note)["answer"] == "SegmentTruncated"


# --- roles ----------------------------------------------------------------------------------------


def answers_of(ways: list[Callable[[], Any]]) -> list[str]:
    answers = []
    for way in ways:
        try:
            answers.append(way())
        except lanekit.LanekitError as error:
            answers.append(type(error).__name__)
    return answers


def read_a_cut_segment(run_id: str, cut: str, note: str) -> None:
    notebook = Notebook(note)
    writer = lanekit.FastLaneWriter.create(run_id, CONFIG)
    for seq in range(1, PUBLISHED + 1):
        publish(writer, seq)
    reader = lanekit.FastLaneReader.attach(run_id)
    looked_at = reader.peek()
    fresh_view = lanekit.FastLaneReader.attach(run_id).peek()  # its pages are not touched yet
    os.truncate(path_of(run_id), CUTS[cut](CONFIG.segment_size))

    def answer(frame: lanekit.FastLaneFrame | None) -> str:
        return "true frame" if expect_true(frame, PUBLISHED) else "nothing"

    def wait() -> str:
        reader.wait(0.01)
        return answer(reader.latest_frame())

    notebook.write("views")
    for look in (looked_at, fresh_view):
        assert look.array is not None
        look.array.sum()
    notebook.write("calls")
    answers = answers_of(
        [
            lambda: answer(reader.latest_frame()),
            lambda: answer(reader.next_frame()),
            wait,
            lambda: reader.metrics() and answer(reader.latest_frame()),
            lambda: answer(reader.latest_frame(fresh=True) or reader.latest_frame()),
        ]
    )
    _ = reader.connected, reader.stats()
    for look in (looked_at, fresh_view):
        look.array.sum()  # type: ignore[union-attr]
    notebook.write("recovery")
    writer.close()
    writer.unlink()
    recovered = False
    with lanekit.FastLaneWriter.create(run_id, CONFIG) as writer:
        publish(writer, 1)
        publish(writer, 2)
        while not recovered:  # the watchdog ends this if it never comes true
            try:
                reader.wait(0.05)
                frame = reader.latest_frame()
            except lanekit.LanekitError:
                continue
            recovered = reader.stats().reattached == 1 and frame is not None and frame.seq == 2
    notebook.write("closing")
    reader.close()
    print(json.dumps({"answers": answers, "recovered": recovered}))


def write_a_cut_segment(run_id: str, cut: str, note: str) -> None:
    notebook = Notebook(note)
    writer = lanekit.FastLaneWriter.create(run_id, CONFIG)
    for seq in range(1, PUBLISHED + 1):
        publish(writer, seq)
    reservation = writer.reserve()
    os.truncate(path_of(run_id), CUTS[cut](CONFIG.segment_size))
    notebook.write("reserved slot")
    reservation.array[:] = 7
    assert reservation.array.sum() in (0, 7 * WIDTH * HEIGHT)
    answers = answers_of([lambda: reservation.commit() and "published"])
    notebook.write("calls")

    def publish_a_lap() -> str:
        for _ in range(2 * CAPACITY):
            writer.publish(pixels_of(1), metadata=b"x" * METADATA_SIZE)
        return "published"

    answers_of([lambda: (publish_a_lap(), "")[1]])  # by now it knows
    answers += answers_of(
        [
            publish_a_lap,
            lambda: writer.update_metrics(metrics_of(1)) or "published",
            lambda: writer.heartbeat() or "published",
            lambda: writer.reserve().abandon() or "published",
        ]
    )
    if cut in ("to half", "inside the header"):
        answers = answers[1:]  # the reserved slot may have been on this side of the cut
    notebook.write("recovery")
    writer.close()
    writer.unlink()
    assert not os.path.exists(path_of(run_id))
    with lanekit.FastLaneWriter.create(run_id, CONFIG) as writer:
        publish(writer, 1)
        with lanekit.FastLaneReader.attach(run_id) as reader:
            recovered = expect_true(reader.latest_frame(), 1) == 1
    print(json.dumps({"answers": answers, "recovered": recovered}))


def stdin_ended() -> bool:
    """Whether the test has closed our standard input, without waiting for it."""
    os.set_blocking(0, False)
    try:
        return os.read(0, 1) == b""
    except BlockingIOError:
        return False


def publish_whatever_happens(run_id: str, note: str) -> None:
    while not stdin_ended():
        with lanekit.FastLaneWriter.create(run_id, CONFIG) as writer:
            seq = 0
            try:
                while not stdin_ended():
                    seq += 1
                    publish(writer, seq)
            except lanekit.SegmentTruncated:
                continue


def read_whatever_happens(run_id: str, note: str) -> None:
    reader = None
    ways: list[Callable[[lanekit.FastLaneReader], Any]] = [
        lambda reader: expect_true(reader.latest_frame(), 2**62),
        lambda reader: expect_true(reader.next_frame(), 2**62),
        lambda reader: reader.wait(0.001),
        lambda reader: reader.metrics(),
        lambda reader: reader.peek().array is None,
    ]
    while not stdin_ended():
        try:
            if reader is None:
                reader = lanekit.FastLaneReader.attach(run_id)
            random.choice(ways)(reader)
        except lanekit.LanekitError:
            if random.random() < 0.05 and reader is not None:
                reader.close()
                reader = None


def read_with_faulthandler(run_id: str, when: str, note: str) -> None:
    import faulthandler

    faulthandler.disable()
    if when == "before":
        faulthandler.enable()
    with lanekit.FastLaneWriter.create(run_id, CONFIG) as writer:
        publish(writer, 1)
        reader = lanekit.FastLaneReader.attach(run_id)
        if when == "after":
            faulthandler.enable()
        os.truncate(path_of(run_id), 0)
        (answer,) = answers_of([reader.latest_frame])
    print(json.dumps({"answer": answer}))


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
