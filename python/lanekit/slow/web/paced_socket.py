"""A websocket whose browser sets the pace: it acknowledges each message it has dealt with.

At most :data:`WINDOW` messages are under way, so neither this process nor the network in between
gathers what a slow browser has not looked at. Whoever sends waits, and reads the store (or the
newest frame) only when there is room again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from starlette.websockets import WebSocket, WebSocketDisconnect

WINDOW = 2
ACK = "ack"
GOING_AWAY = 1001
MISBEHAVED = 1008
BROKEN = 1011
LONGEST_REASON = 120
"""Bytes of a close frame's reason, a little less than fit."""


class Refused(Exception):
    """Ends a websocket with a close code and words for its browser."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class PacedSocket:
    """One accepted websocket."""

    def __init__(
        self, websocket: WebSocket, on_message: Callable[[dict[str, Any]], None] | None = None
    ) -> None:
        self._websocket = websocket
        self._on_message = on_message
        self._under_way = 0
        self._acknowledged = asyncio.Event()
        self._sending = asyncio.Lock()

    async def serve(self, work: Awaitable[None]) -> None:
        """Accept, and do `work`, which sends, until it is done or the browser leaves.

        `work` ends with :class:`Refused` to say why it ends.
        """
        working = asyncio.ensure_future(work)
        try:
            await self._websocket.accept()
            listening = asyncio.ensure_future(self._listen())
        except BaseException:
            working.cancel()
            raise
        code, reason = GOING_AWAY, ""
        try:
            await asyncio.wait({working, listening}, return_when=asyncio.FIRST_COMPLETED)
            for task in (listening, working):
                if task.done():
                    task.result()
        except Refused as refusal:
            code, reason = refusal.code, str(refusal)
        except WebSocketDisconnect:
            return
        finally:
            for task in (working, listening):
                task.cancel()
            await asyncio.gather(working, listening, return_exceptions=True)
        text = reason.encode()[:LONGEST_REASON].decode("utf-8", "ignore")
        with contextlib.suppress(WebSocketDisconnect, RuntimeError):  # it may have left just now
            await self._websocket.close(code, text)

    async def send(self, message: Any) -> None:
        """Send a message as JSON, once there is room."""
        await self._send(msgspec.json.encode(message).decode())

    async def send_bytes(self, message: bytes) -> None:
        """Send a binary message, once there is room."""
        await self._send(message)

    async def room(self) -> None:
        """Wait until a message would go out at once: what is fetched after that is new."""
        while self._under_way >= WINDOW:
            self._acknowledged.clear()
            await self._acknowledged.wait()

    async def _send(self, message: str | bytes) -> None:
        await self.room()
        self._under_way += 1
        async with self._sending:
            if isinstance(message, str):
                await self._websocket.send_text(message)
            else:
                await self._websocket.send_bytes(message)

    async def _listen(self) -> None:
        while True:
            message = await self._websocket.receive()
            if message["type"] == "websocket.disconnect":
                raise WebSocketDisconnect(message.get("code", 1000), message.get("reason"))
            text = message.get("text")
            if text == ACK and self._under_way:
                self._under_way -= 1
                self._acknowledged.set()
            elif text == ACK or self._on_message is None:
                raise Refused(MISBEHAVED, "acknowledge each message once, and send nothing else")
            else:
                self._on_message(_decoded(text))


def _decoded(text: str | None) -> dict[str, Any]:
    try:
        wish = msgspec.json.decode(text or "", type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError):
        raise Refused(MISBEHAVED, "a message is 'ack' or a JSON object") from None
    return wish
