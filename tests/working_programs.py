"""Which programs of this machine really run.

A name on PATH is not enough: a rustup shim without a toolchain answers to `rustc`, and fails.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess

from patience import patience


@functools.cache
def working(name: str, *asked: str) -> str | None:
    """Return the path of the first program of this name on PATH that runs, or None.

    It runs if it exits with 0 when it is asked for its version.
    """
    for directory in os.get_exec_path():
        program = shutil.which(name, path=directory)
        if program is not None and _runs(program, *(asked or ("--version",))):
            return program
    return None


def _runs(*command: str) -> bool:
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=patience(60),
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
