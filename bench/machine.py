"""The machine a benchmark runs on: what it is, and which of its cores does what."""

from __future__ import annotations

import os
import platform
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

WRITER_CORE = 0
READER_CORE = 1


def cores() -> list[int]:
    """The cores this process was started on, remembered before anything is pinned."""
    return _CORES


_CORES = sorted(os.sched_getaffinity(0))


def pin(role: int) -> None:
    """Keep this process on the writer's or the reader's core; with one core they share it."""
    os.sched_setaffinity(0, {_CORES[role % len(_CORES)]})


def unpin() -> None:
    """Let this process run on every core again."""
    os.sched_setaffinity(0, set(_CORES))


def set_cores(available: list[int]) -> None:
    """Take over the parent's list of cores: a child inherits its parent's narrower mask."""
    _CORES[:] = available


def python_clock_cost(count: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Time nothing: what two clock reads cost a sample that is taken in Python."""
    now = time.perf_counter_ns
    samples = np.zeros(count, np.int64)
    for i in range(count):
        start = now()
        samples[i] = now() - start
    return samples


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


def _cache_sizes() -> dict[str, str]:
    found = {}
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        name, kind, size = ((index / f).read_text().strip() for f in ("level", "type", "size"))
        found[f"L{name} {kind.lower()}"] = size
    return found


_HANDED_ON = [0.0]
"""Seconds of CPU time of processes that were ours, and that the system reaps instead of us."""


def account_for_group(leader: int) -> None:
    """Count as ours what a group's processes have used whose parent is about to go."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:
            continue  # it has ended meanwhile
        parent, group, *_ = (int(field) for field in fields[1:3])
        if group == leader and parent != os.getpid():
            used = sum(int(field) for field in fields[11:15])
            _HANDED_ON[0] += used / os.sysconf("SC_CLK_TCK")


class Neighbours:
    """How much of the machine other programs took while we measured: the noise in the numbers."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._used = self._used_by_others()

    def _used_by_others(self) -> float:
        """Seconds of CPU time, stolen ones included, that were not ours or our children's."""
        first_line = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0]
        ticks = [int(field) for field in first_line.split()[1:9]]
        user, nice, system, _idle, _iowait, irq, softirq, stolen = ticks
        busy = (user + nice + system + irq + softirq + stolen) / os.sysconf("SC_CLK_TCK")
        return busy - sum(os.times()[:4]) - _HANDED_ON[0]

    def share(self) -> float:
        """Return the share of all cores' time that others used since the beginning."""
        total = (time.monotonic() - self._start) * (os.cpu_count() or 1)
        return max(0.0, (self._used_by_others() - self._used) / total)


def wait_until_quiet(share: float, *, patience: float = 60.0) -> None:
    """Wait for a second in which others use at most `share` of the machine, but not for ever."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        neighbours = Neighbours()
        time.sleep(1)
        if neighbours.share() <= share:
            return


def describe() -> dict[str, Any]:
    """Return what a reader of the numbers must know about this machine."""
    return {
        "cpu": _cpu_model(),
        "architecture": platform.machine(),
        "cores": len(_CORES),
        "one_core_for_all": len(_CORES) == 1,
        "caches": _cache_sizes(),
        "kernel": platform.release(),
        "libc": " ".join(platform.libc_ver()),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in ("lanekit", "numpy", "cffi")},
        "copy_method": _copy_method(),
    }


def _copy_method() -> str:
    from lanekit._core import ffi, lib

    info = ffi.new("struct lk_platform_info *")
    lib.lk_platform_describe(info)
    text: bytes = ffi.string(info.copy_method)
    return text.decode()
