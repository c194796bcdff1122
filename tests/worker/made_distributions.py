"""Distributions as pip leaves them behind: a package and its dist-info, in a directory of ours."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from patience import patience

METADATA = """\
from lanekit.worker import WorkerCapabilities, WorkerMetadata

def get_worker_metadata():
    metadata = WorkerMetadata(
        name="A test's worker", version="1.2", description="trains nothing", author="a test"
    )
    return metadata, WorkerCapabilities(worker_type="{name}")
"""
CONFIG = """\
from dataclasses import dataclass
from lanekit.worker import DataclassConfig

@dataclass(kw_only=True)
class Config(DataclassConfig):
    total_steps: int = 10
    layers: tuple[int, ...] = (64, 64)
    env_id: str = "some"
"""
RUNTIME = """\
import time
from lanekit.worker import WorkerRuntime

class Runtime(WorkerRuntime):
    def train(self):
        if self.config.env_id.startswith("lanekit-check/"):
            raise ValueError("no such environment")
        for step in range(self.config.total_steps):
            if not self.keep_going():
                break
            self.telemetry.step(0, step, reward=1.0)
            time.sleep(0.0001)
"""
CLI = """\
from lanekit.worker import worker_main
from {package}.config import Config
from {package}.runtime import Runtime

raise SystemExit(worker_main(Runtime, Config))
"""


class Site:
    """A directory with distributions in it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def install(
        self, distribution: str, entry_points: dict[str, str], files: dict[str, str] | None = None
    ) -> None:
        """Put a distribution there: the entry points of its workers, and its modules."""
        info = self.directory / f"{distribution.replace('-', '_')}-1.2.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.2\n"
        )
        lines = [f"{name} = {value}" for name, value in entry_points.items()]
        (info / "entry_points.txt").write_text("\n".join(["[mosaic.workers]", *lines, ""]))
        for place, content in (files or {}).items():
            path = self.directory / place
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)

    def install_worker(self, name: str, **changed: str) -> None:
        """Put a sound worker there, or one with some modules changed."""
        package = name.replace("-", "_")
        modules = {
            "__init__": METADATA,
            "config": CONFIG,
            "runtime": RUNTIME,
            "cli": CLI,
            **changed,
        }
        self.install(
            name,
            {name: f"{package}:get_worker_metadata"},
            {
                f"{package}/{module}.py": code.replace("{name}", name).replace("{package}", package)
                for module, code in modules.items()
            },
        )

    @property
    def variables(self) -> dict[str, str]:
        """The environment of a process that finds them."""
        return {**os.environ, "PYTHONPATH": str(self.directory), "PYTHONDONTWRITEBYTECODE": "1"}

    def lanekit(self, *arguments: str, status: int = 0) -> str:
        """Run a lanekit command that finds them; return what it prints."""
        done = subprocess.run(
            [sys.executable, "-m", "lanekit", *arguments],
            capture_output=True,
            text=True,
            timeout=patience(120),
            env=self.variables,
            check=False,
        )
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout if status == 0 else done.stdout + done.stderr
