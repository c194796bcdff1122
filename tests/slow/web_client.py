"""A browser's side of the page's API, without a browser."""

from __future__ import annotations

import http.client
import json
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlencode, urlsplit

from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect

from patience import patience


class Answer:
    """What came back."""

    def __init__(self, answer: http.client.HTTPResponse) -> None:
        self.status = answer.status
        self.headers = answer.headers
        self.body = answer.read()

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class WebClient:
    """Sends the token with each request, or whatever headers it is given instead."""

    def __init__(self, address: str, token: str | None = None, **headers: str) -> None:
        self.address = address
        self.place = urlsplit(address).netloc
        self.headers = dict(headers)
        if token is not None:
            self.headers["Authorization"] = f"Bearer {token}"

    def ask(self, path: str, method: str = "GET", body: Any = None, **headers: str) -> Answer:
        connection = http.client.HTTPConnection(self.place, timeout=patience())
        try:
            content = None if body is None else json.dumps(body)
            connection.request(method, path, content, {**self.headers, **headers})
            return Answer(connection.getresponse())
        finally:
            connection.close()

    @contextmanager
    def socket(self, path: str, *, origin: str | None = None, **query: Any) -> Iterator[Paced]:
        address = f"ws://{self.place}{path}" + (f"?{urlencode(query)}" if query else "")
        with connect(
            address,
            additional_headers=self.headers,
            origin=origin,  # type: ignore[arg-type]
            open_timeout=patience(),
            close_timeout=patience(),
            max_size=None,
            proxy=None,
        ) as opened:
            yield Paced(opened)

    def refusal(self, path: str, *, origin: str | None = None) -> int:
        """The status with which a websocket is refused."""
        try:
            with self.socket(path, origin=origin):
                raise AssertionError("the websocket was accepted")
        except InvalidStatus as error:
            return error.response.status_code


class Paced:
    """A websocket that acknowledges what it reads."""

    def __init__(self, opened: ClientConnection) -> None:
        self.opened = opened

    def read(self, *, ack: bool = True, timeout: float | None = None) -> Any:
        """The next message: an object, or for a frame the object and the picture."""
        message = self.opened.recv(timeout=patience() if timeout is None else timeout)
        if ack:
            self.opened.send("ack")
        if isinstance(message, str):
            return json.loads(message)
        (length,) = struct.unpack_from("<I", message)
        return json.loads(message[4 : 4 + length]), message[4 + length :]

    def ack(self) -> None:
        self.opened.send("ack")

    def is_silent(self, seconds: float) -> bool:
        """Whether nothing comes for so long."""
        try:
            self.opened.recv(timeout=seconds)
        except TimeoutError:
            return True
        return False
