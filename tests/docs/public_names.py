"""What is public: the names that the packages list, and the members of the classes among them."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
from collections.abc import Iterator
from typing import Any

# The packages whose __all__ is the public interface.
PUBLIC = (
    *("lanekit", "lanekit.fast", "lanekit.step", "lanekit.command", "lanekit.trajectory"),
    *("lanekit.slow", "lanekit.worker", "lanekit.integrations", "lanekit.engine"),
)
# Modules that the pages name beside them: all that they define without an underscore is public.
PUBLIC_MODULES = (
    *("lanekit.errors", "lanekit.segments", "lanekit.slow.emit", "lanekit.slow.control"),
    *("lanekit.trajectory.atropos", "lanekit.trajectory.atropos_batches"),
    *("lanekit.trajectory.atropos_transport", "lanekit.integrations.cleanrl"),
)


def public_things(package: str) -> Iterator[tuple[str, Any]]:
    """Yield a package's public classes and functions."""
    module = importlib.import_module(package)
    names = getattr(module, "__all__", None) or [
        name
        for name, thing in vars(module).items()
        if not name.startswith("_") and getattr(thing, "__module__", None) == package
    ]
    for name in names:
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
            if isinstance(member, functools.cached_property):
                member = member.func
            if inspect.isroutine(member):
                yield f"{base.__module__}.{base.__qualname__}.{name}", member


def says_something(thing: Any) -> bool:
    """Whether there is a docstring that somebody wrote."""
    # A class would be given the words of its base, such as those that all exceptions have.
    doc = (thing.__doc__ if inspect.isclass(thing) else inspect.getdoc(thing)) or ""
    made = dataclasses.is_dataclass(thing) and doc.startswith(f"{thing.__name__}(")
    return len(doc) > 10 and not made
