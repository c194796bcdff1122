"""The standardization checks: does an installed worker do what a launcher relies on?

Each check is one function that returns one finding. The ones about runs start the worker's real
command, and read what it prints as a telemetry proxy would.
"""

from __future__ import annotations

from collections.abc import Iterator

from lanekit.worker.checks.about_it import ABOUT_IT
from lanekit.worker.checks.about_runs import ABOUT_RUNS
from lanekit.worker.checks.finding import Finding, Subject

__all__ = ["Finding", "Subject", "check_worker"]


def check_worker(subject: Subject) -> Iterator[Finding]:
    """Check a worker, one thing after the other; without a configuration there are no runs."""
    usable = True
    for check in ABOUT_IT:
        finding = check(subject)
        usable = usable and finding.state != "failed"
        yield finding
    for check in ABOUT_RUNS if usable else ():
        yield check(subject)
