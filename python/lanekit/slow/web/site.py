"""Under which names the page is served: what a request's Host and Origin may say.

A site that a browser visits can have its own name point at this machine (DNS rebinding), and its
scripts then count as this page's. Their requests name that site as their Host, which is not one
of ours. Addresses instead of names, and localhost, can not be made to point anywhere.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import ssl
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

DEFAULT_PORTS = {"http": 80, "https": 443}


def parse_origin(text: str) -> tuple[str, str, int]:
    """Return scheme, host and port of ``https://lab.example``; ValueError if it is none."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    host = (parts.hostname or "").lower()
    extra = parts.path.strip("/") or parts.query or parts.fragment or parts.username
    if parts.scheme not in DEFAULT_PORTS or not host or extra:
        raise ValueError(
            f"an origin is http:// or https://, a host and maybe a port, not {text[:80]!r}"
        )
    return parts.scheme, host, DEFAULT_PORTS[parts.scheme] if port is None else port


class Site:
    """The page's own names and origins."""

    def __init__(self, scheme: str, names: Sequence[str] = (), origins: Sequence[str] = ()) -> None:
        self._scheme = scheme
        self._origins = {parse_origin(each) for each in origins}
        own = socket.gethostname()
        self._names = {name.lower() for name in ("localhost", own, *names) if name}
        self._names |= {host for _, host, _ in self._origins}

    def is_host(self, host: str) -> bool:
        """Tell whether a Host header names this page."""
        try:
            name = parse_origin(f"{self._scheme}://{host}")[1]
        except ValueError:
            return False
        with contextlib.suppress(ValueError):
            ipaddress.ip_address(name.partition("%")[0])
            return True
        name = name.removesuffix(".")
        wildcard = f"*.{name.partition('.')[2]}"
        return name in self._names or name.endswith(".localhost") or wildcard in self._names

    def is_origin(self, origin: str, host: str) -> bool:
        """Tell whether an Origin header is this page's own, in a request with this Host."""
        try:
            found = parse_origin(origin)
            own = parse_origin(f"{self._scheme}://{host}")
        except ValueError:
            return False
        return found == own or found in self._origins


def certificate_names(chain: Path, key: Path) -> list[str]:
    """Return the names that a certificate is for; none for one that is not valid now.

    OpenSSL tells them of a peer only, so there is a handshake, in memory.
    """
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        server.load_cert_chain(chain, key)
        client.load_verify_locations(cafile=chain)
    except OSError:  # the server will say what is wrong with them
        return []
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(8):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLError:
                return []
    found = ends[0].getpeercert() or {}
    alternatives = found.get("subjectAltName", ())
    return [str(value) for kind, value in alternatives if kind == "DNS"]  # type: ignore[misc]
