"""``lanekit stress``: check the lanes' memory ordering on this machine's own cores."""

from __future__ import annotations

import argparse
import json
import os
import secrets
import signal
import sys

from lanekit.cli.endings import MISUSE
from lanekit.cli.view import positive
from lanekit.stress.plan import (
    FAULTS,
    MODES,
    PAIRS,
    READERS_MAX,
    SHAPES,
    SIZES,
    Misuse,
    Round,
    Size,
    choose_cores,
    choose_modes,
    parse_size,
    plan_rounds,
)
from lanekit.stress.progress import Progress
from lanekit.stress.session import Session
from lanekit.stress.verdict import Counts, Verdict
from lanekit.viewer.terminal.quit_signals import QuitSignals

NAME = "stress"
HELP = "check memory ordering here: self-checking frames, pinned cores"
EXAMPLES = (
    ("lanekit stress", "20 seconds on all pairs of cores"),
    ("lanekit stress --minutes 10 --json", "longer, for programs"),
)

DEFAULT_SECONDS = 20.0


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--minutes", type=positive, help="how long in all; default 20 seconds")
    parser.add_argument("--frames", type=_count, help="how many frames to check in all")
    parser.add_argument(
        "--pin",
        type=_cores,
        action="append",
        metavar="W,R[,R...]",
        help="the writer's core, then the readers'; may be repeated; default: all ordered pairs",
    )
    parser.add_argument(
        "--pairs",
        type=_count,
        default=PAIRS,
        help="visit so many pairs of cores at most, chosen by --seed (default %(default)s)",
    )
    parser.add_argument(
        "--with",
        dest="modes",
        type=_names,
        metavar="PARTIES",
        help=f"who writes and reads, of {', '.join(MODES)}; default: all that apply",
    )
    parser.add_argument(
        "--shape",
        dest="shapes",
        type=_names,
        metavar="SHAPES",
        help=f"what they do, of {', '.join(SHAPES)}; default: all",
    )
    parser.add_argument(
        "--size",
        type=_size,
        default=SIZES["small"],
        help=f"frames: {', '.join(SIZES)} or WIDTHxHEIGHT (default small)",
    )
    parser.add_argument(
        "--inject",
        choices=FAULTS,
        metavar="KIND",
        help=f"break a party on purpose, to see it found: {', '.join(FAULTS)}",
    )
    parser.add_argument("--seed", type=int, default=0, help="of the delays and the choice of cores")
    parser.add_argument("--json", action="store_true", help="print the verdict as JSON")


def run(args: argparse.Namespace) -> int:
    """Run it; the status is 1 if anything was torn, reordered or lost, 2 for a misuse."""
    try:
        rounds, seconds = _plan(args)
    except Misuse as misuse:
        print(f"lanekit stress: {misuse}", file=sys.stderr)
        return MISUSE
    progress = Progress(sys.stderr, os.environ, frames=args.frames, seconds=seconds)
    with QuitSignals() as signals, Session() as session:

        def tick(round_: Round, counts: Counts) -> bool:
            progress.show(round_, counts)
            if signals.suspend:
                signals.suspend = False
                os.kill(os.getpid(), signal.SIGSTOP)
            return signals.quit

        results = session.run(rounds, seconds=seconds, tick=tick)
    progress.clear()
    verdict = Verdict(results, len(rounds))
    print(json.dumps(verdict.to_json(), indent=2) if args.json else "\n".join(verdict.lines()))
    return verdict.status


def _plan(args: argparse.Namespace) -> tuple[list[Round], float | None]:
    seconds = None if args.minutes is None else args.minutes * 60
    if seconds is None and args.frames is None:
        seconds = DEFAULT_SECONDS
    for shape in args.shapes or ():
        if shape not in SHAPES:
            raise Misuse(f"unknown shape {shape!r}; known: {', '.join(SHAPES)}")
    modes = choose_modes(args.modes, args.inject)
    cores, there_are = choose_cores(args.pin, os.sched_getaffinity(0), args.pairs, args.seed)
    if there_are > len(cores):
        print(
            f"lanekit stress: visiting {len(cores)} of {there_are} pairs of cores; "
            "another --seed visits others, --pairs more",
            file=sys.stderr,
        )
    rounds = plan_rounds(
        modes=modes,
        cores=cores,
        shapes=args.shapes,
        size=args.size,
        seed=args.seed,
        frames=args.frames,
        seconds=seconds,
        fault=args.inject,
        name=f"stress-{os.getpid()}-{secrets.token_hex(4)}",
    )
    return rounds, seconds


def _count(text: str) -> int:
    value = int(text.replace("_", ""))
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {text}")
    return value


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def _cores(text: str) -> tuple[int, ...]:
    try:
        cores = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"cores are numbers such as 0,1; got {text!r}") from None
    if not 2 <= len(cores) <= 1 + READERS_MAX:
        raise argparse.ArgumentTypeError(
            f"name the writer's core and 1 to {READERS_MAX} readers', such as 0,1; got {text!r}"
        )
    return cores


def _size(text: str) -> Size:
    try:
        return parse_size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
