"""The command line that every worker has: ``--config FILE [--grpc] [--grpc-target TARGET]``."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from lanekit.worker.config import WorkerConfig
from lanekit.worker.runtime import WorkerRuntime

Config = TypeVar("Config", bound=WorkerConfig)


def worker_main(
    runtime: type[WorkerRuntime[Config]],
    config: type[Config],
    arguments: Sequence[str] | None = None,
) -> int:
    """Run a worker from the command line; return its exit status, 2 for a misuse.

    The configuration is JSON, from ``--config FILE`` or the variable LANEKIT_CONFIG_JSON. A
    launcher's LANEKIT_RUN_ID names the run, whatever the configuration says. With ``--grpc`` the
    worker starts again under a telemetry proxy that reports to ``--grpc-target``.
    """
    parser = argparse.ArgumentParser(
        prog=Path(sys.argv[0]).stem,
        description=(runtime.__doc__ or "").partition("\n")[0],
        allow_abbrev=False,
    )
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="JSON; default: LANEKIT_CONFIG_JSON"
    )
    parser.add_argument(
        "--grpc", action="store_true", help="report to a daemon, through a proxy started for it"
    )
    parser.add_argument(
        "--grpc-target",
        metavar="TARGET",
        help="unix:/path or host:port (default: LANEKIT_DAEMON, else the usual socket)",
    )
    args = parser.parse_args(arguments)
    try:
        loaded = config.from_dict(_read(args.config))
    except (OSError, ValueError, TypeError) as error:
        source = args.config or "LANEKIT_CONFIG_JSON"
        print(f"{parser.prog}: {source}: {error}", file=sys.stderr)
        return 2
    if args.grpc:
        _start_again_under_a_proxy(loaded.run_id, args.grpc_target)
    summary = runtime(loaded).run()
    print(f"{loaded.run_id}: {summary['status']}", file=sys.stderr)
    return 0


def _read(path: Path | None) -> dict[str, Any]:
    if path is None:
        text = os.environ.get("LANEKIT_CONFIG_JSON")
        if text is None:
            raise ValueError("no configuration: give --config FILE")
    else:
        text = path.read_text(encoding="utf-8")
    data = json.loads(text)
    if not isinstance(data, dict):
        raise ValueError(f"the configuration is a JSON object, not {type(data).__name__}")
    named = os.environ.get("LANEKIT_RUN_ID")
    if named and data.get("run_id", named) != named:
        print(f"run id {named!r} instead of {data['run_id']!r}: LANEKIT_RUN_ID", file=sys.stderr)
    return {**data, "run_id": named} if named else data


def _start_again_under_a_proxy(run_id: str, target: str | None) -> None:
    command = [sys.executable, "-m", "lanekit", "proxy", "--run", run_id]
    if target is not None:
        command += ["--daemon", target]
    sys.stdout.flush()
    os.execv(sys.executable, [*command, "--", sys.executable, *without_grpc(sys.orig_argv[1:])])


def without_grpc(arguments: Sequence[str]) -> list[str]:
    """Return a worker's command line without what asks for a daemon."""
    kept, skip = [], False
    for argument in arguments:
        asking = argument in ("--grpc", "--grpc-target") or argument.startswith("--grpc-target=")
        if not skip and not asking:
            kept.append(argument)
        skip = argument == "--grpc-target"
    return kept
