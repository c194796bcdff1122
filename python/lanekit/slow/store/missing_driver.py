"""What to do about a driver that is not there."""

from __future__ import annotations

from lanekit.errors import MissingExtra


def missing_driver(error: ImportError) -> MissingExtra:
    """Say how to install what a store on PostgreSQL needs."""
    return MissingExtra(
        f"a store on PostgreSQL needs its driver ({error}): pip install 'lanekit[postgres]'"
    )
