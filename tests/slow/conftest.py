"""What the slow lane's tests share: daemons, proxies and stores, in directories of their own."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from daemon_process import DaemonProcess
from made_batches import RUN, STREAM
from picture_worker import PictureWorker
from proxy_process import MakeProxy, ProxyProcess
from recorded_runs import write_training_run
from recording_daemon import RecordingDaemon

from lanekit.slow.daemon_client import DaemonClient
from lanekit.slow.proto.telemetry_pb2_grpc import TrainerServiceStub
from lanekit.slow.store.address import StoreAddress
from lanekit.slow.store.opening import open_to_write
from lanekit.slow.store.run_store import RunStore
from lanekit.slow.store.sqlite_store import TelemetrySQLiteStore
from lanekit.slow.store.telemetry_store import TelemetryStore

if TYPE_CHECKING:
    from postgres_server import PostgresServer

HAS_POSTGRES = find_spec("psycopg") is not None
collect_ignore_glob = [] if HAS_POSTGRES else ["test_postgres*.py"]


def pytest_report_header() -> list[str]:
    """Say what is left out, and why."""
    return [] if HAS_POSTGRES else ["PostgreSQL: left out, psycopg is not installed here"]


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


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A PostgreSQL server for all tests of this process."""
    from postgres_server import running_server

    with running_server() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"] if HAS_POSTGRES else ["sqlite"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> StoreAddress:
    """Where a store will be: a file, and then a database."""
    if request.param == "sqlite":
        return tmp_path / "store.db"
    server: PostgresServer = request.getfixturevalue("postgres_server")
    return server.fresh_store()


@pytest.fixture
def client(daemon: DaemonProcess) -> Iterator[DaemonClient]:
    """Asks the daemon."""
    with DaemonClient(daemon.target) as connected:
        yield connected


@pytest.fixture
def worker(run_id: str) -> Iterator[PictureWorker]:
    """Publishes pictures as the run."""
    process = PictureWorker(run_id)
    yield process
    process.leave()


@pytest.fixture
def store(address: StoreAddress) -> Iterator[TelemetryStore]:
    """A store that knows one stream."""
    with open_to_write(address) as opened:
        opened.register_stream(RUN, STREAM, "worker", 42, "host", "/spool")
        yield opened


@pytest.fixture
def recorded(tmp_path: Path) -> Iterator[RunStore]:
    """A store with a training run that has ended."""
    path = tmp_path / "runs.db"
    write_training_run(path)
    with RunStore.open(path) as opened:
        yield opened


@pytest.fixture
def reader(store: TelemetryStore, address: StoreAddress) -> Iterator[RunStore]:
    """The same store, to read."""
    with RunStore.open(address) as opened:
        yield opened


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the file of a store is, or will be."""
    return tmp_path / "store.db"


@pytest.fixture
def file_store(path: Path) -> Iterator[TelemetrySQLiteStore]:
    """A file that knows one stream."""
    with TelemetrySQLiteStore.open(path) as opened:
        opened.register_stream(RUN, STREAM, "worker", 42, "host", "/spool")
        yield opened


@pytest.fixture
def file_reader(file_store: TelemetrySQLiteStore, path: Path) -> Iterator[RunStore]:
    """The same file, to read."""
    with RunStore.open(path) as opened:
        yield opened
