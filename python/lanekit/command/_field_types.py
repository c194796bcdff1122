"""What a field of a FlatBuffers table may hold, other tables aside."""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from lanekit.command._message_bytes import U32, Source, align, wrong
from lanekit.errors import MalformedMessage


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
        U32.pack_into(out, at, self.append(out, value, vtables) - at)

    def append(self, out: bytearray, value: Any, vtables: dict[bytes, int]) -> int:
        """Append what an offset leads to, and return where it begins."""
        raise NotImplementedError

    def read(self, source: Source, position: int, where: str) -> Any:
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

    def read(self, source: Source, position: int, where: str) -> Any:
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

    def read(self, source: Source, position: int, where: str) -> bool:
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

    def read(self, source: Source, position: int, where: str) -> enum.IntEnum:
        value = super().read(source, position, where)
        member = self._members.get(value)
        if member is None:
            wrong(where, f"has the value {value}, which is no {self._kind.__name__}")
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

    def read(self, source: Source, position: int, where: str) -> StructValue:
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
        align(out, 4)
        start = len(out)
        out += U32.pack(len(encoded))
        out += encoded
        out.append(0)
        return start

    def read(self, source: Source, position: int, where: str) -> str:
        start = source.follow(position, where)
        source.claim(start, 4, 4, where)
        length = source.u32(start)
        source.claim(start + 4, length + 1, 1, where)
        end = start + 4 + length
        if source.data[end] != 0:
            wrong(where, "is a string without a zero at its end")
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
        align(out, 4)
        start = len(out)
        out += U32.pack(len(value))
        out += value
        return start

    def read(self, source: Source, position: int, where: str) -> bytes:
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
        align(out, 4)
        align(out, self._dtype.itemsize, ahead=4)
        start = len(out)
        out += U32.pack(len(value))
        out += value.tobytes()
        return start

    def read(self, source: Source, position: int, where: str) -> npt.NDArray[Any]:
        size = self._dtype.itemsize
        length = source.vector(position, size, size, where)
        start = source.follow(position, where) + 4
        return np.frombuffer(source.data, self._dtype, length, start)


class Offsets(FieldType):
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
        align(out, 4)
        start = len(out)
        out += U32.pack(len(value))
        out += bytes(4 * len(value))
        for place, item in enumerate(value, 1):
            self._element.write(out, start + 4 * place, item, vtables)
        return start

    def read(self, source: Source, position: int, where: str) -> tuple[Any, ...]:
        length = source.vector(position, 4, 4, where)
        start = source.follow(position, where) + 4
        read = self._element.read
        return tuple(read(source, at, where) for at in range(start, start + 4 * length, 4))


class Texts(Offsets):
    """A list of strings."""

    def __init__(self) -> None:
        super().__init__(Text())
