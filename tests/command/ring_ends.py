"""Real command channels for tests, over a segment that holds nothing else: see ring_segment.c."""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import subprocess
import tempfile
from pathlib import Path

from lanekit._core import ffi
from lanekit.command import RingChannel

ROOT = Path(__file__).resolve().parent.parent.parent


def _library() -> Path:
    """Compile the core once more, with what opens channels without a step lane."""
    sources = [
        *sorted((ROOT / "csrc").glob("lk_*.[ch]")),
        Path(__file__).with_name("ring_segment.c"),
    ]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]
    made = Path(tempfile.gettempdir()) / f"lanekit-ring-ends-{digest}.so"
    with made.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            draft = made.with_suffix(".draft")
            units = [str(path) for path in sources if path.suffix == ".c"]
            flags = ["-std=c11", "-O1", "-fPIC", "-shared", "-D_GNU_SOURCE", "-pthread"]
            include = f"-I{ROOT / 'csrc'}"
            command = ["cc", *flags, include, *units, "-o", str(draft), "-lrt"]
            subprocess.run(command, check=True, timeout=120)
            draft.rename(made)
    return made


class RingEnd:
    """One end of a segment of two rings."""

    _lib: ctypes.CDLL | None = None

    def __init__(self, run: str, end: str, ring_bytes: int) -> None:
        if RingEnd._lib is None:
            RingEnd._lib = ctypes.CDLL(str(_library()))
        lib = RingEnd._lib
        lib.ring_end_channel.restype = ctypes.c_void_p
        lib.ring_end_rings.restype = ctypes.c_void_p
        self._ring = ctypes.c_void_p()
        number = {"server": 0, "client": 1}[end]
        status = lib.ring_end_open(
            ctypes.byref(self._ring), run.encode(), ctypes.c_uint64(ring_bytes), number
        )
        assert status == 0, status
        self.ring_bytes = ring_bytes
        self.channel = RingChannel(
            ffi.cast("lk_cmd *", lib.ring_end_channel(self._ring)), f"test {run}", self
        )

    def rings(self) -> ctypes.Array[ctypes.c_ubyte]:
        """The bytes of both rings."""
        assert RingEnd._lib is not None
        size = 2 * (self.ring_bytes + 128)
        return (ctypes.c_ubyte * size).from_address(RingEnd._lib.ring_end_rings(self._ring))

    def close(self) -> None:
        assert RingEnd._lib is not None
        RingEnd._lib.ring_end_close(self._ring)
