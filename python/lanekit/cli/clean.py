"""`lanekit clean`: remove what dead processes left in shared memory."""

from __future__ import annotations

import argparse
import sys

from lanekit import errors
from lanekit.cli.ls import Row, human_size, list_segments, printable
from lanekit.segments import check_orphan, reclaim_segment

NAME = "clean"
HELP = "remove segments of dead owners; others only if forced by name"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these segments")
    parser.add_argument("--dry-run", action="store_true", help="say what would be removed")
    parser.add_argument(
        "--force",
        action="store_true",
        help="also remove the named segments that are damaged or have a live owner (asks first)",
    )
    parser.add_argument("--yes", action="store_true", help="do not ask")


def run(args: argparse.Namespace) -> int:
    """Remove orphans; report what stays and why."""
    if args.force and not args.names:
        print("lanekit clean: --force needs the names of the segments", file=sys.stderr)
        return 2
    rows = list_segments()
    unknown = set(args.names) - {row.name for row in rows}
    for name in sorted(unknown):
        print(f"{name}: no such segment; `lanekit ls` lists them", file=sys.stderr)
    chosen = [row for row in rows if not args.names or row.name in args.names]
    failed = bool(unknown)
    found = 0
    for row in chosen:
        try:
            check_orphan(row.name)
            orphan = True
        except errors.LanekitError as error:
            orphan, reason = False, str(error)
        if not orphan and not args.force:
            if args.names or row.info is None:
                print(f"kept    {row.name}  ({reason})")
            failed = failed or bool(args.names)
            continue
        if args.dry_run:
            found += 1
            print(f"would remove {row.name}  {human_size(row.size)}  {what_it_is(row)}")
            continue
        if not orphan and not args.yes and not confirmed(row, reason):
            print(f"kept    {row.name}")
            continue
        try:
            reclaim_segment(row.name, force=args.force)
        except errors.LanekitError as error:
            # Between judging and removing somebody else may have taken it over: no failure of ours.
            print(f"kept    {row.name}  ({error})")
            failed = failed or bool(args.names)
        else:
            found += 1
            print(f"removed {row.name}  {human_size(row.size)}  {what_it_is(row)}")
    if found == 0 and not args.names:
        print("nothing to clean")
    return 1 if failed else 0


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
