"""Runs that the daemon starts: real workers under real proxies."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import grpc
import pytest
from daemon_process import DaemonProcess, event_names, failure_of, history, run_of
from submitted_runs import (
    A_SHORT_LIFE,
    DEAF,
    PRELUDE,
    STEPS_UNTIL_TOLD,
    MakeDaemon,
    alive,
    proxy_of,
    spool_of,
    step_numbers,
    submit,
    submit_steps,
    wait_for,
    worker_of,
)

from lanekit import FastLaneReader, SegmentError, segment_name
from lanekit.segments import segment_path
from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.proto.telemetry_pb2_grpc import TrainerServiceStub
from patience import patience, until


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
    stub.SubmitRun(request, timeout=patience())
    run = wait_for(stub, "none", pb.RUN_STATE_FAILED)
    assert run.exit_status == 127
    assert "/no/such/program" in run.reason


def test_cancelling_ends_a_worker_that_listens(
    daemon: DaemonProcess, stub: TrainerServiceStub, tmp_path: Path
) -> None:
    submit_steps(stub, tmp_path / "stop")
    worker = worker_of(spool_of(daemon, "r"))
    run = stub.CancelRun(pb.CancelRunRequest(run_id="r"), timeout=patience()).run
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
    assert stub.CancelRun(request, timeout=patience()).run.state == pb.RUN_STATE_CANCELLED
    assert not alive(worker)
    run = until(lambda: (r := run_of(stub, "deaf")).HasField("exit_status") and r)
    assert run.exit_status == -signal.SIGKILL


def test_cancelling_at_once_leaves_no_worker_behind(
    daemon: DaemonProcess, stub: TrainerServiceStub
) -> None:
    submit(stub, DEAF, run_id="quick")
    request = pb.CancelRunRequest(run_id="quick", grace_seconds=0)
    assert stub.CancelRun(request, timeout=patience()).run.state == pb.RUN_STATE_CANCELLED
    spool = spool_of(daemon, "quick")
    assert not (spool / "worker.json").exists() or not alive(worker_of(spool))


def test_a_worker_may_be_called_like_an_option(stub: TrainerServiceStub) -> None:
    submit(stub, A_SHORT_LIFE, run_id="r", worker_id="--adopt")
    wait_for(stub, "r", pb.RUN_STATE_COMPLETED)
    assert {step.worker_id for step in history(stub, "r")} == {"--adopt"}


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
        stub.SubmitRun(request, metadata=metadata, timeout=patience())

        def steps_stored() -> int:
            runs = stub.ListRuns(pb.ListRunsRequest(run_id="r"), metadata=metadata).runs
            return int(runs[0].steps)

        until(lambda: steps_stored() == 500)


def lanekit(daemon: DaemonProcess, command: str, *arguments: str) -> tuple[int, str]:
    result = subprocess.run(
        [sys.executable, "-m", "lanekit", command, "--daemon", daemon.target, *arguments],
        capture_output=True,
        text=True,
        timeout=patience(90),
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
    for run_id in ("no/slash", ""):
        status, output = lanekit(daemon, "submit", "--run", run_id, "--", "true")
        assert (status, "a run id is 1 to 128 letters" in output) == (2, True)
    assert lanekit(daemon, "submit", "--")[0] == 2
    config.write_text("{lr: 0.1}")
    status, output = lanekit(daemon, "submit", "--config", str(config), "--", "true")
    assert status == 2
    assert output.startswith(f"lanekit submit: {config} holds no JSON: ")
    assert daemon.stop() == 0
    status, output = lanekit(daemon, "submit", "--", "true")
    assert status == 1
    assert "daemon" in output
