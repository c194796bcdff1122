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

import enum
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn, Self, TypeVar

import numpy as np
import numpy.typing as npt

from lanekit.errors import MalformedMessage

__all__ = ["Message", "StructValue", "decode", "decode_apart", "encode"]

_U16 = struct.Struct("<H")
_U32 = struct.Struct("<I")
_I32 = struct.Struct("<i")

# Parts of a message may be referred to more than once, which is how writers save space. What all
# references together may add up to, as a multiple of the message's size.
_SHARING = 16
_SHARING_FLOOR = 65536
# Offsets are 32 bits wide, and some are signed.
_SIZE_MAX = 2**31 - 1

M = TypeVar("M", bound="Message")


def _wrong(where: str, what: str) -> NoReturn:
    raise MalformedMessage(f"malformed message: {where} {what}")


class _Source:
    """The bytes of a message, read with care."""

    __slots__ = ("_left", "data", "size")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.size = len(data)
        self._left = max(self.size * _SHARING, _SHARING_FLOOR)

    def claim(self, position: int, size: int, alignment: int, where: str) -> None:
        """Check that these bytes are there and aligned, and count them."""
        if position + size > self.size:
            _wrong(where, f"at byte {position} leaves the message, which has {self.size} bytes")
        if position % alignment:
            _wrong(where, f"at byte {position} is not aligned to {alignment} bytes")
        self._left -= size + 8
        if self._left < 0:
            _wrong(where, "refers to the same bytes too often")

    def u16(self, position: int) -> int:
        value: int = _U16.unpack_from(self.data, position)[0]
        return value

    def u32(self, position: int) -> int:
        value: int = _U32.unpack_from(self.data, position)[0]
        return value

    def follow(self, position: int, where: str) -> int:
        """Return where the offset at `position` leads; the offset itself was claimed before."""
        offset = self.u32(position)
        # Offsets count from themselves. Zero would be the offset as its own target.
        if not 0 < offset <= self.size - position:
            _wrong(where, f"has the offset {offset} at byte {position}, which leads nowhere")
        return position + offset

    def vector(self, position: int, element_size: int, alignment: int, where: str) -> int:
        """Follow the offset to a vector and return its length; the elements begin 4 bytes on."""
        start = self.follow(position, where)
        self.claim(start, 4, 4, where)
        length = self.u32(start)
        if length > self.size:  # keeps the product small as well
            _wrong(where, f"claims {length} elements in a message of {self.size} bytes")
        self.claim(start + 4, length * element_size, alignment, where)
        return length


def _align(out: bytearray, alignment: int, ahead: int = 0) -> None:
    """Pad so that what comes `ahead` bytes on is aligned."""
    out.extend(bytes(-(len(out) + ahead) % alignment))


class FieldType:
    """What a field of a table holds: how it is checked, written and read."""

    size = 4  # in the table itself; an offset, unless a subclass says otherwise
    alignment = 4
    default: Any = None

    def accept(self, value: Any, where: str) -> Any:
        """Return the value as it will arrive at the other end, or say what is wrong with it."""
        raise NotImplementedError

    def absent(self, value: Any) -> bool:
        """Whether the value need not be written."""
        return value is None

    def write(self, out: bytearray, at: int, value: Any, vtables: dict[bytes, int]) -> None:
        """Write the value; `at` is its place in the table."""
        _U32.pack_into(out, at, self.append(out, value, vtables) - at)

    def append(self, out: bytearray, value: Any, vtables: dict[bytes, int]) -> int:
        """Append what an offset leads to, and return where it begins."""
        raise NotImplementedError

    def read(self, source: _Source, position: int, where: str) -> Any:
        """Read the value from its place in the table, which was claimed."""
        raise NotImplementedError


# --- values in the table itself -------------------------------------------------------------------


class Number(FieldType):
    """An integer or a float; `code` is its letter in the struct module."""

    def __init__(self, code: str, default: float = 0) -> None:
        self._struct = struct.Struct(f"<{code}")
        self.size = self.alignment = self._struct.size
        self._float = code in "fd"
        self.default = float(default) if self._float else default
        bits = 8 * self.size
        self._low, self._high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        if code.isupper():
            self._low, self._high = (0, 2**bits - 1)

    def accept(self, value: Any, where: str) -> int | float:
        if self._float:
            if isinstance(value, bool | np.bool_) or not isinstance(
                value, int | float | np.integer | np.floating
            ):
                raise TypeError(f"{where} is a number, not {type(value).__name__}")
            try:
                arrived: float = self._struct.unpack(self._struct.pack(value))[0]
            except OverflowError:
                raise ValueError(f"{where} can not hold {value}") from None
            return arrived
        if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
            raise TypeError(f"{where} is an integer, not {type(value).__name__}")
        if not self._low <= value <= self._high:
            raise ValueError(f"{where} must be from {self._low} to {self._high}, not {value}")
        return int(value)

    def absent(self, value: Any) -> bool:
        return bool(value == self.default)

    def write(self, out: bytearray, at: int, value: Any, vtables: dict[bytes, int]) -> None:
        self._struct.pack_into(out, at, value)

    def read(self, source: _Source, position: int, where: str) -> Any:
        return self._struct.unpack_from(source.data, position)[0]


class Truth(Number):
    """True or false, in one byte."""

    def __init__(self, default: bool = False) -> None:
        super().__init__("B")
        self.default = default

    def accept(self, value: Any, where: str) -> bool:
        if not isinstance(value, bool | np.bool_):
            raise TypeError(f"{where} is True or False, not {type(value).__name__}")
        return bool(value)

    def read(self, source: _Source, position: int, where: str) -> bool:
        return bool(super().read(source, position, where))


class Enumerated(Number):
    """A member of an enumeration. A number that is none of them is refused."""

    def __init__(self, code: str, kind: type[enum.IntEnum], default: int = 0) -> None:
        super().__init__(code, default)
        self._kind = kind
        self._members = {int(member): member for member in kind}
        self.default = kind(default)

    def accept(self, value: Any, where: str) -> enum.IntEnum:
        if isinstance(value, int | np.integer) and int(value) in self._members:
            return self._members[int(value)]
        known = ", ".join(member.name for member in self._kind)
        raise ValueError(f"{where} is a {self._kind.__name__} ({known}), not {value!r}")

    def read(self, source: _Source, position: int, where: str) -> enum.IntEnum:
        value = super().read(source, position, where)
        member = self._members.get(value)
        if member is None:
            _wrong(where, f"has the value {value}, which is no {self._kind.__name__}")
        return member


class StructValue:
    """Base of the classes for FlatBuffers structs: a few floats, always all of them."""

    __slots__ = ()
    FORMAT: ClassVar[struct.Struct]

    def __post_init__(self) -> None:
        names: tuple[str, ...] = self.__slots__
        values = [getattr(self, name) for name in names]
        for name, value in zip(names, values, strict=True):
            if isinstance(value, bool | np.bool_) or not isinstance(
                value, int | float | np.integer | np.floating
            ):
                where = f"{type(self).__name__}.{name}"
                raise TypeError(f"{where} is a number, not {type(value).__name__}")
        try:
            arrived = self.FORMAT.unpack(self.FORMAT.pack(*values))
        except OverflowError:
            raise ValueError(f"{type(self).__name__} can not hold {values}") from None
        for name, value in zip(names, arrived, strict=True):
            object.__setattr__(self, name, value)


class Structure(FieldType):
    """A struct, or None."""

    def __init__(self, kind: type[StructValue]) -> None:
        self._kind = kind
        self.size = kind.FORMAT.size

    def accept(self, value: Any, where: str) -> StructValue | None:
        if value is not None and not isinstance(value, self._kind):
            wanted = self._kind.__name__
            raise TypeError(f"{where} is a {wanted} or None, not {type(value).__name__}")
        return value

    def write(self, out: bytearray, at: int, value: Any, vtables: dict[bytes, int]) -> None:
        names: tuple[str, ...] = self._kind.__slots__
        self._kind.FORMAT.pack_into(out, at, *(getattr(value, name) for name in names))

    def read(self, source: _Source, position: int, where: str) -> StructValue:
        return self._kind(*self._kind.FORMAT.unpack_from(source.data, position))


# --- values behind an offset ----------------------------------------------------------------------


class Text(FieldType):
    """A string."""

    default = ""

    def accept(self, value: Any, where: str) -> str:
        if not isinstance(value, str):
            raise TypeError(f"{where} is a str, not {type(value).__name__}")
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"{where} can not be written as UTF-8: {error}") from None
        return str(value)

    def absent(self, value: Any) -> bool:
        return not value

    def append(self, out: bytearray, value: str, vtables: dict[bytes, int]) -> int:
        encoded = value.encode()
        _align(out, 4)
        start = len(out)
        out += _U32.pack(len(encoded))
        out += encoded
        out.append(0)
        return start

    def read(self, source: _Source, position: int, where: str) -> str:
        start = source.follow(position, where)
        source.claim(start, 4, 4, where)
        length = source.u32(start)
        source.claim(start + 4, length + 1, 1, where)
        end = start + 4 + length
        if source.data[end] != 0:
            _wrong(where, "is a string without a zero at its end")
        try:
            return source.data[start + 4 : end].decode()
        except UnicodeDecodeError as error:
            raise MalformedMessage(f"malformed message: {where} is not UTF-8: {error}") from None


class Blob(FieldType):
    """Bytes."""

    default = b""

    def accept(self, value: Any, where: str) -> bytes:
        try:
            return value if type(value) is bytes else bytes(memoryview(value))
        except TypeError:
            name = type(value).__name__
            raise TypeError(f"{where} is bytes or a buffer of them, not {name}") from None

    def absent(self, value: Any) -> bool:
        return not value

    def append(self, out: bytearray, value: bytes, vtables: dict[bytes, int]) -> int:
        _align(out, 4)
        start = len(out)
        out += _U32.pack(len(value))
        out += value
        return start

    def read(self, source: _Source, position: int, where: str) -> bytes:
        length = source.vector(position, 1, 1, where)
        start = source.follow(position, where) + 4
        return source.data[start : start + length]


class Array(FieldType):
    """A list of numbers, as a numpy array of one dimension."""

    def __init__(self, code: str) -> None:
        self._dtype = np.dtype(f"<{code}")
        self.default = np.zeros(0, self._dtype)
        self.default.setflags(write=False)

    def accept(self, value: Any, where: str) -> npt.NDArray[Any]:
        found = np.asarray(value)
        if found.ndim != 1:
            raise ValueError(f"{where} has one dimension, not {found.ndim}")
        if found.size and found.dtype.kind not in ("iuf" if self._dtype.kind == "f" else "iu"):
            raise TypeError(f"{where} holds {self._dtype.name}, not {found.dtype}")
        if self._dtype.kind in "iu" and found.size:
            limits = np.iinfo(self._dtype)
            if int(found.min()) < limits.min or int(found.max()) > limits.max:
                raise ValueError(f"{where} holds numbers from {limits.min} to {limits.max}")
        # A copy: what is sent must not change because its source does.
        with np.errstate(over="ignore"):
            taken = np.array(found, self._dtype)
        if self._dtype.kind == "f" and np.isinf(taken).sum() != np.isinf(found).sum():
            raise ValueError(
                f"{where} holds {self._dtype.name}, which some numbers are too large for"
            )
        taken.setflags(write=False)
        return taken

    def absent(self, value: Any) -> bool:
        return len(value) == 0

    def append(self, out: bytearray, value: npt.NDArray[Any], vtables: dict[bytes, int]) -> int:
        _align(out, 4)
        _align(out, self._dtype.itemsize, ahead=4)
        start = len(out)
        out += _U32.pack(len(value))
        out += value.tobytes()
        return start

    def read(self, source: _Source, position: int, where: str) -> npt.NDArray[Any]:
        size = self._dtype.itemsize
        length = source.vector(position, size, size, where)
        start = source.follow(position, where) + 4
        return np.frombuffer(source.data, self._dtype, length, start)


class _Offsets(FieldType):
    """A vector of offsets to values of another type."""

    default = ()

    def __init__(self, element: FieldType) -> None:
        self._element = element

    def accept(self, value: Any, where: str) -> tuple[Any, ...]:
        if isinstance(value, str | bytes) or not isinstance(value, Iterable):
            raise TypeError(f"{where} is a list, not {type(value).__name__}")
        return tuple(self._element.accept(item, f"{where}[{i}]") for i, item in enumerate(value))

    def absent(self, value: Any) -> bool:
        return not value

    def append(self, out: bytearray, value: Sequence[Any], vtables: dict[bytes, int]) -> int:
        _align(out, 4)
        start = len(out)
        out += _U32.pack(len(value))
        out += bytes(4 * len(value))
        for place, item in enumerate(value, 1):
            self._element.write(out, start + 4 * place, item, vtables)
        return start

    def read(self, source: _Source, position: int, where: str) -> tuple[Any, ...]:
        length = source.vector(position, 4, 4, where)
        start = source.follow(position, where) + 4
        read = self._element.read
        return tuple(read(source, at, where) for at in range(start, start + 4 * length, 4))


class Texts(_Offsets):
    """A list of strings."""

    def __init__(self) -> None:
        super().__init__(Text())


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

    def read(self, source: _Source, position: int, where: str) -> Message:
        return _read_table(source, source.follow(position, where), self._kind)


class _Element(SubTable):
    """A message in a list: never None."""

    def accept(self, value: Any, where: str) -> Message:
        accepted = super().accept(value, where)
        if accepted is None:
            raise TypeError(f"{where} is a {self._kind.__name__}, not None")
        return accepted


class Tables(_Offsets):
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
    _align(out, 4)
    start = len(out)
    for table in (start, start + (4 + 2 * slots + 3) // 4 * 4):
        vtable = bytearray(4 + 2 * slots)
        at = table + 4
        for number, kind, _ in present:
            at += -at % kind.alignment
            _U16.pack_into(vtable, 4 + 2 * number, at - table)
            at += kind.size
        _U16.pack_into(vtable, 0, len(vtable))
        _U16.pack_into(vtable, 2, at - table)
        known = vtables.get(bytes(vtable))
        if known is not None:
            break
    else:
        known = vtables[bytes(vtable)] = start
        out += vtable
    out += bytes(at - len(out))
    _I32.pack_into(out, table, table - known)
    for number, kind, value in present:
        kind.write(out, table + _U16.unpack_from(vtable, 4 + 2 * number)[0], value, vtables)
    return table


_BYTE = Number("B")


def _width(entry: tuple[int, FieldType, Any]) -> int:
    return entry[1].alignment


class _Table:
    """A table in a message, its vtable checked."""

    __slots__ = ("_position", "_size", "_source", "_vtable", "_vtable_size")

    def __init__(self, source: _Source, position: int, name: str) -> None:
        self._source = source
        self._position = position
        source.claim(position, 4, 4, name)
        self._vtable = position - _I32.unpack_from(source.data, position)[0]
        where = f"the vtable of {name}"
        if self._vtable < 0:
            _wrong(where, f"is at byte {self._vtable}")
        source.claim(self._vtable, 4, 2, where)
        self._vtable_size, self._size = source.u16(self._vtable), source.u16(self._vtable + 2)
        if self._vtable_size < 4 or self._vtable_size % 2 or self._size < 4:
            _wrong(where, f"has the sizes {self._vtable_size} and {self._size}")
        source.claim(self._vtable, self._vtable_size, 2, where)
        source.claim(position, self._size, 4, name)

    def find(self, number: int, kind: FieldType, where: str) -> int:
        """Return where a field is, 0 if it is not there."""
        entry = 4 + 2 * number
        offset = self._source.u16(self._vtable + entry) if entry < self._vtable_size else 0
        if offset == 0:
            return 0
        if offset < 4 or offset + kind.size > self._size:
            _wrong(where, f"is at byte {offset} of a table of {self._size} bytes")
        position = self._position + offset
        if position % kind.alignment:
            _wrong(where, f"at byte {position} is not aligned to {kind.alignment} bytes")
        return position


def _read_field(source: _Source, table: _Table, field: Field, owner: str) -> Any:
    where = f"{owner}.{field.name}"
    position = table.find(field.number, field.type, where)
    return field.type.read(source, position, where) if position else field.type.default


def _read_table(source: _Source, position: int, kind: type[M]) -> M:
    table = _Table(source, position, kind.__name__)
    return kind._from_fields([_read_field(source, table, f, kind.__name__) for f in kind.FIELDS])


def _read_union(source: _Source, table: _Table, field: Field, where: str) -> Message | None:
    assert isinstance(field.type, UnionOf)
    tag = table.find(field.number - 1, _BYTE, where)
    number = source.data[tag] if tag else 0
    position = table.find(field.number, field.type, where)
    if number == 0 and position == 0:
        return None
    if number == 0 or position == 0:
        _wrong(where, "has a type and no value, or a value and no type")
    kind = field.type.kinds.get(number)
    if kind is None:
        _wrong(where, f"has the type {number}, which this lanekit does not know")
    return _read_table(source, source.follow(position, where), kind)


# --- whole messages -------------------------------------------------------------------------------


def encode(message: Message, identifier: bytes) -> bytes:
    """Return a message as a FlatBuffer with this file identifier."""
    out = bytearray(4) + identifier
    root = _append_table(out, message, {})
    _U32.pack_into(out, 0, root)
    _align(out, 4)
    return bytes(out)


def _root(data: bytes, name: str, identifier: bytes) -> tuple[_Source, int]:
    source = _Source(data)
    if source.size > _SIZE_MAX:
        _wrong(name, f"has {source.size} bytes, more than an offset can span")
    source.claim(0, 8, 1, name)
    if data[4:8] != identifier:
        _wrong(name, f"has the file identifier {data[4:8]!r} and not {identifier!r}")
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
