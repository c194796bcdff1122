"""How a command ends: its exit status, and one line in place of a traceback."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable

from lanekit.errors import LanekitError

FINE = 0
NO_OR_ERROR = 1
MISUSE = 2
OUR_MISTAKE = 70
INTERRUPTED = 130

DEBUG_VARIABLE = "LANEKIT_DEBUG"
"""Set to anything, it shows where an error came from."""

EXTRA_OF = {
    **dict.fromkeys(
        ("grpc", "grpc_health", "grpc_reflection", "google", "msgspec", "apsw"), "slow"
    ),
    **dict.fromkeys(("gymnasium", "pettingzoo", "pygame"), "rl"),
    **dict.fromkeys(("PyQt6", "av"), "viewer"),
    **dict.fromkeys(("pyarrow", "tensorboard", "wandb"), "export"),
    "mujoco": "engine",
}
"""Which extra brings a module."""


def run_to_its_end(command: Callable[[], int]) -> int:
    """Run a command and return the exit status, whatever happens in it."""
    try:
        status = command()
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of our output (head, less) has left: not an error. Python flushes once more at
        # exit and would complain, so let what is left go nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FINE
    except Exception as error:
        if os.environ.get(DEBUG_VARIABLE):
            traceback.print_exc()
        words, status = in_words(error)
        print(f"lanekit: {words}", file=sys.stderr)
        return status


def in_words(error: Exception) -> tuple[str, int]:
    """Return what to tell of an error, and the exit status it leads to."""
    if isinstance(error, LanekitError):
        return str(error), NO_OR_ERROR
    if isinstance(error, ModuleNotFoundError):
        extra = EXTRA_OF.get((error.name or "").partition(".")[0])
        if extra is not None:
            needs = f"this needs {error.name}, which is not installed"
            return f"{needs}: pip install 'lanekit[{extra}]'", NO_OR_ERROR
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror}", NO_OR_ERROR
    return (
        f"this should not have happened: {type(error).__name__}: {error}\n"
        f"lanekit: {DEBUG_VARIABLE}=1 before the same command shows where; please report it, with "
        "the output of `lanekit doctor`"
    ), OUR_MISTAKE
