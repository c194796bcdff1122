"""FlatBuffers for message classes: writing them, and reading what nobody vouches for.

A message class lists its fields in ``FIELDS``; everything here follows from that list. FlatBuffers'
own Python runtime can write, but it reads without checks: an offset in a hostile or broken message
would lead it anywhere. :func:`decode` checks each step before it takes it. No access leaves the
message's own bytes, every offset leads forward, so there is no way round in a circle, and a message
that refers to the same bytes over and over is given up on. Whatever is wrong is a
:class:`~lanekit.errors.MalformedMessage` that says where.

The bytes are those of the FlatBuffers format: ``flatc`` and its runtimes read and write the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeVar

import numpy as np

from lanekit.command._field_types import (
    Array,
    Blob,
    Enumerated,
    FieldType,
    Number,
    Offsets,
    Structure,
    StructValue,
    Text,
    Texts,
    Truth,
)
from lanekit.command._message_bytes import I32, SIZE_MAX, U16, U32, Source, align, wrong

__all__ = [
    "Array",
    "Blob",
    "Enumerated",
    "Message",
    "Number",
    "StructValue",
    "Structure",
    "Text",
    "Texts",
    "Truth",
    "decode",
    "decode_apart",
    "encode",
]

M = TypeVar("M", bound="Message")


class SubTable(FieldType):
    """Another message inside this one, or None."""

    def __init__(self, kind: type[Message]) -> None:
        self._kind = kind

    def accept(self, value: Any, where: str) -> Message | None:
        if value is not None and type(value) is not self._kind:
            wanted = self._kind.__name__
            raise TypeError(f"{where} is a {wanted} or None, not {type(value).__name__}")
        return value

    def append(self, out: bytearray, value: Message, vtables: dict[bytes, int]) -> int:
        return _append_table(out, value, vtables)

    def read(self, source: Source, position: int, where: str) -> Message:
        return _read_table(source, source.follow(position, where), self._kind)


class _Element(SubTable):
    """A message in a list: never None."""

    def accept(self, value: Any, where: str) -> Message:
        accepted = super().accept(value, where)
        if accepted is None:
            raise TypeError(f"{where} is a {self._kind.__name__}, not None")
        return accepted


class Tables(Offsets):
    """A list of messages."""

    def __init__(self, kind: type[Message]) -> None:
        super().__init__(_Element(kind))


class UnionOf(FieldType):
    """One of several messages, or None. Takes two fields: which one, in a byte, and its offset."""

    def __init__(self, kinds: dict[int, type[Message]]) -> None:
        self.kinds = kinds
        self.numbers = {kind: number for number, kind in kinds.items()}

    def accept(self, value: Any, where: str) -> Message | None:
        if value is None or (isinstance(value, Message) and type(value) in self.numbers):
            return value
        raise TypeError(f"{where} is a message of the schema, not {type(value).__name__}")

    def append(self, out: bytearray, value: Message, vtables: dict[bytes, int]) -> int:
        return _append_table(out, value, vtables)


# --- tables ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a table: its name, its number in the schema, what it holds."""

    name: str
    number: int
    type: FieldType


class Message:
    """Base of the message classes.

    Values are checked when a message is made, and are then what they will be at the other end:
    floats rounded to their width, lists as arrays or tuples. Messages do not change.
    """

    __slots__ = ()
    FIELDS: ClassVar[tuple[Field, ...]] = ()

    def __post_init__(self) -> None:
        name = type(self).__name__
        for field in self.FIELDS:
            value = getattr(self, field.name)
            accepted = field.type.accept(value, f"{name}.{field.name}")
            object.__setattr__(self, field.name, accepted)

    @classmethod
    def _from_fields(cls, values: Sequence[Any]) -> Self:
        """Make one of values that need no further check."""
        made = object.__new__(cls)
        for field, value in zip(cls.FIELDS, values, strict=True):
            object.__setattr__(made, field.name, value)
        return made

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(
            _equal(getattr(self, field.name), getattr(other, field.name)) for field in self.FIELDS
        )

    __hash__ = None  # type: ignore[assignment]  # arrays have none


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray):
        return np.array_equal(one, other)
    return bool(one == other)


def _append_table(out: bytearray, message: Message, vtables: dict[bytes, int]) -> int:
    """Append a table, its vtable if there is no such one yet, and what its offsets lead to."""
    present: list[tuple[int, FieldType, Any]] = []
    for field in message.FIELDS:
        kind, value = field.type, getattr(message, field.name)
        if kind.absent(value):
            continue
        if isinstance(kind, UnionOf):
            present.append((field.number - 1, _BYTE, kind.numbers[type(value)]))
        present.append((field.number, kind, value))
    present.sort(key=_width, reverse=True)  # the widest first: then none needs padding in between
    slots = 1 + max((number for number, _, _ in present), default=-1)
    # Where the fields are depends on where the table begins, and that on whether its vtable is
    # new: try without one first.
    align(out, 4)
    start = len(out)
    for table in (start, start + (4 + 2 * slots + 3) // 4 * 4):
        vtable = bytearray(4 + 2 * slots)
        at = table + 4
        for number, kind, _ in present:
            at += -at % kind.alignment
            U16.pack_into(vtable, 4 + 2 * number, at - table)
            at += kind.size
        U16.pack_into(vtable, 0, len(vtable))
        U16.pack_into(vtable, 2, at - table)
        known = vtables.get(bytes(vtable))
        if known is not None:
            break
    else:
        known = vtables[bytes(vtable)] = start
        out += vtable
    out += bytes(at - len(out))
    I32.pack_into(out, table, table - known)
    for number, kind, value in present:
        kind.write(out, table + U16.unpack_from(vtable, 4 + 2 * number)[0], value, vtables)
    return table


_BYTE = Number("B")


def _width(entry: tuple[int, FieldType, Any]) -> int:
    return entry[1].alignment


class _Table:
    """A table in a message, its vtable checked."""

    __slots__ = ("_position", "_size", "_source", "_vtable", "_vtable_size")

    def __init__(self, source: Source, position: int, name: str) -> None:
        self._source = source
        self._position = position
        source.claim(position, 4, 4, name)
        self._vtable = position - I32.unpack_from(source.data, position)[0]
        where = f"the vtable of {name}"
        if self._vtable < 0:
            wrong(where, f"is at byte {self._vtable}")
        source.claim(self._vtable, 4, 2, where)
        self._vtable_size, self._size = source.u16(self._vtable), source.u16(self._vtable + 2)
        if self._vtable_size < 4 or self._vtable_size % 2 or self._size < 4:
            wrong(where, f"has the sizes {self._vtable_size} and {self._size}")
        source.claim(self._vtable, self._vtable_size, 2, where)
        source.claim(position, self._size, 4, name)

    def find(self, number: int, kind: FieldType, where: str) -> int:
        """Return where a field is, 0 if it is not there."""
        entry = 4 + 2 * number
        offset = self._source.u16(self._vtable + entry) if entry < self._vtable_size else 0
        if offset == 0:
            return 0
        if offset < 4 or offset + kind.size > self._size:
            wrong(where, f"is at byte {offset} of a table of {self._size} bytes")
        position = self._position + offset
        if position % kind.alignment:
            wrong(where, f"at byte {position} is not aligned to {kind.alignment} bytes")
        return position


def _read_field(source: Source, table: _Table, field: Field, owner: str) -> Any:
    where = f"{owner}.{field.name}"
    position = table.find(field.number, field.type, where)
    return field.type.read(source, position, where) if position else field.type.default


def _read_table(source: Source, position: int, kind: type[M]) -> M:
    table = _Table(source, position, kind.__name__)
    return kind._from_fields([_read_field(source, table, f, kind.__name__) for f in kind.FIELDS])


def _read_union(source: Source, table: _Table, field: Field, where: str) -> Message | None:
    assert isinstance(field.type, UnionOf)
    tag = table.find(field.number - 1, _BYTE, where)
    number = source.data[tag] if tag else 0
    position = table.find(field.number, field.type, where)
    if number == 0 and position == 0:
        return None
    if number == 0 or position == 0:
        wrong(where, "has a type and no value, or a value and no type")
    kind = field.type.kinds.get(number)
    if kind is None:
        wrong(where, f"has the type {number}, which this lanekit does not know")
    return _read_table(source, source.follow(position, where), kind)


# --- whole messages -------------------------------------------------------------------------------


def encode(message: Message, identifier: bytes) -> bytes:
    """Return a message as a FlatBuffer with this file identifier."""
    out = bytearray(4) + identifier
    root = _append_table(out, message, {})
    U32.pack_into(out, 0, root)
    align(out, 4)
    return bytes(out)


def _root(data: bytes, name: str, identifier: bytes) -> tuple[Source, int]:
    source = Source(data)
    if source.size > SIZE_MAX:
        wrong(name, f"has {source.size} bytes, more than an offset can span")
    source.claim(0, 8, 1, name)
    if data[4:8] != identifier:
        wrong(name, f"has the file identifier {data[4:8]!r} and not {identifier!r}")
    return source, source.follow(0, name)


def decode(data: bytes, kind: type[M], identifier: bytes) -> M:
    """Read a message that may be anything."""
    return _read_table(*_root(data, kind.__name__, identifier), kind)


def decode_apart(
    data: bytes, kind: type[M], identifier: bytes
) -> tuple[M, Callable[[], Message | None]]:
    """The same for a message with a union: the rest of it, and a function that reads the union.

    So that a bad payload does not hide who sent it.
    """
    source, position = _root(data, kind.__name__, identifier)
    table = _Table(source, position, kind.__name__)
    values: list[Any] = []
    unions: list[Field] = []
    for field in kind.FIELDS:
        if isinstance(field.type, UnionOf):
            unions.append(field)
            values.append(None)
        else:
            values.append(_read_field(source, table, field, kind.__name__))
    (union,) = unions
    where = f"{kind.__name__}.{union.name}"
    return kind._from_fields(values), lambda: _read_union(source, table, union, where)
