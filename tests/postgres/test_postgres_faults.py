"""PostgreSQL killed, cut off, locked and full under traffic: every row is there, and once."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import campaign
import numbered_worker
import pytest
from campaign import House
from postgres_server import PostgresServer, running_server
from recording_daemon import Relay
from small_disk import fill, small_disk_at
from tallied_runs import begin, finish, written

from lanekit.slow.daemon_client import DaemonClient
from patience import until

pytestmark = pytest.mark.once

COUNT = 20_000
TOTAL = len(numbered_worker.output(COUNT))


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with running_server() as made:
        yield made


@pytest.fixture
def home(server: PostgresServer) -> Iterator[House]:
    server.fresh_store()
    with campaign.house(server=server) as made:
        made.client().close()
        yield made


def test_a_short_campaign_that_kills_the_server_too_loses_nothing_and_repeats_nothing(
    server: PostgresServer,
) -> None:
    server.fresh_store()
    kills, compared = campaign.run_campaign(
        10, 20_30, "normal", count=COUNT, rate=8_000, server=server
    )
    assert kills["server"] > 0
    assert kills["daemon"] > 0
    assert compared.steps > 0


def test_a_connection_cut_within_copies_and_commits_loses_nothing_and_repeats_nothing(
    server: PostgresServer, short_directory: Path
) -> None:
    server.fresh_store()
    with Relay(short_directory, f"{server.directory}/.s.PGSQL.{server.port}", ".s.PGSQL.5432") as (
        relay
    ):
        through = PostgresServer.__new__(PostgresServer)
        through.directory, through.port = short_directory, server.port
        with campaign.house(server=through) as home:
            home.client().close()
            command, tally = begin(home, "cut", COUNT, 4_000)
            with DaemonClient(home.target) as client:
                client.submit_run(run_id="cut", command=command)
                until(lambda: written(tally) > 0, "the worker's first bytes")
                for cut, budget in enumerate((100, 7_000, 50_000, 200_000, 3), relay.cuts + 1):
                    relay.budget = budget
                    until(lambda cut=cut: relay.cuts >= cut, "a cut")
                relay.budget = None
                finish(home, "cut", COUNT, tally)


def test_a_table_locked_by_somebody_else_makes_everybody_wait_and_lose_nothing(
    home: House,
) -> None:
    assert home.server is not None
    command, tally = begin(home, "locked", COUNT, 0)
    with DaemonClient(home.target) as client, home.server.connect() as other:
        client.submit_run(run_id="locked", command=command)
        until(lambda: written(tally) > 0, "the worker's first bytes")
        with other.transaction():
            other.execute("LOCK TABLE lanekit.steps IN ACCESS EXCLUSIVE MODE")
            until(lambda: written(tally) == TOTAL, "the worker to have written all")
            time.sleep(2)  # longer than one attempt waits for a lock
        finish(home, "locked", COUNT, tally)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a disk to the server's user")
def test_a_full_disk_under_the_tables_stalls_the_daemon_until_there_is_room(
    server: PostgresServer,
) -> None:
    with small_disk_at(server.directory / "disk", "40m") as disk:
        tables = disk / "tables"
        tables.mkdir()
        owner = server.data.stat()
        os.chown(tables, owner.st_uid, owner.st_gid)
        with server.connect() as connection:
            connection.execute(f"CREATE TABLESPACE small LOCATION '{tables}'")
            connection.execute("CREATE DATABASE small TABLESPACE small")
        narrow = PostgresServer.__new__(PostgresServer)
        narrow.url = lambda *_: server.url("small")  # type: ignore[method-assign]
        with campaign.house(server=narrow) as home:
            home.client().close()
            ballast = disk / "ballast"
            command, tally = begin(home, "full", COUNT, 0)
            with DaemonClient(home.target) as client:
                client.submit_run(run_id="full", command=command)
                until(lambda: written(tally) > 0, "the worker's first bytes")
                fill(ballast)
                until(
                    lambda: "disk full" in (home.directory / "daemon.log").read_text(),
                    "the daemon to say so",
                )
                ballast.unlink()
                finish(home, "full", COUNT, tally)
        with server.connect() as connection:
            connection.execute("DROP DATABASE small")
            connection.execute("DROP TABLESPACE small")
