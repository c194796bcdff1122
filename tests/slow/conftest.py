"""What the slow lane's tests share: daemons, proxies and stores, in directories of their own."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from daemon_process import DaemonProcess
from made_batches import RUN, STREAM
from proxy_process import MakeProxy, ProxyProcess
from recording_daemon import RecordingDaemon

from lanekit.slow.proto.telemetry_pb2_grpc import TrainerServiceStub
from lanekit.slow.store.run_store import RunStore
from lanekit.slow.store.sqlite_store import TelemetrySQLiteStore


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


@pytest.fixture
def recorder(short_directory: Path) -> Iterator[RecordingDaemon]:
    """A daemon that keeps what it is sent, and fails on request."""
    with RecordingDaemon(short_directory) as daemon:
        yield daemon


@pytest.fixture
def make_proxy(short_directory: Path) -> Iterator[MakeProxy]:
    """Makes proxies; none outlives the test."""
    made: list[ProxyProcess] = []

    def make(target: str, spool: str = "spool") -> ProxyProcess:
        made.append(ProxyProcess(short_directory, target, spool))
        return made[-1]

    yield make
    for proxy in made:
        proxy.end()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the store is, or will be."""
    return tmp_path / "store.db"


@pytest.fixture
def store(path: Path) -> Iterator[TelemetrySQLiteStore]:
    """A store that knows one stream."""
    with TelemetrySQLiteStore.open(path) as opened:
        opened.register_stream(RUN, STREAM, "worker", 42, "host", "/spool")
        yield opened


@pytest.fixture
def reader(store: TelemetrySQLiteStore, path: Path) -> Iterator[RunStore]:
    """The same store, to read."""
    with RunStore.open(path) as opened:
        yield opened
