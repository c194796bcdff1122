"""``lanekit run``: train with an installed worker, and see how far it is."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import FrameType
from typing import TYPE_CHECKING, Any

from lanekit.cli.cluster import add_placing_arguments, last_words, place, unused_placing
from lanekit.cli.columns import columns
from lanekit.cli.connection import add_connection_arguments, connect
from lanekit.cli.endings import MISUSE
from lanekit.cli.ls import printable
from lanekit.cli.progress_bar import ProgressBar
from lanekit.cli.quantities import duration, number
from lanekit.cli.worker_options import add_worker_options, configuration
from lanekit.errors import DaemonError, DaemonUnavailable, InvalidEvent
from lanekit.fast.environment import apply_fastlane_environment, read_fastlane_environment
from lanekit.worker import InstalledWorker, find_worker
from lanekit.worker.submission import BadOptions, config_document, environment_to_send

if TYPE_CHECKING:
    from lanekit.cli.followed_run import AskedDaemon, FollowedRun
    from lanekit.slow.daemon_client import DaemonClient

NAME = "run"
HELP = "train with an installed worker: submit, follow, stop with Ctrl-C"
EXAMPLES = (
    ("lanekit run --worker demo", "the demo, at full speed"),
    ("lanekit run --worker sb3 --env Acrobot-v1", "with Stable-Baselines3"),
    ("lanekit run --worker demo --detach", "leave it to the daemon"),
)

FORCE_GRACE = 2.0
"""Seconds between SIGTERM and SIGKILL for a run that was interrupted twice."""
_LOOK_EVERY = 0.25


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "--worker", required=True, metavar="NAME", help="as `lanekit workers` lists it"
    )
    add_worker_options(parser)
    parser.add_argument(
        "--video-mode",
        choices=("single", "grid", "off"),
        help="show one environment, several, or none (default single)",
    )
    parser.add_argument("--slot", type=int, metavar="N", help="which environment (default 0)")
    parser.add_argument(
        "--grid-limit", type=int, metavar="N", help="most environments in a grid (default 4)"
    )
    parser.add_argument(
        "--detach", action="store_true", help="print the run's id and leave it to the daemon"
    )
    add_placing_arguments(parser)
    add_connection_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Train; the status is 1 if the run failed, 2 for a misuse, 130 after Ctrl-C."""
    if unused := unused_placing(args):
        print(
            f"lanekit run: {', '.join(unused)}: only with --cluster; a daemon of this machine has "
            "its own store, which `lanekit daemon --store PATH` chooses",
            file=sys.stderr,
        )
        return MISUSE
    worker = find_worker(args.worker)
    if args.cluster is not None:
        return _run_on_cluster(args, worker)
    with connect(args) as daemon:
        try:
            submission, total = _submission(args, worker, daemon)
        except (BadOptions, InvalidEvent) as error:
            print(f"lanekit run: {error}", file=sys.stderr)
            return MISUSE
        _start_daemon_if_absent(args, daemon)
        with _noted_interruptions() as interruptions:
            submitted = daemon.submit_run(**submission)
            print(submitted.run_id, flush=True)
            where = "" if daemon.target.is_loopback else f"   (on {daemon.target.host})"
            print(_how_to_watch(args, worker, submission, where), file=sys.stderr, flush=True)
            if args.detach:
                return 0
            from lanekit.cli.followed_run import FollowedRun

            one_agent = worker.capabilities.max_agents == 1
            followed = FollowedRun(daemon, submitted, total=total, one_agent=one_agent)
            return _follow(daemon, followed, interruptions)


def _run_on_cluster(args: argparse.Namespace, worker: InstalledWorker) -> int:
    """Train on a node of a cluster, under the care of that node's daemon."""
    from lanekit.slow.batches import new_run_id

    if args.daemon is not None:
        print("lanekit run: --cluster and --daemon are two places; name one", file=sys.stderr)
        return MISUSE
    environment: dict[str, str] = {}
    try:
        config = configuration(worker, args, new_run_id(worker.name))
        document = json.loads(config_document(worker, config))
        _add_pictures(args, environment)
    except (BadOptions, InvalidEvent) as error:
        print(f"lanekit run: {error}", file=sys.stderr)
        return MISUSE
    placed = place(args, worker.name, document, environment)
    print(placed.run_id, flush=True)
    there = "" if placed.daemon.startswith("unix:") else f" --daemon {placed.daemon}"
    name = f"--cluster ray{':' * bool(args.cluster)}{args.cluster}"
    rows = [
        ["node", str(placed.node)],
        ["watch", f"lanekit view{there} {placed.run_id}{'' if there else '   (on that node)'}"],
        ["list", f"lanekit runs {name}"],
        ["control", f"lanekit control {name} {placed.run_id} stop"],
    ]
    print("\n".join(f"  {line}" for line in columns(rows)), file=sys.stderr, flush=True)
    if args.detach:
        return 0
    from lanekit.cli.followed_run import FollowedRun
    from lanekit.integrations.ray import RemoteDaemon

    total = getattr(config, "total_steps", None)
    with _noted_interruptions() as interruptions, RemoteDaemon(placed) as daemon:
        followed = FollowedRun(
            daemon,
            daemon.run(placed.run_id),
            total=total if isinstance(total, int) and total > 0 else None,
            one_agent=worker.capabilities.max_agents == 1,
        )
        status = _follow(daemon, followed, interruptions, every=1.0)
    if followed.state in ("failed", "lost"):
        for line in last_words(placed, followed.record):
            print(printable(line, 400), file=sys.stderr)
    return status


def _submission(
    args: argparse.Namespace, worker: InstalledWorker, daemon: DaemonClient
) -> tuple[dict[str, Any], int | None]:
    """Return what the daemon is asked for, and how many steps that will be, if that is known."""
    from lanekit.slow.batches import check_run_id, new_run_id

    config = configuration(worker, args, new_run_id(worker.name))
    total = getattr(config, "total_steps", None)
    here = daemon.target.is_loopback
    return {
        "command": worker.command(),
        "run_id": check_run_id(config.run_id),
        "environment": _environment(args, daemon),
        "working_directory": os.getcwd() if here else "",
        "config_json": config_document(worker, config),
        "worker_id": worker.name,
    }, total if isinstance(total, int) and total > 0 else None


def _environment(args: argparse.Namespace, daemon: DaemonClient) -> dict[str, str]:
    """Return the worker's environment: ours, if the daemon is, and what shall be shown."""
    environment = environment_to_send() if daemon.target.is_unix else {}
    _add_pictures(args, environment)
    return environment


def _add_pictures(args: argparse.Namespace, environment: dict[str, str]) -> None:
    """Say in the worker's environment what shall be shown."""
    given = {
        field: value
        for field, value in (
            ("video_mode", args.video_mode),
            ("fastlane_slot", args.slot),
            ("grid_limit", args.grid_limit),
        )
        if value is not None
    }
    try:
        wanted = replace(read_fastlane_environment(), **given)
        apply_fastlane_environment(environment, **vars(wanted))
    except ValueError as error:
        raise BadOptions(str(error)) from error


def _start_daemon_if_absent(args: argparse.Namespace, daemon: DaemonClient) -> None:
    """Start a daemon where one is usually found; one that was named must be there."""
    if args.daemon is not None or not daemon.target.is_unix:
        return
    from lanekit.slow.local_daemon import start_if_absent

    started = start_if_absent(daemon.target.path, args.token_file)
    if started is not None:
        print(started, file=sys.stderr, flush=True)


def _how_to_watch(
    args: argparse.Namespace, worker: InstalledWorker, submission: dict[str, Any], where: str
) -> str:
    run_id = submission["run_id"]
    action = "pause" if worker.capabilities.supports_pause else "stop"
    rows = [["details", f"lanekit show {run_id}{where}"]]
    if submission["environment"]["MOSAIC_FASTLANE_VIDEO_MODE"] != "off":
        rows.insert(0, ["watch", f"lanekit view {run_id}{where}"])
    rows.append(["control", f"lanekit control {run_id} {action}{_connection_options(args)}"])
    return "\n".join(f"  {line}" for line in columns(rows))


def _connection_options(args: argparse.Namespace) -> str:
    given = {"daemon": args.daemon, "token-file": args.token_file, "tls-ca": args.tls_ca}
    texts = [f" --{name} {shlex.quote(str(value))}" for name, value in given.items() if value]
    return "".join(texts) + (" --insecure-loopback" if args.insecure_loopback else "")


def _follow(
    daemon: AskedDaemon,
    followed: FollowedRun,
    interruptions: list[int],
    every: float = _LOOK_EVERY,
) -> int:
    """Show the run until it is over; an interruption stops it, a second one ends it by force."""
    from lanekit.cli.followed_run import NO_DAEMON

    bar = ProgressBar(sys.stdout, sys.stderr)
    obeyed, away = 0, False
    while True:
        reading = followed.look()
        if reading.state == NO_DAEMON and not away:
            bar.say(
                "no daemon answers any more; the run goes on, and what it reports is kept for the "
                "next one: `lanekit daemon` starts it"
            )
        away = reading.state == NO_DAEMON
        bar.show(reading)
        if followed.over:
            break
        if len(interruptions) > obeyed:
            obeyed += 1
            try:
                _end(daemon, followed.record.run_id, bar, by_force=obeyed > 1)
            except DaemonUnavailable as error:
                bar.say(f"{error}; the run goes on")
                return 128 + interruptions[0]
        else:
            time.sleep(every)
    bar.leave()
    print(_summary(followed), flush=True)
    if followed.state in ("failed", "lost"):
        for line in followed.last_words():
            print(printable(line, 400), file=sys.stderr)
    if interruptions:
        return 128 + interruptions[0]
    return 0 if followed.state in ("completed", "stopped") else 1


def _end(daemon: AskedDaemon, run_id: str, bar: ProgressBar, *, by_force: bool) -> None:
    try:
        if by_force:
            bar.say(f"ending {run_id} by force")
            daemon.cancel_run(run_id, grace=FORCE_GRACE)
        else:
            bar.say(f"stopping {run_id}; Ctrl-C again ends it by force")
            daemon.control_run(run_id, "stop")
    except DaemonError as error:
        if error.code != "FAILED_PRECONDITION":  # it has ended in the meantime
            raise


def _summary(followed: FollowedRun) -> str:
    record = followed.record
    steps, episodes = _counted(followed.step, "step"), _counted(record.episodes, "episode")
    text = (
        f"{record.run_id} {followed.state} after {duration(followed.elapsed)}: {steps}, {episodes}"
    )
    if followed.mean_return is not None:
        text += f", mean return {number(followed.mean_return)}"
    return f"{text}; {printable(record.reason, 400)}" if record.reason else text


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


@contextmanager
def _noted_interruptions() -> Iterator[list[int]]:
    """Note Ctrl-C and SIGTERM instead of ending; what was ignored, as under nohup, stays so."""
    noted: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        noted.append(number)

    watched = [n for n in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(n) != signal.SIG_IGN]
    before = {n: signal.signal(n, note) for n in watched}
    try:
        yield noted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
