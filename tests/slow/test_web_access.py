"""Who may use the browser's page: no port unasked, tokens, cookies, origins, TLS."""

from __future__ import annotations

import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest
from daemon_process import DaemonProcess, free_port
from training_desk import started_daemon
from web_client import WebClient

from lanekit.slow.daemon.access import OWNER, Caller, Tokens
from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.web.access import SESSION_SECONDS, Access
from patience import patience

MakeDaemon = Callable[..., DaemonProcess]
TOKEN = "correct-horse-battery-staple"
ALICES = "another-token-for-alice"
PATHS = [
    *("/api/session", "/api/runs/r/recorded", "/api/runs/r/tape?episode=0"),
    "/api/runs/r/frames/1.png",
]
SOCKETS = ["/api/runs", "/api/runs/r", "/api/runs/r/pictures"]


def private(path: Path, text: str) -> Path:
    path.write_text(text + "\n")
    path.chmod(0o600)
    return path


def address_of(daemon: DaemonProcess) -> str:
    found = re.search(r"https?://\S+", daemon.announcement)
    assert found is not None, daemon.announcement
    return found[0]


@pytest.fixture
def served(make_daemon: MakeDaemon, short_directory: Path) -> tuple[DaemonProcess, str]:
    """A daemon with two tokens and a page, and a run of each."""
    owners = private(short_directory / "token", TOKEN)
    others = private(short_directory / "tokens", f"alice {ALICES}")
    options = ("--token-file", str(owners), "--tokens", str(others), "--web", "0")
    daemon = make_daemon(*options).start()
    return daemon, address_of(daemon)


def test_no_port_is_open_unless_it_is_asked_for(daemon: DaemonProcess) -> None:
    sockets = psutil.Process(daemon.pid).net_connections(kind="inet")
    assert [each for each in sockets if each.status == psutil.CONN_LISTEN] == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--web", "0.0.0.0:0"], "needs --tls-cert and --tls-key"),
        (["--web", "somewhere.example:80"], "needs --tls-cert and --tls-key"),
        (["--web", "page"], "PORT or HOST:PORT"),
        (["--web", "70000"], "PORT or HOST:PORT"),
    ],
)
def test_an_address_that_can_not_be_meant_is_refused(
    make_daemon: MakeDaemon, options: list[str], words: str
) -> None:
    status, said = make_daemon().refusal(*options)
    assert status == 2
    assert words in said


def test_a_port_that_is_taken_is_named(make_daemon: MakeDaemon) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        status, said = make_daemon().refusal("--web", str(port))
    assert status == 1
    assert f"127.0.0.1:{port}" in said
    assert "choose another port" in said


def test_a_page_whose_port_is_taken_is_told_where_to_go(daemon: DaemonProcess) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = subprocess.run(
            [sys.executable, "-m", "lanekit", "web", "--port", str(port)],
            env={**os.environ, "LANEKIT_DAEMON": f"unix:{daemon.socket}"},
            capture_output=True,
            text=True,
            timeout=patience(120),
            check=False,
        )
    assert (done.returncode, done.stdout) == (1, "")
    assert f"127.0.0.1:{port} (Address already in use" in done.stderr
    assert "`lanekit web --port 0`" in done.stderr


def test_only_a_token_or_a_session_opens_the_api(served: tuple[DaemonProcess, str]) -> None:
    _, address = served
    expired = Access(Tokens(TOKEN)).new_session(OWNER, now=1.0)
    name = Access(Tokens(TOKEN)).cookie_name
    forged = Access(Tokens("some-other-daemon-token")).new_session(OWNER)
    strangers = {
        "without anything": WebClient(address),
        "with a wrong token": WebClient(address, TOKEN + "x"),
        "with an empty token": WebClient(address, ""),
        "with an old session": WebClient(address, Cookie=f"{name}={expired}"),
        "with another daemon's session": WebClient(address, Cookie=f"{name}={forged}"),
        "with nonsense": WebClient(address, Cookie=f"{name}=..;;{name}=é"),
    }
    for who, client in strangers.items():
        for path in PATHS:
            answer = client.ask(path)
            assert answer.status == 401, (who, path)
            assert "token" in answer.json["problem"]
        for path in SOCKETS:
            assert client.refusal(path, origin=address.rstrip("/")) == 403, (who, path)
        changed = client.ask("/api/runs/r/stop", "POST", {}, Origin=address.rstrip("/"))
        assert changed.status == 401, who
    assert WebClient(address, TOKEN).ask("/api/session").status == 200


def test_a_login_gives_a_session_that_outlives_the_daemon(
    served: tuple[DaemonProcess, str],
) -> None:
    daemon, address = served
    stranger = WebClient(address)
    assert stranger.ask("/api/login", "POST", {"token": "wrong"}).status == 401
    assert stranger.ask("/api/login", "POST", ["no", "object"]).status == 400
    assert stranger.ask("/api/login", "POST", {"token": "x" * 10_000}).status == 413
    answer = stranger.ask("/api/login", "POST", {"token": TOKEN})
    assert answer.status == 204
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert TOKEN not in cookie
    port = urlsplit(address).port
    daemon.stop()
    daemon.options = (*daemon.options[:-1], str(port))
    daemon.start()
    browser = WebClient(address, Cookie=cookie.partition(";")[0])
    assert browser.ask("/api/session").status == 200
    out = browser.ask("/api/logout", "POST", {}, Origin=address.rstrip("/"))
    assert "Max-Age=0" in out.headers["set-cookie"]


def test_pages_of_other_sites_can_not_use_a_session(served: tuple[DaemonProcess, str]) -> None:
    _, address = served
    login = WebClient(address).ask("/api/login", "POST", {"token": TOKEN})
    browser = WebClient(address, Cookie=login.headers["set-cookie"].partition(";")[0])
    for origin in ("http://evil.example", "null", f"http://127.0.0.1:{free_port()}"):
        for path in SOCKETS:
            assert browser.refusal(path, origin=origin) == 403, origin
        assert browser.ask("/api/runs/r/stop", "POST", {}, Origin=origin).status == 403
        assert WebClient(address).ask("/api/login", "POST", {}, Origin=origin).status == 403
    for path in SOCKETS:
        assert browser.refusal(path) == 403  # no browser sends a cookie without an origin
    with browser.socket("/api/runs", origin=address.rstrip("/")) as socket:
        assert socket.read().keys() & {"runs", "lanes"}


def test_a_named_token_is_for_the_runs_of_that_name(
    served: tuple[DaemonProcess, str],
) -> None:
    daemon, address = served
    with daemon.connect() as stub:
        for run in ("alice.one", "bobs"):
            stub.RegisterWorker(
                pb.RegisterWorkerRequest(run_id=run, stream_id="s1"),
                metadata=(("authorization", f"Bearer {TOKEN}"),),
                timeout=patience(30),
            )
    alice = WebClient(address, ALICES)
    assert alice.ask("/api/session").json["name"] == "alice"
    seen = set()
    with alice.socket("/api/runs") as socket:
        while not seen:
            seen |= {run["id"] for run in socket.read().get("runs", [])}
    assert seen == {"alice.one"}
    assert alice.ask("/api/runs/alice.one/recorded").status == 200
    for path, method in (("recorded", "GET"), ("tape", "GET"), ("stop", "POST")):
        answer = alice.ask(f"/api/runs/bobs/{path}", method)
        assert answer.status == 403
        assert "is not alice's" in answer.json["problem"]
    for path in ("/api/runs/bobs", "/api/runs/bobs/pictures"):
        with alice.socket(path) as socket:
            with pytest.raises(Exception, match="is not alice's"):
                while True:
                    socket.read()


def test_a_session_is_good_for_its_time_and_its_caller() -> None:
    access = Access(Tokens(TOKEN, {"alice": ALICES}))
    for caller in (OWNER, Caller("alice")):
        session = access.new_session(caller, now=1000.0)
        assert access.caller_of_session(session, now=1000.0 + SESSION_SECONDS - 1) == caller
        assert access.caller_of_session(session, now=1000.0 + SESSION_SECONDS + 1) is None
        until, name, signature = session.split(".")
        for other in (
            *(f"{int(until) + 1}.{name}.{signature}", f"{until}.{name}.{'0' * 64}"),
            *(f"{until}.bob.{signature}", f"{until}.{name}", "", "..", f"-1.{name}.{signature}"),
        ):
            assert access.caller_of_session(other, now=1000.0) is None, other
    alices = access.new_session(Caller("alice"), now=1000.0)
    as_owner = alices.replace(".alice.", "..")
    assert access.caller_of_session(as_owner, now=1000.0) is None


def test_the_page_goes_over_tls_where_there_is_a_certificate(
    make_daemon: MakeDaemon, short_directory: Path
) -> None:
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
    files = "-keyout key.pem -out cert.pem -subj /CN=d -addext subjectAltName=IP:127.0.0.1"
    subprocess.run(
        [*command.split(), *files.split()],
        cwd=short_directory,
        check=True,
        capture_output=True,
        timeout=patience(),
    )
    cert = short_directory / "cert.pem"
    key = short_directory / "key.pem"
    tls = ("--tls-cert", str(cert), "--tls-key", str(key))
    daemon = make_daemon("--web", "127.0.0.1:0", *tls).start()
    address = address_of(daemon)
    assert address.startswith("https://")
    trust = ssl.create_default_context(cafile=str(cert))
    with urllib.request.urlopen(address, context=trust, timeout=patience()) as answer:
        assert b"lanekit" in answer.read()
    with pytest.raises(Exception, match=r"[Cc]onnection|closed|EOF|reset|bad"):
        WebClient(address).ask("/")


def test_the_command_starts_a_daemon_and_prints_an_address_that_logs_in(
    short_directory: Path,
) -> None:
    environment = {
        **os.environ,
        "LANEKIT_STATE": str(short_directory / "state"),
        "LANEKIT_DAEMON": f"unix:{short_directory / 'd.sock'}",
    }

    def web() -> tuple[str, str]:
        command = [sys.executable, "-m", "lanekit", "web", "--port", "0"]
        done = subprocess.run(
            command,
            env=environment,
            capture_output=True,
            text=True,
            timeout=patience(120),
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip(), done.stderr

    first, said = web()
    pid = started_daemon(said)
    try:
        address, token = first.split("#token=")
        assert WebClient(address, token).ask("/api/session").status == 200
        assert WebClient(address).ask("/api/session").status == 401
        assert web() == (first, "")
    finally:
        daemon = psutil.Process(pid)
        daemon.send_signal(signal.SIGTERM)
        daemon.wait(patience())
