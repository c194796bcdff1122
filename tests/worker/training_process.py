"""A small training in a process of its own."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from patience import patience

TRAININGS = Path(__file__).with_name("small_trainings.py")


class TrainingProcess(subprocess.Popen[str]):
    """A small training with its output in pipes."""

    def read_event(self, name: str) -> dict[str, Any]:
        """Read its output up to an event, and return that event's payload."""
        assert self.stdout is not None
        for line in self.stdout:
            event = json.loads(line)
            if event.get("event") == name:
                payload: dict[str, Any] = event.get("payload", {})
                return payload
        raise AssertionError(f"it ended without {name}: {self.communicate()[1]}")

    def finish(self) -> tuple[list[dict[str, Any]], str]:
        """Wait for its end; return the rest of its events, and what it said on stderr."""
        output, errors = self.communicate(timeout=patience())
        return [json.loads(line) for line in output.splitlines()], errors


Start = Callable[..., TrainingProcess]
