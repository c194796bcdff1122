"""Publish requests that are too large for one message: cut by the sender, joined by the daemon.

The daemon takes small messages only, because gRPC receives a message whole before anybody can look
at it. A part says how large its request is, so the daemon knows what it is in for after the first.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from lanekit.errors import InvalidEvent
from lanekit.slow.limits import MAX_MESSAGE_BYTES, MAX_PARTED_ROWS, PART_BYTES
from lanekit.slow.proto import telemetry_pb2 as pb

PublishRequest: TypeAlias = (
    pb.PublishRunStepsRequest | pb.PublishRunEpisodesRequest | pb.PublishRunEventsRequest
)

_COLUMNS = 4
"""Number of the one field of a publish request whose own fields are repeated."""
_TEXTS_AND_MESSAGES = frozenset({9, 11, 12})
_NUMBERS = frozenset(
    field.number
    for field in pb.StepColumns.DESCRIPTOR.fields
    if field.type not in _TEXTS_AND_MESSAGES
)
"""Columns whose rows are packed into one field."""
_FIELDS_PER_ROW = 128
"""More than a row can have, where a packed number counts by its bytes."""


def cut(kind: type[PublishRequest], run_id: str, data: bytes, largest: int) -> Iterator[bytes]:
    """Yield the messages that carry a serialised request: itself, if it is not too large."""
    if len(data) <= largest:
        yield data
        return
    view = memoryview(data)
    # Beside the part, a message holds the run's id and some numbers.
    step = max(1, min(PART_BYTES, largest - 1024))
    for offset in range(0, len(data), step):
        part = pb.RequestPart(
            request_bytes=len(data), offset=offset, data=bytes(view[offset : offset + step])
        )
        yield kind(run_id=run_id, part=part).SerializeToString()


class Joined:
    """A request that arrives in parts."""

    def __init__(self, first: pb.RequestPart) -> None:
        self.size = first.request_bytes
        if not 0 < self.size <= MAX_MESSAGE_BYTES:
            raise InvalidEvent(
                f"a request in parts takes 1 to {MAX_MESSAGE_BYTES:,} bytes; got {self.size:,}"
            )
        self._data = bytearray()

    @property
    def complete(self) -> bool:
        """Whether all parts are there."""
        return len(self._data) == self.size

    def add(self, part: pb.RequestPart) -> None:
        """Take the next part; InvalidEvent for one that is not."""
        end = part.offset + len(part.data)
        if part.request_bytes != self.size or part.offset != len(self._data):
            raise InvalidEvent(
                f"expected the part at byte {len(self._data):,} of a request of {self.size:,}; got "
                f"the one at {part.offset:,} of {part.request_bytes:,}"
            )
        if not part.data or end > self.size:
            raise InvalidEvent(
                f"a part holds 1 to {self.size - part.offset:,} bytes here; got {len(part.data):,}"
            )
        self._data += part.data

    def content(self) -> bytearray:
        """Return the request, serialised; InvalidEvent if parsing it would fill the memory."""
        left = _count_fields(self._data, 0, len(self._data), MAX_PARTED_ROWS * _FIELDS_PER_ROW)
        if left < 0:
            raise InvalidEvent(
                f"a request in parts has at most {MAX_PARTED_ROWS:,} rows: send more requests, "
                "each with fewer"
            )
        return self._data


def _count_fields(data: bytearray, start: int, end: int, left: int, depth: int = 0) -> int:
    """Return how many fields fewer than `left` there are; negative once there are more.

    Numbers that are packed into one field count by their bytes. What is not protobuf ends the
    count: the parser says what is wrong.
    """
    position = start
    while position < end and left >= 0:
        key, position = _varint(data, position, end)
        wire, field = key & 7, key >> 3
        left -= 1
        if wire == 0:
            _, position = _varint(data, position, end)
        elif wire == 1:
            position += 8
        elif wire == 5:
            position += 4
        elif wire == 2:
            length, position = _varint(data, position, end)
            if depth == 0 and field == _COLUMNS:
                left = _count_fields(data, position, min(position + length, end), left, 1)
            elif depth == 1 and field in _NUMBERS:
                left -= length
            position += length
        else:
            return left
    return left


def _varint(data: bytearray, position: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while position < end and shift < 70:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    return 0, end
