"""A Ray cluster of several raylets on this machine, each with a state directory of its own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import ray
from daemon_process import DaemonProcess
from ray.cluster_utils import Cluster

from lanekit.errors import LanekitError
from lanekit.integrations import ray as lanekit_ray
from lanekit.integrations.ray.nodes import Node, ask
from lanekit.segments import reclaim_segment, segment_name
from lanekit.slow import RunStore
from patience import patience, until

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
ENTRY_POINTS = "[mosaic.workers]\nstepping = stepping_worker:describe\n"
OBJECT_STORE = 80 * 2**20
TESTS = Path(__file__).parent.parent


def install_worker(root: Path) -> None:
    """Make a place with the stepping worker installed, and one without."""
    about = root / "site" / "stepping_worker-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: stepping-worker\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(ENTRY_POINTS)
    shutil.copy(TESTS / "slow" / "stepping_worker.py", root / "site")
    (root / "empty").mkdir()


class Place:
    """What a node of its own would have: a home, a socket, what is installed."""

    def __init__(self, root: Path, name: str, *, installed: bool = True) -> None:
        self.name = name
        self.state = root / name / "state"
        self.state.mkdir(parents=True)
        self.socket = root / name / "d.sock"
        site = root / ("site" if installed else "empty")
        self.environment = {
            "LANEKIT_STATE": str(self.state),
            "LANEKIT_DAEMON": f"unix:{self.socket}",
            "PYTHONPATH": f"{site}:{Path(__file__).parent}",
        }

    def store(self) -> RunStore:
        return RunStore.open(self.state / "lanekit.db")

    def daemon_pid(self) -> int:
        return int(json.loads((self.state / "daemon.started.json").read_text())["pid"])

    def kill_processes(self) -> None:
        """Kill all that has this place's state in its environment: a raylet, Ray's workers."""
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.environ().get("LANEKIT_STATE") == str(self.state):
                    process.kill()

    def end(self) -> None:
        """End the daemon, and whoever it left running."""
        with suppress(OSError, ValueError, psutil.Error):
            daemon = psutil.Process(self.daemon_pid())
            if "daemon" in daemon.cmdline():
                daemon.send_signal(signal.SIGTERM)
                daemon.wait(patience())
        DaemonProcess(self.state).end_children()


class Raylets:
    """The cluster, and this process as its driver."""

    def __init__(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="lk-"))
        install_worker(self.root)
        self.places: dict[str, Place] = {}
        self._raylets: dict[str, Any] = {}
        head = self._place("head")
        os.environ.update(head.environment)
        self._cluster = Cluster(
            initialize_head=True,
            head_node_args={
                "num_cpus": 1,
                "include_dashboard": False,
                "object_store_memory": OBJECT_STORE,
                "resources": {"head": 1000},
                "env_vars": head.environment,
            },
        )
        self.address: str = self._cluster.address
        lanekit_ray.connect(self.address)

    def _place(self, name: str, *, installed: bool = True) -> Place:
        place = self.places[name] = Place(self.root, name, installed=installed)
        return place

    def add(self, name: str, *, cpus: int, installed: bool = True) -> Node:
        """Start one more raylet; its name is also a resource."""
        place = self._place(name, installed=installed)
        for attempts_left in (3, 2, 1, 0):
            try:
                self._raylets[name] = self._cluster.add_node(
                    num_cpus=cpus,
                    object_store_memory=OBJECT_STORE,
                    resources={name: 1000},
                    env_vars=place.environment,
                )
                break
            except Exception as error:  # Ray gives a raylet 30 s, also on a busy machine
                place.kill_processes()
                if "timed out during startup" not in str(error) or not attempts_left:
                    raise
        return self.node(name)

    def node(self, name: str) -> Node:
        def found() -> str | None:
            entries = [e for e in ray.nodes() if e["Alive"] and name in e["Resources"]]
            return entries[0]["NodeID"] if entries else None

        node_id = until(found)
        return next(n for n in lanekit_ray.live_nodes() if n.node_id == node_id)

    def kill(self, name: str) -> None:
        """Kill a raylet, and all that runs on it, as if the machine had died."""
        self._cluster.remove_node(self._raylets.pop(name), allow_graceful=False)
        self.places[name].end()
        until(lambda: not any(e["Alive"] and name in e["Resources"] for e in ray.nodes()))

    def on(self, name: str, work: Any, *arguments: Any) -> Any:
        """Call a function on a node."""
        return ask(self.node(name), work, *arguments).answer()

    def lanekit(self, *arguments: str, status: int = 0) -> tuple[str, str]:
        """Type a command on the head's machine."""
        done = subprocess.run(
            [sys.executable, "-m", "lanekit", *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=patience(300),
            check=False,
        )
        assert done.returncode == status, (done.stdout, done.stderr)
        return done.stdout, done.stderr

    def close(self) -> None:
        """End everything, and remove what killed workers had to leave in shared memory."""
        run_ids = []
        for place in self.places.values():
            with suppress(LanekitError), place.store() as store:
                run_ids += [record.run_id for record in store.runs(include_archived=True)]
        ray.shutdown()
        self._cluster.shutdown()
        for place in self.places.values():
            place.end()
        for run_id in run_ids:
            with suppress(LanekitError):
                reclaim_segment(segment_name("frame", run_id))
        shutil.rmtree(self.root, ignore_errors=True)
