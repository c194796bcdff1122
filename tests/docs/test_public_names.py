"""Every public name is explained, and its types are told."""

from __future__ import annotations

import functools
import inspect
from dataclasses import dataclass
from typing import Any

import pytest
from public_names import PUBLIC, PUBLIC_MODULES, members, public_things, says_something


def untyped(function: Any) -> list[str]:
    """Return a function's parameters without a type, and "return" if it does not tell that."""
    told = function.__annotations__
    names = [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]
    return [name for name in (*names, "return") if name not in told]


@pytest.mark.once
@pytest.mark.parametrize("package", [*PUBLIC, *PUBLIC_MODULES])
def test_every_public_name_and_member_is_explained_and_typed(package: str) -> None:
    things = dict(public_things(package))
    assert things
    assert shortcomings(things) == ([], [])


def shortcomings(things: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Return what of these is not explained, and what is without types."""
    silent, without_types = [], []
    for name, thing in things.items():
        functions = dict(members(thing)) if inspect.isclass(thing) else {}
        explained = {name: thing, **functions}
        silent += [place for place, told in explained.items() if not says_something(told)]
        if not inspect.isclass(thing):
            functions[name] = thing
        elif has_own_constructor(thing):
            functions[f"{name}.__init__"] = thing.__init__  # the class explains it
        for place, function in functions.items():
            # What is written in C has its types in _native.pyi, which mypy reads.
            if inspect.isfunction(function) and (missing := untyped(function)):
                without_types.append(f"{place}: {', '.join(missing)}")
    return silent, without_types


def has_own_constructor(kind: type) -> bool:
    """Whether somebody wrote it, and not `dataclass` or `Protocol`."""
    made = "__dataclass_fields__" in vars(kind) or getattr(kind, "_is_protocol", False)
    return "__init__" in vars(kind) and not made


class Untold(Exception):
    def __init__(self, words) -> None:  # type: ignore[no-untyped-def]
        super().__init__(words)

    def method(self, one: int, two=2) -> int:  # type: ignore[no-untyped-def]
        """Say what it does."""
        return one + int(two)

    @property
    def silent(self) -> int:
        return 1

    @functools.cached_property
    def cached(self):  # type: ignore[no-untyped-def]
        """Say what it does."""


@dataclass
class Plain:
    number: int = 0


def function() -> None:
    pass


def test_what_is_not_told_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Untold, "__module__", "lanekit.example")
    silent, without_types = shortcomings({"Untold": Untold, "Plain": Plain, "f": function})
    assert silent == ["Untold", "lanekit.example.Untold.silent", "Plain", "f"]
    assert without_types == [
        "lanekit.example.Untold.method: two",
        "lanekit.example.Untold.cached: return",
        "Untold.__init__: words",
    ]
