"""``lanekit export``: a run for another tool."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from lanekit.cli.quantities import duration
from lanekit.cli.store_argument import add_store_argument, find_run, open_store
from lanekit.segments import human_size

NAME = "export"
HELP = "write a run as parquet, csv, jsonl, tensorboard or wandb-offline"
EXAMPLES = (
    ("lanekit export my-run --to csv", "into ./my-run-csv"),
    ("lanekit export my-run --to parquet --frames", "with the pictures"),
)

FORMATS = ("parquet", "csv", "jsonl", "tensorboard", "wandb-offline")

_NEXT = {
    "tensorboard": "look at it with: tensorboard --logdir {out}",
    "wandb-offline": "upload it with: wandb sync {out}/wandb/offline-run-*",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("run_id", metavar="RUN", help="the run, as `lanekit runs` prints it")
    parser.add_argument("--to", required=True, choices=FORMATS, dest="format", help="the format")
    parser.add_argument(
        "--out", type=Path, metavar="DIRECTORY", help="where to; by default ./RUN-FORMAT"
    )
    parser.add_argument(
        "--frames", action="store_true", help="with the recorded frames (parquet and jsonl)"
    )
    parser.add_argument("--force", action="store_true", help="replace an earlier export")
    add_store_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Write the export and say what it holds."""
    with open_store(args) as store:
        from lanekit.slow.export.run_export import export_run

        record = find_run(store, args.run_id)
        out = args.out or Path(f"{record.run_id}-{args.format}")
        progress = _Progress(record.steps + record.episodes + record.events)
        started = time.monotonic()
        try:
            export_run(
                store,
                record.run_id,
                args.format,
                out,
                frames=args.frames,
                force=args.force,
                progress=progress.advance,
            )
        except OSError as error:
            progress.clear()
            print(f"lanekit: can not write {out}: {error}; nothing is left there", file=sys.stderr)
            return 1
        finally:
            progress.clear()
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    print(
        f"{out}: {record.steps:,} steps, {record.episodes:,} episodes, {record.events:,} events; "
        f"{human_size(size)} in {duration(time.monotonic() - started)}"
    )
    if args.format in _NEXT:
        print(_NEXT[args.format].format(out=out))
    return 0


class _Progress:
    """A line on the terminal that says how far it is; nothing elsewhere."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0
        self._due = time.monotonic() + 0.5
        self._shown = False
        self._on = sys.stderr.isatty()

    def advance(self, rows: int) -> None:
        self._done += rows
        now = time.monotonic()
        if self._on and now >= self._due:
            self._due = now + 0.2
            self._shown = True
            share = self._done / max(1, self._total)
            print(
                f"\r\x1b[K{self._done:,} of {self._total:,} rows, {share:.0%}",
                end="",
                file=sys.stderr,
            )

    def clear(self) -> None:
        if self._shown:
            self._shown = False
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
