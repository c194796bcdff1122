"""Atari games (ale-py): the screen as the console has it, a number for the colour of each pixel.

An emulator that is given a state does not draw it before its next frame, so the state of the
machine is of no use here. Its screen is: a third of the picture's bytes, and taken twenty times as
fast as the picture, because the colours are looked up by the process that draws. Which colours
these are is learnt from the emulator's own pictures, whenever a number is met for the first time.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.uint8]


class Colours:
    """What the numbers on a game's screen look like, as far as they have been seen."""

    def __init__(self) -> None:
        self.table = np.zeros((256, 3), np.uint8)
        self._known = b""

    def cover(self, screen: Numbers, emulator: Any) -> None:
        """Learn the colours of a screen's numbers that are new; mostly there are none."""
        if not screen.tobytes().translate(None, self._known):
            return
        picture = emulator.getScreenRGB()
        numbers, places = np.unique(screen, return_index=True)
        self.table[numbers] = picture.reshape(-1, 3)[places]
        if not np.array_equal(self.table.take(screen, axis=0), picture):
            raise ValueError("a number on the screen has more than one colour")
        self._known = bytes({*self._known, *numbers.tolist()})


class Screen:
    """Takes the emulator's place in a copy, whose own ``render()`` then returns this screen."""

    def __init__(self, numbers: Numbers, table: Numbers) -> None:
        self._numbers = numbers
        self._table = table

    def getScreenRGB(self) -> Numbers:  # noqa: N802
        """Return the picture."""
        return self._table.take(self._numbers, axis=0)


class AtariScreen:
    """Takes a game's screen, and shows it on a copy."""

    def get_state(self, env: Any) -> tuple[Numbers, Numbers]:
        """Return the screen and its colours."""
        screen = env.ale.getScreen()
        colours = _colours.setdefault(env, Colours())
        colours.cover(screen, env.ale)
        return screen, colours.table

    def set_state(self, env: Any, state: tuple[Numbers, Numbers]) -> None:
        """Put the screen into the copy."""
        screen, table = state
        # What is looked up where: a table of another shape would make a picture of any size.
        if screen.dtype != np.uint8 or screen.ndim != 2:
            raise ValueError(
                f"a screen is uint8 in two dimensions, not {screen.dtype} {screen.shape}"
            )
        if table.dtype != np.uint8 or table.shape != (256, 3):
            raise ValueError(f"colours are uint8 (256, 3), not {table.dtype} {table.shape}")
        env.ale = Screen(screen, table)


_colours: WeakKeyDictionary[Any, Colours] = WeakKeyDictionary()
ATARI = AtariScreen()
