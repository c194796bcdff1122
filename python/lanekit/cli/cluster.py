"""What the commands share that work on a Ray cluster: its name, its nodes' daemons, its runs."""

from __future__ import annotations

import argparse
import socket
import sys
from typing import TYPE_CHECKING, Any

from lanekit.cli.columns import Colour, Paint, columns
from lanekit.cli.ls import printable
from lanekit.cli.quantities import ago, json_document
from lanekit.errors import MissingExtra, distribution_of

if TYPE_CHECKING:
    from lanekit.integrations.ray import PlacedRun, RemoteDaemon
    from lanekit.slow.store.records import RunRecord

CLUSTER_HELP = "on a Ray cluster: `ray` for the one of this machine, or ray:HOST:PORT of its head"


def add_cluster_argument(parser: argparse.ArgumentParser) -> None:
    """Add ``--cluster``."""
    parser.add_argument("--cluster", type=cluster_address, metavar="ray", help=CLUSTER_HELP)


def add_placing_arguments(parser: argparse.ArgumentParser) -> None:
    """Add ``--cluster`` and how a run is placed there."""
    group = parser.add_argument_group("on a cluster")
    group.add_argument("--cluster", type=cluster_address, metavar="ray", help=CLUSTER_HELP)
    group.add_argument(
        "--cpus", type=float, default=1.0, metavar="N", help="CPUs of Ray's that it holds (1)"
    )
    group.add_argument(
        "--gpus", type=float, default=0.0, metavar="N", help="GPUs of Ray's that it holds (0)"
    )
    group.add_argument(
        "--node", metavar="NODE", help="host name, address or id; default: where there is room"
    )
    group.add_argument(
        "--store",
        default="",
        metavar="URL",
        help="where the nodes' daemons keep events: postgresql://... for all, or a path on each",
    )
    group.add_argument(
        "--node-port",
        type=int,
        default=0,
        metavar="PORT",
        help="where each node's daemon listens for viewers elsewhere (default: nowhere)",
    )
    group.add_argument("--node-token-file", default="", metavar="FILE", help="on each node")
    group.add_argument("--node-tls-cert", default="", metavar="FILE", help="on each node")
    group.add_argument("--node-tls-key", default="", metavar="FILE", help="on each node")


def unused_placing(args: argparse.Namespace) -> list[str]:
    """Return the options of the command line that say how to place a run, where none is placed."""
    nobody = argparse.ArgumentParser()
    add_placing_arguments(nobody)
    given = vars(args)
    return [
        f"--{name.replace('_', '-')}"
        for name, default in vars(nobody.parse_args([])).items()
        if args.cluster is None and given[name] != default
    ]


def cluster_address(text: str) -> str:
    """Return the address of a cluster's head; none for `ray` alone."""
    kind, _, address = text.partition(":")
    if kind != "ray" or (address and address.startswith("//")):
        raise argparse.ArgumentTypeError(f"takes ray or ray:HOST:PORT, got {text!r}")
    return address


def join(address: str) -> None:
    """Join the cluster that ``--cluster`` names."""
    try:
        from lanekit.integrations.ray import connect
    except ModuleNotFoundError as error:
        if error.name not in ("ray", "grpc", "google", "msgspec"):
            raise
        raise MissingExtra(
            f"--cluster needs {distribution_of(error)}, which is not installed: "
            "pip install 'lanekit[ray]'"
        ) from None
    connect(address or None)


def place(
    args: argparse.Namespace, worker: str, config: dict[str, Any], environment: dict[str, str]
) -> PlacedRun:
    """Place a run as the command line says."""
    join(args.cluster)
    from lanekit.integrations.ray import NodeDaemon, place_run

    daemon = NodeDaemon(
        store=args.store,
        port=args.node_port,
        token_file=args.node_token_file,
        tls_cert=args.node_tls_cert,
        tls_key=args.node_tls_key,
        insecure_loopback=args.insecure_loopback,
    )
    return place_run(
        worker,
        config,
        cpus=args.cpus,
        gpus=args.gpus,
        node=args.node,
        environment=environment,
        daemon=daemon,
    )


def daemon_of(args: argparse.Namespace) -> RemoteDaemon:
    """Return the daemon of the node that has the run of the command line."""
    join(args.cluster)
    from lanekit.integrations.ray import RemoteDaemon, find_run

    return RemoteDaemon(find_run(args.run_id, str(args.token_file or "")))


def last_words(placed: PlacedRun, record: RunRecord) -> list[str]:
    """Return the end of what a run's workers on another machine wrote to stderr."""
    from lanekit.integrations.ray.at_node import end_of_stderr
    from lanekit.integrations.ray.nodes import ask

    words = []
    for worker in record.senders:
        if worker.spool_directory and worker.host != socket.gethostname():
            lines = ask(placed.node, end_of_stderr, worker.spool_directory).answer()
            words += [f"the end of its stderr on {placed.node}:", *(f"  {line}" for line in lines)]
    return words


def print_runs(args: argparse.Namespace) -> int:
    """List the runs of all nodes; the status is 1 if some node did not answer."""
    join(args.cluster)
    from lanekit.integrations.ray import placed_runs

    found, missing = placed_runs(str(args.token_file or ""))
    if not args.all:
        found = [placed for placed in found if placed.record and not placed.record.archived]
    if args.json:
        print(json_document([_as_json(placed) for placed in found]))
    elif found:
        print("\n".join(_table(found)))
    else:
        print("no runs on this cluster; `lanekit run --cluster ray` starts one")
    for words in missing:
        print(f"lanekit runs: {words}", file=sys.stderr)
    return 1 if missing else 0


def _as_json(placed: PlacedRun) -> dict[str, Any]:
    record = placed.record
    assert record is not None
    return {
        "run_id": placed.run_id,
        "state": str(record.state),
        "node_id": placed.node.node_id,
        "node_address": placed.node.address,
        "node_hostname": placed.node.hostname,
        "daemon": placed.daemon,
        "created_ns": record.created_ns,
        "steps": record.steps,
        "episodes": record.episodes,
        "exit_status": record.exit_status,
        "reason": record.reason or None,
    }


def _table(found: list[PlacedRun]) -> list[str]:
    paint = Paint()
    heads = ["RUN", "STATE", "CREATED", "STEPS", "EPISODES", "NODE", "DAEMON", "NOTE"]
    rows = [[paint(head, Colour.DIM) for head in heads]]
    for placed in found:
        record = placed.record
        assert record is not None
        rows.append(
            [
                paint(placed.run_id, Colour.BOLD),
                str(record.state),
                ago(record.created_ns),
                f"{record.steps:,}",
                f"{record.episodes:,}",
                f"{placed.node.hostname}/{placed.node.node_id[:8]}",
                placed.daemon,
                paint(printable(record.reason, 60), Colour.DIM),
            ]
        )
    return columns(rows, right={3, 4})
