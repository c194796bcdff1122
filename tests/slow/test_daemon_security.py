"""Who may talk to the daemon: sockets, tokens, TLS; with every kind of call."""

from __future__ import annotations

import socket
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from daemon_process import DaemonProcess, free_port, publish_steps, run_of, steps
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.proto.telemetry_pb2_grpc import TrainerServiceStub
from patience import patience

MakeDaemon = Callable[..., DaemonProcess]
TOKEN = "correct-horse-battery-staple"
GOOD = (("authorization", f"Bearer {TOKEN}"),)


@pytest.fixture
def token_file(short_directory: Path) -> Path:
    path = short_directory / "token"
    path.write_text(TOKEN + "\n")
    path.chmod(0o600)
    return path


@pytest.fixture
def certificate(short_directory: Path) -> tuple[Path, Path, Path]:
    """An authority, and a certificate for 127.0.0.1 that it signed: (ca, cert, key)."""
    directory = short_directory

    def openssl(*arguments: str) -> None:
        command = ["openssl", *arguments]
        subprocess.run(command, cwd=directory, check=True, capture_output=True, timeout=patience())

    new_key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    openssl(
        *("req", "-x509", *new_key, "-keyout", "ca.key", "-out", "ca.pem"),
        *("-subj", "/CN=test authority", "-days", "2"),
    )
    openssl("req", *new_key, "-keyout", "tls.key", "-out", "tls.csr", "-subj", "/CN=daemon")
    (directory / "names").write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
    openssl(
        *("x509", "-req", "-in", "tls.csr", "-CA", "ca.pem", "-CAkey", "ca.key"),
        *("-CAcreateserial", "-out", "tls.pem", "-days", "2", "-extfile", "names"),
    )
    return directory / "ca.pem", directory / "tls.pem", directory / "tls.key"


def calls(channel: grpc.Channel) -> dict[str, Callable[[Any], Any]]:
    """One call of each kind, and of each service; each is a function of the metadata."""
    stub = TrainerServiceStub(channel)
    health = health_pb2_grpc.HealthStub(channel)
    reflection = reflection_pb2_grpc.ServerReflectionStub(channel)
    question = reflection_pb2.ServerReflectionRequest(list_services="")
    unused = channel.unary_unary("/lanekit.telemetry.v1.TrainerService/NoSuchMethod")
    return {
        "unary": lambda m: stub.ListRuns(pb.ListRunsRequest(), metadata=m, timeout=patience(30)),
        "server stream": lambda m: next(
            stub.WatchRuns(pb.WatchRunsRequest(), metadata=m, timeout=patience(30))
        ),
        "both stream": lambda m: next(
            stub.PublishRunSteps(iter([steps("r", 1, 1)]), metadata=m, timeout=patience(30))
        ),
        "both stream, nothing sent": lambda m: list(
            stub.Heartbeat(iter([]), metadata=m, timeout=patience(30))
        ),
        "health": lambda m: health.Check(
            health_pb2.HealthCheckRequest(), metadata=m, timeout=patience(30)
        ),
        "health watch": lambda m: next(
            health.Watch(health_pb2.HealthCheckRequest(), metadata=m, timeout=patience(30))
        ),
        "reflection": lambda m: next(
            reflection.ServerReflectionInfo(iter([question]), metadata=m, timeout=patience(30))
        ),
        "no such method": lambda m: unused(b"", metadata=m, timeout=patience(30)),
    }


def code_of(call: Callable[[Any], Any], metadata: Any) -> grpc.StatusCode:
    try:
        call(metadata)
    except grpc.RpcError as error:
        code: grpc.StatusCode = error.code()
        return code
    return grpc.StatusCode.OK


def test_every_call_needs_the_token(make_daemon: MakeDaemon, token_file: Path) -> None:
    daemon = make_daemon("--token-file", str(token_file)).start()
    wrong: list[Any] = [
        None,
        (("authorization", "Bearer wrong-token-wrong-token"),),
        (("authorization", TOKEN),),
        (("authorization", f"Bearer {TOKEN} "),),
        (("authorization", f"Bearer {TOKEN[:-1]}"),),
        (("authorization", f"bearer {TOKEN}"),),
        (*GOOD, *GOOD),
        (("authorization-bin", f"Bearer {TOKEN}".encode()),),
    ]
    with grpc.insecure_channel(daemon.target) as channel:
        for name, call in calls(channel).items():
            for metadata in wrong:
                code = code_of(call, metadata)
                assert code is grpc.StatusCode.UNAUTHENTICATED, f"{name} with {metadata}"
        expected = {
            "both stream": grpc.StatusCode.NOT_FOUND,
            "no such method": grpc.StatusCode.UNIMPLEMENTED,
        }
        for name, call in calls(channel).items():
            assert code_of(call, GOOD) is expected.get(name, grpc.StatusCode.OK), name


def test_without_a_token_file_the_private_socket_is_enough(daemon: DaemonProcess) -> None:
    assert stat.S_IMODE(daemon.socket.stat().st_mode) == 0o600
    with grpc.insecure_channel(daemon.target) as channel:
        answers = calls(channel)
        assert answers["health"](None).status == health_pb2.HealthCheckResponse.SERVING
        listed = answers["reflection"](None).list_services_response.service
        assert "lanekit.telemetry.v1.TrainerService" in {service.name for service in listed}


def test_a_directory_made_for_the_socket_is_private(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon()
    daemon.socket = daemon.directory / "deeper" / "down" / "d.sock"
    daemon.start()
    assert stat.S_IMODE(daemon.socket.parent.stat().st_mode) == 0o700


def test_tcp_speaks_tls_and_wants_the_token(
    make_daemon: MakeDaemon, token_file: Path, certificate: tuple[Path, Path, Path]
) -> None:
    authority, cert, key = certificate
    daemon = make_daemon(
        *("--listen", "127.0.0.1:0", "--tls-cert", str(cert), "--tls-key", str(key)),
        *("--token-file", str(token_file)),
    ).start()
    address = daemon.announcement.rsplit(" ", 1)[1]
    credentials = grpc.ssl_channel_credentials(authority.read_bytes())
    with grpc.secure_channel(address, credentials) as channel:
        for name, call in calls(channel).items():
            assert code_of(call, None) is grpc.StatusCode.UNAUTHENTICATED, name
            assert code_of(call, GOOD) is not grpc.StatusCode.UNAUTHENTICATED, name
    # One who does not trust the authority, and one who speaks no TLS at all.
    with grpc.secure_channel(address, grpc.ssl_channel_credentials()) as channel:
        assert code_of(calls(channel)["unary"], GOOD) is grpc.StatusCode.UNAVAILABLE
    with grpc.insecure_channel(address) as channel:
        assert code_of(calls(channel)["unary"], GOOD) is grpc.StatusCode.UNAVAILABLE
    with grpc.secure_channel(address, credentials) as channel:
        assert code_of(calls(channel)["unary"], GOOD) is grpc.StatusCode.OK


def test_plain_tcp_on_loopback_must_be_asked_for_and_still_wants_the_token(
    make_daemon: MakeDaemon, token_file: Path
) -> None:
    daemon = make_daemon(
        *("--listen", "127.0.0.1:0", "--insecure-loopback", "--token-file", str(token_file))
    ).start()
    address = daemon.announcement.rsplit(" ", 1)[1]
    with grpc.insecure_channel(address) as channel:
        assert code_of(calls(channel)["unary"], None) is grpc.StatusCode.UNAUTHENTICATED
        assert code_of(calls(channel)["unary"], GOOD) is grpc.StatusCode.OK


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--listen", "127.0.0.1:0"], "--token-file"),
        (["--listen", "127.0.0.1:0", "--token-file", "token"], "--tls-cert"),
        (["--listen", "127.0.0.1:0", "--insecure-loopback"], "--token-file"),
        (
            ["--listen", "0.0.0.0:0", "--insecure-loopback", "--token-file", "token"],
            "--insecure-loopback allows",
        ),
        (
            ["--listen", "example.org:7070", "--insecure-loopback", "--token-file", "token"],
            "--insecure-loopback allows",
        ),
        (["--listen", "nonsense", "--token-file", "token"], "HOST:PORT"),
        (["--listen", "127.0.0.1:99999", "--token-file", "token"], "65535"),
        (["--tls-cert", "x"], "go together"),
        (["--insecure-loopback"], "--listen"),
        (
            [
                "--listen",
                "127.0.0.1:0",
                "--tls-cert",
                "x",
                "--tls-key",
                "y",
                "--token-file",
                "token",
            ],
            "x",
        ),
    ],
)
def test_an_unsafe_listen_is_refused(
    make_daemon: MakeDaemon, token_file: Path, options: list[str], said: str
) -> None:
    daemon = make_daemon()
    options = [str(token_file) if option == "token" else option for option in options]
    status, message = daemon.refusal(*options)
    assert status in (1, 2)
    assert said in message
    assert "Traceback" not in message


@pytest.mark.parametrize(
    ("content", "mode", "said"),
    [
        ("short\n", 0o600, "at least 16"),
        ("", 0o600, "at least 16"),
        ("two words are not one token", 0o600, "without spaces"),
        ("ümläute-gehören-nicht-hierher", 0o600, "ASCII"),
        (TOKEN, 0o644, "chmod 600"),
    ],
)
def test_a_weak_token_file_is_refused(
    make_daemon: MakeDaemon, token_file: Path, content: str, mode: int, said: str
) -> None:
    token_file.write_text(content)
    token_file.chmod(mode)
    status, message = make_daemon().refusal("--token-file", str(token_file))
    assert status == 1
    assert said in message
    assert "Traceback" not in message


def test_a_taken_port_is_refused(make_daemon: MakeDaemon, token_file: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        status, message = make_daemon().refusal(
            *("--listen", f"127.0.0.1:{port}", "--insecure-loopback"),
            *("--token-file", str(token_file)),
        )
    assert status == 1
    assert f"127.0.0.1:{port}" in message
    assert "Traceback" not in message


def test_a_named_port_is_listened_on(make_daemon: MakeDaemon, token_file: Path) -> None:
    port = free_port()
    daemon = make_daemon(
        *("--listen", f"127.0.0.1:{port}", "--insecure-loopback"),
        *("--token-file", str(token_file)),
    ).start()
    assert daemon.announcement == f"listening on unix:{daemon.socket}, 127.0.0.1:{port}"


def test_noise_on_the_socket_does_not_hurt(daemon: DaemonProcess, stub: TrainerServiceStub) -> None:
    for noise in (b"", b"GET / HTTP/1.1\r\n\r\n", b"\0" * 10_000, bytes(range(256)) * 50):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(daemon.socket))
            client.sendall(noise)
    publish_steps(stub, "r", 10)
    assert run_of(stub, "r").steps == 10
