"""Measure what watching costs a training: ``python -m bench.overhead [--steps N] [--seeds N]``.

Each framework trains CartPole-v1 bare, wrapped but unwatched, watched at 60 Hz (drawn by another
process, or by its own) and drawing every step. Needs the frameworks: `make test-frameworks` makes
an environment with all of them. An interrupted run goes on with the seed it was at.
"""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from bench.overhead import driver, report
from bench.overhead.modes import FRAMEWORKS

_RESULTS = Path(__file__).parents[1] / "results" / "overhead"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.overhead", description=__doc__)
    parser.add_argument(
        "--frameworks", nargs="+", choices=FRAMEWORKS, default=list(FRAMEWORKS), metavar="NAME"
    )
    parser.add_argument("--steps", type=_positive, default=100_000, help="of each mode and seed")
    parser.add_argument("--seeds", type=_positive, default=5)
    parser.add_argument(
        "--every-step-steps",
        type=_positive,
        default=8_000,
        help="steps instead, where every step is drawn: at about a millisecond each",
    )
    parser.add_argument(
        "--noise",
        type=float,
        default=1.0,
        metavar="SHARE",
        help="wait up to a minute before each seed until others use at most this share",
    )
    parser.add_argument(
        "--out",
        type=Path,
        help="directory for the samples, the tables and the plot; default: results/overhead here, "
        "or that of --from",
    )
    parser.add_argument(
        "--from", type=Path, dest="samples", metavar="FILE.json", help="report only, on these"
    )
    return parser.parse_args()


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"at least 1, not {number}")
    return number


def main() -> None:
    # Ending by SIGTERM must unwind, too: the child is ended on the way.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    arguments = _arguments()
    directory = arguments.out or (arguments.samples.parent if arguments.samples else _RESULTS)
    try:
        if arguments.samples is None:
            effort = driver.Effort(arguments.steps, arguments.every_step_steps)
            record = driver.Record(directory / "overhead.json", effort)
            driver.run(record, arguments.frameworks, arguments.seeds, arguments.noise)
            content = record.content
        else:
            content = driver.load(arguments.samples)
    except (OSError, ValueError) as error:
        sys.exit(f"error: {error}")
    directory.mkdir(parents=True, exist_ok=True)
    text = report.markdown(content)
    (directory / "overhead.md").write_text(text + "\n", encoding="utf-8")
    print(text)
    if content["turns"]:
        _plot(content, directory / "overhead.png")
    print(f"\nwritten to {directory}", file=sys.stderr)
    if content["failed"]:
        sys.exit(1)


def _plot(content: dict[str, object], path: Path) -> None:
    try:
        from bench.overhead import plot

        plot.draw(content, path)
    except ImportError as error:
        print(f"no plot: {error}; pip install '.[bench]' brings matplotlib", file=sys.stderr)


if __name__ == "__main__":
    main()
