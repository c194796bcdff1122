"""What a lane's records consist of: named fields, each with a dtype, fixed or ragged."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lanekit._core import CData, ffi, lib

_NOTATION = re.compile(r"(?P<dtype>[^\[\]?]+?)(\[(?P<dims>[^\]]*)\])?(?P<optional>\?)?")
_NUMBER = re.compile(r"[<>|][biufc][0-9]{1,2}")
_NAME_BYTES = 63
_SHAPE_MOST = 5
_ROW_BYTES_MOST = 1 << 38
RAGGED: int = lib.LK_TRAJ_RAGGED
OPTIONAL: int = lib.LK_TRAJ_OPTIONAL


@dataclass(frozen=True)
class TrajectoryField:
    """One field: rows of a fixed `shape`. If `ragged`, any number of them, else exactly one."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...] = ()
    ragged: bool = False
    optional: bool = False

    def __post_init__(self) -> None:
        """Check what the core would only refuse."""
        dtype = np.dtype(self.dtype)
        object.__setattr__(self, "dtype", dtype)
        object.__setattr__(self, "shape", tuple(int(n) for n in self.shape))
        if dtype.kind not in "biufc" or dtype.itemsize > 16 or not dtype.isnative:
            raise ValueError(
                f"a field's dtype is a native bool, integer, float or complex type, not {dtype}; "
                "carry text and other objects as bytes in a uint8[:] field, or as metadata"
            )
        if len(self.shape) > _SHAPE_MOST or any(n < 1 for n in self.shape):
            raise ValueError(
                f"a field's row has up to {_SHAPE_MOST} dimensions of 1 or more, not {self.shape}"
            )
        if self.row_size > _ROW_BYTES_MOST:
            raise ValueError(
                f"a field's row has at most {_ROW_BYTES_MOST} bytes, and {self} has {self.row_size}"
            )

    @property
    def row_size(self) -> int:
        """Bytes of one row."""
        return self.dtype.itemsize * math.prod(self.shape)

    @classmethod
    def parse(cls, text: str) -> TrajectoryField:
        """Read the short notation: ``int32[:]``, ``float32``, ``uint8[:,64,64,3]?``."""
        if not isinstance(text, str):
            raise TypeError(f"a field is a str such as 'int32[:]', not {text!r}")
        found = _NOTATION.fullmatch(text.replace(" ", ""))
        dims = [] if found is None or not found["dims"] else found["dims"].split(",")
        ragged = bool(dims) and dims[0] == ":"
        try:
            if found is None:
                raise ValueError(text)
            shape = tuple(int(n) for n in (dims[1:] if ragged else dims))
            dtype = np.dtype(found["dtype"])
        except (TypeError, ValueError):
            raise ValueError(
                f"{text!r} describes no field; examples: 'int32[:]' (ragged), 'float32' (one "
                "value), 'float32[3]' (fixed), 'uint8[:,64,64,3]?' (ragged rows, optional)"
            ) from None
        return cls(dtype, shape, ragged, optional=found["optional"] is not None)

    def __str__(self) -> str:
        dims = ([":"] if self.ragged else []) + [str(n) for n in self.shape]
        return f"{self.dtype}{'[' + ','.join(dims) + ']' if dims else ''}{'?' * self.optional}"


@dataclass(frozen=True)
class TrajectorySchema:
    """The fields of a lane's records, in order, and a version that both ends must share.

    >>> schema = TrajectorySchema.of({"tokens": "int32[:]", "score": "float32"})
    >>> str(schema)
    'tokens: int32[:], score: float32'
    """

    fields: Mapping[str, TrajectoryField]
    version: int = 0
    names: tuple[str, ...] = field(init=False, compare=False)
    places: dict[str, tuple[int, np.dtype[Any], tuple[int, ...], bool]] = field(
        init=False, compare=False, repr=False
    )
    """For each name what a record's view needs: index, dtype, shape of a row, ragged or not."""

    def __post_init__(self) -> None:
        """Check names and number."""
        object.__setattr__(self, "fields", dict(self.fields))
        object.__setattr__(self, "names", tuple(self.fields))
        places = {
            name: (i, f.dtype, f.shape, f.ragged) for i, (name, f) in enumerate(self.fields.items())
        }
        object.__setattr__(self, "places", places)
        if not 1 <= len(self.fields) <= lib.LK_TRAJ_FIELDS_MAX:
            raise ValueError(
                f"a schema has 1 to {lib.LK_TRAJ_FIELDS_MAX} fields, not {len(self.fields)}"
            )
        for name in self.fields:
            if not isinstance(name, str) or not name or "\0" in name:
                raise ValueError(f"a field's name is a non-empty str, not {name!r}")
            if len(name.encode()) > _NAME_BYTES:
                raise ValueError(f"field {name!r}: a name has at most {_NAME_BYTES} bytes")
        if not isinstance(self.version, int):
            raise TypeError(f"a schema's version is a whole number, not {self.version!r}")
        if not 0 <= self.version < 2**32:
            raise ValueError(f"a schema's version is a number from 0 to 2**32 - 1: {self.version}")

    def __hash__(self) -> int:
        return hash((self.names, self.version))

    @classmethod
    def of(
        cls,
        fields: TrajectorySchema | Mapping[str, TrajectoryField | str],
        *,
        version: int | None = None,
    ) -> TrajectorySchema:
        """Make a schema from whatever describes one."""
        if isinstance(fields, TrajectorySchema):
            return fields if version is None else cls(fields.fields, version)
        if not isinstance(fields, Mapping):
            raise TypeError(
                "a schema is a TrajectorySchema or a mapping such as {'tokens': 'int32[:]'}, "
                f"not {type(fields).__name__}"
            )
        made = {
            name: f if isinstance(f, TrajectoryField) else TrajectoryField.parse(f)
            for name, f in fields.items()
        }
        return cls(made, version or 0)

    def __iter__(self) -> Iterator[tuple[str, TrajectoryField]]:
        return iter(self.fields.items())

    def __len__(self) -> int:
        return len(self.fields)

    def __str__(self) -> str:
        text = ", ".join(f"{name}: {f}" for name, f in self)
        return f"{text} (version {self.version})" if self.version else text

    def difference(self, other: TrajectorySchema) -> str:
        """Say how `other` differs from this one; empty if it does not."""
        if self.version != other.version:
            return f"version {other.version} instead of {self.version}"
        missing = [name for name in self.names if name not in other.fields]
        more = [name for name in other.names if name not in self.fields]
        changed = [
            f"{name} is {other.fields[name]} instead of {f}"
            for name, f in self
            if name in other.fields and other.fields[name] != f
        ]
        parts = [f"{_fields(missing)} missing"] if missing else []
        parts += [f"{_fields(more)} in addition"] if more else []
        parts += changed
        if not parts and self.names != other.names:
            parts = [f"the fields are in the order {', '.join(other.names)}"]
        return "; ".join(parts)

    # --- as the core sees it ---------------------------------------------------------------------

    def to_c(self) -> CData:
        """Return the fields as the core wants them."""
        out = ffi.new("struct lk_traj_field[]", len(self.fields))
        for entry, (name, f) in zip(out, self, strict=True):
            entry.name = name.encode()
            entry.dtype = f.dtype.str.encode()
            entry.item_size = f.dtype.itemsize
            entry.flags = RAGGED * f.ragged | OPTIONAL * f.optional
            entry.dimensions = len(f.shape)
            entry.shape = [*f.shape, *[0] * (_SHAPE_MOST - len(f.shape))]
        return out

    @classmethod
    def from_c(cls, fields: CData, count: int, version: int) -> TrajectorySchema:
        """Read what a segment says. Raises ValueError if that is no schema.

        The core takes as many arrays as it has fields, and of each row as many bytes as it counts:
        whatever would make these differ here is refused.
        """
        made = {}
        for i in range(count):
            entry = fields[i]
            name = ffi.string(entry.name, 64).decode()
            text = ffi.string(entry.dtype, 8).decode("ascii")
            if not _NUMBER.fullmatch(text) or np.dtype(text).itemsize != entry.item_size:
                size = entry.item_size
                raise ValueError(f"field {name!r}: {text!r} is not a number of {size} bytes")
            if name in made:
                raise ValueError(f"two fields are called {name!r}")
            if entry.dimensions > _SHAPE_MOST:
                raise ValueError(f"field {name!r} has {entry.dimensions} dimensions")
            made[name] = TrajectoryField(
                np.dtype(text),
                tuple(entry.shape[j] for j in range(entry.dimensions)),
                ragged=bool(entry.flags & RAGGED),
                optional=bool(entry.flags & OPTIONAL),
            )
        return cls(made, version)


def _fields(names: list[str]) -> str:
    return f"the field{'s' * (len(names) > 1)} {', '.join(names)}"
