"""How scored data gets into a lane: straight, or over HTTP from another machine.

An Atropos environment on the trainer's machine posts through a :class:`ScoredDataSender`; so does
one elsewhere, whose sender finds no lane and uses the HTTP API instead. :class:`ScoredDataGateway`
is that API's posting part, in front of a lane; Atropos' own server serves as well.
"""

from __future__ import annotations

import gzip
import io
import json
import threading
import urllib.error
import urllib.request
import zlib
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

import numpy as np

from lanekit import errors
from lanekit.trajectory.atropos import ATROPOS_SCHEMA, encode_group
from lanekit.trajectory.metadata import read_json
from lanekit.trajectory.writer import TrajectoryWriter

_BODY_MOST = 1 << 30


class ScoredDataSender:
    """Posts groups to a lane on this machine, or to an HTTP API if there is none.

    >>> with ScoredDataSender("run-1", fallback="http://trainer:8000") as sender:  # doctest: +SKIP
    ...     sender.post(group)
    """

    def __init__(
        self, lane: str, *, fallback: str | None = None, timeout: float | None = 0.0
    ) -> None:
        """Join `lane`, waiting up to `timeout` seconds for it; without one, use `fallback`."""
        self._url = None if fallback is None else fallback.rstrip("/")
        self._lock = threading.Lock()
        self._writer: TrajectoryWriter | None = None
        try:
            self._writer = TrajectoryWriter.attach(lane, schema=ATROPOS_SCHEMA, timeout=timeout)
        except errors.SegmentNotFound:
            if fallback is None:
                raise

    @property
    def local(self) -> bool:
        """Whether groups go through the lane."""
        return self._writer is not None

    def post(
        self, scored: Mapping[str, Any] | Sequence[Mapping[str, Any]], *, timeout: float = 600.0
    ) -> None:
        """Post one group, or a list of them in order.

        While the lane is full this waits, up to `timeout` seconds for each group; then
        :class:`~lanekit.WaitTimeout`. A group larger than the lane's limit is
        :class:`~lanekit.TooLarge`.
        """
        groups = [scored] if isinstance(scored, Mapping) else list(scored)
        if self._writer is None:
            self._post_by_http(scored, timeout)
            return
        encoded = [encode_group(group) for group in groups]
        for i, (arrays, rest) in enumerate(encoded):
            with self._lock:
                if not self._writer.put(arrays, rest, timeout=timeout):
                    raise errors.WaitTimeout(
                        f"trajectory lane {self._writer.name!r}: still full after {timeout} s, "
                        f"{i} of {len(groups)} groups were put; is the trainer taking batches?"
                    )

    async def apost(
        self, scored: Mapping[str, Any] | Sequence[Mapping[str, Any]], *, timeout: float = 600.0
    ) -> None:
        """Post without blocking the event loop."""
        import asyncio

        await asyncio.to_thread(self.post, scored, timeout=timeout)

    def serve(self, environment: Any) -> None:
        """Let an Atropos environment send through this from now on, instead of by HTTP.

        Takes the place of the environment's own ``_send_scored_data_to_api``; like that, it adds
        the environment's id to what is sent.
        """
        if not hasattr(environment, "_send_scored_data_to_api"):
            raise TypeError(
                f"{type(environment).__name__} is no Atropos environment: it has no "
                "_send_scored_data_to_api"
            )

        async def send(scored: Any) -> None:
            for group in [scored] if isinstance(scored, dict) else scored:
                if group.get("env_id") is None:
                    group["env_id"] = getattr(environment, "env_id", None)
            await self.apost(scored)

        environment._send_scored_data_to_api = send

    def close(self) -> None:
        """Leave the lane. Closing twice is allowed."""
        if self._writer is not None:
            self._writer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _post_by_http(self, scored: Any, timeout: float) -> None:
        path = "/scored_data" if isinstance(scored, Mapping) else "/scored_data_list"
        body = gzip.compress(json.dumps(scored, default=_plain).encode(), compresslevel=1)
        request = urllib.request.Request(
            f"{self._url}{path}",
            body,
            {"Content-Type": "application/json", "Content-Encoding": "gzip"},
        )
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                answer.read()
        except urllib.error.HTTPError as error:
            with error:
                says = error.read(2000).decode("utf-8", "replace")
            raise errors.LanekitError(
                f"{self._url}{path} refused the data ({error.code}): {says}"
            ) from None
        except OSError as error:
            raise errors.PeerLost(f"{self._url}{path} does not answer: {error}") from None


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} can not travel by HTTP")


class ScoredDataGateway:
    """Takes groups by HTTP and puts them into a lane: for environments on other machines.

    Answers ``POST /scored_data`` and ``POST /scored_data_list`` as Atropos' API does, gzip
    included. A lane that stays full is answered 503, and the sender tries again.
    """

    def __init__(
        self,
        lane: str,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        timeout: float = 60.0,
    ) -> None:
        """Join `lane` and listen; `port` 0 chooses a free one, see :attr:`url`."""
        self._writer = TrajectoryWriter.attach(lane, schema=ATROPOS_SCHEMA)
        self._lock = threading.Lock()
        self._timeout = timeout
        try:
            self._server = ThreadingHTTPServer((host, port), _handler(self))
        except BaseException:
            self._writer.close()
            raise
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, name=f"gateway of {lane}", daemon=True
        )
        self._thread.start()

    @property
    def url(self) -> str:
        """Where it listens."""
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}"

    def accept(self, groups: Sequence[Any]) -> bool:
        """Put groups into the lane; False, and none of them, if it stays full.

        Once the first is in, the others wait as long as it takes: a sender that is told to try
        again must not send what is there already.
        """
        encoded = [encode_group(group) for group in groups]
        with self._lock:
            for i, (arrays, rest) in enumerate(encoded):
                if not self._writer.put(arrays, rest, timeout=None if i else self._timeout):
                    return False
        return True

    def close(self) -> None:
        """Stop listening and leave the lane. Closing twice is allowed."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self._writer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _unzipped(body: bytes) -> bytes:
    """Return what a body was before it was packed, if that is not too much."""
    with gzip.GzipFile(fileobj=io.BytesIO(body)) as file:
        content = file.read(_BODY_MOST + 1)
    if len(content) > _BODY_MOST:
        raise ValueError(f"unpacked, the body has more than {_BODY_MOST} bytes: send fewer groups")
    return content


def _handler(gateway: ScoredDataGateway) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 60.0  # seconds in which nothing comes

        def do_POST(self) -> None:
            length = self.headers.get("Content-Length") or ""
            size = int(length) if length.isascii() and length.isdigit() and len(length) < 20 else 0
            if not 0 < size <= _BODY_MOST:
                self._answer(400, {"error": "a body of known length is needed"})
                return
            body = self.rfile.read(size)
            try:
                if "gzip" in (self.headers.get("Content-Encoding") or ""):
                    body = _unzipped(body)
                scored = read_json(body)
                groups = {"/scored_data": [scored], "/scored_data_list": scored}[self.path]
                if not isinstance(groups, list):
                    raise TypeError("a list of groups is needed here")
                full = not gateway.accept(groups)
            except KeyError:
                self._answer(404, {"error": f"no {self.path} here"})
            except (OSError, EOFError, TypeError, ValueError, zlib.error, errors.TooLarge) as error:
                self._answer(422, {"error": str(error)})
            except errors.LanekitError as error:
                self._answer(503, {"error": str(error)})
            else:
                if full:
                    self._answer(503, {"error": "the lane is full; try again"})
                    return
                answer: dict[str, Any] = {"status": "received"}
                if self.path == "/scored_data_list":
                    answer["groups_processed"] = len(groups)
                self._answer(200, answer)

        def _answer(self, code: int, content: dict[str, Any]) -> None:
            body = json.dumps(content).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing: the trainer's terminal is not ours."""

    return Handler
