"""The commands and the program of docs/remote.md, on one machine: over TLS, with a token."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from lanekit import FastLaneConfig, FastLaneWriter
from patience import patience, until

pytestmark = pytest.mark.once


@pytest.fixture
def page(root: Path) -> str:
    """The page, with this machine's name in it and a port that nobody else has."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    text = (root / "docs" / "remote.md").read_text(encoding="utf-8")
    for old, new in {"0.0.0.0": "127.0.0.1", "node7.lab": "localhost", "7070": port}.items():
        assert old in text
        text = text.replace(old, new)
    return text


@pytest.fixture
def environment(short_directory: Path) -> dict[str, str]:
    return {
        **os.environ,
        "HOME": str(short_directory),
        "LANEKIT_STATE": str(short_directory / "state"),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }


@pytest.fixture
def lab(page: str, short_directory: Path, environment: dict[str, str]) -> Iterator[Path]:
    """The machine that trains: certificates and a daemon, made by the page's commands."""
    certs, daemon = re.findall(r"^\$ (lanekit (?:certs|daemon) .*)$", page, re.MULTILINE)
    subprocess.run(certs, shell=True, env=environment, timeout=patience(100), check=True)
    with subprocess.Popen(
        f"exec {daemon}", shell=True, env=environment, stdout=subprocess.DEVNULL
    ) as running:
        until((short_directory / "state" / "daemon.sock").exists)
        yield short_directory / "lanekit-certs"
        running.send_signal(signal.SIGTERM)


def test_a_frame_is_seen_from_elsewhere_as_written(
    page: str, lab: Path, environment: dict[str, str], run_id: str, tmp_path: Path
) -> None:
    for name in ("ca.pem", "token"):
        shutil.copy(lab / name, tmp_path)
    export, *views = re.findall(r"^\$ ((?:export|lanekit view) .*)$", page, re.MULTILINE)
    (snapshot,) = [line for line in views if "--snapshot" in line]
    (program,) = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    config = FastLaneConfig(width=64, height=48)
    with FastLaneWriter.create(run_id, config) as writer:
        writer.publish(np.full(config.shape, 200, np.uint8))
        line = re.sub(r"RUN\b.*", run_id, snapshot)
        subprocess.run(
            ["bash", "-e", "-c", f"{export}\n{line}"],
            env=environment,
            cwd=tmp_path,
            timeout=patience(100),
            check=True,
        )
        assert (tmp_path / "now.png").read_bytes().startswith(b"\x89PNG")
        # It watches for as long as it is let.
        with subprocess.Popen(
            [sys.executable, "-u", "-c", program.replace("ppo-1", run_id)],
            env=environment,
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            text=True,
        ) as watching:
            assert watching.stdout is not None
            # First it lists the lanes of this machine, on which others may have some.
            said = []
            while not said or not said[-1].startswith("connected"):
                said.append(watching.stdout.readline())
                assert said[-1], "it ended"
            watching.kill()
    *listed, seen = said
    assert any(line.startswith(run_id) and "64x48" in line for line in listed)
    assert re.match(r"connected 1 FastLaneMetrics\(.*\) \d+$", seen)
