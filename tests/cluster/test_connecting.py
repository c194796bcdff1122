"""Addresses at which there is no cluster: each gets an answer, and a remedy."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

from daemon_process import free_port

from patience import patience

# In a process of its own: one that has joined a cluster asks no more.
ASK = """
import json, sys
from lanekit.errors import ClusterError
from lanekit.integrations import ray
said = []
for address in sys.argv[1:]:
    try:
        ray.connect(address)
    except ClusterError as error:
        said.append(str(error))
print(json.dumps(said))
"""


def complaints(*addresses: str) -> list[str]:
    command = [sys.executable, "-c", ASK, *addresses]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=patience(300), check=False
    )
    assert done.returncode == 0, done.stderr
    said: list[str] = json.loads(done.stdout)
    return said


def test_each_address_without_a_cluster_gets_its_answer(tmp_path: Path) -> None:
    server = subprocess.Popen(
        [sys.executable, "-u", "-m", "http.server", "0", "--bind", "127.0.0.1"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert server.stdout is not None
        other = server.stdout.readline().split(" port ")[1].split()[0]
        with socket.create_server(("127.0.0.1", 0)) as silent:
            quiet = silent.getsockname()[1]
            ports = (free_port(), quiet, other)
            said = complaints(
                *(f"127.0.0.1:{port}" for port in ports),
                *("head", "head:", ":6379", "head:99999", "ray://head:10001"),
            )
    finally:
        server.kill()
        server.communicate()
    assert "no Ray cluster answers at 127.0.0.1:" in said[0]
    assert "ray start --head" in said[0]
    assert "no Ray cluster answers" in said[1]
    assert "is no head of a Ray cluster" in said[2]
    assert all("expected HOST:PORT" in words for words in said[3:7])
    assert "run this on a machine of the cluster" in said[7]
    assert len(said) == 8
