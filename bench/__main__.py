"""Run the benchmarks: ``python -m bench fast [--quick] [--only NAME ...] [--out DIR]``."""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench import fast_lane, machine, report

_METHOD = (
    "Writer and reader are separate processes pinned to different cores. Every operation is one "
    "sample; blocks of each kind of operation alternate, p50 and p99 are medians over the rounds, "
    "ratios are medians of the ratios of p50 within a round. Samples of lanekit are taken in "
    "Python (perf_counter_ns), those of the limits in C (clock_gettime), clock reads included."
)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("lane", choices=["fast"])
    parser.add_argument("--quick", action="store_true", help="fewer rounds: a first impression")
    parser.add_argument(
        "--only", nargs="+", choices=fast_lane.MEASUREMENTS, help="some measurements instead of all"
    )
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).with_name("results"), help="directory for JSON"
    )
    return parser.parse_args()


def _measure(names: list[str], effort: fast_lane.Effort) -> tuple[dict[str, Any], dict[str, Any]]:
    results, noise = {}, {}
    for name in names:
        started, neighbours = time.monotonic(), machine.Neighbours()
        results[name] = fast_lane.MEASUREMENTS[name](effort)
        noise[name] = neighbours.share()
        print(
            f"{name}: {time.monotonic() - started:.0f} s, "
            f"{noise[name]['used_by_others']:.1%} of the machine used by others",
            file=sys.stderr,
        )
    return results, noise


def main() -> None:
    arguments = _arguments()
    described = machine.describe()
    if described["one_core_for_all"]:
        print("Only one core: writer and reader share it; latencies mean little.", file=sys.stderr)
    effort = fast_lane.QUICK if arguments.quick else fast_lane.FULL
    results, noise = _measure(arguments.only or list(fast_lane.MEASUREMENTS), effort)
    record = {
        "machine": described,
        "method": _METHOD,
        "effort": asdict(effort),
        "noise": noise,
        "results": results,
    }
    arguments.out.mkdir(parents=True, exist_ok=True)
    path = arguments.out / "fast.json"
    path.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(report.markdown(results))
    print(f"\nwritten to {path}", file=sys.stderr)


if __name__ == "__main__":
    main()
