"""The calls that C answers without cffi: the plain case, and everything that is not."""

from __future__ import annotations

import copy
import dataclasses
import gc
import inspect
import os
import pickle
import sys
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import lanekit
from lanekit import (
    FastLaneConfig,
    FastLaneFrame,
    FastLaneMetrics,
    FastLaneReader,
    FastLaneWriter,
    _core,
)
from patience import patience

CONFIG = FastLaneConfig(width=30, height=20, capacity=4, metadata_size=16)
LARGE = FastLaneConfig(width=1024, height=1024, capacity=2)


def picture(seed: int, shape: tuple[int, ...] = (20, 30, 3)) -> npt.NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


# --- arrays are judged at each call ---------------------------------------------------------------


def test_a_published_array_is_not_kept(run_id: str) -> None:
    frame = picture(1)
    alive = weakref.ref(frame)
    with FastLaneWriter.create(run_id, CONFIG) as writer:
        for _ in range(20):
            writer.publish(frame)
        del frame
        assert alive() is None


def test_an_array_that_was_resized_meanwhile_no_longer_fits(run_id: str) -> None:
    frame = np.zeros((20, 30, 3), np.uint8)
    out = np.zeros((20, 30, 3), np.uint8)
    with FastLaneWriter.create(run_id, CONFIG) as writer, FastLaneReader.attach(run_id) as reader:
        for seq in range(1, 20):
            assert writer.publish(frame) == seq
            assert reader.read_into(out) == seq
        frame.resize((40, 30, 3), refcheck=False)
        out.resize((2, 2, 3), refcheck=False)
        with pytest.raises(ValueError, match=r"\(40, 30, 3\)"):
            writer.publish(frame)
        with pytest.raises(ValueError, match=r"\(2, 2, 3\)"):
            reader.read_into(out)


def test_an_array_that_became_read_only_meanwhile_is_not_written_to(run_id: str) -> None:
    out = np.zeros((20, 30, 3), np.uint8)
    with FastLaneWriter.create(run_id, CONFIG) as writer, FastLaneReader.attach(run_id) as reader:
        writer.publish(picture(1))
        for _ in range(5):
            assert reader.read_into(out) == 1
        out.flags.writeable = False
        writer.publish(picture(2))
        with pytest.raises(ValueError, match="written to"):
            reader.read_into(out)
        assert np.array_equal(out, picture(1))


@pytest.mark.parametrize(
    ("out", "error", "says"),
    [
        (np.zeros((20, 30, 3), np.int8), TypeError, "uint8, not int8"),
        (np.zeros((20, 30, 3), np.bool_), TypeError, "uint8, not bool"),
        (np.zeros((30, 20, 3), np.uint8), ValueError, r"\(20, 30, 3\), not \(30, 20, 3\)"),
        (np.zeros((0, 0, 0), np.uint8), ValueError, r"not \(0, 0, 0\)"),
        (np.zeros(1800, np.uint8), ValueError, r"not \(1800,\)"),
        (bytearray(1800), TypeError, "ndarray, not bytearray"),
        (None, TypeError, "NoneType"),
    ],
    ids=str,
)
def test_what_can_not_be_read_into_is_named(
    run_id: str, out: Any, error: type[Exception], says: str
) -> None:
    with FastLaneWriter.create(run_id, CONFIG) as writer, FastLaneReader.attach(run_id) as reader:
        writer.publish(picture(1))
        for fresh in (False, True):
            with pytest.raises(error, match=says):
                reader.read_into(out, fresh=fresh)
        assert reader.stats().frames_read == 0


@pytest.mark.parametrize("view", ["reversed", "every other column", "Fortran"])
def test_an_array_with_gaps_is_read_into_all_the_same(run_id: str, view: str) -> None:
    out: npt.NDArray[np.uint8] = {
        "reversed": np.zeros((20, 30, 3), np.uint8)[::-1],
        "every other column": np.zeros((20, 60, 3), np.uint8)[:, ::2],
        "Fortran": np.zeros((20, 30, 3), np.uint8, order="F"),
    }[view]
    with FastLaneWriter.create(run_id, CONFIG) as writer, FastLaneReader.attach(run_id) as reader:
        assert reader.read_into(out) == 0
        writer.publish(picture(3))
        assert reader.read_into(out, fresh=True) == 1
        assert reader.read_into(out, fresh=True) == 0
        assert np.array_equal(out, picture(3))


def test_a_gray_frame_may_leave_out_its_one_channel(run_id: str) -> None:
    config = FastLaneConfig(width=30, height=20, channels=1, pixel_format="GRAY")
    with FastLaneWriter.create(run_id, config) as writer, FastLaneReader.attach(run_id) as reader:
        writer.publish(picture(4, (20, 30)))
        frame = reader.latest_frame()
        assert frame is not None
        assert np.array_equal(frame.array, picture(4, (20, 30, 1)))


# --- arguments ------------------------------------------------------------------------------------


def test_arguments_may_be_given_as_in_python(run_id: str) -> None:
    out = np.zeros((20, 30, 3), np.uint8)
    with FastLaneWriter.create(run_id, CONFIG) as writer, FastLaneReader.attach(run_id) as reader:
        assert writer.publish(frame=picture(1)) == 1
        assert writer.publish(picture(1), metrics=None, metadata=None) == 2
        assert writer.publish(picture(1), metadata=bytearray(b"m"), metrics=FastLaneMetrics()) == 3
        assert reader.read_into(out=out) == 3
        assert reader.read_into(out, fresh=1) == 0  # type: ignore[arg-type]
        assert reader.latest_frame(fresh=[]) is not None  # type: ignore[arg-type]
        assert reader.latest_frame(fresh="yes") is None  # type: ignore[arg-type]


WRONG_CALLS: dict[str, Callable[[Any, Any], object]] = {
    "publish()": lambda w, r: w.publish(),
    "publish(a, b)": lambda w, r: w.publish(picture(1), None),
    "publish(unknown=)": lambda w, r: w.publish(picture(1), reward=1.0),
    "read_into()": lambda w, r: r.read_into(),
    "read_into(unknown=)": lambda w, r: r.read_into(picture(1), newest=True),
    "latest_frame(a)": lambda w, r: r.latest_frame(True),
    "latest_frame(unknown=)": lambda w, r: r.latest_frame(newest=True),
    "next_frame(a)": lambda w, r: r.next_frame(1),
    "metrics without reward": lambda w, r: w.publish(picture(1), metrics=object()),
    "metrics of text": lambda w, r: w.publish(picture(1), metrics=FastLaneMetrics("a")),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("call", WRONG_CALLS)
def test_a_wrong_call_is_a_type_error_and_does_nothing(run_id: str, call: str) -> None:
    with FastLaneWriter.create(run_id, CONFIG) as writer, FastLaneReader.attach(run_id) as reader:
        with pytest.raises(TypeError):
            WRONG_CALLS[call](writer, reader)
        assert writer.publish(picture(1)) == 1
        assert reader.metrics() == FastLaneMetrics()


@pytest.mark.parametrize("metrics", [{"last_reward": 1.0}, FastLaneMetrics("1")])  # type: ignore[arg-type]
@pytest.mark.parametrize("how", ["publish", "publish with gaps", "update", "commit"])
def test_what_are_no_metrics_is_told_in_words(run_id: str, metrics: Any, how: str) -> None:
    wide = np.zeros((20, 60, 3), np.uint8)
    calls: dict[str, Callable[[FastLaneWriter], object]] = {
        "publish": lambda w: w.publish(picture(1), metrics=metrics),
        "publish with gaps": lambda w: w.publish(wide[:, ::2], metrics=metrics),
        "update": lambda w: w.update_metrics(metrics),
        "commit": lambda w: w.reserve().commit(metrics=metrics),
    }
    with FastLaneWriter.create(run_id, CONFIG) as writer:
        with pytest.raises(TypeError, match=r"metrics are a FastLaneMetrics\(.*of numbers, not "):
            calls[how](writer)
        assert writer.publish(picture(1)) == 1


def test_metrics_are_whatever_counts_as_numbers(run_id: str) -> None:
    with FastLaneWriter.create(run_id, CONFIG) as writer, FastLaneReader.attach(run_id) as reader:
        metrics = FastLaneMetrics(np.float32(0.5), 7, np.int64(-1))  # type: ignore[arg-type]
        writer.publish(picture(1), metrics=metrics)
        writer.publish(picture(1))
        frame = reader.latest_frame()
        assert frame is not None
        assert frame.metrics == FastLaneMetrics(0.5, 7.0, -1.0) == reader.metrics()
        assert type(frame.metrics.rolling_return) is float


def test_signatures_and_documentation_are_there_for_help() -> None:
    publish = inspect.signature(FastLaneWriter.publish)
    assert str(publish) == "(self, /, frame, *, metrics=None, metadata=None)"
    assert str(inspect.signature(FastLaneReader.read_into)) == "(self, /, out, *, fresh=False)"
    for call in (FastLaneReader.latest_frame, FastLaneReader.next_frame, FastLaneWriter.publish):
        assert call.__doc__


# --- frames made in C -----------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["latest_frame", "next_frame"])
def test_a_frame_is_what_its_own_class_would_make(run_id: str, how: str) -> None:
    metrics = FastLaneMetrics(1.0, 2.0, 3.0)
    with FastLaneWriter.create(run_id, CONFIG) as writer, FastLaneReader.attach(run_id) as reader:
        for _ in range(6):
            writer.publish(picture(1), metrics=metrics, metadata=b"note")
        frame: FastLaneFrame | None = getattr(reader, how)()
        assert frame is not None
        info = reader.last_frame_info
        assert info is not None
        seq = 6 if how == "latest_frame" else 3
        data, stamp = picture(1).tobytes(), info.timestamp_ns
        assert frame == FastLaneFrame(data, 30, 20, 3, metrics, b"note", seq, stamp, "RGB", seq - 1)
        assert (info.seq, info.metadata, info.metrics) == (seq, b"note", metrics)
        assert copy.deepcopy(frame) == pickle.loads(pickle.dumps(frame)) == frame
        assert hash(frame) == hash(dataclasses.replace(frame))
        with pytest.raises(dataclasses.FrozenInstanceError):
            frame.seq = 7  # type: ignore[misc]
        with pytest.raises(dataclasses.FrozenInstanceError):
            frame.metrics.last_reward = 7  # type: ignore[misc]


# --- ends and other processes ---------------------------------------------------------------------

CALLS: dict[str, Callable[[FastLaneWriter, FastLaneReader], object]] = {
    "publish": lambda w, r: w.publish(picture(1)),
    "publish with metrics": lambda w, r: w.publish(picture(1), metrics=FastLaneMetrics()),
    "publish bytes": lambda w, r: w.publish(picture(1).tobytes()),
    "read_into": lambda w, r: r.read_into(picture(1)),
    "read_into with gaps": lambda w, r: r.read_into(picture(1)[::-1]),
    "latest_frame": lambda w, r: r.latest_frame(),
    "next_frame": lambda w, r: r.next_frame(),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_closed_handle_says_so(run_id: str, call: str) -> None:
    with FastLaneWriter.create(run_id, CONFIG) as writer, FastLaneReader.attach(run_id) as reader:
        CALLS[call](writer, reader)
    for _ in range(2):
        with pytest.raises(lanekit.HandleClosed, match="closed"):
            CALLS[call](writer, reader)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_handle_says_so(run_id: str, call: str) -> None:
    with FastLaneWriter.create(run_id, CONFIG) as writer, FastLaneReader.attach(run_id) as reader:
        CALLS[call](writer, reader)
        child = os.fork()
        if child == 0:
            try:
                CALLS[call](writer, reader)
            except lanekit.HandleForked:
                os._exit(7)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_an_object_without_a_handle_refuses_and_does_not_crash() -> None:
    writer, reader = _core.FrameWriter(), _core.FrameReader()
    for array in (picture(1), np.zeros((0, 0, 0), np.uint8)):
        with pytest.raises(AttributeError):
            writer.publish(array)
        with pytest.raises(AttributeError):
            reader.read_into(array)
    with pytest.raises(AttributeError):
        reader.latest_frame()


def test_a_writer_keeps_its_handle_for_life(run_id: str) -> None:
    with FastLaneWriter.create(run_id, CONFIG) as writer:
        with pytest.raises(RuntimeError, match="handle"):
            writer._bind(0, (20, 30, 3), 0, None)
        assert writer.publish(picture(1)) == 1


def test_handles_in_reference_cycles_are_collected(run_id: str) -> None:
    writer: Any = FastLaneWriter.create(run_id, CONFIG)
    reader: Any = FastLaneReader.attach(run_id)
    writer.publish(picture(1))
    reader.latest_frame()
    writer.other, reader.other = reader, writer
    path, gone = Path("/dev/shm", writer.name), weakref.ref(writer)
    del writer, reader
    gc.collect()
    assert gone() is None
    assert not path.exists()


# --- threads --------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["publish", "read_into", "latest_frame"])
def test_a_large_copy_lets_other_threads_run(run_id: str, call: str) -> None:
    """With a switch interval this long, another thread runs only when the call lets it."""
    rounds: list[int] = []
    ready, done = threading.Event(), threading.Event()
    frame = np.zeros(LARGE.shape, np.uint8)

    def copy_many() -> None:
        ready.set()
        for i in range(1000):
            calls[call]()
            if done.is_set():
                rounds.append(i)
                return

    interval = sys.getswitchinterval()
    with FastLaneWriter.create(run_id, LARGE) as writer, FastLaneReader.attach(run_id) as reader:
        writer.publish(frame)
        calls: dict[str, Callable[[], object]] = {
            "publish": lambda: writer.publish(frame),
            "read_into": lambda: reader.read_into(frame),
            "latest_frame": reader.latest_frame,
        }
        thread = threading.Thread(target=copy_many)
        sys.setswitchinterval(1000)
        try:
            thread.start()
            ready.wait()
            done.set()
        finally:
            sys.setswitchinterval(interval)
            thread.join()
    assert rounds


@pytest.mark.parametrize("config", [CONFIG, LARGE], ids=["small", "large"])
def test_closing_from_another_thread_waits_for_the_copy(
    run_id: str, config: FastLaneConfig
) -> None:
    frame = np.zeros(config.shape, np.uint8)
    ended: list[type[Exception]] = []

    def use(call: Callable[[Any], object], started: threading.Event) -> None:
        try:
            while True:
                call(frame)
                started.set()
        except lanekit.LanekitError as error:
            ended.append(type(error))

    for _ in range(10):
        writer = FastLaneWriter.create(run_id, config)
        reader = FastLaneReader.attach(run_id)
        for handle, call in ((reader, reader.read_into), (writer, writer.publish)):
            started = threading.Event()
            thread = threading.Thread(target=use, args=[call, started])
            thread.start()
            started.wait()
            handle.close()
            thread.join()
        writer.unlink()
    assert ended == [lanekit.HandleClosed] * 20


def size_of(frame: FastLaneFrame) -> int:
    return frame.width * frame.height * frame.channels


def test_threads_in_one_reader_stay_safe_while_it_moves_between_writers(run_id: str) -> None:
    """Buffers of the old writer's sizes must not be used for the new one's frames."""
    configs = [
        FastLaneConfig(width=30, height=20, capacity=2, metadata_size=size) for size in (8, 0, 4000)
    ] + [FastLaneConfig(width=90, height=80, capacity=2)]
    problems: list[Exception] = []
    done = threading.Event()

    def watch(reader: FastLaneReader, how: str) -> None:
        out = np.zeros(reader.config.shape, np.uint8)
        while not done.is_set():
            try:
                if how == "latest_frame":
                    frame = reader.latest_frame()
                    if frame is not None:
                        assert len(frame.data) == size_of(frame)
                        assert frame.data.count(frame.data[0]) == len(frame.data)
                else:
                    reader.read_into(out)
            except lanekit.GeometryChanged as changed:
                out = np.zeros(changed.config.shape, np.uint8)
            except lanekit.LanekitError:
                pass  # two threads in one handle are told so
            except ValueError:
                out = np.zeros(reader.config.shape, np.uint8)
            except Exception as problem:
                problems.append(problem)

    writer = FastLaneWriter.create(run_id, configs[0])
    with FastLaneReader.attach(run_id) as reader:
        threads = [
            threading.Thread(target=watch, args=[reader, how])
            for how in ("latest_frame", "read_into")
        ]
        for thread in threads:
            thread.start()
        for turn in range(16):
            writer.close()
            writer.unlink()
            config = configs[(turn + 1) % len(configs)]
            writer = FastLaneWriter.create(run_id, config)
            frames = [np.full(config.shape, value, np.uint8) for value in range(100)]
            while reader.config != config:
                for frame in frames:
                    writer.publish(frame, metadata=bytes(config.metadata_size))
        done.set()
        for thread in threads:
            thread.join()
    writer.close()
    writer.unlink()
    assert problems == []


# --- sleeping readers -----------------------------------------------------------------------------


def test_the_writer_looks_for_sleepers_from_the_first_one_on(run_id: str) -> None:
    """Looking takes a full fence, which a lane that nobody sleeps on does without."""
    with FastLaneWriter.create(run_id, CONFIG) as writer, FastLaneReader.attach(run_id) as reader:
        path = Path("/dev/shm", writer.name)

        def wakes() -> int:
            return int.from_bytes(path.read_bytes()[584:592], "little")

        for _ in range(3):
            writer.publish(picture(1))
            assert reader.wait(patience(), strategy="spin")
            assert reader.latest_frame() is not None
        assert wakes() == 0
        assert not reader.wait(0.02, strategy="block")
        assert wakes() == 0
        writer.publish(picture(1))
        assert wakes() == 1
        assert reader.wait(patience(), strategy="block")


@pytest.mark.parametrize("strategy", ["block", "hybrid"])
def test_a_first_sleeper_is_woken_by_the_next_frame(run_id: str, strategy: Any) -> None:
    with FastLaneWriter.create(run_id, CONFIG) as writer, FastLaneReader.attach(run_id) as reader:
        seen: list[bool] = []
        for seq in range(1, 4):
            thread = threading.Thread(target=lambda: seen.append(reader.wait(strategy=strategy)))
            thread.start()
            writer.publish(picture(seq))
            thread.join()
            frame = reader.latest_frame()
            assert frame is not None
            assert frame.seq == seq
        assert seen == [True] * 3
