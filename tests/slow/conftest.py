"""What the slow lane's tests share: a real daemon, in a directory with a short name."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from daemon_process import DaemonProcess

from lanekit.slow.proto.telemetry_pb2_grpc import TrainerServiceStub


@pytest.fixture
def short_directory() -> Iterator[Path]:
    """A directory whose paths are short enough for Unix sockets."""
    directory = Path(tempfile.mkdtemp(prefix="lk-"))
    yield directory
    shutil.rmtree(directory)


@pytest.fixture
def make_daemon(short_directory: Path) -> Iterator[Callable[..., DaemonProcess]]:
    """Makes daemons with options of the test's choice; none outlives the test."""
    daemons: list[DaemonProcess] = []

    def make(*options: str, **constants: float) -> DaemonProcess:
        daemons.append(DaemonProcess(short_directory, *options, **constants))
        return daemons[-1]

    yield make
    for daemon in daemons:
        daemon.close()
        daemon.end_children()
        said = daemon.said()
        assert "Traceback" not in said, said


@pytest.fixture
def daemon(make_daemon: Callable[..., DaemonProcess]) -> DaemonProcess:
    """A running daemon on a store of its own."""
    return make_daemon().start()


@pytest.fixture
def stub(daemon: DaemonProcess) -> Iterator[TrainerServiceStub]:
    """A connection to the daemon."""
    with daemon.connect() as connected:
        yield connected
