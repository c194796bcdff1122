"""``lanekit serve``: run Gymnasium environments for a trainer in another process."""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import sys
import traceback
from contextlib import suppress
from types import FrameType
from typing import Any

from lanekit.cli.endings import MISUSE
from lanekit.errors import DEBUG_VARIABLE, debugging

NAME = "serve"
HELP = "run environments for a trainer in another process"
EXAMPLES = (
    ("lanekit serve CartPole-v1 --num-envs 8", "for a LaneVectorEnv"),
    ("lanekit serve CartPole-v1 --num-envs 8 --workers 4", "in 4 processes"),
)

_MODES = {"next-step": "NextStep", "same-step": "SameStep", "disabled": "Disabled"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "env_id",
        metavar="ENV_ID",
        help="a registered environment; MODULE:ID imports what registers it first",
    )
    parser.add_argument("--num-envs", type=int, default=1, metavar="N", help="default: 1")
    parser.add_argument(
        "--workers",
        type=int,
        default=1,
        metavar="K",
        help="processes that run the environments (default: this one)",
    )
    parser.add_argument(
        "--name", help="the lane's name (default: LUCKY_SHM_NAME, or else the environment's id)"
    )
    parser.add_argument(
        "--autoreset",
        choices=_MODES,
        default="next-step",
        help="when an environment is reset whose episode is over (default: %(default)s)",
    )
    parser.add_argument(
        "--info",
        action="append",
        default=[],
        dest="infos",
        type=_info,
        metavar="NAME[:TYPE]",
        help="carry this number of the infos, such as x_position or episode/l:int64; may be "
        "repeated",
    )
    parser.add_argument(
        "--image", action="store_true", help="draw each environment after each step, for render()"
    )
    parser.add_argument("--flatten", action="store_true", help="wrap in FlattenObservation")
    parser.add_argument(
        "--make",
        type=_kwargs,
        default={},
        metavar="JSON",
        help='further arguments of gymnasium.make, such as \'{"map_name": "8x8"}\'',
    )
    parser.add_argument(
        "--wait",
        choices=("hybrid", "spin", "block"),
        default="hybrid",
        help="how this side waits for the other (default: %(default)s)",
    )


def run(args: argparse.Namespace) -> int:
    """Serve until a signal ends it; the status is 1 if an environment failed."""
    try:
        from lanekit.integrations.stepping import EnvironmentFailed, VectorEnvServer
    except ModuleNotFoundError as error:
        if error.name != "gymnasium":
            raise
        _say("needs Gymnasium: pip install 'lanekit[rl]'")
        return 1
    except ImportError as error:  # one that is too old
        _say(str(error))
        return 1
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="lanekit serve: %(message)s")
    sys.path.insert(0, os.getcwd())  # MODULE:ID may be right here, as with `python -m`
    name = args.name if args.name is not None else os.environ.get("LUCKY_SHM_NAME") or args.env_id
    with EndSignals() as signals:
        try:
            with VectorEnvServer(
                args.env_id,
                args.num_envs,
                name,
                workers=args.workers,
                autoreset_mode=_MODES[args.autoreset],
                infos=dict(args.infos),
                image=args.image,
                flatten=args.flatten,
                make_kwargs=args.make,
                wait=args.wait,
            ) as server:
                _say(_summary(args, name))
                server.serve(signals.nothing_came)
        except ValueError as error:
            _say(str(error))
            return MISUSE
        except EnvironmentFailed as failure:
            _say_why(failure)
            return 1
    return 0


def _say_why(failure: Exception) -> None:
    """Tell in one line what an environment failed of; on request also where in it."""
    words = str(failure)
    if failure.__cause__ is not None:
        if debugging():
            traceback.print_exception(failure.__cause__)
        else:
            words += f"; {DEBUG_VARIABLE}=1 before the same command shows where"
    _say(words)


class EndSignals:
    """Turns the first signal to end into a word between two exchanges; a second one ends at once.

    So the environments are closed, and the trainer's step is whole.
    """

    def __init__(self) -> None:
        """Prepare; no handler is touched before entering."""
        self._came = False
        self._former: dict[signal.Signals, Any] = {}

    def nothing_came(self) -> bool:
        """Whether to go on."""
        return not self._came

    def __enter__(self) -> EndSignals:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) != signal.SIG_IGN:
                self._former[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, former in self._former.items():
            signal.signal(number, signal.SIG_DFL if former is None else former)

    def _note(self, number: int, _: FrameType | None) -> None:
        if self._came:
            raise KeyboardInterrupt
        self._came = True
        # Not print: the signal may have come in the middle of one.
        with suppress(OSError):  # the terminal may have been closed
            os.write(2, b"lanekit serve: ends with this step; again ends at once\n")


def _summary(args: argparse.Namespace, name: str) -> str:
    by_whom = "" if args.workers == 1 else f" in {args.workers} processes"
    return (
        f"{args.num_envs} x {args.env_id}{by_whom} as step lane {name!r}; a trainer takes "
        f"LaneVectorEnv({name!r}); Ctrl-C ends it"
    )


def _info(text: str) -> tuple[str, str]:
    name, _, kind = text.partition(":")
    return name, kind or "float64"


def _kwargs(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise argparse.ArgumentTypeError(f"is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise argparse.ArgumentTypeError("is not a JSON object of names and values")
    return found


def _say(text: str) -> None:
    print(f"lanekit serve: {text}", file=sys.stderr, flush=True)
