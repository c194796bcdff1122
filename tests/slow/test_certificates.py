"""``lanekit certs``, and what it is for: a daemon on the network that lets in whom it should."""

from __future__ import annotations

import socket
import ssl
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest
from cryptography import x509
from daemon_process import DaemonProcess
from picture_worker import PictureWorker

from lanekit import errors
from lanekit.cli import main
from lanekit.slow.certificates import make_certificates
from lanekit.slow.daemon_client import DaemonClient
from lanekit.slow.endpoint import read_token
from patience import patience

MakeDaemon = Callable[..., DaemonProcess]


@pytest.fixture
def certificates(short_directory: Path) -> Path:
    directory = short_directory / "certs"
    assert main(["certs", str(directory)]) == 0
    return directory


@pytest.fixture
def address(make_daemon: MakeDaemon, certificates: Path) -> str:
    """A daemon on TCP, with what the command made."""
    daemon = make_daemon(
        *("--listen", "127.0.0.1:0", "--token-file", str(certificates / "token")),
        *("--tls-cert", str(certificates / "server.pem")),
        *("--tls-key", str(certificates / "server.key")),
    ).start()
    return daemon.announcement.rsplit(" ", 1)[1]


@pytest.fixture
def worker() -> Iterator[str]:
    """A run that publishes pictures; its id."""
    run = f"tls-{time.time_ns()}"
    process = PictureWorker(run)
    yield run
    process.leave()


def watch(address: str, run: str, **how: object) -> None:
    with DaemonClient(address, timeout=patience(30), **how) as client:  # type: ignore[arg-type]
        with client.watch_frames(run) as stream:
            next(update for update in stream if update.frame is not None)


def test_frames_travel_over_tls_to_whoever_has_authority_and_token(
    address: str, certificates: Path, worker: str
) -> None:
    token = read_token(certificates / "token")
    watch(address, worker, ca_file=certificates / "ca.pem", token=token)


def test_without_the_token_or_with_a_wrong_one_no_frame_is_seen(
    address: str, certificates: Path, worker: str
) -> None:
    words = {None: "needs its token", "wrong-token-wrong-token": "none of this daemon's"}
    for token, said in words.items():
        with pytest.raises(errors.DaemonError, match=said) as refused:
            watch(address, worker, ca_file=certificates / "ca.pem", token=token)
        assert refused.value.code == "UNAUTHENTICATED"


def test_plain_text_and_a_strange_authority_get_no_connection(
    address: str, certificates: Path, worker: str, tmp_path: Path
) -> None:
    token = read_token(certificates / "token")
    with pytest.raises(errors.DaemonUnavailable, match="without TLS"):
        watch(address, worker, insecure=True, token=token)
    strange = make_certificates(tmp_path / "strange").authority
    with pytest.raises(errors.DaemonUnavailable, match="--tls-ca"):
        watch(address, worker, ca_file=strange, token=token)
    # Not a byte of an answer to one who speaks plain HTTP/2.
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port))) as plain:
        plain.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        plain.settimeout(patience())
        answer = plain.recv(4096)
        assert b"HTTP" not in answer
        assert len(answer) < 20  # a TLS alert, or nothing


def test_a_certificate_is_not_good_for_another_host(certificates: Path) -> None:
    certificate = x509.load_pem_x509_certificate((certificates / "server.pem").read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "localhost" in names.get_values_for_type(x509.DNSName)
    assert "example.org" not in names.get_values_for_type(x509.DNSName)
    authority = x509.load_pem_x509_certificate((certificates / "ca.pem").read_bytes())
    certificate.verify_directly_issued_by(authority)
    constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
    assert not constraints.ca, "it must not be able to sign others"


def test_keys_and_token_are_private(certificates: Path) -> None:
    for name in ("ca.key", "server.key", "token"):
        assert stat.S_IMODE((certificates / name).stat().st_mode) == 0o600, name
    assert stat.S_IMODE(certificates.stat().st_mode) == 0o700
    assert not list(certificates.glob("*.*.*")), "nothing half written is left"


def test_one_authority_serves_many_machines(
    certificates: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {name: (certificates / name).read_bytes() for name in ("ca.pem", "ca.key", "token")}
    again = ["certs", str(certificates), "--label", "node2", "--host", "node2.lab"]
    assert main([*again, "--host", "10.0.0.2"]) == 0
    assert {name: (certificates / name).read_bytes() for name in before} == before
    said = capsys.readouterr().out
    assert "node2.lab" in said
    certificate = x509.load_pem_x509_certificate((certificates / "node2.pem").read_bytes())
    certificate.verify_directly_issued_by(
        x509.load_pem_x509_certificate((certificates / "ca.pem").read_bytes())
    )
    # OpenSSL's own check of both files, as a program that is not ours sees them.
    context = ssl.create_default_context(cafile=str(certificates / "ca.pem"))
    context.load_cert_chain(certificates / "node2.pem", certificates / "node2.key")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--host", "two words"], "neither a host name"),
        (["--host", "a..b"], "neither a host name"),
        (["--label", "ca"], "not ca"),
        (["--label", "../x"], "a label has"),
    ],
)
def test_names_that_can_not_be_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], said: str
) -> None:
    assert main(["certs", str(tmp_path / "c"), *options]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "c").exists()


def test_nothing_is_replaced_unasked(
    certificates: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (certificates / "server.pem").read_bytes()
    assert main(["certs", str(certificates)]) == 1
    assert "--force" in capsys.readouterr().err
    assert (certificates / "server.pem").read_bytes() == before
    assert main(["certs", str(certificates), "--force"]) == 0
    assert (certificates / "server.pem").read_bytes() != before
    (certificates / "ca.key").write_text("nonsense")
    assert main(["certs", str(certificates), "--force"]) == 1
    assert "go together" in capsys.readouterr().err


def test_the_environment_says_where_everything_is(
    make_daemon: MakeDaemon, certificates: Path, monkeypatch: pytest.MonkeyPatch, worker: str
) -> None:
    monkeypatch.setenv("LANEKIT_TLS_CERT", str(certificates / "server.pem"))
    monkeypatch.setenv("LANEKIT_TLS_KEY", str(certificates / "server.key"))
    monkeypatch.setenv("LANEKIT_TLS_CA", str(certificates / "ca.pem"))
    monkeypatch.setenv("LANEKIT_TOKEN_FILE", str(certificates / "token"))
    daemon = make_daemon("--listen", "127.0.0.1:0").start()
    address = daemon.announcement.rsplit(" ", 1)[1]
    picture = certificates / "picture.png"
    assert main(["view", "--daemon", address, "--snapshot", str(picture), worker]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    monkeypatch.delenv("LANEKIT_TOKEN_FILE")
    assert main(["view", "--daemon", address, "--snapshot", str(picture), worker]) == 1


def test_an_address_of_the_network_is_refused_without_tls_and_token(
    make_daemon: MakeDaemon, certificates: Path
) -> None:
    token = ("--token-file", str(certificates / "token"))
    tls = ("--tls-cert", str(certificates / "server.pem"))
    tls += ("--tls-key", str(certificates / "server.key"))
    for options, said in ((tls, "--token-file"), (token, "--tls-cert")):
        status, message = make_daemon().refusal("--listen", "0.0.0.0:0", *options)
        assert status == 2
        assert said in message


def test_grpc_itself_accepts_the_certificate_for_every_name_of_this_machine(
    address: str, certificates: Path
) -> None:
    port = address.rsplit(":", 1)[1]
    credentials = grpc.ssl_channel_credentials((certificates / "ca.pem").read_bytes())
    for name in ("localhost", "127.0.0.1"):
        with grpc.secure_channel(f"{name}:{port}", credentials) as channel:
            grpc.channel_ready_future(channel).result(timeout=patience())
