"""``lanekit view --daemon``: a run of another machine, shown as if it were of this one."""

from __future__ import annotations

import argparse
import importlib.util
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lanekit.cli.connection import add_connection_arguments, connect
from lanekit.cli.ls import printable
from lanekit.errors import TelemetryError

if TYPE_CHECKING:
    from lanekit.slow.daemon_client import DaemonClient
    from lanekit.slow.watched_frames import Recipe

_SIZE = re.compile(r"([1-9][0-9]{0,4})x([1-9][0-9]{0,4})")
TERMINAL_SIZE = (480, 480)
"""More than any terminal shows."""


def add_remote_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what a run of another machine is found and fetched with."""
    remote = parser.add_argument_group("a run of another machine", "through its daemon")
    add_connection_arguments(remote, default="this machine's runs, without a daemon")
    remote.add_argument(
        "--lane", default="", metavar="LANE", help="one environment of a grid: env-0, env-1 ..."
    )
    remote.add_argument(
        "--encoding",
        choices=("jpeg", "webp", "png", "raw"),
        help="how pictures travel (default: jpeg); png and raw are exact",
    )
    remote.add_argument(
        "--size", type=size, metavar="WxH", help="make larger pictures smaller before they travel"
    )
    remote.add_argument(
        "--quality", type=int, default=85, metavar="1-100", help="of jpeg and webp (default: 85)"
    )


def size(text: str) -> tuple[int, int]:
    """Return the width and height that ``text`` names."""
    match = _SIZE.fullmatch(text)
    if match is None:
        raise argparse.ArgumentTypeError(f"expected WIDTHxHEIGHT, such as 640x480; got {text}")
    return int(match[1]), int(match[2])


@contextmanager
def remote_run(args: argparse.Namespace) -> Iterator[str]:
    """Bring a run here while the block lasts; gives the run id under which it is found."""
    with connect(args) as client:
        from lanekit.slow.remote_lane import RemoteLane

        run_id = args.run_id or only_run(client)
        client.list_lanes(run_id)  # whoever is not let in is told so before a window opens
        with RemoteLane(
            client, run_id, args.lane, rate=rate_of(args), recipe=recipe_of(args)
        ) as remote:
            yield remote.local_id
            if remote.problem:
                print(f"lanekit view: {remote.problem}", file=sys.stderr)


def remote_snapshot(args: argparse.Namespace) -> int:
    """Write the newest frame of another machine's run, as exact as it was published."""
    from lanekit.slow.watched_frames import Recipe

    with connect(args) as client:
        run_id = args.run_id or only_run(client)
        deadline = time.monotonic() + args.wait
        width, height = args.size or (0, 0)
        recipe = Recipe("png", width, height)
        with client.watch_frames(run_id, args.lane, rate=rate_of(args), recipe=recipe) as stream:
            for update in stream:  # at least once a second
                if update.frame is not None or time.monotonic() > deadline:
                    break
    if update.frame is None:
        where = f"run {run_id!r} at {client.target}"
        print(f"lanekit view: nothing publishes {where}: {update.problem}", file=sys.stderr)
        return 1
    picture = update.frame.picture
    try:
        args.snapshot.write_bytes(picture.data)
    except OSError as error:
        reason = error.strerror or error
        print(f"lanekit view: {args.snapshot} can not be written: {reason}", file=sys.stderr)
        return 1
    shape = f"{picture.width}x{picture.height}"
    print(f"{args.snapshot}: frame {update.frame.seq} of {run_id}, {shape}")
    return 0


def only_run(client: DaemonClient) -> str:
    """Return the only live run there; TelemetryError says what there is if it is not one."""
    found = sorted({lane.run_id for lane in client.list_lanes() if lane.live})
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(printable(run_id, 400) for run_id in found)
        raise TelemetryError(f"several runs are live there; name one of them: {names}")
    raise TelemetryError(f"no run publishes pictures at {client.target}")


def rate_of(args: argparse.Namespace) -> float:
    """Return the rate to ask for, within what a daemon gives."""
    from lanekit.slow.watched_frames import MAX_RATE, MIN_RATE

    rate: float = args.fps
    return min(MAX_RATE, max(MIN_RATE, rate))


def recipe_of(args: argparse.Namespace) -> Recipe:
    """Return what is to be made of each frame."""
    from lanekit.slow.watched_frames import Recipe

    encoding = args.encoding
    if encoding is None:
        encoding = "jpeg" if importlib.util.find_spec("PIL") else "raw"
    width, height = args.size or (TERMINAL_SIZE if args.terminal else (0, 0))
    try:
        return Recipe(encoding, width, height, args.quality)
    except ValueError as error:
        raise TelemetryError(str(error)) from None
