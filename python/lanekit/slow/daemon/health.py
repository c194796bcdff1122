"""gRPC's health service, whose watchers do not outlast the daemon."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
from grpc_health.v1.health import aio  # type: ignore[import-untyped]


class Health(aio.HealthServicer):  # type: ignore[misc]
    """The reference implementation, and an end to ``Watch``, which gRPC would cut off loudly."""

    def __init__(self) -> None:
        super().__init__()
        self._ending = asyncio.Event()

    def end_watches(self) -> None:
        """End all calls of ``Watch``."""
        self._ending.set()

    async def Watch(self, request: Any, context: Any) -> None:  # noqa: N802
        """Tell of each change of a service's health."""
        watching = asyncio.create_task(super().Watch(request, context))
        ending = asyncio.create_task(self._ending.wait())
        try:
            await asyncio.wait({watching, ending}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            watching.cancel()
            ending.cancel()
        await context.abort(grpc.StatusCode.UNAVAILABLE, "the daemon is shutting down")
