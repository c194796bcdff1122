"""Addresses, defaults, tokens, and channels to a daemon."""

from __future__ import annotations

from pathlib import Path

import pytest
from recording_daemon import RecordingDaemon

from lanekit.errors import TelemetryError
from lanekit.slow import endpoint
from lanekit.slow.endpoint import open_channel, parse_target, read_token, token_metadata
from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.proto.telemetry_pb2_grpc import TrainerServiceStub
from patience import patience


@pytest.mark.parametrize(
    ("text", "expected", "loopback"),
    [
        ("unix:/run/a.sock", "unix:/run/a.sock", True),
        ("unix:///run/a.sock", "unix:/run/a.sock", True),
        ("/run/a.sock", "unix:/run/a.sock", True),
        ("localhost:50", "localhost:50", True),
        ("127.0.0.1:50", "127.0.0.1:50", True),
        ("[::1]:50", "[::1]:50", True),
        ("gpu-7.example:65535", "gpu-7.example:65535", False),
        ("10.0.0.1:1", "10.0.0.1:1", False),
    ],
)
def test_addresses_are_understood(text: str, expected: str, loopback: bool) -> None:
    target = parse_target(text)
    assert str(target) == expected
    assert target.is_loopback is loopback
    assert parse_target(target) is target


@pytest.mark.parametrize(
    "text",
    ["", "unix:", "host", "host:", ":5", "host:0", "host:65536", "host:x", "a b:5", "::1:5"],
)
def test_what_is_no_address_is_refused_with_what_was_expected(text: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        parse_target(text)


def test_a_socket_path_that_the_kernel_would_cut_is_refused() -> None:
    assert parse_target("unix:/" + "a" * 106).path
    with pytest.raises(ValueError, match="at most 107 bytes, this one 108"):
        parse_target("unix:/" + "a" * 107)
    with pytest.raises(ValueError, match="at most 107 bytes"):
        parse_target("unix:/" + "é" * 54)


def test_defaults_follow_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("LANEKIT_STATE", "LANEKIT_DAEMON", "XDG_RUNTIME_DIR", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/home/u")
    assert endpoint.state_directory() == Path("/home/u/.local/state/lanekit")
    assert endpoint.default_socket() == "unix:/home/u/.local/state/lanekit/daemon.sock"
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert endpoint.default_store() == Path("/state/lanekit/lanekit.db")
    monkeypatch.setenv("LANEKIT_STATE", "/mine")
    assert endpoint.default_spool_directory() == Path("/mine/spool")
    assert endpoint.default_socket() == "unix:/mine/daemon.sock"
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/1")
    assert endpoint.default_socket() == "unix:/run/user/1/lanekit/daemon.sock"
    monkeypatch.setenv("LANEKIT_DAEMON", "gpu:7000")
    assert endpoint.default_socket() == "gpu:7000"


def test_a_token_is_one_printable_line_that_nobody_else_can_read(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.touch(mode=0o600)
    file.write_text("  s3cret-0123456789\n")
    assert read_token(file) == "s3cret-0123456789"
    assert token_metadata("s3cret") == (("authorization", "Bearer s3cret"),)
    assert token_metadata(None) == ()
    for bad in ("", "too-short", "two words of a token", "två" * 10):
        file.write_text(bad)
        with pytest.raises(TelemetryError, match=r"\(umask 077; openssl rand -hex 32 > .*token\)"):
            read_token(file)
    file.write_text("s3cret-0123456789\n")
    file.chmod(0o640)
    with pytest.raises(TelemetryError, match="chmod 600"):
        read_token(file)
    with pytest.raises(TelemetryError, match="can not be read"):
        read_token(tmp_path / "none")


def test_a_channel_reaches_the_daemon(short_directory: Path) -> None:
    with RecordingDaemon(short_directory) as daemon, open_channel(daemon.target) as channel:
        request = pb.RegisterWorkerRequest(run_id="r", stream_id="s")
        assert (
            TrainerServiceStub(channel)
            .RegisterWorker(request, timeout=patience(20))
            .max_message_bytes
        )


def test_plain_tcp_is_for_loopback_only(tmp_path: Path) -> None:
    open_channel("127.0.0.1:1", insecure=True).close()
    with pytest.raises(ValueError, match="only a loopback address"):
        open_channel("10.0.0.1:1", insecure=True)
    with pytest.raises(ValueError, match="can not be read"):
        open_channel("10.0.0.1:1", ca_file=tmp_path / "none")
