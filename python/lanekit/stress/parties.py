"""The parties of a round: in C behind one handle, or in Python through the published package."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from lanekit import (
    FastLaneConfig,
    FastLaneMetrics,
    FastLaneReader,
    FastLaneWriter,
    FrameOverwritten,
    LanekitError,
    SegmentCorrupt,
)
from lanekit._stress import ffi, lib
from lanekit.stress.plan import Round
from lanekit.stress.verdict import Counts

_SHAPES = {
    "frames": lib.LK_STRESS_FRAMES,
    "message-passing": lib.LK_STRESS_MESSAGE_PASSING,
    "seqlock": lib.LK_STRESS_SEQLOCK,
    "store-buffering": lib.LK_STRESS_STORE_BUFFERING,
}
_FAULTS = {
    None: lib.LK_STRESS_SOUND,
    "torn": lib.LK_STRESS_TORN,
    "early-head": lib.LK_STRESS_EARLY_HEAD,
    "relaxed-commit": lib.LK_STRESS_RELAXED_COMMIT,
    "no-odd": lib.LK_STRESS_NO_ODD,
    "unchecked-reader": lib.LK_STRESS_UNCHECKED_READER,
    "lost-wake": lib.LK_STRESS_LOST_WAKE,
}


class CParties:
    """A writer and its readers in C, at work from the beginning until :meth:`finish`."""

    def __init__(self, round_: Round) -> None:
        run_id = ffi.from_buffer(round_.run_id.encode())
        plan = ffi.new(
            "struct lk_stress_plan *",
            {
                "shape": _SHAPES[round_.shape],
                "fault": _FAULTS[round_.fault],
                "processes": round_.mode == "c-processes",
                "writer_core": round_.writer_core,
                "reader_cores": list(round_.reader_cores),
                "readers": len(round_.reader_cores),
                "delay_every": round_.delay_every,
                "width": round_.size.width,
                "height": round_.size.height,
                "channels": round_.size.channels,
                "capacity": round_.capacity,
                "metadata_size": round_.size.metadata_size,
                "seed": round_.seed,
                "frames": round_.frames or 0,
                "enough": round_.enough,
                "run_id": run_id,
                "run_id_size": len(round_.run_id.encode()),
            },
        )
        out = ffi.new("lk_stress_run **")
        status = lib.lk_stress_start(out, plan)
        if status < 0:
            raise LanekitError(f"the parties could not start: {_reason(status, ffi.errno)}")
        self._run = out[0]
        self._counts = ffi.new("struct lk_stress_counts *")

    def poll(self) -> tuple[Counts, bool]:
        """Return the counts so far, and whether somebody still works."""
        working = lib.lk_stress_poll(self._run, self._counts) > 0
        return self._counts_now(), working

    def stop(self) -> None:
        """Ask all parties to end."""
        lib.lk_stress_stop(self._run)

    def finish(self) -> tuple[Counts, str | None]:
        """Wait for the end; return the counts and what went wrong."""
        lib.lk_stress_finish(self._run, self._counts)
        out = self._counts
        problem = _reason(out.failure, out.system_error) if out.failure < 0 else None
        return self._counts_now(), problem

    def _counts_now(self) -> Counts:
        out = self._counts
        return Counts(
            published=out.published,
            frames=out.frames,
            torn=out.torn,
            reordered=out.reordered,
            skipped=out.skipped,
            retries=out.retries,
            waits=out.waits,
            lost=out.lost,
        )


def _reason(status: int, code: int) -> str:
    return os.strerror(code) if status == -1 else f"status {status}"


@dataclass
class Tally:
    """The counts of one party in Python, as they grow."""

    published: int = 0
    frames: int = 0
    torn: int = 0
    reordered: int = 0
    skipped: int = 0
    retries: int = 0
    done: bool = field(default=False, compare=False)

    def counts(self) -> Counts:
        """Return them as they are now."""
        return Counts(
            self.published, self.frames, self.torn, self.reordered, self.skipped, self.retries
        )


def pin(core: int) -> None:
    """Bind the calling thread to a core."""
    if lib.lk_stress_pin(core) < 0:
        raise LanekitError(f"core {core} can not be used: {os.strerror(ffi.errno)}")


def config_of(round_: Round) -> FastLaneConfig:
    """Return the geometry of a round's lane."""
    size = round_.size
    return FastLaneConfig(
        width=size.width,
        height=size.height,
        channels=size.channels,
        pixel_format="GRAY" if size.channels == 1 else "RGB",
        capacity=round_.capacity,
        metadata_size=size.metadata_size,
    )


def write(round_: Round, tally: Tally, stopped: Callable[[], bool]) -> None:
    """Publish self-checking frames until told to stop."""
    pin(round_.writer_core)
    capacity = round_.size.metadata_size
    frame = np.empty((round_.size.height, round_.size.width, round_.size.channels), np.uint8)
    metadata = bytearray(capacity)
    numbers = ffi.new("double[3]")
    pixels, extra = ffi.from_buffer(frame), ffi.from_buffer(metadata)
    seq = 0
    with FastLaneWriter.create(round_.run_id, config_of(round_)) as writer:
        while not stopped():
            seq += 1
            size = lib.lk_stress_fill(seq, pixels, frame.nbytes, extra, capacity, numbers)
            metrics = FastLaneMetrics(numbers[0], numbers[1], numbers[2])
            data = None if size < 0 else bytes(metadata[:size])
            if seq % 8 == 0:
                lent = writer.reserve()
                lent.array[...] = frame
                published = lent.commit(metrics=metrics, metadata=data)
            else:
                published = writer.publish(frame, metrics=metrics, metadata=data)
            if published != seq:
                tally.reordered += 1
            tally.published = seq


def read(round_: Round, core: int, tally: Tally, stopped: Callable[[], bool]) -> None:
    """Read frames in several ways and check each, until enough are checked or told to stop."""
    pin(core)
    try:
        with FastLaneReader.attach(round_.run_id, timeout=10, lease=0) as reader:
            _Checker(round_, tally, reader).run(stopped)
    finally:
        tally.done = True


class _Checker:
    def __init__(self, round_: Round, tally: Tally, reader: FastLaneReader) -> None:
        self._tally = tally
        self._reader = reader
        self._target = round_.frames
        self._capacity = round_.size.metadata_size
        self._last = 0
        self._last_metrics = 0

    def run(self, stopped: Callable[[], bool]) -> None:
        turn = 0
        while not stopped() and (self._target is None or self._tally.frames < self._target):
            turn += 1
            try:
                arrived = self._peek() if turn % 8 == 0 else self._copy(in_order=turn % 4 != 0)
            except SegmentCorrupt:  # the head stands at a frame that is not there
                self._tally.reordered += 1
                continue
            if not arrived:
                self._reader.wait(0.05)
            if turn % 16 == 0:
                self._look_at_metrics()
                self._note_stats()
        self._note_stats()

    def _copy(self, *, in_order: bool) -> bool:
        frame = self._reader.next_frame() if in_order else self._reader.latest_frame()
        if frame is None:
            return False
        self._order(frame.seq)
        self._judge(self._whole(frame.seq, frame.array, frame.metadata, frame.metrics))
        return True

    def _peek(self) -> bool:
        whole = False
        seq = 0
        try:
            with self._reader.peek(fresh=True) as pixels:
                info = self._reader.last_frame_info
                if pixels is None or info is None:
                    return False
                seq = info.seq
                whole = self._whole(seq, pixels, info.metadata, info.metrics)
        except FrameOverwritten:
            return True
        self._order(seq)
        self._judge(whole)
        return True

    def _whole(
        self,
        seq: int,
        pixels: npt.NDArray[np.uint8],
        metadata: bytes | None,
        metrics: FastLaneMetrics,
    ) -> bool:
        return (
            lib.lk_stress_check(
                seq,
                ffi.from_buffer(pixels),
                pixels.nbytes,
                metadata or b"",
                -1 if metadata is None else len(metadata),
                self._capacity,
                metrics.last_reward,
                metrics.rolling_return,
                metrics.step_rate_hz,
            )
            == 1
        )

    def _order(self, seq: int) -> None:
        self._tally.reordered += seq < self._last
        self._tally.frames += seq != self._last
        self._last = seq

    def _judge(self, whole: bool) -> None:
        self._tally.torn += not whole

    def _look_at_metrics(self) -> None:
        metrics = self._reader.metrics()
        if metrics == FastLaneMetrics():
            return  # nothing was published yet
        seq = lib.lk_stress_metrics_seq(
            metrics.last_reward, metrics.rolling_return, metrics.step_rate_hz
        )
        self._tally.torn += seq == 0
        self._tally.reordered += 0 < seq < self._last_metrics
        self._last_metrics = max(seq, self._last_metrics)

    def _note_stats(self) -> None:
        stats = self._reader.stats()
        self._tally.skipped, self._tally.retries = stats.skipped, stats.retries


def every(interval: float, ask: Callable[[], bool]) -> Callable[[], bool]:
    """Return a question that is really asked only so often, and whose "yes" stays."""
    due, answer = 0.0, False

    def question() -> bool:
        nonlocal due, answer
        if not answer and (now := time.monotonic()) >= due:
            due, answer = now + interval, ask()
        return answer

    return question
