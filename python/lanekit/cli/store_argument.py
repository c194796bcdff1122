"""What the commands that read the store share: which store, and which of its runs."""

from __future__ import annotations

import argparse
import difflib
from typing import TYPE_CHECKING

from lanekit.cli.connection import missing_slow
from lanekit.errors import RunNotFound

if TYPE_CHECKING:
    from lanekit.slow.store.records import RunRecord
    from lanekit.slow.store.run_store import RunStore


def add_store_argument(parser: argparse.ArgumentParser) -> None:
    """Add ``--store``."""
    parser.add_argument(
        "--store",
        metavar="PATH|URL",
        help="read this file or postgresql:// database, not the daemon's usual store",
    )


def open_store(args: argparse.Namespace) -> RunStore:
    """Open the store that the command line names."""
    try:
        from lanekit.slow.store.run_store import RunStore
    except ModuleNotFoundError as error:
        raise missing_slow(error) from error
    return RunStore.open(args.store)


def find_run(store: RunStore, run_id: str) -> RunRecord:
    """Return the run, or say which ones have similar names."""
    try:
        return store.run(run_id)
    except RunNotFound:
        known = [run.run_id for run in store.runs(include_archived=True)]
        raise RunNotFound(_not_found(run_id, known, store.path)) from None


def _not_found(run_id: str, known: list[str], path: str) -> str:
    if not known:
        return f"no run {run_id!r}: {path} holds no runs yet; `lanekit demo` records one"
    containing = [name for name in known if run_id and run_id.lower() in name.lower()]
    close = difflib.get_close_matches(run_id, known, n=3, cutoff=0.6)
    near = list(dict.fromkeys(containing[:3] + close))[:3]
    if not near:
        return f"no run {run_id!r} in {path}; `lanekit runs --all` lists what there is"
    return f"no run {run_id!r} in {path}; did you mean {' or '.join(map(repr, near))}?"
