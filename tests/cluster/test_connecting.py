"""Addresses at which there is no cluster: each gets an answer, and a remedy."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest
from daemon_process import free_port


def complaint(address: str) -> str:
    code = f"from lanekit.integrations import ray; ray.connect({address!r})"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 1
    return done.stderr


def test_an_address_where_nobody_listens_is_told_at_once() -> None:
    said = complaint(f"127.0.0.1:{free_port()}")
    assert "no Ray cluster answers at 127.0.0.1:" in said
    assert "ray start --head" in said


@pytest.mark.parametrize("address", ["head", "head:", ":6379", "head:99999"])
def test_what_is_no_address_is_told(address: str) -> None:
    assert "expected HOST:PORT" in complaint(address)


def test_rays_client_protocol_is_refused() -> None:
    assert "run this on a machine of the cluster" in complaint("ray://head:10001")


def test_a_listener_that_is_no_cluster_is_told(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        said = complaint(f"127.0.0.1:{silent.getsockname()[1]}")
    assert "no Ray cluster answers" in said
    server = subprocess.Popen(
        [sys.executable, "-u", "-m", "http.server", "0", "--bind", "127.0.0.1"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert server.stdout is not None
        port = server.stdout.readline().split(" port ")[1].split()[0]
        assert "is no head of a Ray cluster" in complaint(f"127.0.0.1:{port}")
    finally:
        server.kill()
        server.communicate()
