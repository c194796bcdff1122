"""What is checked, and what a check found."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from lanekit.worker.config import WorkerConfig
from lanekit.worker.discovery import InstalledWorker

State = Literal["ok", "failed", "skipped"]

SHORT_STEPS = 2_000
LONG_STEPS = 10_000_000
STEP_SETTINGS = ("total_steps", "total_timesteps", "max_steps")
"""What configurations call the length of a run, and a check changes."""


@dataclass(frozen=True)
class Finding:
    """One line of the report."""

    check: str
    state: State
    found: str
    remedy: str = ""


@dataclass(frozen=True)
class Subject:
    """A worker to check, and how."""

    worker: InstalledWorker
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Its configuration, where it is not to be the default."""
    failing: Mapping[str, Any] | None = None
    """Settings with which a run fails; found out, if not given."""
    timeout: float = 120.0
    """Seconds that one run may take."""

    def config(self, **changes: Any) -> WorkerConfig:
        """Return the configuration of a run, under an id of its own."""
        run_id = f"check-{self.worker.name}-{os.getpid()}-{os.urandom(3).hex()}"
        content = {"run_id": run_id, "seed": 1, **self.settings, **changes}
        return self.worker.config_class().from_dict(content)

    def config_of_length(self, steps: int) -> WorkerConfig:
        """Return the configuration of a run of about so many steps, as far as that can be set."""
        known = self.config().to_dict()
        length = {
            name: steps for name in STEP_SETTINGS if name in known and name not in self.settings
        }
        return self.config(**length)
