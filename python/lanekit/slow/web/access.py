"""Who may use the page: the daemon's token, in a header or once at login; then a signed cookie.

The page's own files hold no secret and are given to anybody who can connect. Everything below
``/api/`` needs the token, as ``Authorization: Bearer TOKEN``, or the cookie that a login with the
token sets. The cookie holds a date and its signature, never the token; nothing is kept about it, so
it outlives a restart of the daemon, and ends with the token.

A cookie travels with whatever the browser sends, so what other sites' pages could make it send is
refused: the cookie is SameSite=Strict, and requests that change something or open a websocket must
come from the page's own origin.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import time
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lanekit.slow.endpoint import read_token

SESSION_SECONDS = 30 * 86400
OPEN_PATHS = frozenset({"/api/login"})
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
POLICY_VIOLATION = 1008
"""The websocket close code for whoever may not connect; before the handshake it becomes a 403."""

SECURITY_HEADERS: Mapping[str, str] = {
    # Only what this server sends is ever loaded or run; blob: is for decoded frames.
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
        "connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}


def own_token(directory: Path) -> str:
    """Return the page's token where the daemon itself has none: made once, and kept."""
    path = directory / "web.token"
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return read_token(path)
    with os.fdopen(descriptor, "w") as file:
        file.write(secrets.token_urlsafe(24) + "\n")
    return read_token(path)


class Access:
    """Knows the token, and the cookies made from it."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()
        # Cookies of one host are shared by all its ports: two daemons must not overwrite each
        # other's.
        digest = hmac.digest(self._token, b"lanekit cookie name", hashlib.sha256)
        self.cookie_name = f"lanekit-{digest.hex()[:12]}"

    def is_token(self, given: str) -> bool:
        """Tell whether this is the token, in a time that says nothing about it."""
        return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), self._token)

    def new_session(self, now: float | None = None) -> str:
        """Return a cookie's value that is good for :data:`SESSION_SECONDS`."""
        until = int((time.time() if now is None else now) + SESSION_SECONDS)
        return f"{until}.{self._signature(until)}"

    def is_session(self, value: str, now: float | None = None) -> bool:
        """Tell whether a cookie's value was made by :meth:`new_session`, and not too long ago."""
        until, _, signature = value.partition(".")
        if not (until.isascii() and until.isdigit() and len(until) <= 12):
            return False
        if not hmac.compare_digest(signature.encode(), self._signature(int(until)).encode()):
            return False
        return (time.time() if now is None else now) < int(until)

    def admits(self, headers: Headers) -> bool:
        """Tell whether a request brings the token or a session."""
        kind, _, token = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and self.is_token(token.strip()):
            return True
        cookie = _cookie(headers.get("cookie", ""), self.cookie_name)
        return cookie is not None and self.is_session(cookie)

    def _signature(self, until: int) -> str:
        text = f"lanekit session until {until}".encode()
        return hmac.digest(self._token, text, hashlib.sha256).hex()


class AccessGate:
    """Stands before the application: lets in who may come in, and adds the security headers."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        headers = Headers(scope=scope)
        refusal = self._refusal(scope, headers)
        if scope["type"] == "websocket":
            if refusal is not None:
                await receive()  # the handshake, which is not answered with an acceptance
                await send({"type": "websocket.close", "code": POLICY_VIOLATION})
                return
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                answer = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    answer[name] = value
                # Files of a newer lanekit are to be seen at once; what the store says, never kept.
                kept = "no-store" if scope["path"].startswith("/api/") else "no-cache"
                answer.setdefault("Cache-Control", kept)
            await send(message)

        if refusal is not None:
            status, problem = refusal
            response = JSONResponse({"problem": problem}, status_code=status)
            if status == 401:
                response.headers["WWW-Authenticate"] = "Bearer"
            await response(scope, receive, send_with_headers)
            return
        await self._app(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope, headers: Headers) -> tuple[int, str] | None:
        path: str = scope["path"]
        if not path.startswith("/api/"):
            return None
        changes = scope["type"] == "websocket" or scope["method"] not in SAFE_METHODS
        if changes and not _is_own_origin(headers):
            return 403, "this request comes from another site's page, which may not send it"
        if path in OPEN_PATHS or self._access.admits(headers):
            return None
        return 401, (
            "this needs the daemon's token: log in on the page, or send the header "
            "'Authorization: Bearer TOKEN'"
        )


def _is_own_origin(headers: Headers) -> bool:
    """Tell whether a request comes from the page itself, or from no browser at all."""
    origin = headers.get("origin")
    if origin is None:
        # Every browser sends one with a websocket and with what is not a GET. Programs need none,
        # but bring the token: a cookie without an origin is no browser's.
        return "cookie" not in headers
    return urlsplit(origin).netloc.lower() == headers.get("host", "").lower() != ""


def _cookie(header: str, name: str) -> str | None:
    try:
        cookie = SimpleCookie(header).get(name)
    except CookieError:
        return None
    return None if cookie is None else cookie.value
