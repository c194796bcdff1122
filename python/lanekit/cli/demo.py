"""``lanekit demo``: an agent learns while you watch, and its run is kept to be replayed."""

from __future__ import annotations

import argparse
import importlib.util
import os
import shlex
import shutil
import sys
from contextlib import suppress
from pathlib import Path

from lanekit.cli.columns import Colour, Paint, columns
from lanekit.cli.demo_faces import FACES, choose_face
from lanekit.cli.demo_runs import DemoRun, obstacle_to_recording, start_run
from lanekit.cli.endings import EXTRA_OF, MISUSE
from lanekit.cli.view import non_empty, positive
from lanekit.demo.worker import CART_POLE, check_environment
from lanekit.viewer.terminal.quit_signals import QuitSignals

NAME = "demo"
HELP = "watch an agent learn: live pictures, curves, a run to replay"
EXAMPLES = (
    ("lanekit demo", "a PPO learns to balance a pole"),
    ("lanekit demo --env Acrobot-v1", "any Gymnasium environment"),
    ("lanekit demo --view terminal", "here, although there is a screen"),
    ("lanekit demo --view browser", "as a page, also from elsewhere"),
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "--env",
        type=non_empty,
        default=CART_POLE,
        metavar="ID",
        help="a Gymnasium environment to learn in (default: a cart-pole of lanekit's own)",
    )
    parser.add_argument("--seed", type=_seed, default=0, help="equal seeds learn equally")
    parser.add_argument("--seconds", type=positive, help="stop after this long")
    parser.add_argument("--run-id", type=non_empty, metavar="ID", help="the run's id; default: new")
    parser.add_argument(
        "--view",
        choices=[face.name for face in FACES],
        help="where to show it (default: the first of these that works here)",
    )
    parser.add_argument(
        "--no-record", action="store_true", help="without a daemon; nothing is kept of the run"
    )


def run(args: argparse.Namespace) -> int:
    """Run the demo; the status is 1 if the training ended before it was asked to."""
    if args.no_record and args.view == "browser":
        _say("the page shows recorded runs: leave --no-record out, or take --view terminal")
        return MISUSE
    if (refusal := obstacle_to_recording(args)) is not None:
        _say(refusal)
        return MISUSE
    check_environment(args.env)
    face, remarks = choose_face(args.view)
    _say("starting ...")  # a daemon and a training take seconds where they were never started
    with QuitSignals() as signals, start_run(args, face.patience) as training:
        for remark in [*training.remarks, *remarks]:
            _say(remark)
        _say(_introduction(args, training, face.name))
        if not signals.quit:
            face.show(training, args.seconds, lambda: signals.quit)
        early = not training.alive()  # a window may have outlasted it
        if training.recorded_in:
            _say("ending the run and storing the rest of it ...")
    if early:
        print(f"lanekit demo: {training.failure()}", file=sys.stderr)
        return 1
    with suppress(OSError):  # the terminal may have been closed
        print(_summary(args, training), flush=True)
    return 0


def _introduction(args: argparse.Namespace, training: DemoRun, where: str) -> str:
    what = "to balance a pole" if args.env == CART_POLE else f"to play {args.env}"
    rows = [["run", training.run_id], ["shown in", f"the {where}"]]
    if training.recorded_in:
        rows.append(["recorded in", training.recorded_in])
    lines = [f"a PPO learns {what}; Ctrl-C ends it and cleans up", *columns(rows)]
    return "\n  ".join(lines)


def _summary(args: argparse.Namespace, training: DemoRun) -> str:
    """Say what there was, and what to do with it."""
    paint = Paint()
    rows = [[command, paint(f"# {why}", Colour.DIM)] for command, why in _ideas(args, training)]
    return "\n".join([training.summary(), "try next:", *(f"  {line}" for line in columns(rows))])


def _ideas(args: argparse.Namespace, training: DemoRun) -> list[tuple[str, str]]:
    ideas = []
    activate = Path(sys.prefix, "bin", "activate")
    if shutil.which("lanekit") is None and activate.exists():  # as after `make demo`
        shown = os.path.relpath(activate) if activate.is_relative_to(Path.cwd()) else activate
        ideas.append((f"source {shlex.quote(str(shown))}", "so that this shell finds lanekit"))
    if training.recorded_in:
        ideas += [
            (f"lanekit replay {training.run_id}", "the same pictures again; it says how to watch"),
            (f"lanekit show {training.run_id}", "its numbers; `lanekit runs` lists all runs"),
            ("lanekit web --open", "all runs in a browser"),
            ("lanekit run --worker demo", "train at full speed, with progress and a result"),
        ]
    else:
        ideas += _ideas_to_record(args)
    if args.env == CART_POLE:
        ideas.append(("lanekit demo --env Acrobot-v1", "another environment"))
    ideas.append(("lanekit workers", "your own framework: what is installed, and how to get it"))
    return ideas


def _ideas_to_record(args: argparse.Namespace) -> list[tuple[str, str]]:
    """Say what would have kept the run. What went wrong on the way was told when it did."""
    missing = [extra for extra in ("slow", "rl", "viewer") if not _is_installed(extra)]
    if "slow" in missing:
        window = ", shows them in a window" if "viewer" in missing else ""
        return [(f"pip install 'lanekit[{','.join(missing)}]'", f"records runs{window}")]
    if args.no_record:
        env = "" if args.env == CART_POLE else f" --env {shlex.quote(args.env)}"
        return [(f"lanekit demo{env}", "the same, kept to be replayed")]
    return []


def _is_installed(extra: str) -> bool:
    modules = [module for module, brought_by in EXTRA_OF.items() if brought_by == extra]
    return all(importlib.util.find_spec(module) is not None for module in modules)


def _seed(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"must be a whole number and not negative, got {text}")
    return int(text)


def _say(text: str) -> None:
    with suppress(OSError):
        print(f"lanekit demo: {text}", file=sys.stderr, flush=True)
