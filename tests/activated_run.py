"""Commands as in an activated environment: its scripts (cmake, ninja) come first."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from patience import patience


def run(*command: str | Path, cwd: Path | None = None) -> str:
    """Run a command that must succeed, and return what it printed."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        timeout=patience(200),
        env={**os.environ, "PATH": path},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
