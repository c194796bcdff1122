"""Moves what a pipe holds to disk, and waits when the disk is full."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from lanekit.slow.sending.journal import NO_SPACE, SPLICE_REFUSED


class PipePump:
    """One pipe (or file, or socket) being emptied."""

    def __init__(
        self, source: int, splice: Callable[[int], int], on_full: Callable[[OSError], None]
    ) -> None:
        self.source = source
        self._splice = splice
        self._on_full = on_full
        self.open = True
        """False once the source has ended: nobody can write to it any more."""
        self.stuck = False
        """True while the disk takes nothing: the rest stays in the pipe."""

    def move(self) -> int:
        """Move what there is, up to 1 MiB; return how many bytes."""
        try:
            moved = self._splice(self.source)
        except BlockingIOError:
            return 0
        except OSError as error:
            if error.errno not in NO_SPACE:
                raise
            if not self.stuck:
                self._on_full(error)
            self.stuck = True
            return 0
        self.stuck = False
        if moved == 0:
            self.open = False
        return moved

    def __enter__(self) -> Self:
        self._was_blocking = os.get_blocking(self.source)
        os.set_blocking(self.source, False)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        os.set_blocking(self.source, self._was_blocking)


class StderrFile:
    """The worker's error output, kept as it is."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._size = os.fstat(file).st_size

    def splice(self, source: int) -> int:
        """Move bytes from the pipe; like `Journal.splice`."""
        try:
            moved = os.splice(source, self._file, 2**20, None, self._size, os.SPLICE_F_NONBLOCK)
        except OSError as error:
            if error.errno not in SPLICE_REFUSED:
                raise
            return self._copy(source)
        self._size += moved
        return moved

    def _copy(self, source: int) -> int:
        """Do it where the file system can not splice: what was read must then be written."""
        data = rest = os.read(source, 2**16)
        while rest:
            try:
                written = os.pwrite(self._file, rest, self._size)
            except OSError as error:
                if error.errno not in NO_SPACE:
                    raise
                time.sleep(0.1)
                continue
            self._size += written
            rest = rest[written:]
        return len(data)
