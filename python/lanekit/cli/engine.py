"""``lanekit engine``: simulate many environments of a MuJoCo model for a trainer."""

from __future__ import annotations

import argparse
import ctypes
import logging
import os
import signal
from typing import Any

from lanekit.cli.view import non_empty, positive

NAME = "engine"
HELP = "simulate environments of a MuJoCo model for a trainer"
EXAMPLES = (
    ("lanekit engine --model humanoid --num-envs 1024", "for trainers"),
    ("lanekit engine --model hopper --view", "also for `lanekit view`"),
)

_MODES = ("deterministic", "fast", "realtime", "paused")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "--model",
        required=True,
        type=non_empty,
        help="an MJCF file, or one that is built in: cartpole, halfcheetah, hopper, humanoid",
    )
    parser.add_argument("--num-envs", type=_count, default=64, help="(default: %(default)s)")
    parser.add_argument(
        "--task", type=non_empty, help="what is rewarded; default: the built-in model's own"
    )
    parser.add_argument(
        "--name", type=non_empty, help="the lane's name (default: the model file's)"
    )
    parser.add_argument("--seed", type=int, default=0, help="of all randomness (default: 0)")
    parser.add_argument("--threads", type=_count, help="default: one for each core")
    parser.add_argument(
        "--episode-steps", type=_limit, help="steps until an episode is cut off; 0: none"
    )
    parser.add_argument(
        "--mode", choices=_MODES, default=_MODES[0], help="how time goes on (default: %(default)s)"
    )
    parser.add_argument(
        "--pipelined", action="store_true", help="step the environments in two halves by turns"
    )
    parser.add_argument(
        "--image", type=_size, metavar="WxH", help="room for a picture of each environment"
    )
    parser.add_argument(
        "--view",
        nargs="?",
        const="",
        metavar="RUN",
        help="show the viewport to `lanekit view RUN` (default: the lane's name)",
    )
    parser.add_argument("--view-size", type=_size, default=(480, 360), metavar="WxH")
    parser.add_argument("--view-camera", default="", metavar="CAMERA")
    parser.add_argument("--view-fps", type=positive, default=30.0)
    parser.add_argument(
        "--fine", action="store_true", help="draw shadows and smooth edges: several times slower"
    )


def run(args: argparse.Namespace) -> int:
    """Serve until a signal comes."""
    _choose_way_to_draw()
    from lanekit.engine import Engine
    from lanekit.engine.model_file import find_model
    from lanekit.engine.pace import Mode
    from lanekit.errors import EngineError

    logging.basicConfig(format="lanekit engine: %(message)s")
    name = args.name or os.environ.get("LUCKY_SHM_NAME") or find_model(args.model).stem
    try:
        engine = Engine(
            name,
            args.model,
            args.num_envs,
            task=args.task,
            seed=args.seed,
            threads=args.threads,
            episode_steps=args.episode_steps,
            image=args.image,
            pipelined=args.pipelined,
            mode=Mode(args.mode),
            view=None if args.view is None else args.view or name,
            view_size=args.view_size,
            view_camera=args.view_camera,
            view_fps=args.view_fps,
            quality="fine" if args.fine else "plain",
        )
    except (ValueError, MemoryError) as error:  # all of it was said on the command line
        raise EngineError(str(error) or f"no memory for {args.num_envs} environments") from error
    with engine:

        def stop(*_: Any) -> None:
            engine.stop()

        signal.signal(signal.SIGTERM, stop)
        signal.signal(signal.SIGINT, stop)
        simulation = engine.simulation
        print(
            f"engine {name!r}: {simulation.num_envs} environments of {simulation.path.name}, task "
            f"{simulation.task.name}, {simulation.obs_size} observations, {simulation.act_size} "
            f"actions, {simulation.threads} threads",
            flush=True,
        )
        engine.serve()
    return 0


def _choose_way_to_draw() -> None:
    """Choose for MuJoCo, which does so when it is imported: EGL, where there is no screen."""
    if os.environ.get("DISPLAY") and "MUJOCO_GL" not in os.environ:
        return
    # Told to use what is not there, MuJoCo can not even be imported; most engines never draw.
    if os.environ.setdefault("MUJOCO_GL", "egl") == "egl" and not _can_load("libEGL.so.1"):
        os.environ["MUJOCO_GL"] = "disabled"
    # Mesa's software renderer would wake threads of its own for each picture; we draw with threads.
    os.environ.setdefault("LP_NUM_THREADS", "0")


def _can_load(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def _count(text: str) -> int:
    return _at_least(1, text)


def _limit(text: str) -> int:
    return _at_least(0, text)


def _at_least(least: int, text: str) -> int:
    try:
        value = int(text.replace("_", ""))
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a whole number, got {text!r}") from None
    if value < least:
        raise argparse.ArgumentTypeError(f"must be at least {least}, got {text}")
    return value


def _size(text: str) -> tuple[int, int]:
    try:
        width, height = (int(part) for part in text.lower().split("x"))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"a size is WIDTHxHEIGHT such as 64x64; got {text!r}"
        ) from None
    if width < 1 or height < 1:
        raise argparse.ArgumentTypeError(f"a size has at least one pixel; got {text!r}")
    return width, height
