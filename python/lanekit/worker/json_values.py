"""Values between JSON and the fields of a dataclass: checked by type, converted where they differ.

JSON has no tuples, no whole floats, no NaN, and only texts as keys. What it can not bring back is
refused here, in words that name the field, before a run begins with something else.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import types
import typing
from collections.abc import Mapping
from typing import Any, Literal, Union


class _Misfit(Exception):
    """A value is not of the type; the words say what is."""


def checked_fields(record: Any) -> dict[str, Any]:
    """Return a dataclass's values, each as its field's type wants it, or say which does not fit."""
    hints = typing.get_type_hints(type(record))
    values = {}
    for field in dataclasses.fields(record):
        if field.init:
            values[field.name] = converted(
                getattr(record, field.name), hints[field.name], field.name
            )
    return values


def checked_names(cls: Any, data: Mapping[str, Any], place: str = "") -> dict[str, Any]:
    """Return keyword arguments for a dataclass; unknown and missing names are refused."""
    fields = {field.name: field for field in dataclasses.fields(cls) if field.init}
    for name in data:
        if name not in fields:
            near = difflib.get_close_matches(str(name), fields, n=1)
            hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(fields)}"
            raise ValueError(f"{place or cls.__name__} has no {name!r}; {hint}")
    missing = [
        name
        for name, field in fields.items()
        if name not in data
        and field.default is dataclasses.MISSING
        and field.default_factory is dataclasses.MISSING
    ]
    if missing:
        where = f"{place} lacks" if place else "missing:"
        raise ValueError(f"{where} {', '.join(missing)}")
    return dict(data)


def converted(value: Any, hint: Any, place: str) -> Any:
    """Return a value as its type wants it; `place` is what messages call it."""
    try:
        return _convert(value, hint, place)
    except _Misfit as misfit:
        raise TypeError(f"{misfit}, not {value!r}") from None


def fits(value: Any, hint: Any) -> bool:
    """Tell whether a value is of a type, or becomes it without loss."""
    try:
        converted(value, hint, "")
    except (TypeError, ValueError):
        return False
    return True


def plain(value: Any) -> Any:
    """Return what JSON brings back unchanged: tuples as lists, dataclasses as objects."""
    if dataclasses.is_dataclass(value):
        fields = [field.name for field in dataclasses.fields(value) if field.init]
        return {name: plain(getattr(value, name)) for name in fields}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value


def type_name(hint: Any) -> str:
    """Return a type as people write it."""
    if typing.get_origin(hint) is Literal:
        return "one of " + ", ".join(repr(choice) for choice in typing.get_args(hint))
    if isinstance(hint, type) and not typing.get_args(hint):
        return hint.__name__
    return str(hint).replace("typing.", "")


def _convert(value: Any, hint: Any, place: str) -> Any:
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin in (Union, types.UnionType):
        return _convert_union(value, hint, place)
    if origin is Literal:
        found = [part for part in parts if part == value and type(part) is type(value)]
        if not found:
            raise _Misfit(f"{place} is {type_name(hint)}")
        return found[0]
    if hint is Any:
        _check_finite(value, place)
        return value
    if dataclasses.is_dataclass(hint):
        return _convert_record(value, hint, place)
    kind = origin or hint
    if kind in (list, tuple):
        return _convert_items(value, hint, place)
    if kind is dict:
        return _convert_dict(value, hint, place)
    if kind not in (str, int, float, bool, type(None)):
        raise TypeError(
            f"{place} has the type {type_name(hint)}, which JSON can not carry; a configuration "
            "has texts, numbers, truth values, lists, tuples, dicts and dataclasses of these"
        )
    return _convert_scalar(value, kind, place)


def _convert_scalar(value: Any, kind: type, place: str) -> Any:
    if type(value) is kind:
        _check_finite(value, place)
        return value
    if kind is float and type(value) is int and abs(value) <= 2**1023:
        return float(value)  # JSON writers turn 1.0 into 1
    if kind is int and type(value) is float and value.is_integer():
        return int(value)  # people write 1e6
    if kind is str and isinstance(value, str):
        return str(value)
    raise _Misfit(f"{place} is {type_name(kind) if kind is not type(None) else 'None'}")


def _convert_union(value: Any, hint: Any, place: str) -> Any:
    parts = typing.get_args(hint)
    exact = [part for part in parts if type(value) is (typing.get_origin(part) or part)]
    closest: Exception | None = None
    for part in [*exact, *parts]:
        try:
            return _convert(value, part, place)
        except _Misfit:
            continue
        except (TypeError, ValueError) as error:
            closest = closest or error  # of the right kind, but something within it is not
    raise closest or _Misfit(f"{place} is {type_name(hint)}")


def _convert_record(value: Any, hint: Any, place: str) -> Any:
    if isinstance(value, hint):
        changed = checked_fields(value)
        if all(changed[name] is getattr(value, name) for name in changed):
            return value
        return dataclasses.replace(value, **changed)
    if not isinstance(value, Mapping):
        raise _Misfit(f"{place} is an object with the fields of {hint.__name__}")
    names = checked_names(hint, value, place)
    hints = typing.get_type_hints(hint)
    return hint(**{n: converted(v, hints[n], f"{place}.{n}") for n, v in names.items()})


def _convert_items(value: Any, hint: Any, place: str) -> Any:
    if not isinstance(value, list | tuple):
        raise _Misfit(f"{place} is {type_name(hint)}")
    kind, parts = typing.get_origin(hint) or hint, typing.get_args(hint)
    if not parts:
        parts = (Any, ...)
    if kind is list or parts[-1:] == (Ellipsis,):
        parts = (parts[0],) * len(value)
    if len(parts) != len(value):
        raise _Misfit(f"{place} is {type_name(hint)}")
    return kind(
        converted(item, part, f"{place}[{i}]")
        for i, (item, part) in enumerate(zip(value, parts, strict=True))
    )


def _convert_dict(value: Any, hint: Any, place: str) -> Any:
    key_type, value_type = typing.get_args(hint) or (str, Any)
    if key_type is not str:
        raise TypeError(f"{place} has keys of type {type_name(key_type)}; JSON has only texts")
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise _Misfit(f"{place} is {type_name(hint)}")
    return {key: converted(item, value_type, f"{place}.{key}") for key, item in value.items()}


def _check_finite(value: Any, place: str) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{place} is {value}, for which JSON has no word; None can stand for it")
    if isinstance(value, list | tuple):
        for i, item in enumerate(value):
            _check_finite(item, f"{place}[{i}]")
    elif isinstance(value, Mapping):
        for key, item in value.items():
            _check_finite(item, f"{place}.{key}")
