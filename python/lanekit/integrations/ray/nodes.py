"""The cluster's nodes, and work that must be done on a particular one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import ray
from ray import exceptions
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from lanekit.errors import ClusterError, LanekitError, NodeLost

ANSWER_SECONDS = 120.0
"""How long a node may take to answer: its first process for us has to start."""


@dataclass(frozen=True)
class Node:
    """A machine of the cluster, or what acts as one."""

    node_id: str
    address: str
    hostname: str

    def __str__(self) -> str:
        return f"{self.hostname} ({self.address}, {self.node_id[:8]})"


def live_nodes() -> list[Node]:
    """Return the nodes that are there now."""
    return [_node(entry) for entry in ray.nodes() if entry["Alive"]]


def this_node() -> Node:
    """Return the node that this process belongs to."""
    own = ray.get_runtime_context().get_node_id()
    return next(node for node in live_nodes() if node.node_id == own)


def find_node(text: str) -> Node:
    """Return the one node with this host name, address, or beginning of an id."""
    nodes = live_nodes()
    found = [n for n in nodes if text in (n.hostname, n.address) or n.node_id.startswith(text)]
    if len(found) == 1 and text:
        return found[0]
    problem = f"{len(found)} nodes are called {text!r}" if found else f"no live node {text!r}"
    there = "; ".join(map(str, nodes))
    raise ClusterError(f"{problem}; name one of these by the id's beginning: {there}")


def affinity(node: Node) -> Any:
    """Return the strategy that lets Ray run something on this node or nowhere."""
    return NodeAffinitySchedulingStrategy(node.node_id, soft=False)


class Asked:
    """Work under way on a node."""

    def __init__(self, node: Node, reference: Any) -> None:
        self.node = node
        self.reference = reference

    def answer(self, timeout: float | None = ANSWER_SECONDS) -> Any:
        """Return what the work returned, or raise what it raised."""
        try:
            return ray.get(self.reference, timeout=timeout)
        except exceptions.RayError as error:
            fail(error, self.node)


def ask(node: Node, work: Callable[..., Any], *arguments: Any) -> Asked:
    """Begin to call a function of an installed module on a node."""
    remote = ray.remote(num_cpus=0, max_retries=2)(work)
    return Asked(node, remote.options(scheduling_strategy=affinity(node)).remote(*arguments))


def fail(error: exceptions.RayError, node: Node) -> NoReturn:
    """Raise what an error of Ray's means here."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, LanekitError):
        raise cause from None
    text = str(cause or error).strip()
    if "No module named 'lanekit" in text:
        raise ClusterError(
            f"node {node}: lanekit is not installed there; install the same version on every "
            "node: pip install 'lanekit[ray]'"
        ) from error
    if all(node.node_id != other.node_id for other in live_nodes()):
        raise NodeLost(f"node {node} has died") from error
    if isinstance(error, exceptions.GetTimeoutError):
        raise ClusterError(
            f"node {node} did not answer in time; `ray status` and its /tmp/ray/session_latest/"
            "logs say why"
        ) from error
    last = text.splitlines()[-1] if text else type(error).__name__
    raise ClusterError(f"node {node}: {last}") from error


def _node(entry: dict[str, Any]) -> Node:
    return Node(entry["NodeID"], entry["NodeManagerAddress"], entry["NodeManagerHostname"])
