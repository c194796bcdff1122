"""Publishing without stdout, and asking the daemon."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import grpc
import pytest
from daemon_process import DaemonProcess
from proxy_process import RUN, ProxyProcess, script
from recording_daemon import RecordingDaemon, actions

from lanekit import errors
from lanekit.slow import DaemonClient, TelemetryClient
from lanekit.slow.control import ControlCommand
from lanekit.slow.proto import telemetry_pb2 as pb
from patience import patience, until


def test_a_client_reports_what_an_emitter_would_print(
    short_directory: Path, recorder: RecordingDaemon
) -> None:
    spool = short_directory / "spool"
    with TelemetryClient("r", target=recorder.target, spool=spool, worker_id="w") as client:
        client.run_started(lr=0.1)
        threads = [
            threading.Thread(target=lambda: [client.step(0, i, action=i) for i in range(500)])
            for _ in range(3)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        client.episode(0, episode_return=1.0)
        assert client.flush(60)
        assert sorted(actions(recorder)) == sorted([*range(500)] * 3)
        client.run_completed()
    assert recorder.event_names() == ["run_started", "run_completed"]
    assert {step.worker_id for step in recorder.rows()} == {"w"}
    with pytest.raises(errors.HandleClosed):
        client.step(0, 0)
    assert client.close().complete


def test_a_client_outlives_the_daemon_and_goes_on_from_its_spool(
    short_directory: Path, recorder: RecordingDaemon
) -> None:
    spool = short_directory / "spool"
    said: list[str] = []
    recorder.stop()
    client = TelemetryClient("r", target=recorder.target, spool=spool, report=said.append)
    client.step(0, 0, action=0)
    assert not client.flush(0.3)
    assert not client.close(0.1).complete
    assert "--adopt" in said[-1]
    recorder.start()
    with TelemetryClient("r", target=recorder.target, spool=spool) as client:
        client.step(0, 1, action=1)
    assert actions(recorder) == [0, 1]


def test_a_killed_workers_spool_is_sent_by_whoever_adopts_it(
    short_directory: Path, recorder: RecordingDaemon
) -> None:
    body = """
    from lanekit.slow.sending.telemetry_client import TelemetryClient
    client = TelemetryClient("r", target=sys.argv[1], spool=sys.argv[2])
    for i in range(5000): client.step(0, i, action=i)
    print("ready", flush=True)
    time.sleep(60)
    """
    recorder.delay = 0.2
    spool = short_directory / "spool"
    command = [*script(short_directory, body), recorder.target, str(spool)]
    worker = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert worker.stdout is not None
    assert worker.stdout.readline() == b"ready\n"
    worker.send_signal(signal.SIGKILL)
    worker.wait()
    worker.stdout.close()
    with next(iter(spool.glob("journal-*"))).open("ab") as journal:
        journal.write(b'{"event_type":"step","half')  # it died in the middle of a line
    recorder.delay = 0.0
    proxy = ProxyProcess(short_directory, recorder.target).adopt()
    assert proxy.wait() == 0
    assert actions(recorder) == list(range(5000))
    (exited,) = recorder.rows("events")
    assert (exited.name, json.loads(exited.payload_json)["status"]) == ("worker_exited", None)
    assert proxy.rejects() == [b'{"event_type":"step","half']


@pytest.mark.parametrize("name", ["x" * 257, "a\0b", "two\nlines"])
def test_a_worker_whose_name_the_daemon_would_refuse_is_refused_at_once(
    short_directory: Path, recorder: RecordingDaemon, name: str
) -> None:
    spool = short_directory / "spool"
    with pytest.raises(errors.InvalidEvent, match="worker id"):
        TelemetryClient("r", target=recorder.target, spool=spool, worker_id=name)
    assert not spool.exists()
    longest = "x" * 256
    TelemetryClient("r", target=recorder.target, spool=spool, worker_id=longest).close()


def test_a_client_inherited_over_fork_refuses(
    short_directory: Path, recorder: RecordingDaemon
) -> None:
    body = """
    import warnings
    warnings.simplefilter("ignore")
    from lanekit import HandleForked
    from lanekit.slow.sending.telemetry_client import TelemetryClient
    client = TelemetryClient("r", target=sys.argv[1], spool=sys.argv[2])
    client.step(0, 0, action=0)
    child = os.fork()
    if child == 0:
        try:
            client.step(0, 1, action=1)
        except HandleForked as error:
            print("refused", flush=True)
        os._exit(0)
    os.waitpid(child, 0)
    client.step(0, 2, action=2)
    client.close()
    """
    command = [*script(short_directory, body), recorder.target, str(short_directory / "spool")]
    done = subprocess.run(command, capture_output=True, timeout=patience(), check=False)
    assert (done.stdout, done.returncode) == (b"refused\n", 0), done.stderr.decode()
    assert actions(recorder) == [0, 2]


def test_commands_come_to_the_callback_and_to_the_poll(
    short_directory: Path, recorder: RecordingDaemon
) -> None:
    heard: list[ControlCommand] = []

    def on_control(command: ControlCommand) -> None:
        heard.append(command)
        raise RuntimeError("the callback's own fault")

    said: list[str] = []
    recorder.commands.append((1, pb.CONTROL_ACTION_PAUSE))
    with TelemetryClient(
        "r",
        target=recorder.target,
        spool=short_directory / "spool",
        on_control=on_control,
        report=said.append,
    ) as client:
        until(lambda: heard)
        assert client.poll_control() == [ControlCommand("pause", 1)] == heard
        assert client.poll_control() == []
        client.applied(heard[0])
        assert client.flush(60)
    assert recorder.event_names() == ["control_applied"]
    assert "own fault" in said[0]


@pytest.mark.once
def test_no_daemon_is_said_as_such(short_directory: Path) -> None:
    with DaemonClient(f"unix:{short_directory}/none.sock") as client:
        with pytest.raises(errors.DaemonUnavailable, match=r"no daemon answers at unix:.*lanekit"):
            client.list_runs()
        with pytest.raises(errors.DaemonUnavailable):
            list(client.stream_steps("r"))
        with pytest.raises(ValueError, match="one of pause, resume, stop"):
            client.control_run("r", "explode")


def test_a_refused_call_keeps_its_code(short_directory: Path, recorder: RecordingDaemon) -> None:
    with DaemonClient(recorder.target) as client:
        with pytest.raises(errors.DaemonError, match="refused") as refused:
            client.list_runs()
    assert refused.value.code == grpc.StatusCode.UNIMPLEMENTED.name


# --- with the real daemon -------------------------------------------------------------------------


def test_a_client_and_the_daemon_agree_on_a_run(
    daemon: DaemonProcess, short_directory: Path
) -> None:
    spool = short_directory / "client-spool"
    with TelemetryClient("r", target=daemon.target, spool=spool) as client:
        client.run_started()
        for i in range(3000):
            client.step(i // 100, i % 100, action=i, reward=0.5, agent_id="a")
            if i % 100 == 99:
                client.episode(i // 100, episode_return=50.0)
        assert client.flush(60)
        with DaemonClient(daemon.target) as asker:
            run = asker.run("r")
            assert (run.steps, run.episodes, run.events) == (3000, 30, 1)
            assert run.state == pb.RUN_STATE_RUNNING
            number, connected = asker.control_run("r", "pause")
            assert (number, connected) == (1, 1)
            commands: list[ControlCommand] = []
            until(lambda: commands.extend(client.poll_control()) or commands)  # type: ignore[func-returns-value]
            client.applied(commands[0])
            client.flush(60)
            assert asker.run("r").state == pb.RUN_STATE_PAUSED
        client.run_completed()
    with DaemonClient(daemon.target) as asker:
        assert asker.run("r").state == pb.RUN_STATE_COMPLETED
        found = [
            json.loads(action)
            for answer in asker.stream_steps("r", history_only=True)
            for action in answer.columns.action_json
        ]
        assert found == list(range(3000))
        rows = [
            s for a in asker.stream_steps("r", history_only=True, row_wise=True) for s in a.steps
        ]
        assert [step.step for step in rows] == [i % 100 for i in range(3000)]
        episodes = [e for a in asker.stream_episodes("r", history_only=True) for e in a.episodes]
        assert len(episodes) == 30
        events = [e.name for a in asker.stream_events("r", history_only=True) for e in a.events]
        assert events == ["run_started", "control_applied", "run_completed"]
        assert [run.run_id for run in asker.list_runs()] == ["r"]
        assert next(iter(asker.watch_runs())).runs[0].run_id == "r"
        asker.archive_run("r")
        assert asker.list_runs() == []
        with pytest.raises(errors.RunNotFound):
            asker.run("nobody")
        with pytest.raises(errors.RunExists):
            asker.submit_run([sys.executable, "-c", ""], run_id="r")


def test_the_daemon_counts_the_rejected_lines_of_a_client_that_leaves_at_once(
    daemon: DaemonProcess, short_directory: Path
) -> None:
    with TelemetryClient("r", target=daemon.target, spool=short_directory / "own") as client:
        client.step(0, 0)
        assert client.flush(60)
        for _ in range(3):
            client.write_line('{"broken\n')
    with DaemonClient(daemon.target) as asker:
        assert asker.run("r").rejected_lines == 3


@pytest.mark.once
def test_a_proxy_under_the_real_daemon_is_exact_under_kills_of_both(
    daemon: DaemonProcess, short_directory: Path
) -> None:
    body = """
    for i in range(20000):
        if i % 100 == 0: time.sleep(0.03)
        emit.step(0, i, action=i)
    """
    proxy = ProxyProcess(short_directory, daemon.target, "own-spool")
    try:
        proxy.start(script(short_directory, body))
        proxy.worker()
        for turn in range(10):
            time.sleep(0.25)
            if turn % 3 == 2:
                daemon.kill()
                daemon.start()
            elif proxy.running():
                proxy.kill()
                proxy.adopt()
        assert proxy.wait() == 0, proxy.complaints()
        with DaemonClient(daemon.target) as asker:
            found = [
                json.loads(action)
                for answer in asker.stream_steps(RUN, history_only=True)
                for action in answer.columns.action_json
            ]
            run = asker.run(RUN)
        assert found == list(range(20000))
        assert (run.state, run.exit_status) == (pb.RUN_STATE_COMPLETED, 0)
    finally:
        proxy.end()
