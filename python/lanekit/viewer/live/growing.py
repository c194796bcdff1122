"""Arrays that grow at the end."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

Scalar = TypeVar("Scalar", bound=np.generic)


class GrowingArray(Generic[Scalar]):
    """Values one after the other; adding some costs as much as they are, on average."""

    def __init__(self, dtype: type[Scalar]) -> None:
        self._room: NDArray[Scalar] = np.empty(256, dtype)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    @property
    def values(self) -> NDArray[Scalar]:
        """All of them, as a view that is good until the next ones come."""
        return self._room[: self._size]

    def extend(self, values: Any) -> None:
        """Add some."""
        size = self._size + len(values)
        if size > len(self._room):
            room: NDArray[Scalar] = np.empty(max(size, 2 * len(self._room)), self._room.dtype)
            room[: self._size] = self.values
            self._room = room
        self._room[self._size : size] = values
        self._size = size
