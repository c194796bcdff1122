"""Spools that are deleted under their sender, moved, or copied without their pipes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from pathlib import Path

import pytest
from daemon_process import DaemonProcess
from proxy_process import RUN, MakeProxy, script
from recording_daemon import RecordingDaemon, actions

from lanekit.slow import TelemetryClient
from lanekit.slow.daemon_client import DaemonClient
from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.sending import journal as journal_module
from patience import patience, until

WAITING = """
for i in range(100): emit.step(0, i, action=i)
while not os.path.exists(sys.argv[1]): time.sleep(0.01)
for i in range(100, 200): emit.step(0, i, action=i)
sys.exit(int(sys.argv[2]))
"""


@pytest.mark.parametrize("status", [0, 3])
@pytest.mark.parametrize("moved", [False, True])
def test_a_deleted_spool_costs_neither_events_nor_how_the_worker_ended(
    short_directory: Path, daemon: DaemonProcess, make_proxy: MakeProxy, status: int, moved: bool
) -> None:
    go = short_directory / "go"
    command = [*script(short_directory, WAITING), str(go), str(status)]
    proxy = make_proxy(daemon.target).start(command)
    with DaemonClient(daemon.target) as client:
        proxy.worker()
        until(lambda: [run.steps for run in client.list_runs()] == [100])
        if moved:
            proxy.spool.rename(short_directory / "elsewhere")
        else:
            shutil.rmtree(proxy.spool)
            until(lambda: "was deleted while it was in use" in proxy.complaints())
        go.touch()
        assert proxy.wait() == status
        until(lambda: client.run(RUN).state > pb.RUN_STATE_PAUSED)
        run = client.run(RUN)
        assert run.steps == 200
        assert run.exit_status == status
        assert run.state == (pb.RUN_STATE_FAILED if status else pb.RUN_STATE_COMPLETED)
        (answer,) = client.stream_events(RUN, history_only=True)
        names = [event.name for event in answer.events]
        assert names == ["worker_exited"] if moved else ["spool_deleted", "worker_exited"]


def test_the_daemon_logs_that_a_spool_of_its_own_was_deleted(
    short_directory: Path, daemon: DaemonProcess
) -> None:
    go = short_directory / "go"
    with DaemonClient(daemon.target) as client:
        client.submit_run([*script(short_directory, WAITING), str(go), "0"], run_id=RUN)
        until(lambda: client.run(RUN).steps == 100)
        (spool,) = daemon.spools.glob(f"{RUN}-*")
        shutil.rmtree(spool)
        go.touch()
        until(lambda: client.run(RUN).state == pb.RUN_STATE_COMPLETED)
        until(lambda: f"run {RUN}: its spool was deleted" in daemon.said())
        assert client.run(RUN).steps == 200


def test_a_client_whose_spool_is_deleted_reports_on_and_closes(
    short_directory: Path, recorder: RecordingDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "SEGMENT_BYTES", 1000)
    spool = short_directory / "spool"
    with TelemetryClient("r", target=recorder.target, spool=spool) as client:
        client.step(0, 0, action=0)
        shutil.rmtree(spool)
        for i in range(1, 100):  # more than a file of the journal takes
            client.step(0, i, action=i)
        assert client.close(60).complete
    assert actions(recorder) == list(range(100))


def test_a_spool_copied_without_its_pipes_is_adopted(
    short_directory: Path, recorder: RecordingDaemon, make_proxy: MakeProxy
) -> None:
    go = short_directory / "go"
    recorder.stop()
    command = [*script(short_directory, WAITING), str(go), "0"]
    proxy = make_proxy(recorder.target).start(command, "--drain-timeout", str(patience()))
    pid = proxy.worker()
    until(lambda: sum(path.stat().st_size for path in proxy.spool.glob("journal-*")) > 5000)
    time.sleep(0.3)  # the rest of its first lines
    copies = [make_proxy(recorder.target, name) for name in ("bare", "whole")]
    for copy in copies:
        copy.spool.mkdir()
        for path in proxy.spool.iterdir():
            if path.is_file():
                shutil.copyfile(path, copy.spool / path.name)
    for name in ("stdout.fifo", "stderr.fifo", "control.fifo"):
        os.mkfifo(copies[1].spool / name)
    recorder.start()
    # The worker lives, and is the other proxy's.
    for copy in copies:
        assert copy.adopt().wait() == 0, copy.complaints()
        assert "is a copy" in copy.complaints()
    os.kill(pid, 0)
    assert actions(recorder) == list(range(100))
    go.touch()
    assert proxy.wait() == 0
    # And now it has ended: its end is known where it is on record.
    late = make_proxy(recorder.target, "late")
    late.spool.mkdir()
    for name in ("stream.json", "worker.json", "exit.json"):
        shutil.copyfile(proxy.spool / name, late.spool / name)
    assert late.adopt().wait() == 0, late.complaints()
    assert json.loads(recorder.rows("events")[-1].payload_json) == {"status": 0}
    assert sorted(actions(recorder)) == list(range(200))


def test_a_signal_for_the_proxy_of_a_copy_does_not_reach_the_worker(
    short_directory: Path, recorder: RecordingDaemon, make_proxy: MakeProxy
) -> None:
    go = short_directory / "go"
    command = [*script(short_directory, WAITING), str(go), "0"]
    proxy = make_proxy(recorder.target).start(command)
    proxy.worker()
    recorder.wait_for("steps", 100)
    copy = make_proxy("unix:/nowhere", "copy")
    shutil.copytree(proxy.spool, copy.spool, ignore=shutil.ignore_patterns("*.fifo"))
    copy.adopt()
    until(lambda: "is a copy" in copy.complaints())
    assert copy.process is not None
    copy.process.send_signal(signal.SIGTERM)
    copy.wait()
    go.touch()
    assert proxy.wait() == 0
