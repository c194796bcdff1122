"""Run the benchmarks: ``python -m bench LANE|all|page|compare``; see bench/README.md."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from bench import all_lanes, compare, machine, page, running

RESULTS = Path(__file__).with_name("results")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="LANE|COMMAND")
    for lane in running.METHODS:
        one = commands.add_parser(lane, help=f"measure only this: {lane}")
        one.add_argument("--quick", action="store_true", help="fewer rounds: a first impression")
        one.add_argument("--tiny", action="store_true", help=argparse.SUPPRESS)
        one.add_argument(
            "--only", nargs="+", metavar="NAME", help="some measurements instead of all"
        )
        _add_noise(one)
        one.add_argument("--out", type=Path, default=RESULTS, help="directory for JSON")
    every = commands.add_parser("all", help="every lane beside limits and peers, with a page")
    effort = every.add_mutually_exclusive_group()
    effort.add_argument("--quick", action="store_true", help="in less than three minutes (default)")
    effort.add_argument("--full", action="store_true", help="every lane in full: some 35 minutes")
    effort.add_argument("--tiny", action="store_true", help=argparse.SUPPRESS)
    every.add_argument(
        "--only", nargs="+", metavar="LANE", choices=list(running.METHODS), help="some lanes"
    )
    _add_noise(every)
    every.add_argument(
        "--out", type=Path, default=RESULTS, help="directory for all that is written"
    )
    drawn = commands.add_parser("page", help="write docs/benchmarks.md and the README's table")
    drawn.add_argument("record", type=Path, nargs="?", default=RESULTS / all_lanes.RECORD)
    drawn.add_argument("--docs", type=Path, default=RESULTS.parents[1] / "docs")
    drawn.add_argument("--readme", type=Path, default=RESULTS.parents[1] / "README.md")
    two = commands.add_parser("compare", help="what became slower between two runs; 1 if something")
    two.add_argument("before", type=Path, metavar="A.json")
    two.add_argument("after", type=Path, metavar="B.json")
    two.add_argument(
        "--tolerance", type=float, default=0.05, metavar="SHARE", help="so much is never reported"
    )
    return parser.parse_args()


def _add_noise(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--noise",
        type=float,
        default=1.0,
        metavar="SHARE",
        help="wait for quiet moments, and measure again (up to "
        f"{running.TRIES} times) until others used at most this share of the machine",
    )


def _one_lane(arguments: argparse.Namespace) -> int:
    lane, report = running.modules(arguments.command)
    if unknown := set(arguments.only or ()).difference(lane.MEASUREMENTS):
        known = ", ".join(lane.MEASUREMENTS)
        sys.exit(f"--only: {', '.join(sorted(unknown))} is not one of {known}")
    described = machine.describe()
    effort = lane.QUICK if arguments.quick else lane.FULL
    if arguments.tiny:  # for the tests: whether it works, not how fast
        effort = lane.TINY
    names = running.possible(lane, arguments.only or list(lane.MEASUREMENTS))
    parts = {name: lane.MEASUREMENTS[name] for name in names}
    results, noise = running.measure(parts, effort, arguments.noise, lane.UNTIMED)
    record = {
        "machine": described,
        "method": running.METHODS[arguments.command],
        "effort": asdict(effort),
        "noise": noise,
        "results": results,
    }
    arguments.out.mkdir(parents=True, exist_ok=True)
    path = arguments.out / f"{arguments.command}.json"
    path.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(report.markdown(results))
    print(f"\nwritten to {path}", file=sys.stderr)
    return 0


def main() -> int:
    # Ending by SIGTERM must unwind, too: the rings in shared memory are removed on the way.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    arguments = _arguments()
    commands: dict[str, Callable[[argparse.Namespace], int]] = {
        "all": all_lanes.main,
        "page": page.main,
        "compare": compare.main,
    }
    return commands.get(arguments.command, _one_lane)(arguments)


if __name__ == "__main__":
    sys.exit(main())
