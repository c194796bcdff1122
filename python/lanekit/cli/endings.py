"""How a command ends: its exit status, and one line in place of a traceback."""

from __future__ import annotations

import errno
import os
import shlex
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import TextIO

from lanekit.errors import DEBUG_VARIABLE, LanekitError, debugging, distribution_of

FINE = 0
NO_OR_ERROR = 1
MISUSE = 2
OUR_MISTAKE = 70
INTERRUPTED = 130

EXTRA_OF = {
    **dict.fromkeys(
        ("grpc", "grpc_health", "grpc_reflection", "google", "msgspec", "apsw"), "slow"
    ),
    **dict.fromkeys(("gymnasium", "pettingzoo", "pygame"), "rl"),
    **dict.fromkeys(("PyQt6", "av"), "viewer"),
    **dict.fromkeys(("pyarrow", "tensorboard", "wandb"), "export"),
    **dict.fromkeys(("starlette", "uvicorn", "websockets"), "web"),
    **dict.fromkeys(("cryptography", "PIL"), "remote"),
    "mujoco": "engine",
    "psycopg": "postgres",
    "ray": "ray",
}
"""Which extra brings a module."""

_LOOK = {
    errno.EACCES: "`ls -ld {}` shows whose it is",
    errno.EPERM: "`ls -ld {}` shows whose it is",
    errno.EROFS: "name another place",
    errno.ENOSPC: "`df -h {}` shows how full it is",
    errno.EDQUOT: "`df -h {}` shows how full it is",
}
"""What to type after an error of the system's."""


def run_to_its_end(command: Callable[[], int]) -> int:
    """Run a command and return the exit status, whatever happens in it."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # as in `lanekit ls >&-`
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
    try:
        try:
            return command()
        finally:
            _hand_on(sys.stdout)  # here, where a full disk is told like any other error
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        return FINE  # the reader of our output (head, less) has left: not an error
    except Exception as error:
        if debugging():
            traceback.print_exc()
        words, status = in_words(error)
        with suppress(OSError):  # nobody can be told that nobody can be told
            print(f"lanekit: {words}", file=sys.stderr)
        return status
    finally:
        with suppress(OSError):
            _hand_on(sys.stderr)


def _hand_on(stream: TextIO) -> None:
    """See out what was printed. A reader that has left is no error, a full disk is."""
    try:
        stream.flush()
    except OSError as error:
        # Python flushes once more at exit and would complain: what nobody takes goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        if not isinstance(error, BrokenPipeError):
            raise


def in_words(error: Exception) -> tuple[str, int]:
    """Return what to tell of an error, and the exit status it leads to."""
    if isinstance(error, LanekitError):
        return str(error), NO_OR_ERROR
    if isinstance(error, ModuleNotFoundError):
        extra = EXTRA_OF.get((error.name or "").partition(".")[0])
        if extra is not None:
            needs = f"this needs {distribution_of(error)}, which is not installed"
            return f"{needs}: pip install 'lanekit[{extra}]'", NO_OR_ERROR
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        look = _LOOK.get(error.errno or 0, "").format(shlex.quote(str(error.filename or ".")))
        return f"{where}{error.strerror}{'; ' * bool(look)}{look}", NO_OR_ERROR
    return (
        f"this should not have happened: {type(error).__name__}: {error}\n"
        f"lanekit: {DEBUG_VARIABLE}=1 before the same command shows where; please report it, with "
        "the output of `lanekit doctor`"
    ), OUR_MISTAKE
