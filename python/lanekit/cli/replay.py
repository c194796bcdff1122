"""``lanekit replay``: a recorded run's frames on the fast lane again."""

from __future__ import annotations

import argparse
import os
import select
import sys
import termios
import threading
import tty
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from lanekit.cli.quantities import clock, number
from lanekit.cli.store_argument import add_store_argument, find_run, open_store
from lanekit.cli.view import non_empty
from lanekit.errors import TelemetryError
from lanekit.viewer.terminal.quit_signals import QuitSignals

if TYPE_CHECKING:
    from lanekit.slow.replay.player import Replay

NAME = "replay"
HELP = "publish a recorded run's frames and numbers on the fast lane"
EXAMPLES = (
    ("lanekit replay my-run", "then: lanekit view my-run-replay"),
    ("lanekit replay my-run --episode 3 --loop", "one episode, again and again"),
)

_KEYS = "space pause · ←/→ 5 s · ,/. one frame · -/+ speed · q quit"
_TICK = 0.1


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("run_id", metavar="RUN", help="the run, as `lanekit runs` prints it")
    parser.add_argument("--episode", type=int, metavar="N", help="only this episode")
    parser.add_argument("--agent", metavar="A", help="this agent's frames, not the first one's")
    parser.add_argument("--worker", metavar="W", help="this worker's frames, not the first one's")
    parser.add_argument("--speed", type=_speed, default=1.0, metavar="X", help="1 is as recorded")
    parser.add_argument(
        "--from", type=int, metavar="STEP", dest="first", help="begin at this step of the episode"
    )
    parser.add_argument("--loop", action="store_true", help="begin again at the end")
    parser.add_argument(
        "--as",
        type=non_empty,
        metavar="RUN_ID",
        dest="publish_as",
        help="publish under this name; by default RUN-replay",
    )
    add_store_argument(parser)


def _speed(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.01 <= value <= 1000:
        raise argparse.ArgumentTypeError(f"must be from 0.01 to 1000, got {text!r}")
    return value


def run(args: argparse.Namespace) -> int:
    """Publish until the end, or until the user quits."""
    interactive = sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()
    with open_store(args) as store:
        find_run(store, args.run_id)
        from lanekit.slow.replay.player import Replay
        from lanekit.slow.replay.reel import name_of

        replay = Replay(
            store,
            args.run_id,
            episode=args.episode,
            agent=args.agent,
            worker=args.worker,
            speed=args.speed,
            loop=args.loop,
            hold=interactive,
            publish_as=args.publish_as,
        )
        if args.first is not None:
            try:
                replay.seek(args.first)
            except ValueError as error:
                raise TelemetryError(f"--from {args.first}: {error}") from None
        print(
            f"replaying {len(replay.reel):,} frames of {name_of(replay.reel.track)}, "
            f"{clock(replay.timeline.duration)}; watch with: lanekit view {replay.run_id}"
        )
        if replay.reel.others:
            print(
                f"frames were also recorded of: {'; '.join(map(name_of, replay.reel.others[:8]))}"
            )
        for remark in replay.timeline.remarks():
            print(f"note: {remark}")
        sys.stdout.flush()
        return _play(replay, interactive=interactive)


def _play(replay: Replay, *, interactive: bool) -> int:
    """Let a thread publish, while this one listens to keys and signals."""
    failures: list[BaseException] = []

    def publish() -> None:
        try:
            replay.play()
        except BaseException as error:
            failures.append(error)

    player = threading.Thread(target=publish, name="lanekit-replay")
    with QuitSignals() as signals, replay:
        player.start()
        if interactive:
            print(_KEYS)
        with _keyboard(interactive) as keyboard:
            while player.is_alive() and not signals.quit:
                if interactive:
                    _show(replay)
                if keyboard is None:
                    player.join(_TICK)
                elif select.select([keyboard], [], [], _TICK)[0] and not _obey(
                    replay, os.read(keyboard, 64)
                ):
                    break
        replay.stop()
        player.join()
    if interactive:
        _show(replay)
        print()
    if failures:
        raise failures[0]
    return 130 if signals.quit and not interactive else 0


def _obey(replay: Replay, keys: bytes) -> bool:
    """Do what the keys say; False means to quit."""
    from lanekit.slow.replay.player import ReplayState

    arrows = {b"\x1b[C": ">", b"\x1b[D": "<", b"\x1bOC": ">", b"\x1bOD": "<"}
    for sequence, meaning in arrows.items():
        keys = keys.replace(sequence, meaning.encode())
    for key in keys.decode("ascii", "replace"):
        match key:
            case "q" | "Q" | "\x04":
                return False
            case " ":
                playing = replay.status().state is ReplayState.PLAYING
                replay.pause() if playing else replay.resume()
            case ">":
                replay.seek_seconds(5.0)
            case "<":
                replay.seek_seconds(-5.0)
            case ".":
                replay.pause()
                replay.seek_frames(1)
            case ",":
                replay.pause()
                replay.seek_frames(-1)
            case "+" | "=" | "-":
                with suppress(ValueError):  # as fast, or slow, as it gets
                    replay.speed = replay.speed * (0.5 if key == "-" else 2.0)
    return True


def _show(replay: Replay) -> None:
    now = replay.status()
    marks = {"playing": "▶", "paused": "‖", "at the end": "■", "stopped": "■"}
    line = (
        f"{marks[now.state.value]} {clock(now.seconds)} / {clock(now.duration)}  "
        f"x{now.speed:g}  episode {now.episode}  step {now.step}  "
        f"frame {now.index + 1:,}/{now.frames:,}  return {number(now.metrics.rolling_return)}"
    )
    columns = os.get_terminal_size(sys.stdout.fileno()).columns or 80
    print(f"\r{line[: columns - 1]}\x1b[K", end="", flush=True)


@contextmanager
def _keyboard(interactive: bool) -> Iterator[int | None]:
    """Lend the keyboard, key by key; it is given back as it was."""
    if not interactive:
        yield None
        return
    keyboard = sys.stdin.fileno()
    former = termios.tcgetattr(keyboard)
    try:
        tty.setcbreak(keyboard, termios.TCSANOW)
        yield keyboard
    finally:
        with suppress(termios.error):
            termios.tcsetattr(keyboard, termios.TCSANOW, former)
