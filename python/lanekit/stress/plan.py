"""What a stress run consists of: rounds, each with its cores, parties, shape and share."""

from __future__ import annotations

import itertools
import math
import random
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass

MODES = ("c-threads", "c-processes", "py-processes", "py-threads")
"""Who writes and reads."""

SHAPES = ("frames", "message-passing", "seqlock", "store-buffering")
"""What they do; lk_stress_api.h explains each. Parties in Python know the first alone."""

FAULTS: dict[str, tuple[str, ...]] = {
    "torn": ("frames", "message-passing", "seqlock"),
    "early-head": ("message-passing", "frames"),
    # The head is published after the payload is complete, and hides this from all who follow it.
    "relaxed-commit": ("seqlock",),
    "no-odd": ("seqlock", "frames"),
    "unchecked-reader": ("frames", "message-passing", "seqlock"),
    "lost-wake": ("store-buffering",),
}
"""Deliberate bugs, and the shapes that show them."""

READERS_MAX = 8
PAIRS = 12
"""How many pairs of cores a run visits, unless told otherwise."""

_DELAY_EVERY = 64
_FINDINGS_ENOUGH = {"lost-wake": 1}  # each costs a second of sleep
# How the time, or the number of frames, is divided between shapes. A hand-shake takes as long as a
# hundred frames.
_TIME_SHARE = {"frames": 2.0, "message-passing": 1.0, "seqlock": 1.0, "store-buffering": 1.0}
_FRAME_SHARE = {"frames": 70.0, "message-passing": 15.0, "seqlock": 14.0, "store-buffering": 1.0}
_PYTHON_FRAME_SHARE = 2.0


class Misuse(Exception):
    """The command line asks for something that is not there."""


@dataclass(frozen=True)
class Size:
    """The geometry of the frames."""

    width: int
    height: int
    channels: int
    metadata_size: int

    @property
    def payload(self) -> int:
        """Bytes of one frame's pixels."""
        return self.width * self.height * self.channels


SIZES = {
    "small": Size(8, 8, 1, 24),
    "84x84": Size(84, 84, 3, 64),
    "640x480": Size(640, 480, 3, 64),
}


@dataclass(frozen=True)
class Round:
    """One configuration: who, on which cores, what."""

    run_id: str
    mode: str
    writer_core: int
    reader_cores: tuple[int, ...]
    shape: str
    size: Size
    capacity: int
    seed: int
    frames: int | None
    """Frames that each reader checks."""
    seconds: float | None
    fault: str | None = None
    delay_every: int = _DELAY_EVERY
    enough: int = 0

    @property
    def cores(self) -> str:
        """Writer and readers: ``0->1``."""
        return f"{self.writer_core}->{','.join(map(str, self.reader_cores))}"

    @property
    def title(self) -> str:
        """The configuration in one line."""
        return f"{self.mode} {self.cores} {self.shape}"


def free_threaded() -> bool:
    """Whether Python threads run at the same time here."""
    return not getattr(sys, "_is_gil_enabled", lambda: True)()


def parse_size(text: str) -> Size:
    """Return a size by its name, or ``WIDTHxHEIGHT`` of RGB."""
    if text in SIZES:
        return SIZES[text]
    match = re.fullmatch(r"(\d{1,5})x(\d{1,5})", text)
    if match is None or not (0 < int(match[1]) <= 4096 and 0 < int(match[2]) <= 4096):
        raise ValueError(f"unknown size {text!r}; known: {', '.join(SIZES)}, WIDTHxHEIGHT")
    if int(match[1]) * int(match[2]) * 3 < 16:
        raise ValueError(f"{text} is too small: a torn frame needs two halves of 8 bytes")
    return Size(int(match[1]), int(match[2]), 3, 64)


def choose_modes(wanted: Sequence[str] | None, fault: str | None) -> tuple[str, ...]:
    """Return the modes asked for, or all that apply here."""
    for mode in wanted or ():
        if mode not in MODES:
            raise Misuse(f"unknown party {mode!r}; known: {', '.join(MODES)}")
        if mode == "py-threads" and not free_threaded():
            raise Misuse("py-threads needs a free-threaded Python (such as 3.14t)")
        if fault is not None and mode.startswith("py"):
            raise Misuse(f"--inject breaks parties in C; {mode} only uses the published package")
    if wanted:
        return tuple(dict.fromkeys(wanted))
    applying = MODES if free_threaded() else MODES[:3]
    return applying if fault is None else ("c-threads", "c-processes")


def choose_cores(
    pins: Sequence[Sequence[int]] | None, available: set[int], most: int, seed: int
) -> tuple[list[tuple[int, ...]], int]:
    """Return the groups of cores to visit, writer first, and how many pairs there are."""
    for core in sorted({core for group in pins or () for core in group}):
        if core not in available:
            have = ", ".join(map(str, sorted(available)))
            raise Misuse(f"core {core} is not available to this process, which may use {have}")
    if pins:
        groups = [tuple(group) for group in pins]
        return groups, len(groups)
    pairs = list(itertools.permutations(sorted(available), 2))
    if not pairs:  # one core: the parties take turns, which still tears frames apart
        (core,) = available
        pairs = [(core, core)]
    if len(pairs) <= most:
        return list(pairs), len(pairs)
    return sorted(random.Random(seed).sample(pairs, most)), len(pairs)


def plan_rounds(
    *,
    modes: Sequence[str],
    cores: Sequence[tuple[int, ...]],
    shapes: Sequence[str] | None,
    size: Size,
    seed: int,
    frames: int | None,
    seconds: float | None,
    fault: str | None,
    name: str,
) -> list[Round]:
    """Divide the time, or the frames, among all configurations."""
    drafts = [
        (mode, group, shape)
        for group in cores
        for mode in modes
        for shape in _shapes_of(mode, shapes, fault)
    ]
    if not drafts:
        raise Misuse("nothing to do: these parties and shapes do not go together")
    all_time = sum(_TIME_SHARE[shape] for _, _, shape in drafts)
    all_frames = sum(_frame_share(mode, shape) for mode, _, shape in drafts)
    rounds = []
    for index, (mode, group, shape) in enumerate(drafts):
        per_reader = None
        if frames is not None:
            share = frames * _frame_share(mode, shape) / all_frames
            per_reader = max(1, math.ceil(share / (len(group) - 1)))
            if shape == "store-buffering":
                # The writer checks what comes back, which is all but the answer to the last one.
                per_reader = max(1, math.ceil((share + 1) / len(group)))
        rounds.append(
            Round(
                run_id=f"{name}-{index}",
                mode=mode,
                writer_core=group[0],
                reader_cores=group[1:],
                shape=shape,
                size=size,
                capacity=_capacity(shape, size, fault),
                seed=seed + index,
                frames=per_reader,
                seconds=None if seconds is None else seconds * _TIME_SHARE[shape] / all_time,
                fault=fault,
                delay_every=_DELAY_EVERY if fault is None else 1,
                enough=0 if fault is None else _FINDINGS_ENOUGH.get(fault, 100),
            )
        )
    return rounds


def _shapes_of(mode: str, shapes: Sequence[str] | None, fault: str | None) -> list[str]:
    chosen = shapes or (SHAPES if fault is None else FAULTS[fault])
    return [shape for shape in chosen if shape == "frames" or mode.startswith("c-")]


def _frame_share(mode: str, shape: str) -> float:
    return _FRAME_SHARE[shape] if mode.startswith("c-") else _PYTHON_FRAME_SHARE


def _capacity(shape: str, size: Size, fault: str | None) -> int:
    """Litmus shapes want to be overtaken; checking many frames wants room."""
    if shape == "frames" and fault is None:
        return 64 if size.payload < 4096 else 8
    return 4
