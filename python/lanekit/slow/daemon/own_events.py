"""The daemon's own events in the runs that it looks after."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import time

from lanekit import errors
from lanekit.slow.batches import events_batch
from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.store.db_sink import TelemetryDBSink
from lanekit.slow.store.life_cycle import DAEMON_STREAM


class OwnEvents:
    """Stores events as soon as the store can be written."""

    def __init__(self, sink: TelemetryDBSink, stream_id: str = DAEMON_STREAM) -> None:
        self._sink = sink
        self._stream_id = stream_id
        self._turn = asyncio.Lock()

    async def record(self, run_id: str, name: str, payload: dict[str, object]) -> None:
        """Store one event; return when it is."""
        event = pb.RunEvent(
            worker_id=DAEMON_STREAM,
            name=name,
            wall_time_ns=time.time_ns(),
            payload_json=json.dumps(payload).encode(),
        )
        while True:
            try:
                async with self._turn:
                    await self._store(run_id, event)
                return
            except errors.StoreError:
                await asyncio.sleep(1.0)

    async def _store(self, run_id: str, event: pb.RunEvent) -> None:
        committed = await asyncio.wrap_future(
            self._sink.call(
                lambda store: store.register_stream(
                    run_id,
                    self._stream_id,
                    worker_id=DAEMON_STREAM,
                    pid=os.getpid(),
                    host=socket.gethostname(),
                    aside=True,
                )
            )
        )
        request = pb.PublishRunEventsRequest(
            run_id=run_id,
            stream_id=self._stream_id,
            first_seq=committed.events + 1,
            events=[event],
        )
        future = await asyncio.to_thread(self._sink.submit, events_batch(request))
        await asyncio.wrap_future(future)
