"""An X server without hardware, and what can be seen on it."""

from __future__ import annotations

import mmap
import os
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


class VirtualScreen:
    """A screen whose picture is a file; `display` is its name."""

    def __init__(self, display: str, mapped: mmap.mmap) -> None:
        self.display = display
        self._mapped = mapped
        # The format is XWD, which begins with big-endian words.
        words = struct.unpack(">25I", mapped[:100])
        self._header, self._width, self._height = words[0] + 12 * words[19], words[4], words[5]
        self._line = words[12]

    def picture(self) -> NDArray[np.uint8]:
        """Return what a person would see now, as (height, width, 3)."""
        size = self._height * self._line
        whole = np.frombuffer(self._mapped[self._header : self._header + size], np.uint8)
        pixels = whole.reshape(self._height, self._line // 4, 4)[:, : self._width]
        return np.ascontiguousarray(pixels[:, :, 2::-1])

    def place_of(self, colour: tuple[int, int, int]) -> tuple[int, int, int, int] | None:
        """Return x, y, width and height of what has this very colour; None if nothing has."""
        ys, xs = np.nonzero((self.picture() == colour).all(axis=2))
        if not len(xs):
            return None
        left, top = int(xs.min()), int(ys.min())
        return left, top, int(xs.max()) - left + 1, int(ys.max()) - top + 1


@contextmanager
def virtual_screen(directory: Path) -> Iterator[VirtualScreen]:
    """Start a server of 1280 by 900 pixels."""
    readable, writable = os.pipe()
    command = ["Xvfb", "-displayfd", str(writable), "-fbdir", str(directory), "-nolisten", "tcp"]
    server = subprocess.Popen(
        [*command, "-screen", "0", "1280x900x24"],
        pass_fds=[writable],
        stderr=subprocess.DEVNULL,
    )
    os.close(writable)
    try:
        with open(readable, encoding="ascii") as answer:
            number = answer.readline().strip()  # said when it is ready
        assert number, "Xvfb did not start"
        with (directory / "Xvfb_screen0").open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        yield VirtualScreen(f":{number}", mapped)
        mapped.close()
    finally:
        server.terminate()
        server.wait()
