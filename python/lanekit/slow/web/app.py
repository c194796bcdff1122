"""What is at which address: the page's files, and what they ask the daemon."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.websockets import WebSocket, WebSocketDisconnect

from lanekit import errors
from lanekit.fast.png import encode_png
from lanekit.slow.batches import check_run_id
from lanekit.slow.daemon.access import Caller
from lanekit.slow.daemon.methods import Refusal, error_words, status_code
from lanekit.slow.daemon.web_page import DaemonParts
from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.replay.tape import Player, read_contents, read_pixels, read_tape, run_of_frame
from lanekit.slow.store.run_store import RunStore
from lanekit.slow.web.access import SESSION_SECONDS, Access, AccessGate, Guessing
from lanekit.slow.web.following import RunFollower, follow_runs
from lanekit.slow.web.messages import contents_message, run_message, tape_message
from lanekit.slow.web.paced_socket import MISBEHAVED, PacedSocket, Refused
from lanekit.slow.web.site import Site
from lanekit.slow.web.watching import WatchedRun

PAGE = Path(__file__).parent / "page"
READING_THREADS = 2
MOST_LOGIN_BYTES = 8192
LARGEST_NUMBER = 2**62
_NOBODY = Caller("nobody")
"""Further than any cursor, revision or frame gets, and still a number that SQLite takes."""

HTTP_STATUS = {
    grpc.StatusCode.INVALID_ARGUMENT: 400,
    grpc.StatusCode.PERMISSION_DENIED: 403,
    grpc.StatusCode.NOT_FOUND: 404,
    grpc.StatusCode.FAILED_PRECONDITION: 409,
    grpc.StatusCode.ALREADY_EXISTS: 409,
    grpc.StatusCode.RESOURCE_EXHAUSTED: 503,
    grpc.StatusCode.UNAVAILABLE: 503,
}

CONTROL = {
    "pause": pb.CONTROL_ACTION_PAUSE,
    "resume": pb.CONTROL_ACTION_RESUME,
    "stop": pb.CONTROL_ACTION_STOP,
}


class WebApp:
    """The page and its API over one daemon. Made inside the event loop that serves it."""

    def __init__(self, parts: DaemonParts, access: Access, site: Site, *, secure: bool) -> None:
        self._parts = parts
        self._access = access
        self._secure = secure
        # Of its own: a long replay that is looked up must not hold up those who follow by gRPC.
        self._threads = ThreadPoolExecutor(READING_THREADS, thread_name_prefix="lanekit-web")
        self.asgi = Starlette(
            routes=[
                Route("/", self._page),
                Mount("/page", StaticFiles(directory=PAGE)),
                Route("/api/login", self._log_in, methods=["POST"]),
                Route("/api/logout", self._log_out, methods=["POST"]),
                Route("/api/session", self._session),
                WebSocketRoute("/api/runs", self._follow_runs),
                WebSocketRoute("/api/runs/{run_id}", self._follow_run),
                WebSocketRoute("/api/runs/{run_id}/pictures", self._watch),
                Route("/api/runs/{run_id}/recorded", self._recorded),
                Route("/api/runs/{run_id}/tape", self._tape),
                Route("/api/runs/{run_id}/frames/{frame_id:int}.png", self._frame),
                Route("/api/runs/{run_id}/{action}", self._act, methods=["POST"]),
            ],
            middleware=[Middleware(AccessGate, access=access, site=site)],
            exception_handlers={
                errors.LanekitError: _problem,
                ValueError: _problem,
                HTTPException: _http_problem,
            },
        )

    def close(self) -> None:
        """End the reading threads."""
        self._threads.shutdown(cancel_futures=True)

    async def _read(self, query: Callable[[RunStore], Any]) -> Any:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, query, self._parts.store)

    # --- the page, and who may use it ------------------------------------------------------------

    async def _page(self, _: Request) -> Response:
        return FileResponse(PAGE / "index.html")

    async def _log_in(self, request: Request) -> Response:
        body = b""
        try:
            async for part in request.stream():
                body += part
                if len(body) > MOST_LOGIN_BYTES:
                    raise HTTPException(413, "a login is one short JSON object")
        except ClientDisconnect:
            raise HTTPException(400, "the login ended half way") from None
        try:
            token = msgspec.json.decode(body, type=dict[str, str]).get("token", "")
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise HTTPException(400, 'a login is a JSON object: {"token": "..."}') from None
        host = self._access.host_of(request.scope, request.headers)
        try:
            caller = self._access.judge(token.strip(), host)
        except Guessing as guessing:
            raise HTTPException(429, str(guessing), guessing.headers) from None
        if caller is None:
            raise HTTPException(401, "this is not the daemon's token")
        response = Response(status_code=204)
        response.set_cookie(
            self._access.cookie_name,
            self._access.new_session(caller),
            max_age=SESSION_SECONDS,
            httponly=True,
            samesite="strict",
            secure=self._secure,
        )
        return response

    async def _log_out(self, _: Request) -> Response:
        response = Response(status_code=204)
        response.delete_cookie(
            self._access.cookie_name, httponly=True, samesite="strict", secure=self._secure
        )
        return response

    async def _session(self, request: Request) -> Response:
        caller: Caller = request.scope["caller"]
        return JSONResponse({"host": socket.gethostname(), "name": caller.name})

    # --- live ------------------------------------------------------------------------------------

    async def _follow_runs(self, websocket: WebSocket) -> None:
        paced = PacedSocket(websocket)

        async def work() -> None:
            after = _number(websocket.query_params.get("after", "0"), "after")
            parts = self._parts
            caller: Caller = websocket.scope["caller"]
            await follow_runs(paced, self._read, parts.pulse, parts.tap, caller, after)

        await paced.serve(_refusing(work(), _caller(websocket)))

    async def _follow_run(self, websocket: WebSocket) -> None:
        paced = PacedSocket(websocket)

        async def work() -> None:
            run_id = _run_id(websocket)
            cursors = {
                kind: None if text == "" else _number(text, kind)
                for kind, text in websocket.query_params.items()
            }
            if unknown := cursors.keys() - {"episodes", "steps", "events"}:
                raise ValueError(f"episodes, steps and events can be followed, not {unknown}")
            follower = RunFollower(run_id, paced, self._read, self._parts.pulse)
            await follower.follow(cursors)

        await paced.serve(_refusing(work(), _caller(websocket)))

    async def _watch(self, websocket: WebSocket) -> None:
        # Not only runs of the daemon: any lane of this machine that is the caller's can be watched.
        run_id: str = websocket.path_params["run_id"]
        lane = websocket.query_params.get("lane", "")
        watched = WatchedRun(self._parts.tap, run_id, lane, _caller(websocket))
        paced = PacedSocket(websocket, watched.wish)

        async def work() -> None:
            _check_access(websocket, run_id)
            await watched.watch(paced)

        await paced.serve(_refusing(work(), _caller(websocket)))

    # --- what was recorded -----------------------------------------------------------------------

    async def _recorded(self, request: Request) -> Response:
        run_id = _run_id(request)
        contents = await self._read(partial(read_contents, run_id=run_id))
        return _json(contents_message(contents))

    async def _tape(self, request: Request) -> Response:
        run_id = _run_id(request)
        asked = request.query_params
        player = Player(asked.get("worker", ""), asked.get("agent", ""))
        try:
            episode = int(asked.get("episode", "0"))
        except ValueError:
            raise HTTPException(400, "episode is a whole number") from None
        if abs(episode) > LARGEST_NUMBER:
            raise HTTPException(400, "episode is a 64-bit number")
        tape = await self._read(partial(read_tape, run_id=run_id, player=player, episode=episode))
        return _json(tape_message(tape))

    async def _frame(self, request: Request) -> Response:
        run_id, frame_id = _run_id(request), request.path_params["frame_id"]

        def picture(store: RunStore) -> bytes | None:
            if frame_id >= 2**63 or run_of_frame(store, frame_id) != run_id:
                return None
            return encode_png(read_pixels(store, frame_id), effort=1)

        content = await self._read(picture)
        if content is None:
            raise HTTPException(404, f"run {run_id} has no such frame")
        # A recorded frame never changes.
        headers = {"Cache-Control": "private, max-age=3600, immutable"}
        return Response(content, media_type="image/png", headers=headers)

    # --- control ---------------------------------------------------------------------------------

    async def _act(self, request: Request) -> Response:
        run_id = _run_id(request)
        action: str = request.path_params["action"]
        runs = self._parts.runs
        nobody: Any = None  # whom gRPC would answer
        if action in CONTROL:
            answer = await self._parts.workers.control(
                pb.ControlRunRequest(run_id=run_id, action=CONTROL[action]), nobody
            )
            return JSONResponse({"workers": answer.connected_workers})
        if action == "cancel":
            ended = await runs.cancel(pb.CancelRunRequest(run_id=run_id), nobody)
            return _json({"run": run_message(ended.run, _caller(request))})
        if action in ("archive", "unarchive"):
            put_away = await runs.archive(
                pb.ArchiveRunRequest(run_id=run_id, archived=action == "archive"), nobody
            )
            return _json({"run": run_message(put_away.run, _caller(request))})
        raise HTTPException(404, f"a run can not be asked to {action}")


async def _refusing(work: Coroutine[Any, Any, None], caller: Caller) -> None:
    """Do `work`; turn what lanekit raises into the end of a websocket that says why."""
    try:
        await work
    except (errors.LanekitError, ValueError) as error:
        raise Refused(MISBEHAVED, error_words(error, caller)) from error
    except ExceptionGroup as group:
        # Of several who send on one websocket, each may be told that the browser has left.
        if (left := group.subgroup(WebSocketDisconnect)) is not None:
            raise _first(left) from group
        matching, others = group.split((errors.LanekitError, ValueError))
        if others is not None or matching is None:
            raise
        raise Refused(MISBEHAVED, error_words(_first(matching), caller)) from group


def _run_id(connection: HTTPConnection) -> str:
    """Return the run that a request is about; Refusal unless it is one of the caller's."""
    run_id = check_run_id(connection.path_params["run_id"])
    _check_access(connection, run_id)
    return run_id


def _check_access(connection: HTTPConnection, run_id: str) -> None:
    caller: Caller = connection.scope["caller"]
    if not caller.may_touch(run_id):
        raise Refusal(grpc.StatusCode.PERMISSION_DENIED, caller.refusal(run_id))


def _first(group: ExceptionGroup[Exception]) -> Exception:
    first = group.exceptions[0]
    return _first(first) if isinstance(first, ExceptionGroup) else first


def _number(text: str, name: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise ValueError(f"{name} is a whole number, 0 or more, not {text[:40]!r}")
    return min(int(text), LARGEST_NUMBER)


def _json(value: Any) -> Response:
    return Response(msgspec.json.encode(value), media_type="application/json")


def _caller(connection: HTTPConnection) -> Caller:
    caller: Caller = connection.scope.get("caller", _NOBODY)
    return caller


async def _problem(request: Request, error: Exception) -> Response:
    code = status_code(error)
    status = 400 if isinstance(error, ValueError) else HTTP_STATUS.get(code, 404)  # type: ignore[arg-type]
    return JSONResponse({"problem": error_words(error, _caller(request))}, status_code=status)


async def _http_problem(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse(
        {"problem": error.detail}, status_code=error.status_code, headers=error.headers
    )
