"""``--cluster`` where there is no cluster, nor Ray: errors that name the remedy."""

from __future__ import annotations

import subprocess
import sys

import pytest

from patience import patience

# As where Ray is not installed, also if it is.
WITHOUT_RAY = """
import sys
sys.modules["ray"] = None
from lanekit.cli import main
sys.exit(main())
"""


def complaint(*arguments: str, status: int) -> str:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_RAY, *arguments],
        capture_output=True,
        text=True,
        timeout=patience(),
        check=False,
    )
    assert done.returncode == status, done.stderr
    return done.stderr


@pytest.mark.parametrize("command", [("runs",), ("control", "some-run", "stop")])
def test_without_ray_the_extra_is_named(command: tuple[str, ...]) -> None:
    assert "pip install 'lanekit[ray]'" in complaint(*command, "--cluster", "ray", status=1)


@pytest.mark.parametrize("name", ["slurm", "ray://head:10001", "rays:head:6379"])
def test_what_names_no_cluster_is_a_misuse(name: str) -> None:
    assert "takes ray or ray:HOST:PORT" in complaint("runs", "--cluster", name, status=2)
