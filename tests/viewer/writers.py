"""Workers of processes of their own, as the window meets them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path


class WritingProcess:
    """A worker of its own process that publishes the pattern of ``known_frames`` at 60 Hz."""

    def __init__(self, run_id: str, width: int, height: int, pixel_format: str, rate: float):
        script = Path(__file__).with_name("writing_process.py")
        self._process = subprocess.Popen(
            [sys.executable, script, run_id, str(width), str(height), pixel_format, str(rate)],
            stdout=subprocess.PIPE,
            stdin=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "publishing\n"

    def kill(self) -> None:
        """End it without a chance to say good-bye."""
        self._process.kill()
        self._process.communicate()

    def leave(self) -> None:
        """Let it end by itself."""
        self._process.communicate("")


StartWriter = Callable[..., WritingProcess]
