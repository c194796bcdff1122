"""Who may use the page: a token of the daemon's, in a header or once at login; then a cookie.

The page's own files hold no secret and are given to anybody who can connect. Everything below
``/api/`` needs the token, as ``Authorization: Bearer TOKEN``, or the cookie that a login with the
token sets. The cookie holds a name, a date and their signature, never the token; nothing is kept
about it, so it outlives a restart of the daemon, and ends with the token. Whose token it was
decides which runs are shown.

A cookie travels with whatever the browser sends, so what other sites' pages could make it send is
refused: the cookie is SameSite=Strict, and requests that change something or open a websocket must
come from the page's own origin.
"""

from __future__ import annotations

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

from lanekit.slow.daemon.access import OWNER, Caller, Tokens
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
    """Knows the tokens, and the cookies made from them."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        # Cookies of one host are shared by all its ports: two daemons must not overwrite each
        # other's.
        self.cookie_name = f"lanekit-{(tokens.sign(OWNER, 'cookie name') or '')[:12]}"

    def caller_with(self, token: str) -> Caller | None:
        """Return whose token this is; None for nobody's."""
        return self._tokens.caller([f"Bearer {token}".encode("utf-8", "surrogatepass")])

    def new_session(self, caller: Caller, now: float | None = None) -> str:
        """Return a cookie's value that is good for :data:`SESSION_SECONDS`."""
        until = int((time.time() if now is None else now) + SESSION_SECONDS)
        return f"{until}.{caller.name}.{self._signature(caller, until)}"

    def caller_of_session(self, value: str, now: float | None = None) -> Caller | None:
        """Return for whom :meth:`new_session` made a cookie's value; None if it did not, or is old.

        It also ends with the token that it was made for.
        """
        until, name, signature = [*value.split("."), "", ""][:3]
        if not (until.isascii() and until.isdigit() and len(until) <= 12):
            return None
        caller = Caller(name)
        expected = self._signature(caller, int(until))
        if expected is None or not hmac.compare_digest(signature.encode(), expected.encode()):
            return None
        return caller if (time.time() if now is None else now) < int(until) else None

    def caller(self, headers: Headers) -> Caller | None:
        """Return who sends a request, by its token or its session; None for nobody known."""
        kind, _, token = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            return self.caller_with(token.strip())
        cookie = _cookie(headers.get("cookie", ""), self.cookie_name)
        return None if cookie is None else self.caller_of_session(cookie)

    def _signature(self, caller: Caller, until: int) -> str | None:
        return self._tokens.sign(caller, f"session until {until}")


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
        caller = self._access.caller(headers)
        if path in OPEN_PATHS or caller is not None:
            scope["caller"] = caller
            return None
        if "authorization" in headers:
            return 401, "the token that came with this request is none of this daemon's"
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
