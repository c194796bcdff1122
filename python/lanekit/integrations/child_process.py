"""The end of a process that a training process has started for itself."""

from __future__ import annotations

import os
import subprocess

_PATIENCE = 5.0


def end_child(process: subprocess.Popen[bytes], owner: int) -> bool:
    """End what process `owner` started, by force if need be; False if that is not this process."""
    if os.getpid() != owner:  # a forked copy of its parent: not ours to end
        process.returncode = 0
        return False
    process.terminate()
    try:
        process.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    return True
