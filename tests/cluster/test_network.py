"""A node behind a network that delays and loses packets: a namespace of its own."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import lossy_link
import psutil
import pytest
from daemon_process import free_port
from lossy_link import HERE, THERE
from raylets import OBJECT_STORE, Place, install_worker

from patience import Watchdog, patience

DELAY, LOSS = 0.01, 0.02

pytestmark = pytest.mark.skipif(bool(lossy_link.missing()), reason=lossy_link.missing() or "-")


class Network:
    """Two Ray nodes, the head here and one in a namespace, and the link between them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._token = secrets.token_hex(32)
        self.namespace = f"lanekit-{os.getpid()}"
        install_worker(root)
        self.places = {name: Place(root, name) for name in ("head", "far")}
        self.address = f"{HERE}:{free_port()}"
        self._nodes: list[subprocess.Popen[bytes]] = []
        self._link = self._open_link()
        try:
            self._start_nodes()
        except BaseException:
            self.close()
            raise

    def _open_link(self) -> subprocess.Popen[str]:
        lossy_link.run("ip", "netns", "add", self.namespace)
        link = subprocess.Popen(
            [sys.executable, lossy_link.__file__, self.namespace, str(DELAY), str(LOSS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert link.stdout is not None
        assert link.stdout.readline() == "up\n"
        return link

    def _start_nodes(self) -> None:
        port, directory = self.address.split(":")[1], str(self.root / "ray")
        head = ["--head", "--port", port, "--temp-dir", directory]
        self._start(
            "head",
            HERE,
            [],
            [*head, "--include-dashboard=false", f"--ray-client-server-port={free_port()}"],
        )
        self._start(
            "far", THERE, ["ip", "netns", "exec", self.namespace], ["--address", self.address]
        )

    def _start(self, name: str, ip: str, prefix: list[str], options: list[str]) -> None:
        ray = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block"]
        settings = ["--node-ip-address", ip, "--num-cpus", "1", "--disable-usage-stats"]
        sizes = ["--object-store-memory", str(OBJECT_STORE), "--resources", f'{{"{name}": 100}}']
        environment = {**self.environment(name), "PYTHONUNBUFFERED": "1"}
        with (self.root / f"{name}.log").open("wb") as log:
            command = [*prefix, *ray, *settings, *sizes, *options]
            node = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        self._nodes.append(node)
        watchdog = Watchdog("Ray's start", 240)
        while b"Ray runtime started" not in (said := (self.root / f"{name}.log").read_bytes()):
            assert node.poll() is None, said.decode()
            watchdog.check()
            time.sleep(0.2)

    def environment(self, name: str) -> dict[str, str]:
        """Return what a process of this node has in its environment."""
        variables = {**os.environ, **self.places[name].environment}
        variables.pop("RAY_ADDRESS", None)
        # Ray's own door is locked, as it should be on a network.
        return {**variables, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": self._token}

    def lost(self) -> int:
        """End the link, and return how many packets it lost."""
        said, _ = self._link.communicate(timeout=patience())
        return int(said.split()[-2])

    def close(self) -> None:
        for node in reversed(self._nodes):
            family = []
            with suppress(psutil.Error):
                family = psutil.Process(node.pid).children(recursive=True)
            node.terminate()
            try:
                node.wait(patience(30))
            except subprocess.TimeoutExpired:
                node.kill()
                node.wait()
            for member in family:
                with suppress(psutil.Error):
                    member.kill()
        if self._link.poll() is None:
            self._link.communicate(timeout=patience())
        for place in self.places.values():
            place.end()
        lossy_link.run("ip", "netns", "delete", self.namespace)


@pytest.fixture
def network(short_root: Path) -> Iterator[Network]:
    opened = Network(short_root)
    yield opened
    opened.close()


def test_runs_and_records_cross_a_network_that_loses_packets(network: Network) -> None:
    trainer = subprocess.run(
        [sys.executable, str(Path(__file__).parent / "network_trainer.py"), network.address],
        capture_output=True,
        text=True,
        timeout=patience(420),
        check=False,
        env=network.environment("head"),
    )
    assert trainer.returncode == 0, trainer.stderr
    # Ray tells on the same output of workers that died, whenever it comes to it.
    (told,) = [line for line in trainer.stdout.splitlines() if line.startswith("{")]
    seen = json.loads(told)
    assert seen["records"] == list(range(1, 61))
    assert seen["killed"] == 2
    assert seen["state"] == "completed"
    assert seen["node"] == THERE
    with network.places["far"].store() as store:
        assert store.run(seen["run_id"]).steps == 50
    assert network.lost() > 0
