"""Damage to a lane's bytes, met by roles in processes of their own; see role_processes.py.

Each role notes in a file which case it is at, so that a crash or a hang names its case.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from patience import patience
from role_processes import start_role

DAMAGES = ("zero", "ones", "xor", "random")


def damaged(byte: int, damage: str, chance: random.Random) -> int:
    return {"zero": 0, "ones": 0xFF, "xor": byte ^ 0x5A, "random": chance.randrange(256)}[damage]


class Notebook:
    """Where a role writes which case it is at."""

    def __init__(self, path: str) -> None:
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT)

    def write(self, text: str) -> None:
        os.pwrite(self.fd, text.encode().ljust(100), 0)


def run(role: Callable[..., None], *arguments: object, note: Path, seconds: float = 200) -> Any:
    """Run a role to its end; a crash or a hang fails with the case that the role noted last."""
    process = start_role(role, *arguments, note)
    try:
        out, err = process.communicate(timeout=patience(seconds))
    except subprocess.TimeoutExpired:
        process.kill()
        _, err = process.communicate()
        pytest.fail(f"hangs at {note.read_text().strip()}\n{err}")
    case = note.read_text().strip() if note.exists() else "the start"
    assert process.returncode == 0, f"ended with {process.returncode} at {case}:\n{err}"
    return json.loads(out)
