"""From an installed worker and its options to what a daemon is asked to start."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from lanekit.worker.config import WorkerConfig
from lanekit.worker.discovery import InstalledWorker


class BadOptions(ValueError):
    """Options that a worker can not be started with; the message says which, and why."""


def checked_configuration(worker: InstalledWorker, options: Mapping[str, Any]) -> WorkerConfig:
    """Return a worker's configuration, checked by its own class."""
    config_class = worker.config_class()
    try:
        return config_class.from_dict(options)
    except Exception as error:  # anybody's class, with checks of its own
        words = str(error) if isinstance(error, ValueError | TypeError) else repr(error)
        raise BadOptions(words) from error


def config_document(worker: InstalledWorker, config: WorkerConfig) -> bytes:
    """Return a configuration as the JSON that its worker reads."""
    try:
        return json.dumps(config.to_dict(), allow_nan=False).encode()
    except (ValueError, TypeError) as error:
        raise BadOptions(
            f"worker {worker.name!r}: its configuration does not fit into JSON: {error}"
        ) from error


def environment_to_send() -> dict[str, str]:
    """Return this process's environment for a worker of the same user's daemon.

    The daemon may have been started elsewhere, long ago: with other paths, devices, keys.
    """
    return dict(filter(_is_text, os.environ.items()))


def _is_text(variable: tuple[str, str]) -> bool:
    """Tell whether a variable has a form that can be sent: file names may be any bytes."""
    try:
        "=".join(variable).encode()
    except UnicodeEncodeError:
        return False
    return True
