"""``lanekit runs``: the runs that are recorded."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Any

from lanekit.cli.cluster import add_cluster_argument, print_runs
from lanekit.cli.columns import Colour, Paint, columns
from lanekit.cli.connection import add_connection_arguments, connect
from lanekit.cli.ls import printable
from lanekit.cli.quantities import ago, duration, json_document, number
from lanekit.cli.store_argument import add_store_argument, open_store

if TYPE_CHECKING:
    from lanekit.slow.store.records import RunRecord
    from lanekit.slow.store.run_store import RunStore

NAME = "runs"
HELP = "list recorded runs: state, age, time, steps, episodes, return"
EXAMPLES = (
    ("lanekit runs", "the newest first"),
    ("lanekit runs --json", "for programs"),
)

RECENT_EPISODES = 10
"""Episodes whose mean return a listing shows."""
_BEATS = 100
"""Events at the end of a log, among which the newest heartbeats are."""

STATE_COLOURS = {
    "submitted": Colour.BLUE,
    "running": Colour.GREEN,
    "paused": Colour.YELLOW,
    "failed": Colour.RED,
    "lost": Colour.RED,
    "cancelled": Colour.MAGENTA,
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_store_argument(parser)
    parser.add_argument("--all", action="store_true", help="show archived runs, too")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    change = parser.add_mutually_exclusive_group()
    change.add_argument(
        "--archive", metavar="RUN", help="hide a run from this list; its data stays"
    )
    change.add_argument("--unarchive", metavar="RUN", help="show it again")
    add_cluster_argument(parser)
    add_connection_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Print a table, or JSON; or archive a run."""
    if args.cluster is not None:
        return print_runs(args)
    if args.archive or args.unarchive:
        return _archive(args, args.archive or args.unarchive, archived=bool(args.archive))
    with open_store(args) as store:
        found = store.runs(include_archived=args.all)
        if args.json:
            print(json_document([run_json(store, record) for record in found]))
        elif found:
            print("\n".join(_table(store, found)))
        else:
            hidden = len(store.runs(include_archived=True))
            print(
                f"no runs here but {hidden} archived; `lanekit runs --all` lists them"
                if hidden
                else "no runs yet; `lanekit demo` records one, `lanekit run --worker NAME` trains"
            )
    return 0


def run_json(store: RunStore, record: RunRecord) -> dict[str, Any]:
    """Return what is known of a run, for other programs."""
    seconds = run_seconds(record)
    return {
        "run_id": record.run_id,
        "state": str(record.state),
        "archived": record.archived,
        "created_ns": record.created_ns,
        "started_ns": record.started_ns or None,
        "ended_ns": record.ended_ns or None,
        "seconds": seconds,
        "exit_status": record.exit_status,
        "reason": record.reason or None,
        "command": list(record.command),
        "config": record.config,
        "steps": record.steps,
        "reported_steps": reported_steps(store, record),
        "episodes": record.episodes,
        "events": record.events,
        "rejected_lines": record.rejected_lines,
        "recent_return": recent_return(store, record),
    }


def run_seconds(record: RunRecord) -> float | None:
    """Return how long a run took, or has taken so far."""
    if not record.started_ns:
        return None
    if record.state.is_over and not record.ended_ns:
        return None
    end = record.ended_ns or time.time_ns()
    return max(0.0, (end - record.started_ns) / 1e9)


def recent_return(store: RunStore, record: RunRecord) -> float | None:
    """Return the mean return of the last episodes that have one."""
    if not record.episodes:
        return None
    returns = store.episodes(record.run_id, last=RECENT_EPISODES).episode_return
    known = returns[returns == returns]  # not NaN
    return float(known.mean()) if len(known) else None


def reported_steps(store: RunStore, record: RunRecord) -> int | None:
    """Return how far the run's workers said they are: most send episodes, and not each step."""
    if not record.events:
        return None
    recent = store.events(record.run_id, last=_BEATS)
    beats = [event.payload for event in recent if event.name == "heartbeat"]
    steps = [beat.get("step") for beat in beats if isinstance(beat, dict)]
    return max((step for step in steps if isinstance(step, int)), default=None)


def _table(store: RunStore, found: list[RunRecord]) -> list[str]:
    paint = Paint()
    heads = ["RUN", "STATE", "CREATED", "DURATION", "STEPS", "EPISODES", "RETURN", "NOTE"]
    rows = [[paint(head, Colour.DIM) for head in heads]]
    for record in found:
        seconds, reward = run_seconds(record), recent_return(store, record)
        state = str(record.state)
        rows.append(
            [
                paint(record.run_id, Colour.BOLD),
                paint(state, STATE_COLOURS[state]) if state in STATE_COLOURS else state,
                ago(record.created_ns),
                "-" if seconds is None else duration(seconds),
                f"{record.steps or reported_steps(store, record) or 0:,}",
                f"{record.episodes:,}",
                "-" if reward is None else number(reward),
                paint(_note(record), Colour.DIM),
            ]
        )
    return columns(rows, right={3, 4, 5, 6})


def _note(record: RunRecord) -> str:
    notes = ["archived"] if record.archived else []
    if record.rejected_lines:
        notes.append(f"{record.rejected_lines:,} rejected lines")
    if record.reason:
        notes.append(printable(record.reason, 60))
    elif record.exit_status:
        notes.append(exit_words(record.exit_status))
    return "; ".join(notes)


def exit_words(status: int) -> str:
    """Say how a worker ended."""
    return f"signal {-status}" if status < 0 else f"exit status {status}"


def _archive(args: argparse.Namespace, run_id: str, *, archived: bool) -> int:
    """Ask the daemon: only it writes to the store."""
    with connect(args) as daemon:
        daemon.archive_run(run_id, archived=archived)
    print(f"{run_id}: {'archived; its data stays' if archived else 'listed again'}")
    return 0
