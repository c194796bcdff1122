"""The command line that every worker has: ``--config FILE [--grpc] [--grpc-target TARGET]``."""

from __future__ import annotations

import argparse
import json
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from lanekit.errors import LanekitError
from lanekit.worker.config import WorkerConfig
from lanekit.worker.lasting_emitter import warn
from lanekit.worker.reporting import start_again_under_a_proxy, why_no_proxy
from lanekit.worker.runtime import WorkerRuntime

Config = TypeVar("Config", bound=WorkerConfig)

EXIT_MISUSE = 2
EXIT_FAILED = 1
EXIT_INTERRUPTED = 130


def worker_main(
    runtime: type[WorkerRuntime[Config]],
    config: type[Config],
    arguments: Sequence[str] | None = None,
) -> int:
    """Run a worker from the command line; return its exit status.

    0: trained to the end, or stopped as asked. 1: the training failed. 2: a misuse, such as a
    configuration that the worker does not take. 130: Ctrl-C.

    The configuration is JSON, from ``--config FILE`` or the variable LANEKIT_CONFIG_JSON. A
    launcher's LANEKIT_RUN_ID names the run, whatever the configuration says. With ``--grpc`` the
    worker starts again under a telemetry proxy that reports to ``--grpc-target``.
    """
    parser = _parser(runtime)
    args = parser.parse_args(arguments)
    try:
        loaded = config.from_dict(_read(args.config))
    except Exception as error:  # a configuration's own from_dict() may raise anything
        source = args.config or "LANEKIT_CONFIG_JSON"
        print(f"{parser.prog}: {source}: {_words(error)}", file=sys.stderr)
        return EXIT_MISUSE
    if args.grpc:
        if arguments is not None:
            parser.error("--grpc starts the worker again, so it belongs on the real command line")
        reason = why_no_proxy()
        if reason is None:
            try:
                start_again_under_a_proxy(loaded.run_id, args)
            except ValueError as error:
                parser.error(f"--grpc-target: {error}")
        warn(f"{reason}. Training goes on; its telemetry goes to stdout")
    try:
        summary = runtime(loaded).run()
    except KeyboardInterrupt:
        print(f"{loaded.run_id}: stopped by Ctrl-C", file=sys.stderr)
        return EXIT_INTERRUPTED
    except SystemExit as error:  # from the training: whatever it says, the run did not complete
        print(f"{loaded.run_id}: train() called exit({error.code!r})", file=sys.stderr)
        return error.code if isinstance(error.code, int) and error.code else EXIT_FAILED
    except LanekitError as error:  # it says what happened and what to do: where is no help
        print(f"{loaded.run_id}: failed: {error}", file=sys.stderr)
        return EXIT_FAILED
    except Exception:
        traceback.print_exc()
        print(f"{loaded.run_id}: failed", file=sys.stderr)
        return EXIT_FAILED
    print(f"{loaded.run_id}: {summary['status']}", file=sys.stderr)
    return 0


def _parser(runtime: type[Any]) -> argparse.ArgumentParser:
    path = Path(sys.argv[0])
    parser = argparse.ArgumentParser(
        prog=path.parent.name if path.stem in ("cli", "__main__") else path.stem,
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
    parser.add_argument("--token-file", metavar="FILE", help="the daemon's token")
    parser.add_argument("--tls-ca", metavar="FILE", help="who signed its certificate")
    parser.add_argument(
        "--insecure-loopback", action="store_true", help="no TLS; for a loopback address only"
    )
    return parser


def _read(path: Path | None) -> dict[str, Any]:
    if path is None:
        text = os.environ.get("LANEKIT_CONFIG_JSON")
        if text is None:
            raise ValueError("no configuration: give --config FILE")
    else:
        text = path.read_text(encoding="utf-8-sig")
    try:
        data = json.loads(text)
    except ValueError as error:
        raise ValueError(f"not JSON: {error}") from None
    if not isinstance(data, dict):
        raise ValueError(f"the configuration is a JSON object, not {type(data).__name__}")
    named = os.environ.get("LANEKIT_RUN_ID")
    if named and data.get("run_id", named) != named:
        print(f"run id {named!r} instead of {data['run_id']!r}: LANEKIT_RUN_ID", file=sys.stderr)
    return {**data, "run_id": named} if named else data


def _words(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) if isinstance(error, ValueError | TypeError) else repr(error)
