"""Real processes killed, cut off and starved, from one end of the slow lane to the other."""

from __future__ import annotations

import os
import random
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import campaign
import pytest
from campaign import House, compare, compare_files, settled
from recording_daemon import Relay
from small_disk import fill, small_disk_at
from tallied_runs import begin, finish, written

from lanekit.slow.daemon_client import DaemonClient
from patience import patience, until

pytestmark = pytest.mark.once


@pytest.fixture
def home() -> Iterator[House]:
    with campaign.house() as made:
        made.client().close()
        yield made


def proxied(home: House, run_id: str, command: list[str], target: str) -> subprocess.Popen[bytes]:
    """Start a proxy by hand, its spool in the house."""
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "lanekit", "proxy", f"--run={run_id}", f"--daemon={target}"),
            *(f"--spool={home.directory / 'by-hand' / run_id}", "--", *command),
        ],
        env={**os.environ, "LANEKIT_STATE": str(home.directory)},
    )


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 48 MB."""
    with small_disk_at(tmp_path / "disk", "48m") as disk:
        yield disk


def test_a_short_campaign_of_kills_loses_nothing_and_repeats_nothing() -> None:
    kills, compared = campaign.run_campaign(16, 20_26, "normal", count=20_000, rate=8_000)
    assert kills.total() >= 16
    assert compared.steps > 0


def test_a_socket_cut_within_batches_loses_nothing_and_repeats_nothing(home: House) -> None:
    count = 20_000
    chance = random.Random(7)
    command, tally = begin(home, "cut", count, 10_000)
    with Relay(home.directory, str(home.socket)) as relay:
        proxy = proxied(home, "cut", command, relay.target)
        for cut in range(1, 5):
            relay.budget = chance.randrange(1, 100_000)
            until(lambda cut=cut: relay.cuts >= cut or proxy.poll() is not None, "a cut")
        relay.budget = None
        assert proxy.wait(timeout=patience(120)) == 0
        assert relay.cuts >= 4
    spool = home.directory / "by-hand" / "cut"
    assert settled(spool)
    verdict = compare(home.store, "cut", count, written(tally), whole=True)
    compare_files(spool, count, written(tally), verdict, whole=True)


def test_a_store_locked_by_another_process_makes_everybody_wait_and_lose_nothing(
    home: House,
) -> None:
    count = 20_000
    command, tally = begin(home, "locked", count, 0)
    with DaemonClient(home.target) as client:
        client.submit_run(run_id="locked", command=command)
        until(lambda: written(tally) > 0, "the worker's first bytes")
        locker = sqlite3.connect(home.store, timeout=patience(), isolation_level=None)
        locker.execute("BEGIN IMMEDIATE")
        until(lambda: written(tally) > 1_000_000, "the worker to have written all")
        time.sleep(2)
        locker.execute("ROLLBACK")
        locker.close()
        finish(home, "locked", count, tally)


def test_a_full_disk_under_the_store_stalls_it_until_there_is_room(small_disk: Path) -> None:
    with campaign.house(store_directory=small_disk) as home:
        home.client().close()
        ballast = small_disk / "ballast"
        count = 30_000
        command, tally = begin(home, "full", count, 0)
        with DaemonClient(home.target) as client:
            client.submit_run(run_id="full", command=command)
            until(lambda: written(tally) > 0, "the worker's first bytes")
            fill(ballast)
            until(lambda: written(tally) > 3_000_000, "the worker to have written all")
            time.sleep(2)
            ballast.unlink()
            finish(home, "full", count, tally)
