"""From a command line to a worker's configuration."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from lanekit.worker import InstalledWorker, WorkerConfig
from lanekit.worker.submission import BadOptions, checked_configuration


def add_worker_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options that become a worker's configuration."""
    parser.add_argument("--env", dest="env_id", metavar="ID", help="the environment: CartPole-v1")
    parser.add_argument(
        "--steps", dest="total_steps", type=int, metavar="N", help="how many steps to train for"
    )
    parser.add_argument("--seed", type=int, metavar="N", help="of everything that is random")
    parser.add_argument("--run", dest="run_id", metavar="RUN", help="the run's id; default: new")
    parser.add_argument(
        "--set",
        dest="assignments",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="another of the worker's options; JSON, or else text; may be repeated",
    )
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="JSON with options; those given here override"
    )


def configuration(worker: InstalledWorker, args: argparse.Namespace, new_id: str) -> WorkerConfig:
    """Return the worker's configuration, checked by its own class.

    The run's id is the one on the command line, else the one in the file, else `new_id`.
    """
    options: dict[str, Any] = {}
    for name in ("run_id", "env_id", "total_steps", "seed"):
        if getattr(args, name) is not None:
            options[name] = getattr(args, name)
    for text in args.assignments:
        name, separator, value = text.partition("=")
        if not name or not separator:
            raise BadOptions(f"--set takes KEY=VALUE, got {text!r}")
        if name in options:
            raise BadOptions(f"{name} is given twice")
        options[name] = _value(value)
    data = {"run_id": new_id, **_file_content(args.config), **options}
    try:
        return checked_configuration(worker, data)
    except BadOptions as error:
        raise BadOptions(f"worker {worker.name!r}: {error}") from error


def _value(text: str) -> Any:
    try:
        # NaN and Infinity are no JSON, whatever Python's reader says.
        return json.loads(text, parse_constant=str)
    except ValueError:
        return text


def _file_content(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadOptions(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise BadOptions(f"{path} holds no JSON: {error}") from error
    if not isinstance(content, dict):
        raise BadOptions(f"{path} holds no JSON object, but {type(content).__name__}")
    return content
