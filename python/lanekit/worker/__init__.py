"""Write a worker: a program that trains, and that a daemon can start, watch, pause and stop.

    @dataclass(kw_only=True)
    class Config(DataclassConfig):
        total_steps: int = 1000

    class Runtime(WorkerRuntime[Config]):
        def train(self):
            for step in range(self.config.total_steps):
                if not self.keep_going():
                    break
                ...

    if __name__ == "__main__":
        raise SystemExit(worker_main(Runtime, Config))

``lanekit worker new NAME`` writes the whole package. Nothing here needs more than the standard
library and what the base install has.
"""

from lanekit.worker.command_line import worker_main
from lanekit.worker.config import DataclassConfig, WorkerConfig
from lanekit.worker.discovery import (
    BrokenWorker,
    InstalledWorker,
    discover_workers,
    find_worker,
)
from lanekit.worker.metadata import WorkerCapabilities, WorkerMetadata
from lanekit.worker.runtime import WorkerRuntime

__all__ = [
    "BrokenWorker",
    "DataclassConfig",
    "InstalledWorker",
    "WorkerCapabilities",
    "WorkerConfig",
    "WorkerMetadata",
    "WorkerRuntime",
    "discover_workers",
    "find_worker",
    "worker_main",
]
