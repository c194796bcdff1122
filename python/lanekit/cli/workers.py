"""``lanekit workers``: the workers that are installed, and why one can not be used."""

from __future__ import annotations

import argparse
import dataclasses
from typing import Any

from lanekit.cli.columns import Colour, Paint, columns
from lanekit.cli.ls import printable
from lanekit.cli.quantities import json_document
from lanekit.worker.discovery import BrokenWorker, InstalledWorker, discover_workers

NAME = "workers"
HELP = "list installed workers: library, environments; why one fails"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace) -> int:
    """Print a table and the problems, or JSON; broken workers are an answer, not an error."""
    found = discover_workers()
    if args.json:
        print(json_document([worker_json(worker) for worker in found]))
        return 0
    usable = [worker for worker in found if isinstance(worker, InstalledWorker)]
    broken = [worker for worker in found if isinstance(worker, BrokenWorker)]
    if usable:
        print("\n".join(_table(usable)))
    else:
        print("no worker can be used here; `lanekit worker new NAME` writes one")
    if broken:
        print("\nnot usable here:")
        print("\n".join(_problems(broken)))
    return 0


def worker_json(worker: InstalledWorker | BrokenWorker) -> dict[str, Any]:
    """Return what is known of a worker, for other programs."""
    about: dict[str, Any] = {"name": worker.name, "distribution": worker.distribution}
    if isinstance(worker, BrokenWorker):
        return {**about, "usable": False, "reason": worker.reason, "remedy": worker.remedy}
    return {
        **about,
        "usable": True,
        "metadata": dataclasses.asdict(worker.metadata),
        "capabilities": dataclasses.asdict(worker.capabilities),
        "command": worker.command(),
    }


def _table(workers: list[InstalledWorker]) -> list[str]:
    paint = Paint()
    heads = ["NAME", "TITLE", "VERSION", "LIBRARY", "PARADIGMS", "ENVIRONMENTS", "DISTRIBUTION"]
    rows = [[paint(head, Colour.DIM) for head in heads]]
    for worker in workers:
        metadata, capabilities = worker.metadata, worker.capabilities
        library = f"{metadata.upstream_library} {metadata.upstream_version}".strip()
        rows.append(
            [
                paint(printable(worker.name), Colour.BOLD),
                printable(metadata.name),
                printable(metadata.version),
                printable(library) or "-",
                printable(", ".join(capabilities.supported_paradigms)),
                printable(", ".join(capabilities.env_families)),
                printable(worker.distribution),
            ]
        )
    return columns(rows)


def _problems(workers: list[BrokenWorker]) -> list[str]:
    paint = Paint()
    return columns(
        [
            [
                paint(printable(worker.name), Colour.BOLD),
                paint(printable(worker.reason, 120), Colour.RED),
                f"-> {printable(worker.remedy, 120)}",
            ]
            for worker in workers
        ]
    )
