"""A picture as terminal cells, and the escape codes that paint those that changed.

A cell is the character ``▀`` whose foreground colours its upper and whose background its lower
half, so a terminal of 80 columns and 24 rows is a picture of 80 x 48 pixels. Without colour a cell
is a character whose weight matches the brightness.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lanekit.viewer.terminal.pixels import Image
from lanekit.viewer.terminal.stream import Depth

Cells = NDArray[np.uint8]
Mask = NDArray[np.bool_]

_HALF_BLOCK = "▀".encode()
_WEIGHTS = np.frombuffer(b" .:-=+*#%@", np.uint8)
_LUMINANCE = np.array((0.299, 0.587, 0.114), np.float32)
_CUBE_LEVELS = np.array((0, 95, 135, 175, 215, 255), np.int32)


def to_cells(pixels: Image, depth: Depth) -> Cells:
    """Pair the pixel rows into cells: (rows, columns, numbers of upper and lower colour).

    Without colour a cell is one number, that of its character.
    """
    upper, lower = pixels[0::2], pixels[1::2]
    if depth is Depth.MONO:
        light = (upper @ _LUMINANCE + lower @ _LUMINANCE) / 2
        weight = np.rint(light * ((len(_WEIGHTS) - 1) / 255)).astype(np.intp)
        return _WEIGHTS[weight][:, :, None]
    if depth is Depth.INDEXED:
        upper, lower = to_indexed(upper), to_indexed(lower)
    return np.concatenate((upper, lower), axis=2)


def to_indexed(pixels: Image) -> Cells:
    """Return the nearest colours of the 256-colour palette: its 6x6x6 cube or its 24 greys."""
    wanted = pixels.astype(np.int32)
    steps = np.searchsorted((_CUBE_LEVELS[1:] + _CUBE_LEVELS[:-1]) / 2, wanted)
    cube_error = ((_CUBE_LEVELS[steps] - wanted) ** 2).sum(axis=2)
    grey = np.clip(np.rint((wanted.mean(axis=2) - 8) / 10), 0, 23).astype(np.int32)
    grey_error = (((8 + 10 * grey)[:, :, None] - wanted) ** 2).sum(axis=2)
    cube = 16 + steps @ np.array((36, 6, 1))
    index: Cells = np.where(grey_error < cube_error, 232 + grey, cube).astype(np.uint8)
    return index[:, :, None]


def encode(cells: Cells, previous: Cells | None, depth: Depth, *, top: int, left: int) -> bytes:
    """Return what to write so that the picture at cell (``top``, ``left``) shows ``cells``.

    Only cells that differ from ``previous``, which is as large, are sent, and a colour only where
    it changes.
    """
    if previous is None:
        changed = np.ones(cells.shape[:2], bool)
    else:
        changed = (cells != previous).any(axis=2)
    row, column = np.nonzero(changed)
    if not row.size:
        return b""
    sent = cells[row, column]
    # A cell right after its left neighbour is where the cursor already stands.
    jump = np.ones(row.size, bool)
    jump[1:] = (row[1:] != row[:-1]) | (column[1:] != column[:-1] + 1)

    out = _TextPerCell(row.size)
    out.literal(b"\x1b[", jump)
    out.number(row + top, jump)
    out.literal(b";", jump)
    out.number(column + left, jump)
    out.literal(b"H", jump)
    if depth is Depth.MONO:
        out.characters(sent)
        return out.joined()
    kind = b"8;2" if depth is Depth.TRUE_COLOUR else b"8;5"
    for plane, colour in ((b"\x1b[3", sent[:, : depth.value]), (b"\x1b[4", sent[:, depth.value :])):
        fresh = np.ones(row.size, bool)
        fresh[1:] = (colour[1:] != colour[:-1]).any(axis=1)
        out.literal(plane + kind, fresh)
        for component in colour.T:
            out.literal(b";", fresh)
            out.number(component, fresh)
        out.literal(b"m", fresh)
    out.characters(np.frombuffer(_HALF_BLOCK, np.uint8))
    return out.joined() + b"\x1b[0m"


_NUMBERS = np.arange(1000)[:, None]
_POWERS = np.array((100, 10, 1))
_DIGITS = (_NUMBERS // _POWERS % 10 + ord("0")).astype(np.uint8)
_SIGNIFICANT = (_NUMBERS >= _POWERS) | (_POWERS == 1)


class _TextPerCell:
    """Lays out the text of all cells at once: a matrix of bytes, and a mask of those to keep.

    A row is a cell, so there is no loop over cells: each call appends some columns.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._text: list[Cells] = []
        self._keep: list[Mask] = []

    def literal(self, text: bytes, where: Mask) -> None:
        """Append the same text to each cell that ``where`` selects."""
        self._append(np.frombuffer(text, np.uint8), where[:, None])

    def number(self, values: NDArray[np.integer], where: Mask) -> None:
        """Append a number below 1000 to each cell that ``where`` selects, in decimal."""
        self._append(_DIGITS[values], _SIGNIFICANT[values] & where[:, None])

    def characters(self, text: Cells) -> None:
        """Append bytes to every cell: one row for each, or one for all of them."""
        self._append(text, np.ones((1, 1), bool))

    def joined(self) -> bytes:
        """Return the kept bytes, cell after cell."""
        return np.hstack(self._text)[np.hstack(self._keep)].tobytes()

    def _append(self, text: Cells, keep: Mask) -> None:
        shape = (self._count, text.shape[-1])
        self._text.append(np.broadcast_to(text, shape))
        self._keep.append(np.broadcast_to(keep, shape))
