"""The bytes of a FlatBuffers message: read with care, padded as the format wants it."""

from __future__ import annotations

import struct
from typing import NoReturn

from lanekit.errors import MalformedMessage

U16 = struct.Struct("<H")
U32 = struct.Struct("<I")
I32 = struct.Struct("<i")

# Parts of a message may be referred to more than once, which is how writers save space. What all
# references together may add up to, as a multiple of the message's size.
_SHARING = 16
_SHARING_FLOOR = 65536
# Offsets are 32 bits wide, and some are signed.
SIZE_MAX = 2**31 - 1


def wrong(where: str, what: str) -> NoReturn:
    raise MalformedMessage(f"malformed message: {where} {what}")


class Source:
    """The bytes of a message, read with care."""

    __slots__ = ("_left", "data", "size")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.size = len(data)
        self._left = max(self.size * _SHARING, _SHARING_FLOOR)

    def claim(self, position: int, size: int, alignment: int, where: str) -> None:
        """Check that these bytes are there and aligned, and count them."""
        if position + size > self.size:
            wrong(where, f"at byte {position} leaves the message, which has {self.size} bytes")
        if position % alignment:
            wrong(where, f"at byte {position} is not aligned to {alignment} bytes")
        self._left -= size + 8
        if self._left < 0:
            wrong(where, "refers to the same bytes too often")

    def u16(self, position: int) -> int:
        value: int = U16.unpack_from(self.data, position)[0]
        return value

    def u32(self, position: int) -> int:
        value: int = U32.unpack_from(self.data, position)[0]
        return value

    def follow(self, position: int, where: str) -> int:
        """Return where the offset at `position` leads; the offset itself was claimed before."""
        offset = self.u32(position)
        # Offsets count from themselves. Zero would be the offset as its own target.
        if not 0 < offset <= self.size - position:
            wrong(where, f"has the offset {offset} at byte {position}, which leads nowhere")
        return position + offset

    def vector(self, position: int, element_size: int, alignment: int, where: str) -> int:
        """Follow the offset to a vector and return its length; the elements begin 4 bytes on."""
        start = self.follow(position, where)
        self.claim(start, 4, 4, where)
        length = self.u32(start)
        if length > self.size:  # keeps the product small as well
            wrong(where, f"claims {length} elements in a message of {self.size} bytes")
        self.claim(start + 4, length * element_size, alignment, where)
        return length


def align(out: bytearray, alignment: int, ahead: int = 0) -> None:
    """Pad so that what comes `ahead` bytes on is aligned."""
    out.extend(bytes(-(len(out) + ahead) % alignment))
