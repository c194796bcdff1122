"""The main numbers under pytest-benchmark: ``pytest bench --benchmark-only``.

For comparing two versions of lanekit (``--benchmark-autosave``, ``--benchmark-compare``). The
official ratios, with alternating blocks and both processes, come from ``python -m bench fast``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from bench import limits, machine
from bench.limits import Pixels, PlainRing, Sources
from bench.peers.python_ring import PythonRingWriter
from lanekit import FastLaneConfig, FastLaneReader, FastLaneWriter

_SIZES = {"84x84": (84, 84, 128), "640x480": (640, 480, 128)}


@pytest.fixture(autouse=True)
def on_one_core() -> Iterator[None]:
    machine.pin(machine.WRITER_CORE)
    yield
    machine.unpin()


@pytest.fixture(params=_SIZES)
def config(request: pytest.FixtureRequest) -> FastLaneConfig:
    width, height, capacity = _SIZES[request.param]
    return FastLaneConfig(width, height, capacity=capacity)


@pytest.fixture
def frame(config: FastLaneConfig) -> Pixels:
    return np.random.default_rng(1).integers(0, 256, config.shape, np.uint8)


@pytest.fixture
def writer(config: FastLaneConfig) -> Iterator[FastLaneWriter]:
    with FastLaneWriter.create("bench-pytest", config) as writer:
        yield writer


@pytest.fixture
def reader(writer: FastLaneWriter, frame: Pixels) -> Iterator[FastLaneReader]:
    writer.publish(frame)
    with FastLaneReader.attach(writer.run_id) as reader:
        yield reader


def test_limit_a_thousand_memcpys_in_a_c_loop(
    benchmark: Any, config: FastLaneConfig, frame: Pixels
) -> None:
    source = Sources([frame])
    with PlainRing("bench-pytest-plain", config, create=True) as ring:
        benchmark(limits.copy_in_untimed, ring, source, 1000)


def test_limit_memcpy_called_from_python(
    benchmark: Any, config: FastLaneConfig, frame: Pixels
) -> None:
    with PlainRing("bench-pytest-plain", config, create=True) as ring:
        memcpy, source = limits.load().lib.limit_memcpy, limits.load().ffi.from_buffer(frame)
        slots = itertools.cycle(ring.slot_pointers())
        benchmark(lambda: memcpy(next(slots), source, config.frame_size))


def test_publish_same_array(benchmark: Any, writer: FastLaneWriter, frame: Pixels) -> None:
    benchmark(writer.publish, frame)


def test_publish_new_array(benchmark: Any, writer: FastLaneWriter, frame: Pixels) -> None:
    frames = itertools.cycle([frame.copy() for _ in range(16)])
    benchmark(lambda: writer.publish(next(frames)))


def test_reserve_and_commit(benchmark: Any, writer: FastLaneWriter) -> None:
    benchmark(lambda: writer.reserve().commit())


def test_read_into(benchmark: Any, reader: FastLaneReader, frame: Pixels) -> None:
    benchmark(reader.read_into, np.empty_like(frame))


def test_latest_frame(benchmark: Any, reader: FastLaneReader) -> None:
    benchmark(reader.latest_frame)


def test_plain_python_ring_publish_tobytes(
    benchmark: Any, config: FastLaneConfig, frame: Pixels
) -> None:
    with PythonRingWriter.create("bench-pytest-peer", config) as ring:
        benchmark(lambda: ring.publish(frame.tobytes()))
