"""`lanekit clean`: remove what dead processes left in shared memory."""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import dataclass
from typing import Any, Literal

from lanekit import errors
from lanekit.cli.endings import MISUSE
from lanekit.cli.ls import Row, list_segments, printable
from lanekit.segments import check_orphan, human_size, reclaim_segment, segment_path

NAME = "clean"
HELP = "remove segments of dead owners; others only if forced by name"
EXAMPLES = (
    ("lanekit clean --dry-run", "what would be removed"),
    ("lanekit clean", "remove it"),
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="only these segments, or those of these runs"
    )
    parser.add_argument("--dry-run", action="store_true", help="say what would be removed")
    parser.add_argument(
        "--force",
        action="store_true",
        help="also remove the named segments that are damaged or have a live owner (asks first)",
    )
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace) -> int:
    """Remove orphans; report what stays and why."""
    if args.force and not args.names:
        print("lanekit clean: --force needs the names of the segments", file=sys.stderr)
        return MISUSE
    rows = list_segments()
    chosen, problems = select(args.names, rows, force=args.force)
    for problem in problems:
        print(problem, file=sys.stderr)
    fates = [judged(row, args) for row in rows if not args.names or row.name in chosen]
    if args.json:
        print(json.dumps([fate.to_json() for fate in fates], indent=2))
    elif not any(fate.is_news for fate in fates) and not args.names:
        print("nothing to clean")
    # Who said no to a question has got what was asked for.
    refused = any(fate.outcome == "kept" and fate.reason for fate in fates)
    return 1 if problems or (args.names and refused) else 0


def select(names: list[str], rows: list[Row], *, force: bool) -> tuple[set[str], list[str]]:
    """Return the segments that are meant, by their names or a run's, and what is wrong."""
    chosen = set(names) & {row.name for row in rows}
    problems = []
    for name in sorted(set(names) - chosen):
        found = segments_of_run(name, rows)
        listed = " ".join(found)
        if not found:
            problems.append(f"{name}: no such segment or run; `lanekit ls` lists them")
        elif force:  # what may be in use is not removed by a name that stands for more
            problems.append(
                f"{name}: is a run, and --force takes segments: `lanekit clean --force {listed}`"
            )
        elif len({row.info.run_id for row in rows if row.info and row.name in found}) > 1:
            problems.append(f"{name}: several runs are shown so; name the segments: {listed}")
        else:
            chosen.update(found)
    return chosen, problems


def segments_of_run(run_id: str, rows: list[Row]) -> list[str]:
    """Return the segments of a run, named in full or as `lanekit ls` shows it."""
    known = [(row.name, row.info.run_id) for row in rows if row.info is not None]
    exactly = [name for name, of_run in known if of_run == run_id]
    return exactly or [name for name, of_run in known if printable(of_run) == run_id]


@dataclass(frozen=True)
class Fate:
    """What became of a segment, and why."""

    row: Row
    outcome: Literal["removed", "would remove", "kept"]
    reason: str = ""
    is_news: bool = True
    """Whether somebody who named no segment wants to know."""

    def to_json(self) -> dict[str, Any]:
        """Return it for other programs."""
        return {
            "name": self.row.name,
            "run": None if self.row.info is None else self.row.info.run_id,
            "size": self.row.size,
            "outcome": self.outcome,
            "reason": self.reason or None,
        }

    def __str__(self) -> str:
        if self.outcome != "kept":
            size = human_size(self.row.size)
            return f"{self.outcome} {self.row.name}  {size}  {what_it_is(self.row)}"
        return f"kept    {self.row.name}" + (f"  ({self.reason})" if self.reason else "")


def judged(row: Row, args: argparse.Namespace) -> Fate:
    """Decide about one segment, do it, and say so at once: the next one may need an answer."""
    fate = decided(row, args)
    if not args.json and (args.names or fate.is_news):
        print(fate, flush=True)
    return fate


def decided(row: Row, args: argparse.Namespace) -> Fate:
    """Remove a segment if that is right."""
    try:
        check_orphan(row.name)
        orphan, reason = True, ""
    except errors.LanekitError as error:
        orphan, reason = False, str(error)
        if isinstance(error, errors.SegmentPermissionDenied) and not belongs_to_us(row.name):
            return Fate(row, "kept", reason, is_news=row.info is None)
    if not orphan and not args.force:
        return Fate(row, "kept", reason, is_news=row.info is None)
    if args.dry_run:
        return Fate(row, "would remove")
    if not orphan and not args.yes and (args.json or not confirmed(row, reason)):
        return Fate(row, "kept")
    try:
        reclaim_segment(row.name, force=args.force)
    except errors.LanekitError as error:
        # Between judging and removing somebody else may have taken it over: no failure of ours.
        return Fate(row, "kept", str(error))
    return Fate(row, "removed")


def belongs_to_us(name: str) -> bool:
    """Whether it is this user's; not even root removes another's by this command."""
    try:
        return os.lstat(segment_path(name)).st_uid == os.geteuid()
    except OSError:
        return False


def what_it_is(row: Row) -> str:
    """Describe whose segment it was."""
    if row.info is None:
        return "(unreadable)"
    return f"(run {printable(row.info.run_id)!r}, owner {row.owner})"


def confirmed(row: Row, reason: str) -> bool:
    """Ask before removing something that may be in use."""
    if not sys.stdin.isatty():
        print(f"{reason}; add --yes to remove it anyway", file=sys.stderr)
        return False
    answer = input(f"{reason}. Remove {row.name} anyway? [y/N] ")
    return answer.strip().lower() in ("y", "yes")
