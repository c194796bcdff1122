"""Which node has which run. The nodes' daemons know; this asks them, and keeps nothing itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lanekit.errors import ClusterError, RunNotFound
from lanekit.integrations.ray import at_node
from lanekit.integrations.ray.nodes import Node, ask, live_nodes
from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.store.records import RunRecord


@dataclass(frozen=True)
class PlacedRun:
    """A run and its place."""

    run_id: str
    node: Node
    daemon: str
    """Where the node's daemon is: HOST:PORT, or a Unix socket of that node."""
    token_file: str = ""
    record: RunRecord | None = None
    """How the run was when it was looked up."""


def placed_runs(token_file: str = "") -> tuple[list[PlacedRun], list[str]]:
    """Return the runs that were placed on nodes which are there now, newest first.

    The second list says what is missing from the first: nodes that did not answer. `token_file`
    is the daemons' token, as a path on the nodes.
    """
    found, missing = [], []
    for node, answer in _answers(live_nodes(), token_file):
        if isinstance(answer, ClusterError):
            missing.append(str(answer))
            continue
        for run, daemon in answer:
            record = RunRecord.from_message(run)
            found.append(PlacedRun(run.run_id, node, daemon, token_file, record))
    found.sort(key=lambda placed: -(placed.record.created_ns if placed.record else 0))
    return found, missing


def find_run(run_id: str, token_file: str = "") -> PlacedRun:
    """Return where a run is."""
    found, missing = placed_runs(token_file)
    for placed in found:
        if placed.run_id == run_id:
            return placed
    silent = f" (not asked: {'; '.join(missing)})" if missing else ""
    raise RunNotFound(
        f"no node of this cluster has a run {run_id!r}{silent}; `lanekit runs --cluster ray` lists "
        "them. Runs of a node that died are in the store, if the nodes share one"
    )


def runs_by_node(
    nodes: Sequence[Node], token_file: str
) -> Iterator[tuple[Node, list[tuple[pb.Run, str]]]]:
    """Yield each node that answers, and its runs."""
    for node, answer in _answers(nodes, token_file):
        if not isinstance(answer, ClusterError):
            yield node, answer


def _answers(
    nodes: Sequence[Node], token_file: str
) -> Iterator[tuple[Node, list[tuple[pb.Run, str]] | ClusterError]]:
    under_way = [ask(node, at_node.placed_here, token_file) for node in nodes]  # all at once
    for asked in under_way:
        try:
            yield asked.node, asked.answer()
        except ClusterError as error:
            yield asked.node, error
