"""What is public: the names that the packages list, and the members of the classes among them."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
from collections.abc import Iterator
from typing import Any

# The packages whose __all__ is the public interface.
PUBLIC = (
    *("lanekit", "lanekit.fast", "lanekit.step", "lanekit.command", "lanekit.trajectory"),
    *("lanekit.slow", "lanekit.worker", "lanekit.integrations", "lanekit.engine"),
)


def public_things(package: str) -> Iterator[tuple[str, Any]]:
    """Yield a package's public classes and functions."""
    module = importlib.import_module(package)
    for name in module.__all__:
        thing = getattr(module, name)
        if inspect.isclass(thing) or inspect.isfunction(thing):
            yield f"{package}.{name}", thing


def members(kind: type) -> Iterator[tuple[str, Any]]:
    """Yield a class's public functions and properties, those of its lanekit bases included."""
    for base in kind.__mro__:
        if base.__module__.split(".")[0] != "lanekit":
            continue
        for name, member in vars(base).items():
            if name.startswith("_"):
                continue
            if isinstance(member, classmethod | staticmethod):
                member = member.__func__
            if isinstance(member, property):
                member = member.fget
            if inspect.isroutine(member):
                yield f"{base.__module__}.{base.__qualname__}.{name}", member


def says_something(thing: Any) -> bool:
    """Whether there is a docstring that somebody wrote."""
    doc = inspect.getdoc(thing) or ""
    made = dataclasses.is_dataclass(thing) and doc.startswith(f"{thing.__name__}(")
    return len(doc) > 10 and not made
