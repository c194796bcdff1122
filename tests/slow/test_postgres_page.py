"""The commands and the query of docs/postgresql.md, over a real server."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from postgres_server import PostgresServer, program

from patience import patience, until

pytestmark = pytest.mark.once

WORKER = """
from lanekit.slow import emit
emit.run_started()
for step, loss in enumerate((0.5, 0.25, 0.75)):
    emit.step(0, step, reward=1.0, info={"loss": loss})
emit.step(0, 3, reward=1.0)
emit.run_completed()
"""


@pytest.fixture
def blocks(root: Path) -> dict[str, str]:
    """The page's blocks by language."""
    page = (root / "docs" / "postgresql.md").read_text(encoding="utf-8")
    return dict(re.findall(r"^```(console|sql)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL))


@pytest.fixture
def environment(postgres_server: PostgresServer, short_directory: Path) -> dict[str, str]:
    found = [str(program("createdb").parent), str(Path(sys.executable).parent)]
    return {
        **os.environ,
        "LANEKIT_STATE": str(short_directory),
        "LANEKIT_DAEMON": f"unix:{short_directory}/d.sock",
        "PATH": os.pathsep.join([*found, os.environ["PATH"]]),
        "PGHOST": str(postgres_server.directory),
        "PGPORT": str(postgres_server.port),
        "PGUSER": "lanekit",
    }


@pytest.fixture
def url(postgres_server: PostgresServer) -> Iterator[str]:
    yield postgres_server.url("lanekit")
    with postgres_server.connect() as connection:
        connection.execute("DROP DATABASE IF EXISTS lanekit WITH (FORCE)")


def test_a_database_takes_the_place_of_the_file_as_written(
    blocks: dict[str, str], environment: dict[str, str], url: str, short_directory: Path
) -> None:
    written = blocks["console"].replace("postgresql://lanekit@db.example/lanekit", shlex.quote(url))
    install, create, daemon, runs = re.findall(r"^\$ (.*?)(?:\s+#.*)?$", written, re.MULTILINE)
    assert install.startswith("pip install")
    subprocess.run(create, shell=True, env=environment, timeout=patience(100), check=True)
    with subprocess.Popen(
        f"exec {daemon} --socket {short_directory}/d.sock",
        shell=True,
        env=environment,
        stdout=subprocess.DEVNULL,
    ) as running:
        until((short_directory / "d.sock").exists)
        proxy = [sys.executable, "-m", "lanekit", "proxy", "--run", "paged", "--"]
        work = [*proxy, sys.executable, "-c", WORKER]
        subprocess.run(work, env=environment, timeout=patience(100), check=True)
        listed = subprocess.run(
            runs,
            shell=True,
            env=environment,
            timeout=patience(100),
            check=True,
            capture_output=True,
        )
        assert b"paged" in listed.stdout
        assert b"completed" in listed.stdout
        with psycopg.connect(url) as connection:
            assert connection.execute(blocks["sql"]).fetchall() == [("paged", 0.5)]
        running.send_signal(signal.SIGTERM)
    assert not (short_directory / "lanekit.db").exists()
