"""``lanekit worker new`` writes a worker's package, ``lanekit worker check`` checks one."""

from __future__ import annotations

import argparse
import dataclasses
import json
from pathlib import Path
from typing import Any

from lanekit.cli.columns import Colour, Paint
from lanekit.cli.connection import missing_slow
from lanekit.cli.ls import printable
from lanekit.cli.quantities import json_document
from lanekit.cli.submit import assignment
from lanekit.cli.view import positive
from lanekit.worker.discovery import find_worker
from lanekit.worker.scaffold import write_package

NAME = "worker"
HELP = "write the package of a new worker, or check an installed one"
EXAMPLES = (
    ("lanekit worker new my-walker", "a package that trains on the first try"),
    ("lanekit worker check my-walker", "whether launchers can rely on it"),
)

_WIDEST = 300
_MARKS = {"ok": ("ok", Colour.GREEN), "failed": ("FAILED", Colour.RED)}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    new = actions.add_parser(
        "new",
        help="write a complete package that trains on the first try",
        description="Write a worker's package: configuration, training, entry point, tests.",
    )
    new.add_argument("name", metavar="NAME", help="what `lanekit workers` will list: my-walker")
    new.add_argument("--directory", type=Path, metavar="DIR", help="where (default: ./NAME)")
    new.set_defaults(act=_new)
    check = actions.add_parser(
        "check",
        help="check an installed worker against what launchers rely on",
        description="Check an installed worker: metadata, configuration, and real runs of it.",
    )
    check.add_argument("name", metavar="NAME", help="as `lanekit workers` lists it")
    for option, meaning in (
        ("--set", "a setting of the configuration; may be repeated"),
        ("--fail-with", "a setting with which a run fails; may be repeated"),
    ):
        check.add_argument(
            option, type=setting, action="append", default=[], metavar="K=V", help=meaning
        )
    check.add_argument(
        "--timeout",
        type=positive,
        default=120.0,
        metavar="SECONDS",
        help="how long one of its runs may take (default %(default)g)",
    )
    check.add_argument("--json", action="store_true", help="print one JSON document")
    check.set_defaults(act=_check)


def run(args: argparse.Namespace) -> int:
    """Do what the action says."""
    return int(args.act(args))


def _new(args: argparse.Namespace) -> int:
    directory = args.directory or Path(args.name)
    written = write_package(args.name, directory)
    print(f"{directory}: {len(written)} files\n")
    print("  " + f"pip install -e '{directory}[test]'")
    print("  " + f"{args.name} --config {directory / 'config.json'}")
    print("  " + f"lanekit view {args.name}-1".ljust(44) + "# meanwhile, in another terminal")
    print("  " + f"lanekit worker check {args.name}")
    return 0


def _check(args: argparse.Namespace) -> int:
    worker = find_worker(args.name)
    try:
        from lanekit.worker.checks import Subject, check_worker
    except ModuleNotFoundError as error:
        raise missing_slow(error) from None
    subject = Subject(worker, dict(args.set), dict(args.fail_with) or None, args.timeout)
    findings, paint = [], Paint()
    for finding in check_worker(subject):
        findings.append(finding)
        if args.json:
            continue
        word, colour = _MARKS.get(finding.state, (finding.state, Colour.YELLOW))
        found = printable(finding.found, _WIDEST)
        print(f"{paint(word.ljust(7), colour)}  {finding.check.ljust(19)}  {found}", flush=True)
        if finding.remedy:
            print(f"{'':7}  {'':19}  -> {finding.remedy}", flush=True)
    if args.json:
        print(json_document([dataclasses.asdict(finding) for finding in findings]))
    return 1 if any(finding.state == "failed" for finding in findings) else 0


def setting(text: str) -> tuple[str, Any]:
    """Return name and value of ``NAME=VALUE``; the value is JSON, or else a text."""
    name, value = assignment(text)
    try:
        # NaN and Infinity are no JSON, whatever Python's reader says.
        return name, json.loads(value, parse_constant=str)
    except ValueError:
        return name, value
