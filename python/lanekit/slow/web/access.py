"""Who may use the page: a token of the daemon's, in a header or once at login; then a cookie.

The page's own files hold no secret and are given to anybody who can connect. Everything below
``/api/`` needs the token, as ``Authorization: Bearer TOKEN``, or the cookie that a login with the
token sets. The cookie holds a name, a date and their signature, never the token; nothing is kept
about it, so it outlives a restart of the daemon, and ends with the token. Whose token it was
decides which runs are shown.

A cookie travels with whatever the browser sends, so what other sites' pages could make it send is
refused: the cookie is SameSite=Strict, requests that change something or open a websocket must
come from the page's own origin, and every request must be for one of the page's own names. Who
tries many tokens has to wait (``guesses``).
"""

from __future__ import annotations

import hmac
import math
import os
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from pathlib import Path

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lanekit.errors import TelemetryError
from lanekit.slow.daemon.access import OWNER, Caller, Tokens
from lanekit.slow.daemon.guesses import Guesses, wait_message
from lanekit.slow.endpoint import is_loopback, read_token
from lanekit.slow.web.site import Site

SESSION_SECONDS = 30 * 86400
OPEN_PATHS = frozenset({"/api/login"})
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
POLICY_VIOLATION = 1008
"""The websocket close code for whoever may not connect; before the handshake it becomes a 403."""

WORTH_TELLING = frozenset({421, 429})
"""What a websocket is told instead."""

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

    def __init__(
        self, tokens: Tokens, guesses: Guesses | None = None, *, behind_proxy: bool = False
    ) -> None:
        self._tokens = tokens
        self._guesses = guesses or Guesses()
        self._behind_proxy = behind_proxy
        # Cookies of one host are shared by all its ports: two daemons must not overwrite each
        # other's.
        self.cookie_name = f"lanekit-{(tokens.sign(OWNER, 'cookie name') or '')[:12]}"

    def caller_with(self, token: str) -> Caller | None:
        """Return whose token this is; None for nobody's."""
        return self._tokens.caller([f"Bearer {token}".encode("utf-8", "surrogatepass")])

    def judge(self, token: str, host: str) -> Caller | None:
        """Return whose token this is, that came from this address; Guessing if it has to wait."""
        caller = self.caller_with(token)
        if (wait := self._guesses.judge(host, token, caller)) > 0.0:
            raise Guessing(wait)
        return caller

    def host_of(self, scope: Scope, headers: Headers) -> str:
        """Return the address that a request comes from: what a proxy says, if there is one."""
        host: str = (scope.get("client") or ("",))[0]
        if self._behind_proxy and is_loopback(host):
            # The last one is what the proxy itself has seen. What is before, anybody may write.
            forwarded = headers.getlist("x-forwarded-for")
            return forwarded[-1].rpartition(",")[2].strip() if forwarded else host
        return host

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

    def caller(self, headers: Headers, host: str = "") -> Caller | None:
        """Return who sends a request, by its token or its session; None for nobody known.

        Sessions can not be guessed. For a token, Guessing says that it was not looked at.
        """
        kind, _, token = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            return self.judge(token.strip(), host)
        cookie = _cookie(headers.get("cookie", ""), self.cookie_name)
        return None if cookie is None else self.caller_of_session(cookie)

    def _signature(self, caller: Caller, until: int) -> str | None:
        return self._tokens.sign(caller, f"session until {until}")


class Guessing(TelemetryError):
    """Says that too many wrong tokens came from an address to look at another one now."""

    def __init__(self, seconds: float) -> None:
        super().__init__(wait_message(seconds))
        self.headers = {"Retry-After": str(math.ceil(seconds))}


class AccessGate:
    """Stands before the application: lets in who may come in, and adds the security headers."""

    def __init__(self, app: ASGIApp, access: Access, site: Site) -> None:
        self._app = app
        self._access = access
        self._site = site

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        headers = Headers(scope=scope)
        refusal = self._refusal(scope, headers)
        if scope["type"] == "websocket":
            if refusal is None:
                await self._app(scope, receive, send)
                return
            await receive()  # the handshake, which is not answered with an acceptance
            if refusal.status in WORTH_TELLING:
                await refusal.response()(scope, receive, send)
            else:
                await send({"type": "websocket.close", "code": POLICY_VIOLATION})
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
            await refusal.response()(scope, receive, send_with_headers)
            return
        await self._app(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope, headers: Headers) -> Denial | None:
        host = headers.get("host", "")
        if not self._site.is_host(host):
            return Denial(
                421,
                f"this page is not {host[:80]!r}: if that name is meant to lead here, start the "
                "daemon with --web-origin and the address that browsers show",
            )
        path: str = scope["path"]
        if not path.startswith("/api/"):
            return None
        changes = scope["type"] == "websocket" or scope["method"] not in SAFE_METHODS
        if changes and not self._is_own_origin(headers):
            return Denial(403, "this request comes from another site's page, which may not send it")
        try:
            caller = self._access.caller(headers, self._access.host_of(scope, headers))
        except Guessing as guessing:
            return Denial(429, str(guessing), guessing.headers)
        if path in OPEN_PATHS or caller is not None:
            scope["caller"] = caller
            return None
        words = (
            "the token that came with this request is none of this daemon's"
            if "authorization" in headers
            else "this needs the daemon's token: log in on the page, or send the header "
            "'Authorization: Bearer TOKEN'"
        )
        return Denial(401, words, {"WWW-Authenticate": "Bearer"})

    def _is_own_origin(self, headers: Headers) -> bool:
        """Tell whether a request comes from the page itself, or from no browser at all."""
        origin = headers.get("origin")
        if origin is None:
            # Every browser sends one with a websocket and with what is not a GET. Programs need
            # none, but bring the token: a cookie without an origin is no browser's.
            return "cookie" not in headers
        return self._site.is_origin(origin, headers.get("host", ""))


@dataclass(frozen=True)
class Denial:
    """Why a request gets no further."""

    status: int
    problem: str
    headers: Mapping[str, str] | None = None

    def response(self) -> JSONResponse:
        """Return it as an answer."""
        return JSONResponse({"problem": self.problem}, self.status, self.headers)


def _cookie(header: str, name: str) -> str | None:
    try:
        cookie = SimpleCookie(header).get(name)
    except CookieError:
        return None
    return None if cookie is None else cookie.value
