"""``lanekit web``: all runs in a browser."""

from __future__ import annotations

import argparse
import os
import sys
import webbrowser
from pathlib import Path

from lanekit.cli.connection import add_connection_arguments, connect, missing_slow

NAME = "web"
HELP = "show all runs in a browser: live pictures, curves, replay, control"
USUAL_PORT = 7071

REDIRECT = """<!doctype html>
<meta charset="utf-8">
<meta http-equiv="refresh" content="0; url={address}">
<title>lanekit</title>
<a href="{address}">lanekit</a>
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_connection_arguments(parser)
    parser.add_argument(
        "--port",
        type=port_number,
        default=USUAL_PORT,
        metavar="PORT",
        help="of the loopback interface, 0 for any that is free (default %(default)s)",
    )
    parser.add_argument("--open", action="store_true", help="open a browser, too")


def run(args: argparse.Namespace) -> int:
    """Have a daemon serve the page, start one if none runs, and say where the page is."""
    try:
        from lanekit.slow.endpoint import read_token, state_directory
        from lanekit.slow.local_daemon import start_if_absent
    except ModuleNotFoundError as error:
        raise missing_slow(error) from None
    with connect(args) as daemon:
        if args.daemon is None and daemon.target.is_unix:
            started = start_if_absent(daemon.target.path, args.token_file)
            if started is not None:
                print(f"started a daemon (pid {started.pid})", file=sys.stderr)
        page = daemon.open_web(args.port)
        is_here = daemon.target.is_loopback
    token = page.token or (read_token(args.token_file) if args.token_file else "")
    address = f"{page.address}#token={token}" if token else page.address
    # After the #, the token is sent nowhere: the page reads it and logs in.
    print(address)
    if not is_here:
        port = page.address.rstrip("/").rpartition(":")[2]
        print(
            f"that is on the daemon's machine; from here: ssh -L {port}:127.0.0.1:{port} "
            f"{daemon.target.host}",
            file=sys.stderr,
        )
    elif args.open:
        open_browser(address, state_directory())
    return 0


def open_browser(address: str, directory: Path) -> None:
    """Open a browser there, by way of a file: other users can read command lines."""
    path = directory.absolute() / "open-web.html"
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(REDIRECT.format(address=address))
    if not webbrowser.open(path.as_uri()):
        print("lanekit web: no browser could be opened here; the address is above", file=sys.stderr)


def port_number(text: str) -> int:
    """Return a port, 0 to 65535."""
    if not (text.isascii() and text.isdigit() and int(text) <= 65535):
        raise argparse.ArgumentTypeError(f"a port is a number from 0 to 65535, got {text}")
    return int(text)
