"""Packages that only some formats need, loaded when one is asked for."""

from __future__ import annotations

import importlib
from typing import Any

from lanekit.errors import MissingExtra


def load(module: str, wanted_for: str) -> Any:
    """Import a module of an optional package, or say how to get it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise MissingExtra(
            f"{wanted_for} needs {package}, which can not be imported here ({error}); "
            "install it with: pip install 'lanekit[export]'"
        ) from error
