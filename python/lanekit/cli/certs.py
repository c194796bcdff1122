"""``lanekit certs``: TLS for a laboratory in one command."""

from __future__ import annotations

import argparse
import os
import secrets
import sys
from pathlib import Path

from lanekit.cli.endings import MISUSE

NAME = "certs"
HELP = "make certificates and a token for a daemon on the network"
EXAMPLES = (("lanekit certs ~/lab --host gpu7.example.org", "files for a daemon there"),)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("directory", metavar="DIR", type=Path, help="where they go")
    parser.add_argument(
        "--host",
        action="append",
        default=[],
        metavar="NAME",
        help="a further name or address under which clients reach the daemon; may be repeated",
    )
    parser.add_argument(
        "--label",
        default="server",
        metavar="NAME",
        help="the certificate's file name, for one authority with many machines "
        "(default %(default)s)",
    )
    parser.add_argument("--force", action="store_true", help="replace a certificate that is there")


def run(args: argparse.Namespace) -> int:
    """Make them and say what to do with each; the status is 2 for names that can not be."""
    from lanekit.slow.certificates import describe, make_certificates

    directory: Path = args.directory
    try:
        files = make_certificates(directory, args.host, label=args.label, force=args.force)
        token = make_token(directory / "token")
    except ValueError as error:
        print(f"lanekit certs: {error}", file=sys.stderr)
        return MISUSE
    except OSError as error:
        print(f"lanekit certs: {error}", file=sys.stderr)
        return 1
    for line in describe(files):
        print(line)
    print(f"  {token}  the token: for the daemon, and for its owner only")
    print()
    print("on this machine:")
    print(
        f"  lanekit daemon --listen 0.0.0.0:7070 --tls-cert {files.certificate} "
        f"--tls-key {files.key} --token-file {token}"
    )
    print(f"elsewhere, with copies of {files.authority.name} and {token.name}:")
    print(
        f"  lanekit view --daemon {files.names[-1]}:7070 --tls-ca {files.authority.name} "
        f"--token-file {token.name} RUN"
    )
    return 0


def make_token(path: Path) -> Path:
    """Make a token that only its owner can read, unless there is one."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return path
    with os.fdopen(descriptor, "w") as file:
        file.write(secrets.token_hex(32) + "\n")
    return path
