"""Which workers are installed: distributions announce them as entry points ``mosaic.workers``.

An entry point names a function that returns the worker's metadata and capabilities. It must be
quick and must not need the training library: ``lanekit workers`` calls all of them.
"""

from __future__ import annotations

import contextlib
import difflib
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import EntryPoint, PackageNotFoundError, entry_points
from pathlib import Path

from lanekit.errors import WorkerError
from lanekit.worker.config import WorkerConfig
from lanekit.worker.metadata import WorkerCapabilities, WorkerMetadata, take_over

GROUP = "mosaic.workers"


@dataclass(frozen=True)
class InstalledWorker:
    """A worker that can be started."""

    name: str
    """What ``lanekit run --worker`` takes."""
    distribution: str
    metadata: WorkerMetadata
    capabilities: WorkerCapabilities
    package: str
    """The package that its entry point names."""

    def command(self, config_file: Path | None = None) -> list[str]:
        """Return the command line that starts it."""
        module = self.metadata.module or f"{self.package}.cli"
        command = [sys.executable, "-m", module]
        return command if config_file is None else [*command, "--config", str(config_file)]

    def config_class(self) -> type[WorkerConfig]:
        """Return the class of its configuration, which may import the training library."""
        module_name, _, class_name = self.metadata.config.partition(":")
        try:
            module = import_module(module_name or f"{self.package}.config")
            if class_name:
                found = [getattr(module, class_name)]
            else:
                found = [
                    value
                    for value in vars(module).values()
                    if is_config_class(value) and value.__module__ == module.__name__
                ]
        except (Exception, SystemExit) as error:  # whatever a package does when it is imported
            raise WorkerError(
                f"the configuration of worker {self.name!r} can not be loaded: "
                f"{type(error).__name__}: {error}"
            ) from error
        suitable = [value for value in found if is_config_class(value)]
        if len(suitable) != 1:
            raise WorkerError(
                f"worker {self.name!r}: {module.__name__} has {len(suitable)} classes with "
                'from_dict() and to_dict(); its metadata names the one: config="package.module:'
                'Class"'
            )
        config: type[WorkerConfig] = suitable[0]
        return config


@dataclass(frozen=True)
class BrokenWorker:
    """A worker that is announced but can not be used."""

    name: str
    distribution: str
    reason: str
    remedy: str
    """What to do about it."""


def discover_workers() -> list[InstalledWorker | BrokenWorker]:
    """Return all workers that are announced, by name."""
    return [describe(point) for point in sorted(announced(), key=lambda point: point.name)]


def find_worker(name: str) -> InstalledWorker:
    """Return one worker, ready to start."""
    points = {point.name: point for point in announced()}
    if name not in points:
        near = difflib.get_close_matches(name, points, n=1)
        hint = f"did you mean {near[0]}?" if near else "`lanekit workers` lists those that are"
        raise WorkerError(f"no worker named {name!r} is installed; {hint}")
    worker = describe(points[name])
    if isinstance(worker, BrokenWorker):
        raise WorkerError(f"worker {name!r} can not be used: {worker.reason}; {worker.remedy}")
    return worker


def announced() -> Iterable[EntryPoint]:
    """Return the entry points, each name once: the first on the path counts, as for imports."""
    points: dict[str, EntryPoint] = {}
    for point in entry_points(group=GROUP):
        points.setdefault(point.name, point)
    return points.values()


def describe(point: EntryPoint) -> InstalledWorker | BrokenWorker:
    """Ask one worker what it is."""
    distribution = point.dist.name if point.dist is not None else ""
    try:
        # What a package prints when it is imported must not get into somebody's JSON.
        with contextlib.redirect_stdout(sys.stderr):
            answer = point.load()()
        if not isinstance(answer, tuple) or len(answer) != 2:
            raise TypeError(f"{point.value} returned {answer!r}, not (metadata, capabilities)")
        return InstalledWorker(
            point.name,
            distribution,
            take_over(WorkerMetadata, answer[0]),
            take_over(WorkerCapabilities, answer[1]),
            point.module,
        )
    except (Exception, SystemExit) as error:  # whatever a package does when it is imported
        return BrokenWorker(point.name, distribution, *_reason_and_remedy(error, point))


def _reason_and_remedy(error: BaseException, point: EntryPoint) -> tuple[str, str]:
    dist = point.dist.name if point.dist is not None else point.name
    again = f"pip install --force-reinstall {dist}"
    if isinstance(error, PackageNotFoundError):
        # A distribution with many workers has an extra for each, which knows the versions too.
        extras = point.dist.metadata.get_all("Provides-Extra") or [] if point.dist else []
        wanted = f"'{dist}[{point.name}]'" if point.name in extras else error.name
        return f"{error.name} is not installed", f"pip install {wanted}"
    if isinstance(error, ModuleNotFoundError) and error.name:
        missing = error.name.partition(".")[0]
        if missing != point.value.partition(".")[0].partition(":")[0]:
            return f"no module named {error.name}", f"install the package that brings {missing}"
        return f"its own module {error.name} is missing", again
    return f"{type(error).__name__}: {error}", f"report it to the authors of {dist}, or {again}"


def is_config_class(value: object) -> bool:
    """Tell whether something is a class with the two conversions of a configuration."""
    return isinstance(value, type) and all(
        callable(getattr(value, name, None)) for name in ("from_dict", "to_dict")
    )
