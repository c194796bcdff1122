"""`lanekit top`: all lanes of this machine, live."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from collections.abc import Iterator

from lanekit.cli.columns import Colour, Paint, columns
from lanekit.cli.endings import MISUSE
from lanekit.cli.lane_counters import Movement, Reading, movements, read_lanes
from lanekit.cli.ls import human_age, printable
from lanekit.cli.quantities import json_document
from lanekit.segments import human_size

NAME = "top"
HELP = "watch all lanes: rate, MB/s, depth, peers, stalls"
EXAMPLES = (("lanekit top --once", "one table"),)

_HEADS = ("RUN", "KIND", "RATE", "MB/S", "DEPTH", "PEERS", "STALLS", "TOTAL", "OWNER", "AGE")
_RIGHT = (2, 3, 4, 5, 6, 7)
_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "--interval", type=float, default=1.0, metavar="SECONDS", help="between two looks (1)"
    )
    parser.add_argument("--once", action="store_true", help="print one table and end")
    parser.add_argument("--json", action="store_true", help="print one JSON document and end")


def run(args: argparse.Namespace) -> int:
    """Show the lanes until Ctrl-C, or once."""
    if not 0.01 <= args.interval <= 3600:
        print("lanekit top: --interval is 0.01 to 3600 seconds", file=sys.stderr)
        return MISUSE
    looks = watch(args.interval)
    if args.json:
        print(json_document([movement.to_json() for movement in next(looks)]))
    elif args.once:
        print("\n".join(table(next(looks), Paint())))
    elif sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        draw(looks)
    else:
        for lanes in looks:
            print("\n".join([time.strftime("%H:%M:%S"), *table(lanes, Paint())]), flush=True)
    return 0


def watch(interval: float) -> Iterator[list[Movement]]:
    """Yield what moved, each time over one interval."""
    before: dict[str, Reading] = read_lanes()
    while True:
        time.sleep(interval)
        now = read_lanes()
        yield movements(before, now)
        before = now


def draw(looks: Iterator[list[Movement]]) -> None:
    """Draw into a screen of our own, and give the terminal back as it was."""
    paint = Paint()
    sys.stdout.write(_ENTER)
    sys.stdout.flush()
    try:
        for lanes in looks:
            size = shutil.get_terminal_size()
            head = f"lanekit top  {time.strftime('%H:%M:%S')}  {len(lanes)} lanes  Ctrl-C ends"
            lines = [paint(head, Colour.BOLD), "", *table(lanes, paint)]
            # A line that wraps would push the others off the screen; colours count as nothing.
            shown = [cut(line, size.columns) for line in lines[: size.lines - 1]]
            sys.stdout.write("\x1b[H" + "".join(f"{line}\x1b[K\n" for line in shown) + "\x1b[J")
            sys.stdout.flush()
    finally:
        sys.stdout.write(_LEAVE)
        sys.stdout.flush()


def cut(line: str, width: int) -> str:
    """Return at most `width` characters of a line, its colours closed."""
    out, visible, i = "", 0, 0
    while i < len(line) and visible < width:
        if line[i] == "\x1b":
            end = line.index("m", i) + 1
            out, i = out + line[i:end], end
            continue
        out, visible, i = out + line[i], visible + 1, i + 1
    return out + "\x1b[0m" if "\x1b" in line else out


def table(lanes: list[Movement], paint: Paint) -> list[str]:
    """Return the lines of the table."""
    if not lanes:
        return ["no lanes on this machine; `lanekit demo` starts one"]
    rows = [cells(lane, paint) for lane in lanes]
    return columns([[paint(head, Colour.DIM) for head in _HEADS], *rows], _RIGHT)


def cells(lane: Movement, paint: Paint) -> list[str]:
    """Return one lane's row."""
    info, counters = lane.reading.info, lane.reading.counters
    run_id = printable(info.run_id, 32)
    age = human_age(time.time() - info.created_unix_ns / 1e9)
    owner = lane.owner
    if info.owner == "dead" or info.invalidated:
        run_id, owner = paint(run_id, Colour.DIM), paint(owner, Colour.RED)
    if counters is None:
        return [run_id, info.kind, *["?"] * 6, owner, age]
    rate = "?" if lane.per_second is None else f"{lane.per_second:,.0f}/s"
    megabytes = "?" if lane.bytes_per_second is None else f"{lane.bytes_per_second / 1e6:,.1f}"
    depth = "-"
    if counters.depth is not None:
        depth = f"{counters.depth:,} ({human_size(counters.depth_bytes or 0)})"
    peers = (
        f"{counters.peers}" if counters.places is None else f"{counters.peers}/{counters.places}"
    )
    stalls = "-"
    if counters.stalls is not None:
        now = f" +{lane.stalls_per_second:.0f}/s" if lane.stalls_per_second else ""
        stalls = f"{counters.stalls:,}{now}"
        if counters.waiting:
            stalls = paint(f"{stalls} ({counters.waiting} waiting)", Colour.YELLOW)
    total = f"{counters.count:,} {counters.unit}"
    return [run_id, info.kind, rate, megabytes, depth, peers, stalls, total, owner, age]
