"""A trajectory buffer over shared memory as one writes it on a first try: indices without atomics.

Fixed slots in ``multiprocessing.shared_memory``; a writer reads the write index, fills the slot and
stores the index plus one; a full buffer drops. With one writer it works; with more, two of them
read the same index. Written from a published description, to compare with; do not use it.
"""

from __future__ import annotations

from multiprocessing.shared_memory import SharedMemory
from typing import Any

import numpy as np

SLOTS = 256
_HEADER = 64


class NaiveBuffer:
    """Slots of one fixed size; create it once, attach anywhere."""

    def __init__(self, tokens: int, name: str | None = None) -> None:
        self._row = np.dtype(
            [
                ("who", np.int64),
                ("number", np.int64),
                ("tokens", np.int32, tokens),
                ("masks", np.int32, tokens),
                ("logprobs", np.float32, tokens),
                ("score", np.float32),
            ]
        )
        size = _HEADER + SLOTS * self._row.itemsize
        self._memory = SharedMemory(name, create=name is None, size=size)
        self.name = self._memory.name
        # read index, write index
        self._indices: Any = np.ndarray(2, np.int64, self._memory.buf)
        self._slots: Any = np.ndarray(SLOTS, self._row, self._memory.buf, _HEADER)

    def put(self, who: int, number: int, arrays: dict[str, Any]) -> bool:
        """Fill the next slot; False if there is none."""
        write = int(self._indices[1])
        if write - int(self._indices[0]) >= SLOTS:
            return False
        slot = self._slots[write % SLOTS]
        slot["who"], slot["number"] = who, number
        for name, array in arrays.items():
            slot[name] = array
        self._indices[1] = write + 1
        return True

    def get(self) -> Any:
        """Return the next slot's row, None if there is none. :meth:`done` gives it back."""
        read = int(self._indices[0])
        return None if read >= int(self._indices[1]) else self._slots[read % SLOTS]

    def done(self) -> None:
        """Give the slot back."""
        self._indices[0] += 1

    def close(self, *, unlink: bool = False) -> None:
        """Let go of the memory."""
        del self._indices, self._slots
        self._memory.close()
        if unlink:
            self._memory.unlink()
