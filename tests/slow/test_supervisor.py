"""Runs that the daemon starts: real workers under real proxies, and what a kill does to them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from daemon_process import (
    DaemonProcess,
    event_names,
    failure_of,
    history,
    run_of,
    until,
)

from lanekit import FastLaneReader, SegmentError, segment_name
from lanekit.segments import segment_path
from lanekit.slow.daemon.patience import Patience
from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.proto.telemetry_pb2_grpc import TrainerServiceStub
from lanekit.slow.store.sqlite_store import TelemetrySQLiteStore

MakeDaemon = Callable[..., DaemonProcess]

PRELUDE = """
import json, os, signal, sys, time
def say(**line):
    print(json.dumps(line), flush=True)
def step(number):
    say(event_type="step", episode_index=0, step_index=number, reward=1.0, action=number)
"""
A_SHORT_LIFE = """
say(event="run_started")
for number in range(500):
    step(number)
print("a print that is no telemetry")
say(event="run_completed")
"""
STEPS_UNTIL_TOLD = """
say(event="run_started")
number = 0
while not os.path.exists(sys.argv[1]):
    step(number)
    number += 1
    time.sleep(0.001)
print(number, file=open(sys.argv[1] + ".count", "w"))
say(event="run_completed")
"""
DEAF = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
say(event="run_started")
while True:
    time.sleep(1)
"""


def submit(stub: TrainerServiceStub, script: str, *arguments: str, **more: Any) -> Any:
    command = [sys.executable, "-c", PRELUDE + script, *arguments]
    request = pb.SubmitRunRequest(command=command, **more)
    return stub.SubmitRun(request, timeout=60).run


def wait_for(stub: TrainerServiceStub, run: str, *states: Any) -> Any:
    def there() -> Any:
        found = run_of(stub, run)
        return found if found.state in states else None

    return until(there, timeout=90)


def spool_of(daemon: DaemonProcess, run: str) -> Path:
    (spool,) = daemon.spools.glob(f"{run}-*")
    return spool


def proxy_of(spool: Path) -> int:
    """The process that sends from a spool now."""
    return int(until(lambda: (spool / "lock").exists() and (spool / "lock").read_text().strip()))


def worker_of(spool: Path) -> int:
    until((spool / "worker.json").exists)
    return int(json.loads((spool / "worker.json").read_text())["pid"])


def alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def step_numbers(stub: TrainerServiceStub, run: str) -> list[int]:
    return [step.step for step in history(stub, run)]


def test_a_submitted_worker_runs_and_its_events_are_stored(
    daemon: DaemonProcess, stub: TrainerServiceStub
) -> None:
    run = submit(stub, A_SHORT_LIFE, run_id="short", worker_id="w7", config_json=b'{"lr": 1}')
    assert run.run_id == "short"
    assert run.command[0] == sys.executable
    run = wait_for(stub, "short", pb.RUN_STATE_COMPLETED)
    run = until(lambda: (r := run_of(stub, "short")).HasField("exit_status") and r)
    assert (run.steps, run.exit_status, run.config_json) == (500, 0, b'{"lr": 1}')
    assert step_numbers(stub, "short") == list(range(500))
    assert event_names(stub, "short") == ["run_started", "run_completed", "worker_exited"]
    assert {step.worker_id for step in history(stub, "short")} == {"w7"}
    log = (spool_of(daemon, "short") / "worker.log").read_text()
    assert "a print that is no telemetry" in log


def test_a_run_gets_an_id_when_none_is_given(stub: TrainerServiceStub) -> None:
    names = {submit(stub, A_SHORT_LIFE).run_id for _ in range(3)}
    assert len(names) == 3
    for name in names:
        wait_for(stub, name, pb.RUN_STATE_COMPLETED)


def test_the_worker_gets_its_environment_directory_and_configuration(
    stub: TrainerServiceStub, tmp_path: Path
) -> None:
    submit(
        stub,
        """
names = ("LANEKIT_RUN_ID", "LANEKIT_WORKER_ID", "LANEKIT_CONFIG_JSON", "COLOUR")
say(event="seen", payload={**{n: os.environ.get(n) for n in names}, "cwd": os.getcwd()})
""",
        run_id="env",
        worker_id="w",
        environment={"COLOUR": "blue = green"},
        working_directory=str(tmp_path),
        config_json=b'{"a": [1, 2]}',
    )
    wait_for(stub, "env", pb.RUN_STATE_COMPLETED)
    (page,) = stub.StreamRunEvents(pb.StreamRunEventsRequest(run_id="env", history_only=True))
    assert json.loads(page.events[0].payload_json) == {
        "LANEKIT_RUN_ID": "env",
        "LANEKIT_WORKER_ID": "w",
        "LANEKIT_CONFIG_JSON": '{"a": [1, 2]}',
        "COLOUR": "blue = green",
        "cwd": str(tmp_path),
    }


def test_frames_of_a_submitted_worker_are_mirrored_also_by_the_proxy_that_replaces_its_first(
    daemon: DaemonProcess, stub: TrainerServiceStub, run_id: str, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    submit(
        stub,
        """
import base64, itertools
for value in itertools.count():
    pixels = base64.b64encode(bytes([value % 256]) * 48).decode()
    frame = dict(width=4, height=4, channels=3, pixels=pixels)
    say(event_type="step", episode_index=0, step_index=value, frame=frame)
    time.sleep(0.01)
    if os.path.exists(sys.argv[1]):
        break
""",
        str(go),
        run_id=run_id,
        mirror_frames=True,
    )

    def shown() -> bool:
        try:
            with FastLaneReader.attach(run_id) as reader:
                return reader.latest_frame() is not None
        except SegmentError:
            return False

    until(shown)
    spool = spool_of(daemon, run_id)
    first = proxy_of(spool)
    os.kill(first, signal.SIGKILL)
    until(lambda: proxy_of(spool) != first and shown())
    go.touch()
    wait_for(stub, run_id, pb.RUN_STATE_COMPLETED)
    until(lambda: not segment_path(segment_name("frame", run_id)).exists())


def test_the_same_id_is_not_submitted_twice(stub: TrainerServiceStub) -> None:
    submit(stub, A_SHORT_LIFE, run_id="once")
    error = failure_of(lambda: submit(stub, A_SHORT_LIFE, run_id="once"))
    assert error.code() is grpc.StatusCode.ALREADY_EXISTS
    wait_for(stub, "once", pb.RUN_STATE_COMPLETED)
    assert step_numbers(stub, "once") == list(range(500))


@pytest.mark.parametrize(
    ("script", "status", "state"),
    [
        ("sys.exit(3)", 3, pb.RUN_STATE_FAILED),
        ("os.kill(os.getpid(), signal.SIGKILL)", -9, pb.RUN_STATE_FAILED),
        ("pass", 0, pb.RUN_STATE_COMPLETED),
    ],
)
def test_how_a_worker_ended_is_recorded(
    stub: TrainerServiceStub, script: str, status: int, state: Any
) -> None:
    submit(stub, f'say(event="run_started")\nstep(0)\n{script}', run_id="end")
    run = wait_for(stub, "end", pb.RUN_STATE_FAILED, pb.RUN_STATE_COMPLETED)
    assert (run.state, run.exit_status) == (state, status)
    assert run.ended_wall_time_ns > 0
    assert step_numbers(stub, "end") == [0]


def test_a_program_that_does_not_exist_fails_the_run(stub: TrainerServiceStub) -> None:
    request = pb.SubmitRunRequest(run_id="none", command=["/no/such/program"])
    stub.SubmitRun(request, timeout=60)
    run = wait_for(stub, "none", pb.RUN_STATE_FAILED)
    assert run.exit_status == 127
    assert "/no/such/program" in run.reason


def test_cancelling_ends_a_worker_that_listens(
    daemon: DaemonProcess, stub: TrainerServiceStub, tmp_path: Path
) -> None:
    submit(stub, STEPS_UNTIL_TOLD, str(tmp_path / "stop"), run_id="r")
    until(lambda: run_of(stub, "r").steps > 10)
    worker = worker_of(spool_of(daemon, "r"))
    run = stub.CancelRun(pb.CancelRunRequest(run_id="r"), timeout=60).run
    assert run.state == pb.RUN_STATE_CANCELLED
    assert not alive(worker)
    run = until(lambda: (r := run_of(stub, "r")).HasField("exit_status") and r)
    assert (run.state, run.exit_status) == (pb.RUN_STATE_CANCELLED, -signal.SIGTERM)
    numbers = step_numbers(stub, "r")
    assert numbers == list(range(len(numbers)))


def test_cancelling_ends_a_worker_that_does_not_listen(
    daemon: DaemonProcess, stub: TrainerServiceStub
) -> None:
    submit(stub, DEAF, run_id="deaf")
    wait_for(stub, "deaf", pb.RUN_STATE_RUNNING)
    worker = worker_of(spool_of(daemon, "deaf"))
    request = pb.CancelRunRequest(run_id="deaf", grace_seconds=0.3)
    assert stub.CancelRun(request, timeout=60).run.state == pb.RUN_STATE_CANCELLED
    assert not alive(worker)
    run = until(lambda: (r := run_of(stub, "deaf")).HasField("exit_status") and r)
    assert run.exit_status == -signal.SIGKILL


def test_cancelling_at_once_leaves_no_worker_behind(
    daemon: DaemonProcess, stub: TrainerServiceStub
) -> None:
    submit(stub, DEAF, run_id="quick")
    request = pb.CancelRunRequest(run_id="quick", grace_seconds=0)
    assert stub.CancelRun(request, timeout=60).run.state == pb.RUN_STATE_CANCELLED
    spool = spool_of(daemon, "quick")
    assert not (spool / "worker.json").exists() or not alive(worker_of(spool))


@pytest.mark.once
def test_a_killed_proxy_is_replaced_and_nothing_is_lost(
    daemon: DaemonProcess, stub: TrainerServiceStub, tmp_path: Path
) -> None:
    stop = tmp_path / "stop"
    submit(stub, STEPS_UNTIL_TOLD, str(stop), run_id="r")
    until(lambda: run_of(stub, "r").steps > 10)
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
    stop.touch()
    wait_for(stub, "r", pb.RUN_STATE_COMPLETED)
    count = int(until(lambda: Path(f"{stop}.count").read_text()))
    until(lambda: run_of(stub, "r").steps >= count)
    assert step_numbers(stub, "r") == list(range(count))
    assert event_names(stub, "r").count("run_started") == 1


@pytest.mark.once
def test_however_often_a_proxy_is_killed_it_is_replaced(
    make_daemon: MakeDaemon, tmp_path: Path
) -> None:
    daemon = make_daemon(patience__MAX_DELAY=0.1).start()
    stop = tmp_path / "stop"
    with daemon.connect() as stub:
        submit(stub, STEPS_UNTIL_TOLD, str(stop), run_id="r")
        until(lambda: run_of(stub, "r").steps > 10)
        spool = spool_of(daemon, "r")
        for _ in range(8):
            proxy = proxy_of(spool)
            os.kill(proxy, signal.SIGKILL)
            until(lambda p=proxy: proxy_of(spool) != p)
        stop.touch()
        wait_for(stub, "r", pb.RUN_STATE_COMPLETED)
        count = int(until(lambda: Path(f"{stop}.count").read_text()))
        until(lambda: run_of(stub, "r").steps >= count)
        assert step_numbers(stub, "r") == list(range(count))
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
        submit(stub, STEPS_UNTIL_TOLD, str(stop), run_id="r")
        until(lambda: run_of(stub, "r").steps > 10)
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


def test_a_worker_may_be_called_like_an_option(stub: TrainerServiceStub) -> None:
    submit(stub, A_SHORT_LIFE, run_id="r", worker_id="--adopt")
    wait_for(stub, "r", pb.RUN_STATE_COMPLETED)
    assert {step.worker_id for step in history(stub, "r")} == {"--adopt"}


def test_the_next_daemon_finds_the_proxies_of_the_last_one(
    make_daemon: MakeDaemon, tmp_path: Path
) -> None:
    """Killed daemon, living proxy: it reconnects by itself, and is watched again."""
    daemon = make_daemon().start()
    stop = tmp_path / "stop"
    with daemon.connect() as stub:
        submit(stub, STEPS_UNTIL_TOLD, str(stop), run_id="r")
        until(lambda: run_of(stub, "r").steps > 10)
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
        stop.touch()
        wait_for(stub, "r", pb.RUN_STATE_COMPLETED)
        count = int(until(lambda: Path(f"{stop}.count").read_text()))
        until(lambda: run_of(stub, "r").steps >= count)
        assert step_numbers(stub, "r") == list(range(count))


@pytest.mark.once
def test_the_next_daemon_adopts_what_died_with_the_last_one(
    make_daemon: MakeDaemon, tmp_path: Path
) -> None:
    """Daemon and proxy killed, worker alive: it goes on, and so does its telemetry."""
    daemon = make_daemon().start()
    stop = tmp_path / "stop"
    with daemon.connect() as stub:
        submit(stub, STEPS_UNTIL_TOLD, str(stop), run_id="r")
        until(lambda: run_of(stub, "r").steps > 10)
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
        stop.touch()
        wait_for(stub, "r", pb.RUN_STATE_COMPLETED)
        count = int(until(lambda: Path(f"{stop}.count").read_text()))
        until(lambda: run_of(stub, "r").steps >= count)
        assert step_numbers(stub, "r") == list(range(count))
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
        submit(stub, STEPS_UNTIL_TOLD, str(tmp_path / "stop"), run_id="r")
        until(lambda: run_of(stub, "r").steps > 10)
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
        submit(stub, STEPS_UNTIL_TOLD, str(stop), run_id="r")
        until(lambda: run_of(stub, "r").steps > 10)
    spool = spool_of(daemon, "r")
    assert daemon.stop() == 0
    assert alive(proxy_of(spool))
    assert alive(worker_of(spool))
    daemon.start()
    stop.touch()
    with daemon.connect() as stub:
        wait_for(stub, "r", pb.RUN_STATE_COMPLETED)
        count = int(until(lambda: Path(f"{stop}.count").read_text()))
        until(lambda: run_of(stub, "r").steps >= count)
        assert step_numbers(stub, "r") == list(range(count))
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
        run = wait_for(stub, "r", pb.RUN_STATE_COMPLETED)
        count = int(until(lambda: Path(f"{stop}.count").read_text()))
        until(lambda: run_of(stub, "r").steps >= count)
        assert step_numbers(stub, "r") == list(range(count))
        assert not run.command


def test_proxies_bring_the_token_that_the_daemon_wants(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon()
    token = daemon.directory / "token"
    token.write_text("correct-horse-battery-staple")
    token.chmod(0o600)
    daemon.options = ("--token-file", str(token))
    daemon.start()
    metadata = (("authorization", "Bearer correct-horse-battery-staple"),)
    with daemon.connect() as stub:
        command = [sys.executable, "-c", PRELUDE + A_SHORT_LIFE]
        request = pb.SubmitRunRequest(run_id="r", command=command)
        stub.SubmitRun(request, metadata=metadata, timeout=60)

        def steps_stored() -> int:
            runs = stub.ListRuns(pb.ListRunsRequest(run_id="r"), metadata=metadata).runs
            return int(runs[0].steps)

        until(lambda: steps_stored() == 500)


def lanekit(daemon: DaemonProcess, command: str, *arguments: str) -> tuple[int, str]:
    result = subprocess.run(
        [sys.executable, "-m", "lanekit", command, "--daemon", daemon.target, *arguments],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert "Traceback" not in result.stderr
    return result.returncode, result.stdout + result.stderr


@pytest.mark.once
def test_the_commands_submit_and_control(
    daemon: DaemonProcess, stub: TrainerServiceStub, tmp_path: Path
) -> None:
    config = tmp_path / "config.json"
    config.write_text('{"lr": 0.1}')
    script = PRELUDE + STEPS_UNTIL_TOLD
    status, output = lanekit(
        daemon,
        *("submit", "--run", "cli", "--config", str(config), "--env", "A=1", "--"),
        *(sys.executable, "-c", script, str(tmp_path / "stop")),
    )
    assert (status, output) == (0, "cli\n")
    until(lambda: run_of(stub, "cli").steps > 10)
    assert run_of(stub, "cli").config_json == b'{"lr": 0.1}'
    status, output = lanekit(daemon, "control", "cli", "pause")
    assert status == 0
    assert "1 worker is connected" in output
    status, output = lanekit(daemon, "control", "cli", "cancel")
    assert status == 0
    assert "cancelled" in output
    assert lanekit(daemon, "control", "cli", "pause")[0] == 1
    assert lanekit(daemon, "control", "nobody", "pause")[0] == 1
    assert lanekit(daemon, "submit", "--run", "cli", "--", "true")[0] == 1
    assert lanekit(daemon, "submit", "--run", "no/slash", "--", "true")[0] == 1
    assert lanekit(daemon, "submit", "--")[0] == 2
    assert daemon.stop() == 0
    status, output = lanekit(daemon, "submit", "--", "true")
    assert status == 1
    assert "daemon" in output
