"""Floods on the page's port: whoever asks something is answered, and nobody stays for ever."""

from __future__ import annotations

import contextlib
import http.client
import re
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from daemon_process import DaemonProcess
from web_client import WebClient
from websockets.exceptions import ConnectionClosed

from lanekit.slow.certificates import make_certificates
from lanekit.slow.daemon.access import OWNER, Caller, Tokens
from lanekit.slow.daemon.guesses import (
    FORGET_SECONDS,
    FREE_GUESSES,
    LONGEST_WAIT,
    MOST_ADDRESSES,
    Guesses,
    group_of,
    host_of_peer,
)
from lanekit.slow.web.access import Access
from lanekit.slow.web.site import Site, certificate_names, parse_origin
from patience import patience, until

MakeDaemon = Callable[..., DaemonProcess]
TOKEN = "correct-horse-battery-staple"
ALICES = "another-token-for-alice"


class Served:
    """A daemon with a page, and whatever connections a test opens to it."""

    def __init__(self, daemon: DaemonProcess) -> None:
        self.daemon = daemon
        found = re.search(r"https?://\S+", daemon.announcement)
        assert found is not None, daemon.announcement
        self.address = found[0]
        self.place = (str(urlsplit(self.address).hostname), int(urlsplit(self.address).port or 0))
        self.opened: list[socket.socket] = []

    def connect(self, first: bytes = b"") -> socket.socket:
        client = socket.create_connection(self.place, timeout=patience(120))
        self.opened.append(client)
        with contextlib.suppress(OSError):  # it may have been turned away at once
            client.sendall(first)
        return client

    def status(self, token: str = TOKEN) -> int:
        return WebClient(self.address, token).ask("/api/session").status

    @property
    def files(self) -> int:
        return sum(1 for _ in Path(f"/proc/{self.daemon.pid}/fd").iterdir())


@pytest.fixture
def serve(make_daemon: MakeDaemon, short_directory: Path) -> Iterator[Callable[..., Served]]:
    made: list[Served] = []

    def start(*options: str, place: str = "127.0.0.1:0", **constants: float) -> Served:
        for name, text in (("token", TOKEN), ("tokens", f"alice {ALICES}")):
            (short_directory / name).write_text(text + "\n")
            (short_directory / name).chmod(0o600)
        tokens = ("--token-file", str(short_directory / "token"))
        tokens += ("--tokens", str(short_directory / "tokens"))
        daemon = make_daemon("--web", place, *tokens, *options, **constants).start()
        made.append(Served(daemon))
        return made[-1]

    yield start
    for served in made:
        for client in served.opened:
            client.close()


def is_closed(client: socket.socket) -> bool:
    """Whether the other end has closed it; waits for that."""
    try:
        while client.recv(65536):
            pass
    except ConnectionError:
        pass
    return True


UNFINISHED = b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Never: "


def test_connections_with_unfinished_headers_close_the_page_to_nobody(
    serve: Callable[..., Served],
) -> None:
    served = serve("--web-connections", "64")
    before = served.files
    for number in range(200):
        served.connect(UNFINISHED)
        if number % 40 == 39:
            assert served.status() == 200, f"after {number + 1} of them"
    assert served.files < before + 64 + 64
    # Each is closed after its time, whatever it sends meanwhile.
    assert all(is_closed(client) for client in served.opened)
    until(lambda: served.files <= before + 4, "the daemon to let go of them")
    assert served.status() == 200


def test_headers_that_trickle_in_are_given_up(serve: Callable[..., Served]) -> None:
    served = serve(web__connections__HEADER_SECONDS=1.0)
    client = served.connect(b"GET / HTTP/1.1\r\n")
    client.settimeout(0.05)
    said = b""

    def closed() -> bool:
        nonlocal said
        try:
            client.sendall(b"x: y\r\n")
            part = client.recv(4096)
        except TimeoutError:
            return False
        except ConnectionError:
            return True
        said += part
        return not part

    until(closed, "the end of the patience")
    assert b" 408 " in said or not said


def test_a_body_that_does_not_come_is_given_up(serve: Callable[..., Served]) -> None:
    served = serve(web__connections__BODY_SECONDS=0.5)
    client = served.connect(
        b"POST /api/login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{"
    )
    assert b" 408 " in client.makefile("rb").readline()
    assert is_closed(client)
    assert served.status() == 200


def test_a_connection_that_asks_nothing_is_closed(serve: Callable[..., Served]) -> None:
    served = serve(web__connections__HEADER_SECONDS=0.5)
    assert is_closed(served.connect())


def test_websockets_keep_their_places_and_others_are_told_to_come_back(
    serve: Callable[..., Served],
) -> None:
    served = serve("--web-connections", "8")
    client = WebClient(served.address, TOKEN)
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(client.socket("/api/runs")) for _ in range(8)]
        for each in sockets:
            each.read()
        answer = client.ask("/api/session")
        assert answer.status == 503
        assert int(answer.headers["Retry-After"]) > 0
        assert "connections" in answer.json["problem"]
        assert client.refusal("/api/runs") == 503
        # A flood changes nothing for those who are there.
        for _ in range(100):
            served.connect(UNFINISHED)
        for each in sockets:
            each.opened.ping().wait(patience())
        sockets[0].opened.close()
        until(lambda: served.status() == 200, "the place of the one that left")


def test_a_place_is_given_back_however_a_connection_ends(serve: Callable[..., Served]) -> None:
    served = serve("--web-connections", "8")
    client = WebClient(served.address, TOKEN)
    for _ in range(30):
        with client.socket("/api/runs") as opened:
            opened.read()
        assert client.refusal("/api/runs", origin="http://elsewhere.example") == 403
        cut = served.connect(UNFINISHED)
        cut.close()
        assert client.ask("/").status == 200
        assert client.ask("/nothing").status == 404

    def places() -> bool:
        with contextlib.ExitStack() as held:
            try:
                for _ in range(8):
                    held.enter_context(client.socket("/api/runs")).read()
            except Exception:
                return False
            return True

    assert until(places, "all places to be free")


def other_address() -> str:
    """An address of this machine that is not loopback, where there is one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            return ""
        return str(probe.getsockname()[0])


def test_one_address_has_a_part_of_the_places(
    serve: Callable[..., Served], short_directory: Path
) -> None:
    address = other_address()
    if not address:
        pytest.skip("this machine has no address but loopback")
    files = make_certificates(short_directory / "certs", ["localhost", address])
    served = serve(
        *("--tls-cert", str(files.certificate), "--tls-key", str(files.key)),
        *("--web-connections", "64", "--web-connections-per-address", "8"),
        place="0.0.0.0:0",
    )
    trust = ssl.create_default_context(cafile=str(files.authority))
    port = served.place[1]

    def status(host: str) -> int:
        connection = http.client.HTTPSConnection(host, port, timeout=patience(), context=trust)
        try:
            connection.request("GET", "/api/session", headers={"Authorization": f"Bearer {TOKEN}"})
            return connection.getresponse().status
        finally:
            connection.close()

    assert status(address) == 200
    kept = [trust.wrap_socket(socket.create_connection((address, port)), server_hostname=address)]
    for _ in range(7):
        client = socket.create_connection((address, port))
        kept.append(trust.wrap_socket(client, server_hostname=address))
    for client in kept:  # a request each, so that they count as being served or waiting
        client.sendall(UNFINISHED)
    assert status(address) == 503
    assert status("127.0.0.1") == 200
    for client in kept:
        client.close()
    until(lambda: status(address) == 200, "the places of those that left")


def test_half_open_tls_connections_close_the_page_to_nobody(
    serve: Callable[..., Served], short_directory: Path
) -> None:
    files = make_certificates(short_directory / "certs", ["localhost"])
    served = serve(
        *("--tls-cert", str(files.certificate), "--tls-key", str(files.key)),
        *("--web-connections", "64"),
    )
    trust = ssl.create_default_context(cafile=str(files.authority))

    def status() -> int:
        connection = http.client.HTTPSConnection(*served.place, timeout=patience(), context=trust)
        try:
            connection.request("GET", "/api/session", headers={"Authorization": f"Bearer {TOKEN}"})
            return connection.getresponse().status
        finally:
            connection.close()

    before = served.files
    assert status() == 200
    for number in range(200):
        # Nothing at all, or the beginning of a greeting.
        served.connect(b"\x16\x03\x01\x02\x00\x01" if number % 2 else b"")
        if number % 40 == 39:
            assert status() == 200, f"after {number + 1} of them"
    served.connect(b"GET / HTTP/1.1\r\n\r\n")  # no TLS at all
    assert all(is_closed(client) for client in served.opened)
    until(lambda: served.files <= before + 4, "the daemon to let go of them")
    assert status() == 200


def test_a_browser_that_does_not_read_is_cut_off(serve: Callable[..., Served]) -> None:
    served = serve(web__connections__READING_SECONDS=0.5)
    assert served.status() == 200
    before = served.files
    request = b"GET /page/layout.css HTTP/1.1\r\nHost: localhost\r\n\r\n"
    for _ in range(8):
        # Many answers are asked for, and none is read.
        client = socket.socket()
        served.opened.append(client)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(served.place)
        client.setblocking(False)
        with contextlib.suppress(OSError):
            client.send(request * 10_000)
    until(lambda: served.files >= before + 6, "the daemon to answer")
    until(lambda: served.files <= before + 3, "the daemon to cut them off")
    assert served.status() == 200


def test_websocket_messages_of_any_size_or_number_of_pieces_are_refused(
    serve: Callable[..., Served],
) -> None:
    served = serve()
    client = WebClient(served.address, TOKEN)
    with client.socket("/api/runs") as opened:
        opened.read()
        opened.opened.send("x" * 70_000)
        with pytest.raises(ConnectionClosed) as closed:
            while True:
                opened.read(ack=False)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1009
    with client.socket("/api/runs") as opened:
        opened.read()

        def pieces() -> Iterator[str]:
            for _ in range(100_000):
                yield ""

        with pytest.raises(ConnectionClosed):
            opened.opened.send(pieces())
            while True:
                opened.read(ack=False)
    assert served.status() == 200


def test_a_websocket_that_answers_no_ping_is_closed(serve: Callable[..., Served]) -> None:
    served = serve(web__server__PING_SECONDS=0.3)
    client = served.connect(
        b"GET /api/runs HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"
        b"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        b"Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n"
        b"Authorization: Bearer " + TOKEN.encode() + b"\r\n\r\n"
    )
    assert b" 101 " in client.makefile("rb", 0).readline()
    assert is_closed(client)


# --- wrong tokens ---------------------------------------------------------------------------------


def test_guesses_are_answered_slowly_and_sessions_and_known_tokens_go_on(
    serve: Callable[..., Served],
) -> None:
    served = serve()
    login = WebClient(served.address).ask("/api/login", "POST", {"token": TOKEN})
    browser = WebClient(served.address, Cookie=login.headers["set-cookie"].partition(";")[0])
    statuses = Counter(served.status(f"wrong-token-{number:04}") for number in range(300))
    assert statuses.keys() == {401, 429}
    assert statuses[429] > 250
    answer = WebClient(served.address, "one-more-wrong-token").ask("/api/session")
    assert answer.status == 429
    assert 0 < int(answer.headers["Retry-After"]) <= LONGEST_WAIT + 1
    assert "wrong tokens" in answer.json["problem"]
    tried = WebClient(served.address).ask("/api/login", "POST", {"token": "wrong-wrong-wrong"})
    assert tried.status == 429
    assert WebClient(served.address, "and-one-more-wrong").refusal("/api/runs") == 429
    assert browser.ask("/api/session").status == 200
    assert served.status() == 200, "the owner's token came from this address before"
    assert served.status(ALICES) == 429, "hers did not"
    until(lambda: served.status(ALICES) == 200, "the end of the wait", pause=0.3)
    assert served.status("yet-another-wrong-one") in (401, 429)
    assert served.status(ALICES) == 200


def test_behind_a_proxy_each_browser_has_its_own_guesses(
    serve: Callable[..., Served], root: Path
) -> None:
    page = (root / "docs" / "web.md").read_text(encoding="utf-8")
    (options,) = re.findall(r"^\$ lanekit daemon --web 7071 (--web-origin .*)$", page, re.MULTILINE)
    served = serve(*options.split())

    def status(browser: str, token: str) -> int:
        # What a browser itself sends as X-Forwarded-For stands before what the proxy adds.
        client = WebClient(served.address, token, **{"X-Forwarded-For": f"1.2.3.4, {browser}"})
        return client.ask("/api/session", Host="lab.example").status

    statuses = Counter(status("198.51.100.7", f"wrong-token-{n:04}") for n in range(50))
    assert statuses[429] > 30
    assert status("198.51.100.7", ALICES) == 429
    assert status("198.51.100.8", ALICES) == 200


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_the_wait_doubles_up_to_half_a_minute_and_is_forgotten() -> None:
    clock = Clock()
    guesses = Guesses(clock)
    waits = []
    for number in range(FREE_GUESSES + 8):
        assert guesses.judge("192.0.2.1", f"wrong {number}", None) == 0.0
        stranger = Caller(f"stranger-{number}")
        waits.append(guesses.judge("192.0.2.1", "right", stranger))
        clock.now += waits[-1]
    assert waits[: FREE_GUESSES - 1] == [0.0] * (FREE_GUESSES - 1)
    growing = waits[FREE_GUESSES - 1 :]
    assert growing == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0, 30.0]
    assert guesses.judge("192.0.2.2", "right", OWNER) == 0.0, "another address"
    clock.now += FORGET_SECONDS + 1
    assert guesses.judge("192.0.2.1", "wrong again", None) == 0.0
    assert guesses.judge("192.0.2.1", "right", OWNER) == 0.0


def test_attempts_during_a_wait_do_not_make_it_longer() -> None:
    clock = Clock()
    guesses = Guesses(clock)
    for number in range(FREE_GUESSES):
        guesses.judge("192.0.2.1", f"wrong {number}", None)
    for number in range(10_000):
        assert guesses.judge("192.0.2.1", f"more {number}", None) == 1.0
    clock.now += 1.0
    assert guesses.judge("192.0.2.1", "right", OWNER) == 0.0


def test_the_memory_of_offenders_is_bounded() -> None:
    guesses = Guesses()
    for number in range(3 * MOST_ADDRESSES):
        address = f"10.{number >> 16}.{(number >> 8) & 255}.{number & 255}"
        guesses.judge(address, "wrong", None)
        guesses.judge(address, "right", OWNER)
    assert len(guesses) <= 2 * MOST_ADDRESSES


def test_an_ipv6_site_is_one_address_and_the_unix_socket_none() -> None:
    assert group_of("2001:db8::1") == group_of("2001:db8::ffff:2") != group_of("2001:db8:0:1::1")
    assert group_of("::ffff:192.0.2.1") == "192.0.2.1"
    assert group_of("fe80::1%eth0") == group_of("fe80::2")
    assert group_of("") == group_of("not an address") == ""
    assert host_of_peer("ipv4:10.0.0.7:41234") == "10.0.0.7"
    assert host_of_peer("ipv6:%5B2001:db8::1%5D:41234") == "2001:db8::1"
    assert host_of_peer("unix:/run/d.sock") == ""
    guesses = Guesses()
    assert [guesses.judge("", f"wrong {n}", None) for n in range(100)] == [0.0] * 100


# --- names ----------------------------------------------------------------------------------------


def test_requests_for_another_name_are_refused(serve: Callable[..., Served]) -> None:
    served = serve()
    client = WebClient(served.address, TOKEN)
    port = served.place[1]
    for host in (f"127.0.0.1:{port}", "localhost", f"localhost:{port}", "[::1]:80", "10.0.0.1"):
        assert client.ask("/api/session", Host=host).status == 200, host
    for host in ("evil.example", f"evil.example:{port}", "localhost.evil.example", "", "a b", "@"):
        for path in ("/", "/api/session", "/page/main.js"):
            answer = client.ask(path, Host=host)
            assert answer.status in (400, 421), (host, path)
    said = client.ask("/", Host="evil.example").json["problem"]
    assert "--web-origin" in said


def test_the_scheme_counts_in_an_origin(serve: Callable[..., Served]) -> None:
    served = serve()
    login = WebClient(served.address).ask("/api/login", "POST", {"token": TOKEN})
    browser = WebClient(served.address, Cookie=login.headers["set-cookie"].partition(";")[0])
    own = served.address.rstrip("/")
    other = own.replace("http://", "https://")
    assert browser.ask("/api/logout", "POST", {}, Origin=own).status == 204
    assert browser.ask("/api/logout", "POST", {}, Origin=other).status == 403
    assert browser.refusal("/api/runs", origin=other) == 403
    with browser.socket("/api/runs", origin=own) as opened:
        assert opened.read()


def test_a_proxys_address_is_allowed_where_it_is_named(serve: Callable[..., Served]) -> None:
    served = serve("--web-origin", "https://lab.example", "--web-origin", "http://other:8080")
    client = WebClient(served.address, TOKEN)
    for host, origin in (
        ("lab.example", "https://lab.example"),
        ("other:8080", "http://other:8080"),
        # A proxy that does not pass the name on.
        (f"127.0.0.1:{served.place[1]}", "https://lab.example"),
    ):
        answer = client.ask("/api/logout", "POST", {}, Host=host, Origin=origin)
        assert answer.status == 204, (host, origin)
    refused = client.ask(
        "/api/logout", "POST", {}, Host="lab.example", Origin="https://evil.example"
    )
    assert refused.status == 403


@pytest.mark.parametrize(
    "options",
    [
        ("--web-origin", "lab.example"),
        ("--web-origin", "ftp://lab.example"),
        ("--web-origin", "https://lab.example/page"),
        ("--web-connections", "3"),
        ("--web-connections-per-address", "0"),
        ("--calls", "1"),
        ("--mib", "1"),
        ("--mib-per-token", "0"),
    ],
)
def test_a_limit_or_an_origin_that_makes_no_sense_is_refused(
    make_daemon: MakeDaemon, options: tuple[str, ...]
) -> None:
    status, said = make_daemon().refusal(*options)
    assert status == 2
    assert "Traceback" not in said


def test_origins_are_compared_as_browsers_write_them() -> None:
    site = Site("https", ["Node7.Lab", "*.cluster.lab"], ["http://proxy.example:8080"])
    for host in ("node7.lab", "NODE7.lab:7071", "node7.lab.", "a.cluster.lab", "proxy.example"):
        assert site.is_host(host), host
    for host in ("node7", "cluster.lab", "a.b.cluster.lab", "node7.lab.evil.example", "x@y"):
        assert not site.is_host(host), host
    assert site.is_origin("https://node7.lab", "node7.lab:443")
    assert site.is_origin("https://node7.lab:7071", "node7.lab:7071")
    assert site.is_origin("http://proxy.example:8080", "127.0.0.1:7071")
    for origin in ("http://node7.lab", "https://node7.lab:1", "null", "", "https://", "x:y:z"):
        assert not site.is_origin(origin, "node7.lab"), origin
    assert parse_origin("https://[::1]") == ("https", "::1", 443)


def test_the_names_of_a_certificate_are_the_pages(tmp_path: Path) -> None:
    files = make_certificates(tmp_path, ["node7.lab", "10.0.0.7"])
    assert "node7.lab" in certificate_names(files.certificate, files.key)
    assert certificate_names(tmp_path / "none.pem", files.key) == []


def test_access_without_a_limiter_of_its_own_has_one() -> None:
    access = Access(Tokens(TOKEN))
    assert access.judge(TOKEN, "192.0.2.1") is OWNER
    assert access.judge("wrong", "192.0.2.1") is None
