"""An environment's state as bytes, in a form that can be decoded without running anything.

A state is made of None, bool, int, float, str, bytes, NumPy arrays and scalars (booleans, numbers,
fixed-length strings), and tuples, lists and dicts of these. Each value is one tag byte and what
belongs to it, little endian::

    N                                       None
    T F                                     True, False
    i  u8 size, signed integer              int
    d  f64                                  float
    s  u32 size, UTF-8                      str
    b  u32 size, bytes                      bytes
    a  u8 size, dtype, u8 ndim, u32 * ndim shape, elements in C order       numpy.ndarray
    g  u8 size, dtype, element              NumPy scalar
    t  u32 count, values                    tuple
    l  u32 count, values                    list
    m  u32 count, pairs of key and value    dict; a key is str or int

The bytes arrive through shared memory, where anybody may have written them. So nothing is taken on
trust: each size is compared with what is left of the message before it is used, data types are
looked up in a table and not given to NumPy to parse, and the number of values and their nesting are
bounded. Whatever is wrong is a :class:`ValueError`.
"""

from __future__ import annotations

import math
import re
import struct
from functools import lru_cache
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

MAX_BYTES = 64 << 20
"""The largest state, encoded."""
MAX_VALUES = 1 << 16
"""The most values that a state has, an array counting as one."""
MAX_DEPTH = 16
"""How deep tuples, lists and dicts are nested."""
MAX_KEYS = 1024
"""The most keys of a dict: so few that even keys made to collide take no time."""
MAX_KEY = 256
"""The longest key of a dict, in bytes as encoded."""

_MAX_DIMENSIONS = 32
_MAX_INTEGER = 64  # bytes
_MAX_CHARACTERS = 4096  # of one string of an array
_LAST_CODE_POINT = 0x10FFFF

_COUNT = struct.Struct("<I")
_FLOAT = struct.Struct("<d")

_NUMBERS = [np.dtype(char) for char in "?bhilqBHILQefdgFDG"]
_DTYPES = {
    each.str: np.dtype(each.str) for dtype in _NUMBERS for each in (dtype, dtype.newbyteorder())
}
_STRINGS = re.compile(r"(\|S|[<>]U)([1-9][0-9]{0,3})")
_LONGEST_DTYPE = 16  # characters

_ALLOWED = (
    "a state is made of None, bool, int, float, str, bytes, NumPy arrays and scalars of booleans, "
    "numbers or strings, and tuples, lists and dicts of these"
)


def encode_state(state: Any) -> bytes:
    """Return a state as bytes.

    Raises :class:`TypeError` for what has no form here, :class:`ValueError` for what is too large.
    """
    encoder = _Encoder()
    encoder.put(state)
    encoded = b"".join(encoder.parts)
    if len(encoded) > MAX_BYTES:
        _refuse_size(f"{MAX_BYTES} bytes")
    return encoded


def decode_state(data: bytes) -> Any:
    """Return the state that `data` holds; its arrays are read-only views of `data`.

    Raises :class:`ValueError` if `data` is not a state, whatever its bytes are.
    """
    if len(data) > MAX_BYTES:
        raise ValueError(f"it has {len(data)} bytes; a state has at most {MAX_BYTES}")
    decoder = _Decoder(data)
    state = decoder.value(0)
    if decoder.at != len(data):
        raise ValueError(f"{len(data) - decoder.at} bytes follow the state's last value")
    return state


# --- encoding -------------------------------------------------------------------------------------


class _Encoder:
    """The parts of a message, as far as they are known."""

    __slots__ = ("_values", "parts")

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self._values = 1

    def put(self, value: Any, depth: int = 0) -> None:
        """Append a value; exact types only, since a subclass would come back as something else."""
        kind = type(value)
        append = self.parts.append
        if kind is np.ndarray:
            append(_array_head(value.dtype, value.shape))
            append(value.tobytes())
        elif value is None:
            append(b"N")
        elif kind is float:
            append(b"d" + _FLOAT.pack(value))
        elif kind is bool:
            append(b"T" if value else b"F")
        elif kind is int:
            append(_integer(value))
        elif kind is str:
            text = value.encode()
            append(b"s" + _size(len(text)) + text)
        elif kind is bytes or kind is bytearray or kind is memoryview:
            append(b"b" + _size(value.nbytes if kind is memoryview else len(value)))
            append(bytes(value))
        elif kind is tuple or kind is list:
            self._count(len(value), depth)
            append((b"t" if kind is tuple else b"l") + _COUNT.pack(len(value)))
            for item in value:
                self.put(item, depth + 1)
        elif kind is dict:
            self._put_dict(value, depth)
        elif isinstance(value, np.generic):
            append(_scalar_head(value.dtype) + value.tobytes())
        else:
            raise TypeError(f"it holds a {kind.__module__}.{kind.__qualname__}; {_ALLOWED}")

    def _put_dict(self, value: dict[Any, Any], depth: int) -> None:
        if len(value) > MAX_KEYS:
            _refuse_size(f"{MAX_KEYS} keys in one dict")
        self._count(2 * len(value), depth)
        self.parts.append(b"m" + _COUNT.pack(len(value)))
        for key, item in value.items():
            if type(key) is not str and type(key) is not int:
                raise TypeError(
                    f"it has a dict with a key of type {type(key).__name__}; keys are str or int"
                )
            self.put(key)
            if len(self.parts[-1]) > MAX_KEY:
                _refuse_size(f"{MAX_KEY} bytes in a key")
            self.put(item, depth + 1)

    def _count(self, items: int, depth: int) -> None:
        """Count a container's items before they are put."""
        if depth >= MAX_DEPTH:
            raise ValueError(f"it is nested deeper than {MAX_DEPTH} levels")
        self._values += items
        if self._values > MAX_VALUES:
            _refuse_size(f"{MAX_VALUES} values")


def _integer(value: int) -> bytes:
    size = value.bit_length() // 8 + 1
    if size > _MAX_INTEGER:
        _refuse_size(f"{_MAX_INTEGER} bytes in an integer")
    return b"i" + bytes([size]) + value.to_bytes(size, "little", signed=True)


def _size(size: int) -> bytes:
    if size > MAX_BYTES:
        _refuse_size(f"{MAX_BYTES} bytes")
    return _COUNT.pack(size)


def _refuse_size(limit: str) -> NoReturn:
    raise ValueError(f"it is too large: a state has at most {limit}")


@lru_cache(1024)  # an environment's arrays keep their type and shape
def _array_head(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    name = _dtype_name(dtype)
    if len(shape) > _MAX_DIMENSIONS:
        raise ValueError(f"it holds an array of {len(shape)} dimensions")
    if _nominal_size(dtype, shape) > MAX_BYTES:
        _refuse_size(f"{MAX_BYTES} bytes")
    sides = b"".join(map(_COUNT.pack, shape))
    return b"a" + bytes([len(name)]) + name + bytes([len(shape)]) + sides


@lru_cache(64)
def _scalar_head(dtype: np.dtype[Any]) -> bytes:
    name = _dtype_name(dtype)
    return b"g" + bytes([len(name)]) + name


def _dtype_name(dtype: np.dtype[Any]) -> bytes:
    name = dtype.str
    if dtype.fields is not None or _dtype_of(name) is None:
        raise TypeError(f"it holds an array or scalar of dtype {dtype}; {_ALLOWED}")
    return name.encode()


# --- decoding -------------------------------------------------------------------------------------


class _Decoder:
    """A message, and how far it has been read."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0
        self._values = 0

    def value(self, depth: int) -> Any:
        """Return the next value."""
        self._values += 1
        if self._values > MAX_VALUES:
            raise ValueError(f"it has more than {MAX_VALUES} values")
        tag = self._take(1)
        if tag == b"a":
            return self._array()
        if tag == b"g":
            return self._elements(self._dtype(), ())[()]
        if tag == b"N":
            return None
        if tag in (b"T", b"F"):
            return tag == b"T"
        if tag == b"i":
            return self._integer()
        if tag == b"d":
            return _FLOAT.unpack(self._take(8))[0]
        if tag == b"s":
            return str(self._take(self._count()), "utf-8")  # UnicodeDecodeError is a ValueError
        if tag == b"b":
            return self._take(self._count())
        if tag in (b"t", b"l"):
            items = [self.value(depth + 1) for _ in range(self._length(1, depth))]
            return tuple(items) if tag == b"t" else items
        if tag == b"m":
            return self._dict(depth)
        raise ValueError(f"there is no kind of value with tag {tag!r}, at byte {self.at - 1}")

    def _take(self, size: int) -> bytes:
        """Return the next so many bytes."""
        end = self.at + size
        if end > len(self._data):
            raise ValueError(
                f"it is cut off: {size} bytes are expected at byte {self.at} of {len(self._data)}"
            )
        taken = self._data[self.at : end]
        self.at = end
        return taken

    def _count(self) -> int:
        count: int = _COUNT.unpack(self._take(_COUNT.size))[0]
        return count

    def _length(self, least: int, depth: int) -> int:
        """Return how many items a container has, each of at least so many bytes."""
        if depth >= MAX_DEPTH:
            raise ValueError(f"it is nested deeper than {MAX_DEPTH} levels")
        count = self._count()
        if count > MAX_VALUES or count * least > len(self._data) - self.at:
            raise ValueError(
                f"{count} items are announced at byte {self.at}, where {len(self._data) - self.at} "
                "bytes are left"
            )
        return count

    def _integer(self) -> int:
        size = self._take(1)[0]
        if not 1 <= size <= _MAX_INTEGER:
            raise ValueError(f"it has an integer of {size} bytes; 1 to {_MAX_INTEGER} are possible")
        return int.from_bytes(self._take(size), "little", signed=True)

    def _dict(self, depth: int) -> dict[str | int, Any]:
        found: dict[str | int, Any] = {}
        pairs = self._length(2, depth)
        if pairs > MAX_KEYS:
            raise ValueError(f"it has a dict with {pairs} keys; at most {MAX_KEYS} are possible")
        for _ in range(pairs):
            begin = self.at
            tag = self._data[begin : begin + 1]
            if tag not in (b"s", b"i"):
                raise ValueError(f"it has a dict with a key of tag {tag!r}; keys are str or int")
            key = self.value(MAX_DEPTH)
            if self.at - begin > MAX_KEY:
                raise ValueError(f"it has a dict with a key of over {MAX_KEY} bytes")
            if key in found:
                raise ValueError(f"it has a dict with the key {key!r} twice")
            found[key] = self.value(depth + 1)
        return found

    def _dtype(self) -> np.dtype[Any]:
        size = self._take(1)[0]
        if size > _LONGEST_DTYPE:
            raise ValueError(f"it has a dtype of {size} characters")
        name = self._take(size).decode("latin-1")
        dtype = _dtype_of(name)
        if dtype is None:
            raise ValueError(f"{name!r} is not a dtype that a state's arrays may have")
        return dtype

    def _array(self) -> npt.NDArray[Any]:
        dtype = self._dtype()
        dimensions = self._take(1)[0]
        if dimensions > _MAX_DIMENSIONS:
            raise ValueError(f"it has an array of {dimensions} dimensions")
        shape = tuple(self._count() for _ in range(dimensions))
        if _nominal_size(dtype, shape) > MAX_BYTES:
            raise ValueError(f"it has an array of shape {shape}, larger than a state may be")
        return self._elements(dtype, shape)

    def _elements(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
        begin = self.at
        count = math.prod(shape)
        self._skip(count * dtype.itemsize)
        array = np.frombuffer(self._data, dtype, count, begin) if count else np.empty(0, dtype)
        if dtype.kind == "b" and array.view(np.uint8).max(initial=0) > 1:
            raise ValueError("it has a boolean that is neither 0 nor 1")
        if dtype.kind == "U":
            codes = array.view(np.dtype(np.uint32).newbyteorder(dtype.byteorder))
            if codes.max(initial=0) > _LAST_CODE_POINT:
                raise ValueError("it has a character that does not exist")
        array.flags.writeable = False
        return array.reshape(shape)

    def _skip(self, size: int) -> None:
        if size > len(self._data) - self.at:
            raise ValueError(
                f"it is cut off: an array of {size} bytes is announced at byte {self.at} of "
                f"{len(self._data)}"
            )
        self.at += size


def _dtype_of(name: str) -> np.dtype[Any] | None:
    """Return the data type that `name` stands for in a message; None if there is none."""
    known = _DTYPES.get(name)
    if known is not None:
        return known
    string = _STRINGS.fullmatch(name)
    if string is None or int(string[2]) > _MAX_CHARACTERS:
        return None
    return np.dtype(name)


def _nominal_size(dtype: np.dtype[Any], shape: tuple[int, ...]) -> int:
    """Return an array's bytes, sides of length 0 counted as 1: NumPy refuses absurd ones, too."""
    return dtype.itemsize * math.prod(max(1, side) for side in shape)
