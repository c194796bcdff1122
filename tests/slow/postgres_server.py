"""A real PostgreSQL server in a directory of its own, to be stopped, killed and started again."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import psycopg

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # benchmarks take it from here, too

from patience import Watchdog
from working_programs import working

PASSWORD = "not/to:be@shown"
"""Of the user `lanekit`, over TCP. Everybody who may use the socket is let in without one."""
ESCAPED_PASSWORD = "not%2Fto%3Abe%40shown"

# Killed processes are what these tests are about: for them the system's cache is as good as a disk.
# No System V memory, nothing in /dev/shm: other tests look there.
_SETTINGS = {
    "fsync": "off",
    "shared_buffers": "16MB",
    "dynamic_shared_memory_type": "mmap",
    "max_connections": "40",
    "max_wal_size": "64MB",
    "min_wal_size": "32MB",
    "autovacuum": "off",
}


def program(name: str) -> Path:
    """Find a program of the server: Debian keeps them apart, one directory for each version."""
    found = sorted(
        Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda p: float(p.parts[4])
    )
    on_path = working(name)
    if on_path:
        found.append(Path(on_path))
    assert found, f"no {name} on this machine: tools/system_packages.sh --postgres installs it"
    return found[-1]


class PostgresServer:
    """A server, its data and its socket."""

    def __init__(self, directory: Path, **settings: str) -> None:
        self.directory = directory
        self.data = directory / "data"
        self.log = directory / "server.log"
        self._settings = {**_SETTINGS, **settings}
        self._process: subprocess.Popen[bytes] | None = None
        # The server refuses to run as root.
        self._as: dict[str, Any] = {}
        if os.geteuid() == 0:
            user = pwd.getpwnam("postgres")
            self._as = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
            os.chown(directory, user.pw_uid, user.pw_gid)
        self.port = 5432

    def initialise(self) -> None:
        """Make the data directory."""
        command = [program("initdb"), "--no-sync", "--encoding=UTF8", "--no-locale"]
        command += ["--auth-local=trust", "--auth-host=scram-sha-256", "--username=lanekit"]
        done = subprocess.run(
            [*command, f"--pgdata={self.data}"],
            capture_output=True,
            text=True,
            check=False,
            cwd=self.directory,
            **self._as,
        )
        assert done.returncode == 0, done.stderr

    def start(self, **settings: str) -> PostgresServer:
        """Start it, and wait until it takes connections."""
        assert self._process is None
        options = {
            "listen_addresses": "",
            "unix_socket_directories": str(self.directory),
            "port": str(self.port),
            **self._settings,
            **settings,
        }
        words = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [program("postgres"), "-D", self.data, *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.directory,
                start_new_session=True,
                **self._as,
            )
        watchdog = Watchdog("PostgreSQL")
        while True:
            try:
                psycopg.connect(self.url("postgres")).close()
                return self
            except psycopg.OperationalError:
                assert self._process.poll() is None, self.log.read_text()
                watchdog.check()
                time.sleep(0.02)

    def kill(self) -> None:
        """Kill the server and all its sessions, without a chance to tidy up."""
        assert self._process is not None
        family = [self._process.pid]
        with contextlib.suppress(psutil.NoSuchProcess):
            family += [p.pid for p in psutil.Process(self._process.pid).children(recursive=True)]
        for pid in family:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()
        self._process = None
        # A session that is not quite dead would keep the next server from starting.
        for pid in family:
            while psutil.pid_exists(pid):
                time.sleep(0.005)

    def stop(self) -> None:
        """End it in an orderly way. Harmless when repeated."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)  # "fast": sessions are ended
            self._process.wait()
            self._process = None

    @property
    def pid(self) -> int:
        """The process that all its others belong to."""
        assert self._process is not None
        return self._process.pid

    def url(self, database: str = "postgres", host: str | None = None) -> str:
        """The address of a database."""
        return f"postgresql://lanekit@/{database}?host={host or self.directory}&port={self.port}"

    def connect(self, database: str = "postgres") -> psycopg.Connection[Any]:
        """A connection for the test itself."""
        return psycopg.connect(self.url(database), autocommit=True)

    def fresh_store(self) -> str:
        """A database without a store."""
        with self.connect() as connection:
            connection.execute("DROP SCHEMA IF EXISTS lanekit CASCADE")
        return self.url()


@contextlib.contextmanager
def running_server(**settings: str) -> Iterator[PostgresServer]:
    """A new server, gone afterwards."""
    directory = Path(tempfile.mkdtemp(prefix="lk-pg-"))
    try:
        server = PostgresServer(directory, **settings)
        server.initialise()
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(directory)
