"""TrainerService: all rpcs of the protocol, gathered from the parts that serve them."""

from __future__ import annotations

import asyncio

import grpc

from lanekit.slow.daemon.frames.tap import FrameTap
from lanekit.slow.daemon.methods import Methods
from lanekit.slow.daemon.publishing import Publishing
from lanekit.slow.daemon.pulse import Pulse
from lanekit.slow.daemon.runs import Runs
from lanekit.slow.daemon.security import CallGate
from lanekit.slow.daemon.silence import Silence
from lanekit.slow.daemon.streams import Streams
from lanekit.slow.daemon.supervisor import Supervisor
from lanekit.slow.daemon.watching import Watching
from lanekit.slow.daemon.web_page import DaemonParts, WebPage, WebSettings
from lanekit.slow.daemon.workers import Workers
from lanekit.slow.run_bus import RunBus
from lanekit.slow.store.db_sink import TelemetryDBSink
from lanekit.slow.store.run_store import RunStore


class TrainerService:
    """The protocol's service over one store. Made inside the event loop that serves it."""

    def __init__(
        self,
        sink: TelemetryDBSink,
        bus: RunBus,
        store: RunStore,
        supervisor: Supervisor,
        gate: CallGate,
        web: WebSettings,
    ) -> None:
        self._methods = Methods(gate)
        self.tap = FrameTap()
        """The fast lanes of this machine, for whoever serves frames from this process."""
        self._pulse = Pulse(bus, store.is_shared)
        self._publishing = Publishing(sink)
        self._streams = Streams(store, self._pulse, busy=lambda: sink.status().queued_batches > 0)
        workers = Workers(sink, bus, self._pulse)
        runs = Runs(sink, self._streams, self._pulse, supervisor, workers)
        parts = DaemonParts(store, self._pulse, runs, workers, self.tap)
        self.page = WebPage(parts, gate, web)
        """Where a browser finds all of this, once it is opened."""
        self.handler: grpc.GenericRpcHandler = self._methods.handlers(
            self._publishing.methods()
            | self._streams.methods()
            | workers.methods()
            | runs.methods()
            | Watching(self.tap, self._pulse).methods()
            | self.page.methods()
        )
        """What a gRPC server is given."""
        silence = Silence(
            sink,
            lambda run_id, stream_id: (
                workers.connected(run_id, stream_id)
                or self._publishing.publishes(run_id, stream_id)
            ),
        )
        self._watching = asyncio.get_running_loop().create_task(silence.watch())

    def drain(self) -> None:
        """Take nothing further in; end each call once what it sent is acknowledged."""
        self._methods.drain()
        self._publishing.drain()
        self._pulse.stop()
        self.tap.end_watches()

    def cut(self) -> None:
        """End the drained calls whose acknowledgements do not come."""
        self._publishing.cut()

    async def idle(self) -> None:
        """Wait until no call is under way."""
        await self._methods.idle()

    def close(self) -> None:
        """Let go of sink, store and threads."""
        self._watching.cancel()
        self._publishing.close()
        self._streams.close()
        self.page.close()
        self.tap.close()
