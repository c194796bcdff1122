"""Every public name is explained, and its types are told."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from public_names import PUBLIC, members, public_things, says_something


def untyped(function: Any) -> list[str]:
    """Return a function's parameters without a type, and "return" if it does not tell that."""
    told = function.__annotations__
    names = [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]
    return [name for name in (*names, "return") if name not in told]


@pytest.mark.once
@pytest.mark.parametrize("package", PUBLIC)
def test_every_public_name_and_member_is_explained_and_typed(package: str) -> None:
    silent, without_types = [], []
    for name, thing in public_things(package):
        silent += [] if says_something(thing) else [name]
        found = dict(members(thing)) if inspect.isclass(thing) else {name: thing}
        for place, function in found.items():
            silent += [] if says_something(function) else [place]
            # What is written in C has its types in _native.pyi, which mypy reads.
            if inspect.isfunction(function) and (missing := untyped(function)):
                without_types.append(f"{place}: {', '.join(missing)}")
    assert (silent, without_types) == ([], [])
