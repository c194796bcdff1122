"""The fast lane's writer: one training worker publishes, and never waits for anyone."""

from __future__ import annotations

import contextlib
import errno
import functools
from collections.abc import Callable
from types import TracebackType
from typing import Any, NoReturn, Self

import numpy as np
import numpy.typing as npt

from lanekit import errors
from lanekit._core import (
    CData,
    FrameWriter,
    address_of,
    check,
    fail,
    ffi,
    finalize_at_exit,
    lib,
    protect_process,
    shared_array,
)
from lanekit.fast.frame import FastLaneConfig, FastLaneMetrics
from lanekit.segments import (
    encode_run_id,
    human_size,
    owner_of,
    segment_name,
    shared_memory_space,
)

_NULL = ffi.NULL
_UINT8 = np.dtype(np.uint8)
_from_buffer = ffi.from_buffer
_commit = lib.lk_frame_commit
_commit_metadata = lib.lk_frame_commit_metadata

# Called by position, which numpy's stubs do not know but which takes a third of the time.
_make_writable: Callable[[npt.NDArray[np.uint8], bool], None] = np.ndarray.setflags  # type: ignore[assignment]


def _end(handle: CData) -> None:
    # The name first: unmapping a large ring takes time, and a signal may end the process meanwhile.
    lib.lk_frame_writer_unlink(handle)
    lib.lk_frame_writer_close(handle)


class FastLaneWriter(FrameWriter):
    """Publishes a run's frames into shared memory.

    One writer per run, used by one thread at a time. As a context manager it removes the segment at
    the end; so do the garbage collector, the interpreter's exit and SIGTERM.

    >>> with FastLaneWriter.create("run-1", FastLaneConfig(width=84, height=84)) as writer:
    ...     writer.publish(np.zeros((84, 84, 3), np.uint8))
    1
    """

    # publish() itself is in C, see python/ext/frame_publish.c; what is no plain array of the right
    # shape comes back from there to _publish_other().

    def __init__(self, handle: CData, run_id: str, config: FastLaneConfig) -> None:
        """Take over a core handle; use :meth:`create`."""
        self._handle = handle
        self._run_id = run_id
        self._config = config
        self._name = segment_name("frame", run_id)
        self._shape = config.shape
        self._frame_size = config.frame_size
        self._slot_address = ffi.new("void **")
        self._slot_views: list[npt.NDArray[np.uint8] | None] = [None] * config.capacity
        self._finalizer = finalize_at_exit(self, _end, handle)
        self._bind(address_of(handle), config.shape, config.metadata_size, handle)

    @classmethod
    def create(cls, run_id: str, config: FastLaneConfig) -> Self:
        """Create the run's segment, reserving all its memory, and become its writer.

        What a dead writer of the same run left behind is replaced. A live one raises
        :class:`~lanekit.SegmentExists`.
        """
        encoded = encode_run_id(run_id)
        if not isinstance(config, FastLaneConfig):
            raise TypeError(f"config is a FastLaneConfig, not {type(config).__name__}")
        protect_process()
        out = ffi.new("lk_frame_writer **")
        status = lib.lk_frame_create(out, encoded, len(encoded), config.to_c())
        if status < 0:
            _fail_to_create(status, run_id, config)
        return cls(ffi.gc(out[0], lib.lk_frame_writer_free), run_id, config)

    @property
    def run_id(self) -> str:
        """The run this writer publishes."""
        return self._run_id

    @property
    def config(self) -> FastLaneConfig:
        """The geometry of its frames."""
        return self._config

    @property
    def name(self) -> str:
        """The segment's name in ``/dev/shm``."""
        return self._name

    # --- publishing ------------------------------------------------------------------------------

    def reserve(self) -> Reservation:
        """Lend the next slot of the ring as an array to render into: no copy at all.

        >>> with writer.reserve() as pixels:           # doctest: +SKIP
        ...     render_into(pixels)                    # published on leaving, dropped on an error
        """
        index = lib.lk_frame_reserve(self._handle, self._slot_address)
        if index < 0:
            self._fail(index)
        view = self._slot_views[index]
        if view is None:
            view = shared_array(
                functools.partial(lib.lk_frame_writer_view, self._handle, index),
                self._what(),
                self._shape,
                writable=True,
            )
            self._slot_views[index] = view
        else:
            _make_writable(view, True)
        return Reservation(self, view)

    def update_metrics(self, metrics: FastLaneMetrics) -> None:
        """Change the run's newest metrics without a frame, e.g. while nobody watches."""
        status = lib.lk_frame_set_metrics(self._handle, *self._numbers(metrics))
        if status < 0:
            self._fail(status)

    @property
    def watched(self) -> bool:
        """Whether a viewer is alive now; rendering only then costs training nothing.

        A viewer counts for the length of its lease (0.9 s by default) after each read.
        """
        status = lib.lk_frame_watched(self._handle)
        if status < 0:
            self._fail(status)
        return status == 1

    def heartbeat(self) -> None:
        """Show that the worker is alive while it publishes nothing for a long time."""
        check(lib.lk_frame_heartbeat(self._handle), self._what())

    # --- the end ---------------------------------------------------------------------------------

    def invalidate(self) -> None:
        """Tell the readers that this writer leaves; they wait for the run's next one."""
        check(lib.lk_frame_invalidate(self._handle), self._what())

    def close(self) -> None:
        """Mark the segment as left and unmap it. The name stays until :meth:`unlink`."""
        self._slot_views = [None] * self._config.capacity
        lib.lk_frame_writer_close(self._handle)

    def unlink(self) -> None:
        """Remove the segment's name; readers that have it open keep their mapping."""
        status = lib.lk_frame_writer_unlink(self._handle)
        if status != lib.LK_E_FORKED:  # in a child the name is the parent's: nothing to do
            check(status, self._what())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.unlink()  # the name first, see _end
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"{self._what()}: a writer belongs to its process and can not be pickled or copied; "
            "create it in the process that publishes"
        )

    def __repr__(self) -> str:
        c = self._config
        return f"<FastLaneWriter {self._run_id!r} {c.width}x{c.height} {c.pixel_format}>"

    # --- details ---------------------------------------------------------------------------------

    def _what(self) -> str:
        return f"run {self._run_id!r} (segment {self._name})"

    def _fail(self, status: int) -> NoReturn:
        fail(status, self._what())

    def _numbers(self, metrics: FastLaneMetrics) -> tuple[float, float, float]:
        """Return what the core takes of a frame's metrics, after checking that they are some."""
        try:  # float() would take text, too
            return (
                metrics.last_reward.__float__(),
                metrics.rolling_return.__float__(),
                metrics.step_rate_hz.__float__(),
            )
        except AttributeError:
            raise TypeError(
                f"{self._what()}: metrics are a FastLaneMetrics(last_reward=..., "
                f"rolling_return=..., step_rate_hz=...) of numbers, not {metrics!r:.80}"
            ) from None

    def _metadata(self, metadata: bytes | bytearray | memoryview | None) -> tuple[CData, int]:
        """Return pointer and size of a frame's metadata, after checking that it fits."""
        if metadata is None:
            return _NULL, 0
        try:
            data = _from_buffer(metadata)
        except TypeError:
            raise TypeError(
                f"{self._what()}: metadata is bytes-like, not {type(metadata).__name__}"
            ) from None
        if len(data) > self._config.metadata_size:
            raise ValueError(
                f"{self._what()}: {len(data)} bytes of metadata, but the segment reserves "
                f"{self._config.metadata_size} per frame; create the writer with "
                f"FastLaneConfig(..., metadata_size={len(data)})"
            )
        return data, len(data)

    def _publish_other(
        self,
        frame: Any,
        *,
        metrics: FastLaneMetrics | None = None,
        metadata: bytes | bytearray | memoryview | None = None,
    ) -> int:
        """Publish what is no plain uint8 array of the right shape, or comes with other metadata."""
        frame = self._checked(frame)
        try:
            pixels = _from_buffer(frame)
        except ValueError:  # not contiguous
            return self._publish_strided(frame, metrics, metadata)
        data, size = self._metadata(metadata)
        if metrics is None:
            seq = lib.lk_frame_publish(self._handle, pixels, self._frame_size, data, size)
        else:
            seq = lib.lk_frame_publish_metrics(
                self._handle,
                pixels,
                self._frame_size,
                data,
                size,
                *self._numbers(metrics),
            )
        if seq < 0:
            self._fail(seq)
        return seq

    def _checked(self, frame: Any) -> Any:
        """Return a frame that is no plain uint8 array of the right shape as one, or raise."""
        if not isinstance(frame, np.ndarray):
            try:
                frame = memoryview(frame)
            except TypeError:
                if not hasattr(frame, "__array__"):  # as tensors in CPU memory have
                    raise TypeError(
                        f"{self._what()}: a frame is a uint8 array or a bytes-like object, "
                        f"not {type(frame).__name__}"
                    ) from None
            else:
                if frame.format in ("b", "c"):  # bytes by another name
                    frame = frame.cast("B")
                if frame.nbytes != self._frame_size:
                    raise ValueError(self._size_message(f"{frame.nbytes} bytes"))
            frame = np.asarray(frame)
        if frame.dtype != _UINT8:
            raise TypeError(
                f"{self._what()}: a frame's dtype is uint8, not {frame.dtype}; convert with "
                ".astype(numpy.uint8)"
            )
        height, width, channels = self._shape
        fits = frame.shape in (self._shape, (self._frame_size,)) or (
            channels == 1 and frame.shape == (height, width)
        )
        if not fits:
            raise ValueError(self._size_message(f"an array of shape {frame.shape}"))
        return frame

    def _size_message(self, found: str) -> str:
        height, width, channels = self._shape
        return (
            f"{self._what()}: expected a frame of shape ({height}, {width}, {channels}), that is "
            f"{self._frame_size} bytes of {self._config.pixel_format}; got {found}. A writer with "
            "another geometry must be created for frames of another size"
        )

    def _publish_strided(
        self, frame: Any, metrics: FastLaneMetrics | None, metadata: Any | None
    ) -> int:
        """Publish a frame with gaps: its one copy goes straight into the slot."""
        reservation = self.reserve()
        try:
            reservation.array[...] = np.asarray(frame).reshape(self._shape)
            return reservation.commit(metrics=metrics, metadata=metadata)
        except BaseException:
            with contextlib.suppress(errors.LanekitError):
                reservation.abandon()
            raise


class Reservation:
    """A slot lent by :meth:`FastLaneWriter.reserve`, open until committed or abandoned."""

    __slots__ = ("_open", "_writer", "array")

    def __init__(self, writer: FastLaneWriter, array: npt.NDArray[np.uint8]) -> None:
        self._writer = writer
        self._open = True
        self.array = array
        """The slot's pixels, to be overwritten; read-only once the reservation has ended."""

    def commit(
        self,
        *,
        metrics: FastLaneMetrics | None = None,
        metadata: bytes | bytearray | memoryview | None = None,
    ) -> int:
        """Publish the slot as the newest frame and return its sequence number."""
        writer = self._writer
        if not self._open:
            fail(lib.LK_E_NOT_RESERVED, writer._what())
        if metadata is not None:
            data, size = writer._metadata(metadata)
        if metrics is not None:
            writer.update_metrics(metrics)
        if metadata is None:
            seq = _commit(writer._handle)
        else:
            seq = _commit_metadata(writer._handle, data, size)
        if seq < 0:
            writer._fail(seq)
        self._open = False
        _make_writable(self.array, False)
        return seq

    def abandon(self) -> None:
        """Give the slot back unpublished. Ending twice is allowed."""
        if self._open:
            self._open = False
            _make_writable(self.array, False)
            check(lib.lk_frame_abandon(self._writer._handle), self._writer._what())

    def __del__(self) -> None:
        # A reservation that was dropped must not block the writer for good.
        if self._open:
            lib.lk_frame_abandon(self._writer._handle)

    def __enter__(self) -> npt.NDArray[np.uint8]:
        return self.array

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not self._open:
            return
        if kind is None:
            self.commit()
        else:
            with contextlib.suppress(errors.LanekitError):  # the block's own error says more
                self.abandon()


def _fail_to_create(status: int, run_id: str, config: FastLaneConfig) -> NoReturn:
    """Raise with what only creation knows: the owner's pid, the memory missing."""
    name = segment_name("frame", run_id)
    what = f"run {run_id!r} (segment {name})"
    if status == lib.LK_E_EXISTS:
        pid, owner = owner_of(name)
        raise errors.SegmentExists(
            f"{what}: {owner} is publishing this run; use another run id, or end that "
            "process first",
            pid,
        )
    if status == lib.LK_E_NO_SPACE:
        raise errors.OutOfSharedMemory(f"{what}: {_what_is_missing(config)}")
    if status == lib.LK_E_SYSTEM and ffi.errno == errno.EFBIG:
        raise errors.SegmentError(
            f"{what}: {config.segment_size} bytes are more than this process's file size limit "
            "allows; raise it (ulimit -f unlimited), or lower FastLaneConfig.capacity"
        )
    fail(status, what)


def _what_is_missing(config: FastLaneConfig) -> str:
    space = shared_memory_space()
    if space.free_files == 0:
        return "/dev/shm has no file entries left; remove leftovers with `lanekit clean`"
    return (
        f"needs {human_size(config.segment_size)} of shared memory, but /dev/shm has {space}; "
        f"lower FastLaneConfig.capacity (now {config.capacity}), remove leftovers with `lanekit "
        "clean`, or enlarge it (in a container: --shm-size)"
    )
