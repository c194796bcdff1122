"""Roles that run in processes of their own, under limits of their own: `python FILE ROLE ...`.

Tests that change /dev/shm do it in a mount namespace of their own. As root they need nothing else;
other users need user namespaces.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lanekit
from patience import patience

SHM = Path("/dev/shm")
SMALL = lanekit.FastLaneConfig(64, 64, capacity=4)


def config_of(mib: int) -> lanekit.FastLaneConfig:
    """Return a configuration whose segment takes a little more than so many MiB."""
    return lanekit.FastLaneConfig(1024, 256, 4, "RGBA", capacity=mib)


def path_of(run_id: str) -> Path:
    return SHM / lanekit.segment_name("frame", run_id)


def run(role: Callable[..., None], *arguments: object, within: list[str] | None = None) -> Any:
    """Run a role, a function of some file, in a process of its own; within another command."""
    script = [sys.executable, role.__code__.co_filename, role.__name__]
    command = [*(within or []), *script, *map(str, arguments)]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONFAULTHANDLER": "1"}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=patience(120), check=False, env=environment
    )
    assert done.returncode == 0, f"ended with {done.returncode}:\n{done.stdout}{done.stderr}"
    return json.loads(done.stdout)


def private_mounts(setup: str) -> list[str]:
    """Return the command prefix that runs something with its own mounts, made by `setup`."""
    unshare = ["unshare", "--mount"] + ([] if os.geteuid() == 0 else ["--map-root-user"])
    probe = subprocess.run(
        [*unshare, "mount", "-t", "tmpfs", "tmpfs", "/dev/shm"], capture_output=True, check=False
    )
    if probe.returncode != 0:
        pytest.skip(
            "needs root, or unprivileged user namespaces, to mount a tmpfs: "
            f"{probe.stderr.decode().strip()}"
        )
    return [*unshare, "sh", "-c", f'{setup} && exec "$@"', "sh"]


def tmpfs(options: str) -> list[str]:
    return private_mounts(f"mount -t tmpfs -o {options} tmpfs /dev/shm")


def reply(answer: Any) -> None:
    print(json.dumps(answer))


def attempt(action: Callable[[], Any]) -> tuple[str, str]:
    """Return the name of what an action raised, and its message."""
    try:
        result = action()
    except lanekit.LanekitError as error:
        return type(error).__name__, str(error)
    if isinstance(result, lanekit.FastLaneWriter):
        with result:
            result.publish(np.zeros(result.config.shape, np.uint8))
    return "worked", ""


def create(run_id: str) -> None:
    reply(attempt(lambda: lanekit.FastLaneWriter.create(run_id, SMALL)))


def try_everything(run_id: str) -> None:
    name = lanekit.segment_name("frame", run_id)
    actions: dict[str, Callable[[], Any]] = {
        "create": lambda: lanekit.FastLaneWriter.create(run_id, SMALL),
        "attach": lambda: lanekit.FastLaneReader.attach(run_id, lease=0),
        "inspect": lambda: lanekit.inspect_segment(name),
        "reclaim": lambda: lanekit.reclaim_segment(name),
        "reclaim by force": lambda: lanekit.reclaim_segment(name, force=True),
    }
    reply({action: attempt(do) for action, do in actions.items()})


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
