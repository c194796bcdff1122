"""Whether arrays are what a schema says, and the words for it if they are not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from lanekit._core import check, ffi, lib
from lanekit.trajectory.schema import TrajectoryField, TrajectorySchema

_ABSENT = 2**64 - 1


def checked_arrays(
    what: str, schema: TrajectorySchema, arrays: Mapping[str, Any]
) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of a record exactly as the schema wants them, absent ones left out.

    `what` names the lane in the errors.
    """
    found = {}
    for name, field in schema:
        value = arrays.get(name)
        if value is None:
            if not field.optional:
                refuse_names(what, schema, arrays)
            continue
        if type(value) is not np.ndarray or value.dtype != field.dtype:
            value = converted(what, name, field.dtype, value)
        rows = value.shape[1:] if field.ragged and value.ndim else value.shape
        if rows != field.shape or (field.ragged and value.ndim == 0):
            refuse_shape(what, name, field, value)
        found[name] = np.ascontiguousarray(value).reshape(value.shape)
    if any(name not in schema.fields for name in arrays):
        refuse_names(what, schema, arrays)
    return found


def stored_size(
    schema: TrajectorySchema, arrays: Mapping[str, npt.NDArray[Any]], metadata_size: int
) -> int:
    """Return how many bytes of a lane's limit a record of these arrays takes."""
    rows = ffi.new("uint64_t[]", len(schema))
    for i, (name, field) in enumerate(schema):
        array = arrays.get(name)
        rows[i] = _ABSENT if array is None else len(array) if field.ragged else 1
    return check(
        lib.lk_traj_record_size(schema.to_c(), len(schema), rows, metadata_size), "a record"
    )


def converted(what: str, name: str, dtype: np.dtype[Any], value: Any) -> npt.NDArray[Any]:
    """Take what is no array of the right dtype, if nothing is lost on the way."""
    array = np.asarray(value)
    if array.dtype == dtype:
        return array
    if isinstance(value, np.ndarray | np.generic) or array.dtype.kind not in "biuf":
        raise TypeError(
            f"{what}: field {name!r} has dtype {dtype}, not {array.dtype}; convert with "
            f".astype({str(dtype)!r})"
        )
    if array.size == 0:
        return array.astype(dtype)
    if dtype.kind in "iub" and array.dtype.kind == "f":
        raise TypeError(f"{what}: field {name!r} has dtype {dtype}, and these are floats")
    with np.errstate(over="ignore"):
        made = array.astype(dtype)
    if dtype.kind in "iub" and not np.array_equal(made, array):
        raise ValueError(f"{what}: field {name!r}: a value does not fit into {dtype}")
    return made


def refuse_names(what: str, schema: TrajectorySchema, arrays: Mapping[str, Any]) -> NoReturn:
    """Say which fields are unknown, or which are missing."""
    unknown = [name for name in arrays if name not in schema.fields]
    missing = [name for name, f in schema if not f.optional and arrays.get(name) is None]
    problem = f"unknown field {', '.join(map(repr, unknown))}" if unknown else ""
    if not unknown:
        problem = f"missing field {', '.join(map(repr, missing))}"
    raise ValueError(f"{what}: {problem}; a record here has {schema}")


def refuse_shape(what: str, name: str, field: TrajectoryField, value: npt.NDArray[Any]) -> NoReturn:
    """Say which shape a field has."""
    wanted = ", ".join((["n"] if field.ragged else []) + [str(n) for n in field.shape])
    raise ValueError(f"{what}: field {name!r} ({field}) has shape ({wanted}), not {value.shape}")
