"""gRPC with the batch as bytes, on one stream in both directions."""

from __future__ import annotations

from bench.peers.steppers.grpc_bytes import PACKAGE as PACKAGE
from bench.peers.steppers.grpc_bytes import begin_stream as begin

__all__ = ["CALLS", "PACKAGE", "begin"]

CALLS = "stream of bytes over a Unix socket"
