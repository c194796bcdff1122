"""Place a run: Ray chooses the node and holds its resources, the node's daemon does the rest."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Mapping
from typing import Any

import ray
from ray import exceptions

from lanekit.errors import ClusterError, RunExists
from lanekit.integrations.ray import at_node
from lanekit.integrations.ray.at_node import NodeDaemon, RunRequest
from lanekit.integrations.ray.connecting import NAMESPACE
from lanekit.integrations.ray.directory import PlacedRun, runs_by_node
from lanekit.integrations.ray.nodes import Node, affinity, fail, find_node, live_nodes, this_node
from lanekit.slow.batches import check_run_id, new_run_id

_PAUSE = 0.5


def actor_name(run_id: str) -> str:
    """Return the name under which the cluster knows a run that is not over."""
    return f"lanekit-run:{run_id}"


def place_run(
    worker: str,
    config: Mapping[str, Any],
    *,
    cpus: float = 1.0,
    gpus: float = 0.0,
    node: str | None = None,
    environment: Mapping[str, str] | None = None,
    daemon: NodeDaemon | None = None,
    timeout: float | None = None,
) -> PlacedRun:
    """Start an installed worker on a node that has room for it.

    The run holds `cpus` and `gpus` of Ray's until it is over. `config` is the worker's own; its
    ``run_id`` is made up if it has none. `node` is a host name, an address or the beginning of a
    node's id. Waits up to `timeout` seconds (None: for ever) for a node to have room. The worker
    is started once: if its node dies, the run is over.
    """
    document = {"run_id": new_run_id(worker), **config}
    run_id = check_run_id(document["run_id"])
    daemon = daemon or NodeDaemon()
    chosen = find_node(node) if node else None
    _check_possible(cpus, gpus, chosen)
    _check_new(run_id, daemon)
    request = RunRequest(run_id, worker, json.dumps(document).encode(), dict(environment or {}))
    options: dict[str, Any] = {
        "name": actor_name(run_id),
        "namespace": NAMESPACE,
        "lifetime": "detached",  # the run goes on when whoever placed it leaves
        "num_cpus": cpus,
        "num_gpus": gpus,
        "max_restarts": 0,  # another node must not start the worker again
    }
    if chosen is not None:
        options["scheduling_strategy"] = affinity(chosen)
    try:
        holder = ray.remote(RunHolder).options(**options).remote()
    except ValueError as error:
        raise RunExists(f"run {run_id!r} is on this cluster already ({error})") from None
    return _start(holder, request, daemon, timeout)


class RunHolder:
    """Holds a run's resources. The run itself is in the care of the node's daemon."""

    def where(self) -> Node:
        """Return the node that Ray has chosen."""
        return this_node()

    def start(self, request: RunRequest, daemon: NodeDaemon) -> str:
        """Have the run started here, and leave when it is over."""
        node = this_node()
        # Ray says which GPUs are ours, and hides all of them from those who asked for none.
        gpus = os.environ.get("CUDA_VISIBLE_DEVICES") if ray.get_gpu_ids() else None
        listens = at_node.submit(request, daemon, node.address, str(node), gpus)
        own = ray.get_runtime_context().current_actor

        def leave_when_over() -> None:
            at_node.hold_until_over(request.run_id, daemon.token_file)
            ray.kill(own)

        threading.Thread(target=leave_when_over, daemon=True).start()
        return listens


def _start(
    holder: Any, request: RunRequest, daemon: NodeDaemon, timeout: float | None
) -> PlacedRun:
    deadline = None if timeout is None else time.monotonic() + timeout
    where = holder.where.remote()
    try:
        while not ray.wait([where], timeout=_PAUSE)[0]:
            if deadline is not None and time.monotonic() > deadline:
                raise ClusterError(
                    f"run {request.run_id!r}: no node had room for it in {timeout:g} s; `ray "
                    "status` shows what is taken"
                )
        node = ray.get(where)
        try:
            listens = ray.get(holder.start.remote(request, daemon))
        except exceptions.RayError as error:
            fail(error, node)
    except exceptions.RayError as error:
        raise ClusterError(f"run {request.run_id!r} can not be placed: {error}") from error
    except BaseException:
        ray.kill(holder)
        raise
    return PlacedRun(request.run_id, node, listens, daemon.token_file)


def _check_possible(cpus: float, gpus: float, chosen: Node | None) -> None:
    """Refuse what no node will ever have: Ray would wait for it without a word."""
    totals = [
        (entry["Resources"].get("CPU", 0.0), entry["Resources"].get("GPU", 0.0))
        for entry in ray.nodes()
        if entry["Alive"] and (chosen is None or entry["NodeID"] == chosen.node_id)
    ]
    if not any(cpu >= cpus and gpu >= gpus for cpu, gpu in totals):
        have = "; ".join(f"{cpu:g} CPUs and {gpu:g} GPUs" for cpu, gpu in sorted(set(totals)))
        which = f"node {chosen} does not have" if chosen else "no node has"
        raise ClusterError(
            f"{which} {cpus:g} CPUs and {gpus:g} GPUs; there are: {have or 'no live nodes'}"
        )


def _check_new(run_id: str, daemon: NodeDaemon) -> None:
    """Refuse a run that some node has. Of two who ask at once, the actor's name stops one."""
    for node, runs in runs_by_node(live_nodes(), daemon.token_file):
        if any(run.run_id == run_id for run, _ in runs):
            raise RunExists(f"run {run_id!r} exists already, on node {node}; choose another id")
