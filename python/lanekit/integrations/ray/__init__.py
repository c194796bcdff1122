"""lanekit on a Ray cluster: workers on its nodes, and their records in the trainer's lane.

    from lanekit.integrations import ray as cluster

    cluster.connect()                                       # or ray.init(...) of your own
    placed = cluster.place_run("sb3", {"env_id": "CartPole-v1"}, cpus=2)
    cluster.placed_runs()                                   # which run is on which node

    with TrajectoryReader.create("rollouts", SCHEMA) as reader, cluster.forward("rollouts"):
        ...                                                 # on the trainer's node
    with cluster.RemoteTrajectoryWriter.attach("rollouts", producer="actor-3") as writer:
        writer.put(arrays)                                  # on any node

docs/cluster.md explains it.
"""

from __future__ import annotations

from importlib.util import find_spec

if find_spec("ray") is None:
    raise ModuleNotFoundError(f"{__name__} needs Ray: pip install 'lanekit[ray]'", name="ray")

from lanekit.integrations.ray.at_node import NodeDaemon
from lanekit.integrations.ray.connecting import connect
from lanekit.integrations.ray.directory import PlacedRun, find_run, placed_runs
from lanekit.integrations.ray.forwarding import Forwarding, forward
from lanekit.integrations.ray.nodes import Node, live_nodes
from lanekit.integrations.ray.placing import place_run
from lanekit.integrations.ray.remote_daemon import RemoteDaemon
from lanekit.integrations.ray.remote_writer import RemoteTrajectoryWriter

__all__ = [
    "Forwarding",
    "Node",
    "NodeDaemon",
    "PlacedRun",
    "RemoteDaemon",
    "RemoteTrajectoryWriter",
    "connect",
    "find_run",
    "forward",
    "live_nodes",
    "place_run",
    "placed_runs",
]
