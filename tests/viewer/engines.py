"""Imports what warns while it is imported: where warnings are errors, Box2D would crash."""

from __future__ import annotations

import contextlib
import importlib
import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    for name in ("Box2D", "pygame"):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
