"""The machine's limits: plain C loops, compiled here and now, timed in C (see limits.c)."""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib.util
import io
import mmap
import os
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from cffi import FFI

from lanekit import FastLaneConfig, FastLaneReader, FastLaneWriter
from lanekit import _core as lanekit_core

Nanoseconds = npt.NDArray[np.uint32]
Pixels = npt.NDArray[np.uint8]

HEADER_SIZE = 4096
SLOT_HEADER = 64
# A peer that is silent for so long has died: give up instead of spinning for ever.
TIMEOUT_NS = 20_000_000_000

_DECLARATIONS = """
struct limit_ring { unsigned char *base; size_t stride; size_t payload; uint32_t capacity; };
void limit_clock(uint32_t count, uint32_t *samples);
void limit_memcpy(void *to, const void *from, size_t size);
void limit_copies(void *to, const void *from, size_t size, uint32_t count, uint32_t *samples);
void limit_copy_in(const struct limit_ring *ring, const void *const *sources,
                   uint32_t source_count, uint32_t count, uint32_t *samples);
uint64_t limit_copy_in_untimed(const struct limit_ring *ring, const void *const *sources,
                               uint32_t source_count, uint32_t count);
uint32_t limit_call(void *function, const void *arguments, const struct limit_ring *fresh,
                    uint32_t count, uint32_t *samples, uint64_t timeout_ns);
uint32_t limit_copy_out(const struct limit_ring *ring, void *to, int fresh, int find,
                        uint32_t count, uint32_t *samples, uint64_t timeout_ns);
uint64_t limit_wait_head(const struct limit_ring *ring, uint64_t seen, uint64_t timeout_ns);
uint64_t limit_touch(const unsigned char *memory, size_t size);
uint32_t limit_ping(void *line, uint32_t count, uint32_t *samples, uint64_t timeout_ns);
uint32_t limit_pong(void *line, uint32_t count, uint64_t timeout_ns);
void limit_send(const struct limit_ring *ring, const void *from, uint64_t *started);
uint64_t limit_receive(const struct limit_ring *ring, void *to, uint64_t seen, uint64_t timeout_ns,
                       uint64_t *received);
"""
_SHARED_MEMORY = Path("/dev/shm")
# Child processes find the library their parent compiled here.
_DIRECTORY_VARIABLE = "LANEKIT_BENCH_LIMITS"
_MODULE = "_lanekit_limits"


def _library_path(directory: str) -> Path:
    return Path(directory) / f"{_MODULE}{sysconfig.get_config_var('EXT_SUFFIX')}"


def _compile() -> str:
    """Build the extension in a temporary directory; cffi writes the glue, the C compiler the rest.

    The compiler is called directly because ``ffi.compile`` needs setuptools from Python 3.12 on.
    """
    directory = tempfile.mkdtemp(prefix="lanekit-limits-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    ffi = FFI()
    ffi.cdef(_DECLARATIONS)
    ffi.set_source(_MODULE, Path(__file__).with_name("limits.c").read_text(encoding="utf-8"))
    source = Path(directory) / f"{_MODULE}.c"
    with contextlib.redirect_stdout(io.StringIO()):  # cffi says what it writes
        ffi.emit_c_code(str(source))
    command = [os.environ.get("CC", "cc"), "-O2", "-shared", "-fPIC", "-w"]
    command += [f"-I{sysconfig.get_path('include')}", str(source)]
    subprocess.run([*command, "-o", str(_library_path(directory))], check=True)
    return directory


@functools.cache
def load() -> Any:
    """Return the compiled module, with its ``ffi`` and ``lib``."""
    if _DIRECTORY_VARIABLE not in os.environ:
        os.environ[_DIRECTORY_VARIABLE] = _compile()
    path = _library_path(os.environ[_DIRECTORY_VARIABLE])
    spec = importlib.util.spec_from_file_location(_MODULE, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def slot_stride(config: FastLaneConfig) -> int:
    """Bytes from one slot to the next: header and pixels, rounded up to cache lines."""
    return SLOT_HEADER + -(-config.frame_size // 64) * 64


def ring_size(config: FastLaneConfig) -> int:
    """Bytes of a ring: what a segment without metadata must take, too."""
    return HEADER_SIZE + config.capacity * slot_stride(config)


class SharedBytes:
    """A file in shared memory, mapped. The one who creates it also removes it."""

    def __init__(self, name: str, size: int, *, create: bool, writable: bool = True) -> None:
        self.name = name
        self._path = _SHARED_MEMORY / name
        self._owned = create
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL if create else os.O_RDWR if writable else 0
        descriptor = os.open(self._path, flags, 0o600)
        try:
            if create:
                os.posix_fallocate(descriptor, 0, size)
            access = mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ
            self._memory = mmap.mmap(descriptor, size, access=access)
        finally:
            os.close(descriptor)
        self.address = load().ffi.from_buffer(self._memory)
        load().lib.limit_touch(self.address, size)

    def close(self) -> None:
        """Unmap it, and remove it if it is ours."""
        load().ffi.release(self.address)
        self._memory.close()
        if self._owned:
            self._path.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class PlainRing(SharedBytes):
    """A ring of the fast lane's geometry with nothing but memcpy around it.

    Opened over the name of a fast-lane segment it reads what lanekit writes there.
    """

    def __init__(
        self, name: str, config: FastLaneConfig, *, create: bool, writable: bool = True
    ) -> None:
        super().__init__(name, ring_size(config), create=create, writable=writable)
        self.config = config
        self.c = load().ffi.new(
            "struct limit_ring *",
            (
                load().ffi.cast("unsigned char *", self.address),
                slot_stride(config),
                config.frame_size,
                config.capacity,
            ),
        )

    def slot_pointers(self) -> list[Any]:
        """Return a pointer to each slot's pixels, for copies called from Python."""
        stride = slot_stride(self.config)
        first = self.c.base + HEADER_SIZE + SLOT_HEADER
        return [first + stride * i for i in range(self.config.capacity)]


class Sources:
    """The addresses of some frames, as C wants them."""

    def __init__(self, frames: Sequence[Pixels]) -> None:
        self.buffers = [load().ffi.from_buffer(frame) for frame in frames]
        self.c = load().ffi.new("void *[]", self.buffers)

    def __len__(self) -> int:
        return len(self.buffers)


class _Samples:
    """Room for one number per operation."""

    def __init__(self, count: int) -> None:
        self.array: Nanoseconds = np.zeros(count, np.uint32)
        self.c = load().ffi.from_buffer("uint32_t[]", self.array)


def clock_cost(count: int) -> Nanoseconds:
    """Time nothing: what the two clock reads around each C operation cost."""
    samples = _Samples(count)
    load().lib.limit_clock(count, samples.c)
    return samples.array


def copies(memory: SharedBytes, source: Pixels, count: int) -> Nanoseconds:
    """Time memcpy of one array into shared memory, in a C loop."""
    samples = _Samples(count)
    address = load().ffi.from_buffer(source)
    load().lib.limit_copies(memory.address, address, source.nbytes, count, samples.c)
    return samples.array


def copy_in(ring: PlainRing, sources: Sources, count: int) -> Nanoseconds:
    """Time memcpy into slot after slot, in a C loop. The official limit of publishing."""
    samples = _Samples(count)
    load().lib.limit_copy_in(ring.c, sources.c, len(sources), count, samples.c)
    return samples.array


def copy_in_untimed(ring: PlainRing, sources: Sources, count: int) -> float:
    """Return nanoseconds per memcpy of the same loop without a clock in it."""
    total = load().lib.limit_copy_in_untimed(ring.c, sources.c, len(sources), count)
    return float(total) / count


def copy_out(
    ring: PlainRing, out: Pixels, count: int, *, fresh: bool = True, find: bool = False
) -> Nanoseconds:
    """Time memcpy of the newest slot, in a C loop. The official limit of reading.

    `fresh`: each frame once, as soon as the head has moved. `find`: with the load of the head.
    """
    samples = _Samples(count)
    to = load().ffi.from_buffer(out, require_writable=True)
    done = load().lib.limit_copy_out(ring.c, to, fresh, find, count, samples.c, TIMEOUT_NS)
    if done < count:
        raise TimeoutError("the writer fell silent")
    return samples.array


def _foreign(pointer: Any) -> Any:
    """Carry a pointer from lanekit's cffi module over to ours."""
    address = int(lanekit_core.ffi.cast("uintptr_t", pointer))
    return load().ffi.cast("void *", address)


def _call(name: str, arguments: Any, fresh: PlainRing | None, count: int) -> Nanoseconds:
    """Time one of lanekit's C functions that take their arguments in a struct."""
    ffi: Any = lanekit_core.ffi
    function = _foreign(ffi.addressof(lanekit_core.lib, name))
    ring = fresh.c if fresh else load().ffi.NULL
    samples = _Samples(count)
    done = load().lib.limit_call(function, _foreign(arguments), ring, count, samples.c, TIMEOUT_NS)
    if done < count:
        raise RuntimeError(f"{name} failed")
    return samples.array


def call_publish(writer: FastLaneWriter, frame: Pixels, count: int) -> Nanoseconds:
    """Time lanekit's publish called from a C loop: what the core adds, without Python."""
    ffi = lanekit_core.ffi
    pixels = ffi.from_buffer(frame)
    source = ffi.new("struct lk_frame_source *", {"writer": writer._handle, "pixels": pixels})
    return _call("lk_frame_publish_source", source, None, count)


def call_read(reader: FastLaneReader, ring: PlainRing, out: Pixels, count: int) -> Nanoseconds:
    """Time lanekit's read called from a C loop, each time the head of its segment has moved."""
    ffi = lanekit_core.ffi
    pixels, info = ffi.from_buffer(out, require_writable=True), ffi.new("struct lk_frame_info *")
    target = {"reader": reader._handle, "pixels": pixels, "pixels_size": out.nbytes, "info": info}
    return _call("lk_frame_read_target", ffi.new("struct lk_frame_target *", target), ring, count)


def ping(line: SharedBytes, count: int) -> Nanoseconds:
    """Time round trips of one cache line, answered by :func:`pong` on another core."""
    samples = _Samples(count)
    if load().lib.limit_ping(line.address, count, samples.c, TIMEOUT_NS) < count:
        raise TimeoutError("nobody answered")
    return samples.array


def pong(line: SharedBytes, count: int) -> None:
    """Answer :func:`ping`."""
    load().lib.limit_pong(line.address, count, TIMEOUT_NS)
