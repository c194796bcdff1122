"""To a Ray cluster that somebody else has started."""

from __future__ import annotations

import logging
import os
import socket

import ray

from lanekit.errors import ClusterError

NAMESPACE = "lanekit"
"""In which all actors of ours have their names, whatever namespace a program is in."""
_PROBE_SECONDS = 5.0
_REMEDY = (
    "`ray start --head` starts a cluster here, `ray status` shows whether one is there; name "
    "another with ray:HOST:PORT or RAY_ADDRESS"
)


def connect(address: str | None = None) -> None:
    """Join the cluster whose head answers at ``HOST:PORT``; without one: RAY_ADDRESS, or ours.

    Does nothing in a program that has joined already, with ``ray.init`` or as part of a cluster.
    """
    if ray.is_initialized():
        return
    address = address or os.environ.get("RAY_ADDRESS") or "auto"
    if "://" in address:
        raise ClusterError(
            f"{address}: Ray's client protocol is not supported; run this on a machine of the "
            "cluster, with the address HOST:PORT of its head"
        )
    if address != "auto":
        _probe(address)
    try:
        ray.init(
            address=address,
            namespace=NAMESPACE,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
    except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
        words = (str(error).strip() or repr(error)).splitlines()[0]
        raise ClusterError(
            f"no Ray cluster can be joined at {address}: {words}; {_REMEDY}"
        ) from error


def _probe(address: str) -> None:
    """See whether anybody listens: Ray itself would try for a minute, and then say less."""
    host, separator, port = address.rpartition(":")
    if not separator or not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise ClusterError(f"{address!r} is no address of a Ray cluster; expected HOST:PORT")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _PROBE_SECONDS).close()
    except OSError as error:
        raise ClusterError(
            f"no Ray cluster answers at {address} ({error.strerror or error}); {_REMEDY}"
        ) from None
