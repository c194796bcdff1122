"""The fast lane's reader: any number of viewers, each at its own pace, none in the writer's way."""

from __future__ import annotations

import functools
import threading
import time
from types import TracebackType
from typing import NoReturn, Self

import numpy as np
import numpy.typing as npt

from lanekit import errors
from lanekit._core import (
    SLICE_NS,
    STRATEGIES,
    CData,
    FrameReader,
    WaitStrategy,
    address_of,
    attach_patiently,
    check,
    fail,
    ffi,
    finalize_at_exit,
    lib,
    protect_process,
    seconds_to_ns,
    shared_array,
    uid_pointer,
)
from lanekit.fast.frame import (
    FastLaneConfig,
    FastLaneFrame,
    FastLaneFrameInfo,
    FastLaneMetrics,
    FastLaneStats,
)
from lanekit.segments import encode_run_id, segment_name

_NULL = ffi.NULL
_UINT8 = np.dtype(np.uint8)
_NEWEST: int = lib.LK_FRAME_NEWEST
_FRESH: int = lib.LK_FRAME_FRESH
_MOVED: int = lib.LK_E_MOVED
_peek = lib.lk_frame_peek
# A shape that no array has: nothing can be read into.
_NO_SHAPE = (0, 0, 0)


def _lend(handle: CData, slot: int, segment: CData, address: CData) -> int:
    constant = ffi.cast("const void **", address)
    return lib.lk_frame_reader_view(handle, slot, segment, constant)


class FastLaneReader(FrameReader):
    """Reads a run's frames from shared memory.

    Frames are whole or not there: a copy that the writer overtook is thrown away and taken again.
    When the writer leaves, the last frame stays readable; when a new writer of the same run comes,
    the reader moves to it by itself. Used by one thread at a time.

    >>> with FastLaneReader.attach("run-1") as reader:      # doctest: +SKIP
    ...     frame = reader.latest_frame()
    """

    # read_into(), latest_frame() and next_frame() themselves are in C, python/ext/frame_reads.c;
    # what is not the plain case comes back from there.

    def __init__(self, handle: CData, run_id: str) -> None:
        """Take over a core handle; use :meth:`attach`."""
        self._handle = handle
        self._run_id = run_id
        self._what = f"run {run_id!r} (segment {segment_name('frame', run_id)})"
        self._info = ffi.new("struct lk_frame_info *")
        self._address = ffi.new("const void **")
        self._slot = ffi.new("uint32_t *")
        self._last_metrics = FastLaneMetrics()
        self._segments_seen = 0
        self._announced: FastLaneConfig | None = None
        # Two threads in one reader are an error; but what the one is told must not undo what the
        # other was told later.
        self._settling = threading.Lock()
        self._settle()
        self._finalizer = finalize_at_exit(self, lib.lk_frame_reader_close, handle)

    @classmethod
    def attach(
        cls,
        run_id: str,
        *,
        timeout: float | None = 0.0,
        lease: float = 0.9,
        allow_uid: int | None = None,
    ) -> Self:
        """Join a run as a viewer.

        Waits up to `timeout` seconds (None: for ever) for its writer to appear, then raises
        :class:`~lanekit.SegmentNotFound`. Each read counts as "somebody watches" for `lease`
        seconds; a viewer that reads more seldom than that passes a longer lease, a tool that must
        not count as a viewer passes 0. A segment of another user is refused with
        :class:`~lanekit.SegmentPermissionDenied`, unless `allow_uid` is that user's number.
        """
        encoded = encode_run_id(run_id)
        if not 0 <= lease <= 3600:
            raise ValueError(f"lease must be between 0 and 3600 seconds, not {lease}")
        protect_process()
        out = ffi.new("lk_frame_reader **")
        trusted = uid_pointer(allow_uid)
        status = attach_patiently(
            lambda: lib.lk_frame_attach(out, encoded, len(encoded), int(lease * 1e9), trusted),
            timeout,
            (lib.LK_E_NOT_FOUND, lib.LK_E_NOT_READY),
        )
        check(status, f"run {run_id!r} (segment {segment_name('frame', run_id)})")
        return cls(ffi.gc(out[0], lib.lk_frame_reader_free), run_id)

    @property
    def run_id(self) -> str:
        """The run this reader watches."""
        return self._run_id

    @property
    def config(self) -> FastLaneConfig:
        """The geometry of the current writer's frames; a new writer may change it."""
        return self._config

    @property
    def connected(self) -> bool:
        """Whether the run's writer is alive and publishing here."""
        state = lib.lk_frame_writer_liveness(self._handle)
        if state == _MOVED:
            self._settle()
            return self.connected
        return check(state, self._what) != lib.LK_DEAD

    # --- reading ---------------------------------------------------------------------------------

    def peek(self, *, fresh: bool = False) -> FramePeek:
        """Look at the newest frame in place, without a copy.

        >>> with reader.peek() as pixels:                # doctest: +SKIP
        ...     if pixels is not None:
        ...         brightness = pixels.mean()

        Leaving the block raises :class:`~lanekit.FrameOverwritten` if the writer overwrote the
        frame meanwhile: what was computed from it must then be thrown away.
        """
        seq = self._peek(_FRESH if fresh else _NEWEST)
        return FramePeek(self, seq, self._slot_view(self._slot[0]) if seq > 0 else None)

    @property
    def last_frame_info(self) -> FastLaneFrameInfo | None:
        """Sequence number, time, metrics and metadata of the frame read last.

        None before the first one, and after a :meth:`read_into` or :meth:`peek` that failed.
        """
        info = self._info
        if info.seq == 0:
            return None
        return FastLaneFrameInfo(
            seq=info.seq,
            timestamp_ns=info.timestamp_ns,
            metrics=self._metrics_of(info.metrics),
            metadata=self._metadata_of(info),
            skipped=info.skipped,
        )

    def wait(self, timeout: float | None = None, *, strategy: WaitStrategy = "hybrid") -> bool:
        """Wait until there is a frame this reader has not had; False if `timeout` passed first.

        Goes on waiting when the writer leaves, for the run's next writer. "hybrid" spins briefly
        and then sleeps, having learned how long spinning pays; "spin" reacts fastest and keeps a
        core busy; "block" always sleeps.
        """
        if strategy not in STRATEGIES:
            raise ValueError(f"unknown strategy {strategy!r}; known: {', '.join(STRATEGIES)}")
        code = STRATEGIES[strategy]
        remaining = seconds_to_ns(timeout)
        deadline = time.monotonic_ns() + (remaining or 0)
        while True:
            step = SLICE_NS if remaining is None else min(SLICE_NS, remaining)
            status = self._wait(step, code)
            if status > 0:
                return True
            if status == _MOVED:
                self._settle()
            elif status < 0:
                fail(status, self._what)
            if remaining is not None:
                remaining = deadline - time.monotonic_ns()
                if remaining <= 0:
                    return False

    def metrics(self) -> FastLaneMetrics:
        """Return the run's newest metrics, which may be newer than its newest frame."""
        out = ffi.new("struct lk_frame_metrics *")
        status = lib.lk_frame_metrics(self._handle, out)
        if status == _MOVED:
            self._settle()
            return self.metrics()
        if check(status, self._what) == 1:
            self._last_metrics = self._metrics_of(out)
        return self._last_metrics

    def stats(self) -> FastLaneStats:
        """Return what this reader has been through so far."""
        out = ffi.new("struct lk_frame_stats *")
        check(lib.lk_frame_reader_stats(self._handle, out), self._what)
        return FastLaneStats(
            frames_read=out.frames_read,
            skipped=out.skipped,
            retries=out.retries,
            starved=out.starved,
            reattached=out.reattached,
        )

    # --- the end ---------------------------------------------------------------------------------

    def close(self) -> None:
        """Leave the run. Views handed out stay valid."""
        self._slot_views.clear()
        lib.lk_frame_reader_close(self._handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"{self._what}: a reader belongs to its process and can not be pickled or copied; "
            f"attach by run id in the other one: FastLaneReader.attach({self._run_id!r})"
        )

    def __repr__(self) -> str:
        c = self._config
        return f"<FastLaneReader {self._run_id!r} {c.width}x{c.height} {c.pixel_format}>"

    # --- details ---------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Take over the geometry of the segment that the core is on now."""
        out = ffi.new("struct lk_frame_config *")
        with self._settling:
            check(lib.lk_frame_reader_config(self._handle, out), self._what)
            self._config = config = FastLaneConfig.from_c(out)
            if self._announced is None:  # what read_into's caller knows of
                self._announced = config
            self._shape = config.shape
            size = config.metadata_size
            self._metadata = ffi.new("uint8_t[]", size) if size > 0 else _NULL
            self._slot_views: dict[int, npt.NDArray[np.uint8]] = {}
            self._info.seq = 0
            self._segments_seen += 1
            self._take_aim()

    def _take_aim(self) -> None:
        """Tell the calls in C what they read from, and from what they make frames."""
        c = self._config
        target = ffi.new(
            "struct lk_frame_target *",
            {
                "reader": self._handle,
                "pixels_size": c.frame_size,
                "metadata": self._metadata,
                "metadata_size": c.metadata_size,
                "info": self._info,
            },
        )
        kept = (FastLaneFrame, FastLaneMetrics, c.width, c.height, c.channels, c.pixel_format)
        owners = (self._handle, self._metadata, self._info)
        known = self._looks_as_announced()
        self._aim(address_of(target), c.shape if known else _NO_SHAPE, kept + owners)

    def _looks_as_announced(self) -> bool:
        now, before = self._config, self._announced
        return before is not None and (now.shape, now.pixel_format) == (
            before.shape,
            before.pixel_format,
        )

    def _check_geometry(self) -> None:
        """Say once, to whoever reads into arrays of its own, that frames look different now."""
        with self._settling:
            now, before = self._config, self._announced
            if before is None or self._looks_as_announced():
                return
            self._announced = now
            self._take_aim()
        raise errors.GeometryChanged(
            f"{self._what}: a new writer publishes {now.width}x{now.height} {now.pixel_format} "
            f"instead of {before.width}x{before.height} {before.pixel_format}; allocate a buffer "
            "of shape reader.config.shape",
            now,
        )

    def _peek(self, choice: int) -> int:
        while True:
            seq = _peek(
                self._handle,
                choice,
                self._address,
                self._slot,
                self._metadata,
                self._config.metadata_size,
                self._info,
            )
            if seq >= 0:
                return seq
            if seq != _MOVED:
                fail(seq, self._what)
            self._settle()

    def _slot_view(self, slot: int) -> npt.NDArray[np.uint8]:
        view = self._slot_views.get(slot)
        if view is None:
            lend = functools.partial(_lend, self._handle, slot)
            view = shared_array(lend, self._what, self._shape, writable=False)
            self._slot_views[slot] = view
        return view

    def _latest_frame_other(self, *, fresh: bool = False) -> FastLaneFrame | None:
        """Take `fresh` for what it is worth as a bool."""
        return self.latest_frame(fresh=bool(fresh))

    def _copy_again(self, status: int, choice: int) -> FastLaneFrame | None:
        """Go on after a copy that did not work: on the new writer's segment, or with an error."""
        if status != _MOVED:
            fail(status, self._what)
        self._settle()
        return self.next_frame() if choice == lib.LK_FRAME_NEXT else self._newest(choice)

    def _newest(self, choice: int) -> FastLaneFrame | None:
        return self.latest_frame(fresh=choice == _FRESH)

    def _metrics_of(self, metrics: CData) -> FastLaneMetrics:
        return FastLaneMetrics(metrics.last_reward, metrics.rolling_return, metrics.step_rate_hz)

    def _metadata_of(self, info: CData) -> bytes | None:
        size, room = info.metadata_size, self._metadata
        if size < 0:
            return None
        # Cut to the room there is: another thread may have moved to a new writer's segment.
        return ffi.buffer(room)[:size] if size > 0 and room != _NULL else b""

    def _read_into_other(self, out: npt.NDArray[np.uint8], *, fresh: bool = False) -> int:
        """Read into an array with gaps between its pixels, or say what is wrong with it."""
        self._check_geometry()
        if not isinstance(out, np.ndarray):
            raise TypeError(
                f"{self._what}: read_into needs a uint8 ndarray, not {type(out).__name__}"
            )
        if out.dtype != _UINT8:
            raise TypeError(f"{self._what}: read_into needs dtype uint8, not {out.dtype}")
        if out.shape != self._shape:
            height, width, channels = self._shape
            raise ValueError(
                f"{self._what}: read_into needs an array of shape ({height}, {width}, {channels}), "
                f"not {out.shape}"
            )
        if not out.flags.writeable:
            raise ValueError(f"{self._what}: read_into needs an array that can be written to")
        if out.flags.c_contiguous and out.dtype is _UINT8:
            return self.read_into(out, fresh=bool(fresh))
        frame = self.latest_frame(fresh=bool(fresh))
        self._check_geometry()
        if frame is None:
            return 0
        out[...] = frame.array
        return frame.seq

    def _read_into_again(self, status: int, out: npt.NDArray[np.uint8], fresh: bool) -> int:
        """Go on after a read that did not work: on the new writer's segment, or with an error."""
        if status != _MOVED:
            fail(status, self._what)
        self._settle()
        return self.read_into(out, fresh=fresh)


class FramePeek:
    """The newest frame in place; see :meth:`FastLaneReader.peek`."""

    __slots__ = ("_reader", "_segment", "array", "seq")

    def __init__(
        self, reader: FastLaneReader, seq: int, array: npt.NDArray[np.uint8] | None
    ) -> None:
        self._reader = reader
        self._segment = reader._segments_seen
        self.seq = seq
        """The frame's sequence number, 0 if there is no frame."""
        self.array = array
        """A read-only view of the slot itself, None if there is no frame."""

    @property
    def valid(self) -> bool:
        """Whether the frame has not been overwritten until now."""
        if self.seq == 0:
            return True
        if self._segment != self._reader._segments_seen:
            return False  # the reader has moved on, and can not ask the old segment any more
        status = lib.lk_frame_peek_check(self._reader._handle, self.seq)
        if status < 0 and status != lib.LK_E_OVERWRITTEN:
            fail(status, self._reader._what)
        return status == 0

    def __enter__(self) -> npt.NDArray[np.uint8] | None:
        return self.array

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None and not self.valid:
            fail(lib.LK_E_OVERWRITTEN, self._reader._what)
