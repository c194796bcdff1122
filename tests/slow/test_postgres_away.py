"""PostgreSQL's server killed under traffic; tests/postgres has what takes longer."""

from __future__ import annotations

import campaign
import numbered_worker
import pytest
from campaign import House
from postgres_server import PostgresServer
from tallied_runs import begin, finish, written

from lanekit.slow.daemon_client import DaemonClient
from patience import until

pytestmark = pytest.mark.once

COUNT = 10_000
TOTAL = len(numbered_worker.output(COUNT))


def journal_bytes(home: House, run_id: str) -> int:
    """What waits in the run's spool."""
    return sum(file.stat().st_size for file in home.directory.glob(f"spool/{run_id}-*/journal-*"))


def test_while_the_server_is_away_events_wait_in_the_spool_and_then_catch_up(
    postgres_server: PostgresServer,
) -> None:
    postgres_server.fresh_store()
    with campaign.house(server=postgres_server) as home:
        home.client().close()
        loses_nothing_while_away(home, postgres_server)


def loses_nothing_while_away(home: House, server: PostgresServer) -> None:
    command, tally = begin(home, "away", COUNT, 2_500)
    with DaemonClient(home.target) as client:
        client.submit_run(run_id="away", command=command)
        until(lambda: written(tally) > 0, "the worker's first bytes")
        server.kill()
        # The worker is not held back, and nothing is acknowledged: it is all in the spool.
        until(lambda: written(tally) == TOTAL, "the worker to have written all")
        assert journal_bytes(home, "away") > 0
        server.start()
        finish(home, "away", COUNT, tally)
