"""A node's daemon, asked through Ray: no port of it need be open."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self

from lanekit.errors import NodeLost
from lanekit.integrations.ray import at_node
from lanekit.integrations.ray.directory import PlacedRun
from lanekit.integrations.ray.nodes import ask
from lanekit.slow.proto import telemetry_pb2 as pb


class RemoteDaemon:
    """What of a :class:`~lanekit.slow.daemon_client.DaemonClient` concerns one placed run."""

    def __init__(self, placed: PlacedRun) -> None:
        self.placed = placed

    def run(self, run_id: str) -> pb.Run:
        """Return the run as it is now."""
        answer: pb.Run = self._ask("run", run_id)
        return answer

    def control_run(self, run_id: str, action: str) -> tuple[int, int]:
        """Ask the run's workers to pause, resume or stop."""
        answer: tuple[int, int] = self._ask("control_run", run_id, action)
        return answer

    def cancel_run(self, run_id: str, *, grace: float | None = None) -> pb.Run:
        """End the run's workers."""
        answer: pb.Run = self._ask("cancel_run", run_id, grace=grace)
        return answer

    def stream_episodes(
        self, run_id: str, *, cursor: int = 0, history_only: bool = True
    ) -> Iterator[pb.StreamRunEpisodesResponse]:
        """Yield the episodes so far."""
        return iter(self._ask("stream_episodes", run_id, cursor=cursor, history_only=True))

    def stream_events(
        self, run_id: str, *, cursor: int = 0, history_only: bool = True
    ) -> Iterator[pb.StreamRunEventsResponse]:
        """Yield the log events so far."""
        return iter(self._ask("stream_events", run_id, cursor=cursor, history_only=True))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        pass

    def _ask(self, method: str, *arguments: Any, **options: Any) -> Any:
        placed = self.placed
        asked = ask(placed.node, _ask_daemon, placed.token_file, method, arguments, options)
        try:
            return asked.answer()
        except NodeLost as error:
            raise NodeLost(
                f"{error}, and run {placed.run_id!r} has ended with it. What it had reported is in "
                "the store, if the nodes share one; place it again under another id"
            ) from error


def _ask_daemon(
    token_file: str, method: str, arguments: tuple[Any, ...], options: dict[str, Any]
) -> Any:
    return at_node.ask_daemon(token_file, method, *arguments, **options)
