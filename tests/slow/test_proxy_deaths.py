"""Proxies, daemons and spools that die or break: each event arrives once all the same."""

from __future__ import annotations

import errno
import json
import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from proxy_process import RUN, MakeProxy, script
from recording_daemon import RecordingDaemon, Relay, actions
from steady_worker import STEADY, check_steady

from lanekit.slow.sending.proxy import TrainerTelemetryProxy
from patience import until


@pytest.mark.once
def test_a_proxy_killed_again_and_again_loses_and_repeats_nothing(
    short_directory: Path, recorder: RecordingDaemon, make_proxy: MakeProxy
) -> None:
    chance = random.Random(20)
    count = 20_000
    command = script(short_directory, STEADY)
    proxy = make_proxy(recorder.target).start([*command, str(count), "0.02"])
    proxy.worker()
    status = None
    while status is None:
        time.sleep(chance.uniform(0.0, 0.5))
        if proxy.running():
            proxy.kill()
            if proxy.kills % 5 == 0:
                time.sleep(0.5)  # the worker's pipe fills up meanwhile
        else:
            status = proxy.wait()
            break
        proxy.adopt()
        if proxy.kills == 30:
            status = proxy.wait()
    assert status == 0, proxy.complaints()
    assert proxy.kills >= 10
    check_steady(recorder, proxy, count)


@pytest.mark.once
def test_a_proxy_killed_while_it_starts_leaves_a_worker_that_is_adopted_or_none(
    short_directory: Path, recorder: RecordingDaemon, make_proxy: MakeProxy
) -> None:
    chance = random.Random(22)
    body = "for i in range(200): emit.step(0, i, action=i)\ntime.sleep(0.5)"
    command = script(short_directory, body)
    began = 0
    for turn in range(9):
        proxy = make_proxy(recorder.target, f"spool-{turn}").start(command)
        if turn % 3 == 0:
            time.sleep(chance.uniform(0.2, 0.6))
        elif turn % 3 == 1:
            until((proxy.spool / "stdout.fifo").exists)
            time.sleep(chance.uniform(0.0, 0.06))
        else:  # however slow the machine, some workers have begun
            proxy.worker()
        proxy.kill()
        if not (proxy.spool / "stream.json").exists():
            continue
        assert proxy.adopt().wait() == 0, proxy.complaints()
        journal = json.loads((proxy.spool / "stream.json").read_bytes())["journal_id"]
        rows = recorder.rows_of_journal(journal)
        expected = list(range(200)) if (proxy.spool / "worker.json").exists() else []
        began += bool(expected)
        assert [json.loads(step.action_json) for step in rows["steps"]] == expected
        assert [event.name for event in rows["events"]] == ["worker_exited"]
    assert began


def test_a_worker_that_ends_while_no_proxy_is_there_loses_nothing(
    short_directory: Path, recorder: RecordingDaemon, make_proxy: MakeProxy
) -> None:
    body = """
    for i in range(200): emit.step(0, i, action=i)
    while not os.path.exists(sys.argv[1]): time.sleep(0.01)
    for i in range(200, 400): emit.step(0, i, action=i)
    sys.exit(5)
    """
    go = short_directory / "go"
    proxy = make_proxy(recorder.target).start([*script(short_directory, body), str(go)])
    recorder.wait_for("steps", 200)
    proxy.kill()
    go.touch()
    until((proxy.spool / "exit.json").exists)
    assert proxy.adopt().wait() == 5
    assert actions(recorder) == list(range(400))
    assert json.loads(recorder.rows("events")[0].payload_json) == {"status": 5}


def test_a_worker_whose_end_nobody_saw_is_reported_so(
    short_directory: Path, recorder: RecordingDaemon, make_proxy: MakeProxy
) -> None:
    body = "emit.step(0, 0, action=0)\ntime.sleep(600)"
    proxy = make_proxy(recorder.target).start(script(short_directory, body))
    recorder.wait_for("steps", 1)
    proxy.kill()
    worker = json.loads((proxy.spool / "worker.json").read_bytes())
    os.kill(worker["keeper_pid"], signal.SIGKILL)
    os.kill(worker["pid"], signal.SIGKILL)
    assert proxy.adopt().wait() == 0
    payload = json.loads(recorder.rows("events")[0].payload_json)
    assert payload["status"] is None


def test_adopting_a_finished_spool_adds_nothing(
    short_directory: Path, recorder: RecordingDaemon, make_proxy: MakeProxy
) -> None:
    proxy = make_proxy(recorder.target).start(script(short_directory, "emit.step(0, 0)"))
    assert proxy.wait() == 0
    for _ in range(2):
        assert proxy.adopt().wait() == 0
    assert (recorder.count(), recorder.count("events")) == (1, 1)


@pytest.mark.once
def test_a_daemon_restarted_and_cut_in_mid_batch_gets_everything_once(
    short_directory: Path, recorder: RecordingDaemon, make_proxy: MakeProxy
) -> None:
    chance = random.Random(21)
    count = 30_000
    with Relay(short_directory, recorder.path) as relay:
        proxy = make_proxy(relay.target)
        proxy.start([*script(short_directory, STEADY), str(count), "0.01"])
        recorder.wait_for("steps", 1)  # there is something to cut
        for turn in range(20):
            if turn % 4 == 3:
                relay.cut()
                recorder.restart(away=chance.uniform(0, 0.2))
            else:
                relay.budget = chance.randrange(1, 60_000)
            time.sleep(chance.uniform(0.05, 0.25))
        relay.budget = None
        assert proxy.wait() == 0, proxy.complaints()
        assert relay.cuts >= 6
    check_steady(recorder, proxy, count)


def test_a_proxy_that_fails_leaves_a_spool_that_can_be_adopted(
    short_directory: Path,
    recorder: RecordingDaemon,
    make_proxy: MakeProxy,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    body = """
    for i in range(200): emit.step(0, i, action=i)
    while not os.path.exists(sys.argv[1]): time.sleep(0.01)
    for i in range(200, 400): emit.step(0, i, action=i)
    """
    go = short_directory / "go"
    adopting = make_proxy(recorder.target)
    failing = TrainerTelemetryProxy(
        RUN,
        target=recorder.target,
        spool=adopting.spool,
        command=[*script(short_directory, body), str(go)],
    )
    pump = failing._pump_once

    def fail(*arguments: Any) -> None:
        pump(*arguments)
        if recorder.count() == 200:
            raise OSError(errno.EIO, "the disk is broken")

    monkeypatch.setattr(failing, "_pump_once", fail)
    with pytest.raises(OSError, match="the disk is broken"):
        failing.run()
    assert not adopting.checkpoint()["finished"]
    assert not (adopting.spool / "end.json").exists()
    go.touch()
    assert adopting.adopt().wait() == 0
    assert actions(recorder) == list(range(400))
    assert recorder.event_names() == ["worker_exited"]


def test_the_rest_goes_to_a_store_that_was_put_back_as_a_new_stream(
    short_directory: Path, recorder: RecordingDaemon, make_proxy: MakeProxy
) -> None:
    body = """
    for i in range(100): emit.step(0, i, action=i)
    while not os.path.exists(sys.argv[1]): time.sleep(0.01)
    for i in range(100, 150): emit.step(0, i, action=i)
    """
    go = short_directory / "go"
    proxy = make_proxy(recorder.target).start([*script(short_directory, body), str(go)])
    until(lambda: recorder.count() == 100 and proxy.checkpoint()["next_seq"]["steps"] == 101)
    proxy.kill()
    del recorder.only_stream().rows["steps"][60:]
    go.touch()
    assert proxy.adopt().wait() == 76
    assert f"--adopt {proxy.spool} --new-stream" in proxy.complaints()
    assert recorder.count() == 60
    assert proxy.adopt("--new-stream").wait() == 0
    assert actions(recorder) == [*range(60), *range(100, 150)]
    assert len([stream for stream in recorder.streams.values() if stream.rows["steps"]]) == 2
    assert recorder.event_names() == ["worker_exited"]
    assert proxy.start([], "--new-stream").wait() == 2


def test_bytes_that_the_journal_lost_are_no_success(
    short_directory: Path, recorder: RecordingDaemon, make_proxy: MakeProxy
) -> None:
    recorder.stop()
    proxy = make_proxy(recorder.target)
    body = "for i in range(100): emit.step(0, i, action=i)"
    proxy.start(script(short_directory, body), "--drain-timeout", "0.1")
    assert proxy.wait() == 75
    (journal,) = proxy.spool.glob("journal-*")
    lines = journal.read_bytes().splitlines(keepends=True)
    os.truncate(journal, len(b"".join(lines[:60])) + 10)  # in the middle of a line
    recorder.start()
    missing = len(b"".join(lines[60:-1])) - 10
    for _ in range(2):
        assert proxy.adopt().wait() == 74
        assert f"{missing} bytes of the journal are missing" in proxy.complaints()
        assert actions(recorder) == list(range(60))
        assert recorder.event_names() == ["worker_exited"]
        assert proxy.rejects() == [lines[60][:10]]


@pytest.mark.parametrize("content", ["", "{}", '{"offset": -1, "line": "", "status": 0}'])
def test_a_damaged_end_is_explained_and_can_be_put_down_anew(
    short_directory: Path, recorder: RecordingDaemon, make_proxy: MakeProxy, content: str
) -> None:
    recorder.stop()
    proxy = make_proxy(recorder.target)
    proxy.start(script(short_directory, "emit.step(0, 0)"), "--drain-timeout", "0.1")
    assert proxy.wait() == 75
    (proxy.spool / "end.json").write_text(content)
    recorder.start()
    assert proxy.adopt().wait() == 1
    assert "end.json" in proxy.complaints()
    assert "Remove it" in proxy.complaints()
    assert "Traceback" not in proxy.complaints()
    (proxy.spool / "end.json").unlink()
    assert proxy.adopt().wait() == 0
    assert recorder.count() == 1
