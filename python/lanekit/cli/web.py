"""``lanekit web``: all runs in a browser."""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from lanekit.cli.connection import add_connection_arguments, connect
from lanekit.errors import MissingExtra, distribution_of

if TYPE_CHECKING:
    from lanekit.slow.proto.telemetry_pb2 import OpenWebResponse

NAME = "web"
HELP = "show all runs in a browser: pictures, curves, replay, control"
EXAMPLES = (
    ("lanekit web --open", "all runs, in this machine's browser"),
    ("lanekit web", "prints the address only"),
)
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
        from lanekit.slow.local_daemon import somebody_listens, start_if_absent
    except ModuleNotFoundError:
        raise MissingExtra(missing_for_page() or "lanekit[web] is not installed") from None
    with connect(args) as daemon:
        if args.daemon is None and daemon.target.is_unix:
            missing = missing_for_page()
            if missing is not None and not somebody_listens(daemon.target.path):
                raise MissingExtra(missing)  # before a daemon is started that could not serve it
            started = start_if_absent(daemon.target.path, args.token_file)
            if started is not None:
                print(started, file=sys.stderr, flush=True)
        page = daemon.open_web(args.port)
        is_here = daemon.target.is_loopback
    address = address_of(page, read_token(args.token_file) if args.token_file else "")
    print(address, flush=True)
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


def missing_for_page() -> str | None:
    """Say what a daemon of this environment lacks to serve the page; None: nothing."""
    for module in ("grpc", "google.protobuf", "starlette", "uvicorn", "websockets", "PIL"):
        try:
            found = importlib.util.find_spec(module)
        except ModuleNotFoundError:  # the package that it would be in
            found = None
        if found is None:
            name = distribution_of(ModuleNotFoundError(name=module))
            return f"the page needs {name}, which is not installed: pip install 'lanekit[web]'"
    return None


def address_of(page: OpenWebResponse, token: str = "", run_id: str = "") -> str:
    """Return an address that logs in by itself, and opens on a run if one is named."""
    # After the #, nothing is sent to anybody: the page reads it.
    token = page.token or token
    if not token:
        return f"{page.address}#/run/{quote(run_id, safe='')}" if run_id else page.address
    told = {"token": token, "run": run_id} if run_id else {"token": token}
    return f"{page.address}#{urlencode(told)}"


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
