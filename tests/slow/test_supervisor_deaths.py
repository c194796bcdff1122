"""What the death of a daemon, a proxy or a worker does to runs that the daemon started."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from daemon_process import DaemonProcess, event_names, run_of
from submitted_runs import (
    A_SHORT_LIFE,
    PRELUDE,
    STEPS_UNTIL_TOLD,
    MakeDaemon,
    alive,
    check_all_arrives,
    proxy_of,
    spool_of,
    step_numbers,
    submit,
    submit_steps,
    wait_for,
    worker_of,
)

from lanekit.slow.daemon.patience import Patience
from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.proto.telemetry_pb2_grpc import TrainerServiceStub
from lanekit.slow.store.sqlite_store import TelemetrySQLiteStore
from patience import until


@pytest.mark.once
def test_a_killed_proxy_is_replaced_and_nothing_is_lost(
    daemon: DaemonProcess, stub: TrainerServiceStub, tmp_path: Path
) -> None:
    stop = tmp_path / "stop"
    submit_steps(stub, stop)
    spool = spool_of(daemon, "r")
    worker = worker_of(spool)
    for kills in range(1, 4):
        proxy = proxy_of(spool)
        os.kill(proxy, signal.SIGKILL)
        until(lambda n=kills: event_names(stub, "r").count("proxy_restarted") == n)
        until(lambda p=proxy: proxy_of(spool) != p)
        before = run_of(stub, "r").steps
        until(lambda b=before: run_of(stub, "r").steps > b + 50)
        assert worker_of(spool) == worker
        assert alive(worker)
    check_all_arrives(stub, stop)
    assert event_names(stub, "r").count("run_started") == 1


@pytest.mark.once
def test_however_often_a_proxy_is_killed_it_is_replaced(
    make_daemon: MakeDaemon, tmp_path: Path
) -> None:
    daemon = make_daemon(patience__MAX_DELAY=0.1).start()
    stop = tmp_path / "stop"
    with daemon.connect() as stub:
        submit_steps(stub, stop)
        spool = spool_of(daemon, "r")
        for _ in range(8):
            proxy = proxy_of(spool)
            os.kill(proxy, signal.SIGKILL)
            until(lambda p=proxy: proxy_of(spool) != p)
        check_all_arrives(stub, stop)
        assert "proxy_given_up" not in event_names(stub, "r")


def test_only_a_proxy_that_fails_by_itself_is_given_up_and_not_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spool = Path("/spool")
    killed = Patience()
    delays = [killed.delay(spool, 0.5, -signal.SIGKILL) for _ in range(40)]
    assert delays == sorted(delays)  # type: ignore[type-var]
    assert (delays[0], delays[-1]) == (0.0, 30.0)
    assert killed.delay(spool, 0.5, None) == 30.0  # unknown: not this daemon's child
    assert killed.delay(spool, 0.5, 75) == 30.0  # the daemon was away
    assert killed.delay(spool, 60.0, -signal.SIGKILL) == 0.0

    failing = Patience()
    outcomes = [failing.delay(spool, 0.5, 1) for _ in range(6)]
    assert None not in outcomes[:5]
    assert outcomes[5] is None
    assert failing.delay(spool, 60.0, 76) is None  # refused, however long it took
    monkeypatch.setattr("lanekit.slow.daemon.patience.REVISIT", 0.0)
    failing.give_up(spool)
    assert failing.is_due(spool)
    monkeypatch.setattr("lanekit.slow.daemon.patience.REVISIT", 600.0)
    failing.forget(spool)
    assert [failing.give_up(spool) for _ in range(10)][::9] == [600.0, 86400.0]
    assert not failing.is_due(spool)


@pytest.mark.once
def test_a_run_says_why_its_proxy_was_given_up(make_daemon: MakeDaemon, tmp_path: Path) -> None:
    """A store that was replaced has less than it acknowledged, which no proxy can mend."""
    daemon = make_daemon().start()
    stop = tmp_path / "stop"
    with daemon.connect() as stub:
        submit_steps(stub, stop)
    # The proxy, too, must know of it: what it thinks unsent it simply sends again.
    checkpoint = spool_of(daemon, "r") / "checkpoint.json"
    until(lambda: json.loads(checkpoint.read_bytes())["next_seq"]["steps"] > 10)
    daemon.kill()
    stop.touch()
    for file in daemon.directory.glob("lanekit.db*"):
        file.unlink()
    daemon.start()
    with daemon.connect() as stub:
        until(lambda: "r" in [run.run_id for run in stub.ListRuns(pb.ListRunsRequest()).runs])
        until(lambda: "proxy_given_up" in event_names(stub, "r"))
        run = until(lambda: (found := run_of(stub, "r")).reason and found)
    assert f"lanekit proxy --adopt {spool_of(daemon, 'r')}" in run.reason


def test_a_run_whose_daemon_ended_before_its_worker_began_fails(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon()
    with TelemetrySQLiteStore.open(daemon.store) as store:
        store.create_run("r", command=["train"])
        store.create_run("by-hand")
    (daemon.spools / "r-0123abcd").mkdir(parents=True)  # made, but its proxy came no further
    daemon.start()
    with daemon.connect() as stub:
        run = wait_for(stub, "r", pb.RUN_STATE_FAILED)
        assert run.reason == "the daemon ended before the worker was started; submit it again"
        assert run.ended_wall_time_ns > 0
        assert run_of(stub, "by-hand").state == pb.RUN_STATE_SUBMITTED


@pytest.mark.once
def test_a_daemon_and_a_proxy_that_are_killed_right_after_submit_leave_nothing_undecided(
    make_daemon: MakeDaemon,
) -> None:
    daemon = make_daemon(supervisor__SWEEP_INTERVAL=0.5).start()
    for number in range(4):
        with daemon.connect() as stub:
            submit(stub, A_SHORT_LIFE, run_id=f"r{number}")
        time.sleep(0.1 * number)
        daemon.kill()
        spool = spool_of(daemon, f"r{number}")
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                words = path.read_bytes().split(b"\0")
                if b"proxy" in words and os.fsencode(spool) in words:
                    os.kill(int(path.parent.name), signal.SIGKILL)
        daemon.start()
    with daemon.connect() as stub:
        for number in range(4):
            wait_for(stub, f"r{number}", pb.RUN_STATE_FAILED, pb.RUN_STATE_COMPLETED)


def test_the_next_daemon_finds_the_proxies_of_the_last_one(
    make_daemon: MakeDaemon, tmp_path: Path
) -> None:
    """Killed daemon, living proxy: it reconnects by itself, and is watched again."""
    daemon = make_daemon().start()
    stop = tmp_path / "stop"
    with daemon.connect() as stub:
        submit_steps(stub, stop)
    spool = spool_of(daemon, "r")
    proxy, worker = proxy_of(spool), worker_of(spool)
    daemon.kill()
    assert alive(proxy)
    assert alive(worker)
    daemon.start()
    with daemon.connect() as stub:
        before = run_of(stub, "r").steps
        until(lambda: run_of(stub, "r").steps > before + 50)
        assert proxy_of(spool) == proxy
        assert "proxy_restarted" not in event_names(stub, "r")
        os.kill(proxy, signal.SIGKILL)  # not this daemon's child, and noticed all the same
        until(lambda: "proxy_restarted" in event_names(stub, "r"))
        check_all_arrives(stub, stop)


@pytest.mark.once
def test_the_next_daemon_adopts_what_died_with_the_last_one(
    make_daemon: MakeDaemon, tmp_path: Path
) -> None:
    """Daemon and proxy killed, worker alive: it goes on, and so does its telemetry."""
    daemon = make_daemon().start()
    stop = tmp_path / "stop"
    with daemon.connect() as stub:
        submit_steps(stub, stop)
    spool = spool_of(daemon, "r")
    proxy, worker = proxy_of(spool), worker_of(spool)
    daemon.kill()
    os.kill(proxy, signal.SIGKILL)
    until(lambda: not alive(proxy))
    assert alive(worker)
    daemon.start()
    with daemon.connect() as stub:
        before = run_of(stub, "r").steps
        until(lambda: run_of(stub, "r").steps > before + 50)
        assert event_names(stub, "r").count("proxy_restarted") == 1
        assert worker_of(spool) == worker
        check_all_arrives(stub, stop)
    assert daemon.stop() == 0
    # All is finished: the daemon after that has nothing to adopt.
    daemon.start()
    with daemon.connect() as stub:
        assert event_names(stub, "r").count("proxy_restarted") == 1


def test_a_worker_that_died_unseen_is_never_started_again(
    make_daemon: MakeDaemon, tmp_path: Path
) -> None:
    daemon = make_daemon().start()
    with daemon.connect() as stub:
        submit_steps(stub, tmp_path / "stop")
    spool = spool_of(daemon, "r")
    keeper = json.loads((spool / "worker.json").read_text()).get("keeper_pid")
    victims = [proxy_of(spool), worker_of(spool), *([keeper] if keeper else [])]
    daemon.kill()
    for victim in victims:
        os.kill(victim, signal.SIGKILL)
    daemon.start()
    with daemon.connect() as stub:
        run = wait_for(stub, "r", pb.RUN_STATE_LOST, pb.RUN_STATE_FAILED)
        numbers = step_numbers(stub, "r")
        assert numbers == list(range(len(numbers)))
        assert event_names(stub, "r").count("run_started") == 1
        assert not run.HasField("exit_status") or run.exit_status == -signal.SIGKILL
        assert len(list(daemon.spools.glob("r-*"))) == 1


def test_an_orderly_end_of_the_daemon_leaves_workers_running(
    make_daemon: MakeDaemon, tmp_path: Path
) -> None:
    daemon = make_daemon().start()
    stop = tmp_path / "stop"
    with daemon.connect() as stub:
        submit_steps(stub, stop)
    spool = spool_of(daemon, "r")
    assert daemon.stop() == 0
    assert alive(proxy_of(spool))
    assert alive(worker_of(spool))
    daemon.start()
    stop.touch()
    with daemon.connect() as stub:
        check_all_arrives(stub, stop)
        assert "proxy_restarted" not in event_names(stub, "r")


@pytest.mark.once
def test_a_proxy_that_was_started_by_hand_is_replaced_too(
    make_daemon: MakeDaemon, tmp_path: Path
) -> None:
    daemon = make_daemon(supervisor__SWEEP_INTERVAL=0.5).start()
    stop, spool = tmp_path / "stop", daemon.spools / "by-hand"
    script = PRELUDE + STEPS_UNTIL_TOLD
    proxy = subprocess.Popen(
        [
            *(sys.executable, "-m", "lanekit", "proxy", "--run", "r", "--spool", str(spool)),
            *("--daemon", daemon.target, "--", sys.executable, "-c", script, str(stop)),
        ]
    )
    with daemon.connect() as stub:
        until(lambda: "r" in [run.run_id for run in stub.ListRuns(pb.ListRunsRequest()).runs])
        proxy.kill()
        proxy.wait()
        stop.touch()
        until(lambda: "proxy_restarted" in event_names(stub, "r"))
        run = check_all_arrives(stub, stop)
        assert not run.command
