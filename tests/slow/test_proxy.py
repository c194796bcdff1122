"""The proxy as a process: what its worker says arrives, each event once, whatever happens."""

from __future__ import annotations

import errno
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from proxy_process import RUN, ProxyProcess, resident_bytes, script, wait_until
from recording_daemon import RecordingDaemon, Relay, step_line

import lanekit
from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.sending.proxy import TrainerTelemetryProxy

MakeProxy = Callable[..., ProxyProcess]


@pytest.fixture
def recorder(short_directory: Path) -> Iterator[RecordingDaemon]:
    with RecordingDaemon(short_directory) as daemon:
        yield daemon


@pytest.fixture
def make_proxy(short_directory: Path) -> Iterator[MakeProxy]:
    made: list[ProxyProcess] = []

    def make(target: str, spool: str = "spool") -> ProxyProcess:
        made.append(ProxyProcess(short_directory, target, spool))
        return made[-1]

    yield make
    for proxy in made:
        proxy.end()


def actions(daemon: RecordingDaemon) -> list[int]:
    return [json.loads(step.action_json) for step in daemon.rows()]


STEADY = """
count, pause = int(sys.argv[1]), float(sys.argv[2])
for i in range(count):
    if i % 50 == 0:
        print("print", i, flush=True)
        time.sleep(pause)
    emit.step(i // 100, i % 100, action=i, observation=[i, 0.5], reward=0.25)
    if i % 100 == 99:
        emit.episode(i // 100, episode_return=25.0, length=100)
        print('{"event_type":"step","broken":', flush=True)
emit.run_completed(total=count)
"""


def check_steady(daemon: RecordingDaemon, proxy: ProxyProcess, count: int) -> None:
    assert actions(daemon) == list(range(count))
    assert [episode.episode for episode in daemon.rows("episodes")] == list(range(count // 100))
    assert daemon.event_names() == ["run_completed", "worker_exited"]
    assert proxy.log() == b"".join(b"print %d\n" % i for i in range(0, count, 50))
    assert proxy.rejects() == [b'{"event_type":"step","broken":'] * (count // 100)
    assert proxy.checkpoint()["finished"]
    assert not list(proxy.spool.glob("journal-*"))


def test_everything_a_worker_says_arrives_in_order(
    short_directory: Path, recorder: RecordingDaemon, make_proxy: MakeProxy
) -> None:
    command = script(short_directory, STEADY)
    proxy = make_proxy(recorder.target).start([*command, "2000", "0"], "--worker", "w7")
    assert proxy.wait() == 0
    check_steady(recorder, proxy, 2000)
    (registered,) = recorder.only_stream().registered
    assert (registered.run_id, registered.worker_id) == (RUN, "w7")
    assert {step.worker_id for step in recorder.rows()} == {"w7"}
    assert recorder.rows()[0].observation_json == b"[0,0.5]"
    (exited,) = (e for e in recorder.rows("events") if e.name == "worker_exited")
    assert json.loads(exited.payload_json) == {"status": 0}


@pytest.mark.parametrize(
    ("ending", "status", "reported"),
    [
        ("sys.exit(0)", 0, 0),
        ("sys.exit(3)", 3, 3),
        ("raise RuntimeError('no')", 1, 1),
        ("os.kill(os.getpid(), signal.SIGKILL)", 137, -9),
        ("os.kill(os.getpid(), signal.SIGSEGV)", 139, -11),
        ("os._exit(255)", 255, 255),
    ],
)
def test_the_proxy_ends_as_its_worker_did(
    short_directory: Path,
    recorder: RecordingDaemon,
    make_proxy: MakeProxy,
    ending: str,
    status: int,
    reported: int,
) -> None:
    proxy = make_proxy(recorder.target).start(script(short_directory, f"emit.event('x')\n{ending}"))
    assert proxy.wait() == status
    x, exited = recorder.rows("events")
    assert x.name == "x"
    assert json.loads(exited.payload_json) == {"status": reported}
    if "raise" in ending:
        assert b"RuntimeError: no" in (proxy.spool / "worker.err").read_bytes()


def test_a_line_cut_short_by_death_is_rejected_and_one_without_line_end_is_not(
    short_directory: Path, recorder: RecordingDaemon, make_proxy: MakeProxy
) -> None:
    whole = step_line(5).decode().strip()
    for name, text, steps in (("a", whole[:100], 0), ("b", whole, 1)):
        body = f"sys.stdout.write({text!r}); sys.stdout.flush(); os.kill(os.getpid(), 9)"
        proxy = make_proxy(recorder.target, name).start(script(short_directory, body))
        assert proxy.wait() == 137
        assert recorder.count() == steps
        assert len(proxy.rejects()) == 1 - steps
    assert recorder.count("events") == 2


@pytest.mark.once
def test_lines_of_one_byte_and_of_fifty_million_split_anywhere(
    short_directory: Path, recorder: RecordingDaemon, make_proxy: MakeProxy
) -> None:
    body = """
    import random
    big = json.dumps({"event_type": "step", "episode_index": 0, "step_index": 1,
                      "observation": "y" * 50_000_000}).encode() + b"\\n"
    data = b"x\\n\\n\\x00\\xff\\n" + big + b"z" * 50_000_000 + b"\\n\\r\\n"
    data += b'{"event_type":"step","episode_index":0,"step_index":2}\\r\\n'
    chance, at = random.Random(1), 0
    while at < len(data):
        at += os.write(1, data[at:at + chance.choice((1, 100, 65536, 1 << 20))])
    """
    proxy = make_proxy(recorder.target).start(script(short_directory, body))
    assert proxy.wait() == 0
    first, second = recorder.rows()
    assert first.observation_json == b'"' + b"y" * 50_000_000 + b'"'
    assert second.step == 2
    assert proxy.log() == b"x\n\n\x00\xff\n" + b"z" * 50_000_000 + b"\n\r\n"
    assert proxy.rejects() == []


@pytest.mark.once
def test_lines_beyond_the_limit_are_kept_aside_without_being_held_in_memory(
    short_directory: Path, recorder: RecordingDaemon, make_proxy: MakeProxy
) -> None:
    body = """
    size = 150_000_000
    for head in (b'{"event_type":"step","action":"', b"no telemetry "):
        os.write(1, head)
        for i in range(size // 1_000_000):
            data = bytes([97 + i % 26]) * 1_000_000
            while data:
                data = data[os.write(1, data):]
        os.write(1, b"\\n")
    emit.step(0, 0)
    time.sleep(60)
    """
    proxy = make_proxy(recorder.target).start(script(short_directory, body))
    recorder.wait_for("steps", 1)
    assert resident_bytes(proxy.pid) < 400 * 2**20
    os.kill(proxy.worker(), signal.SIGTERM)
    assert proxy.wait() == 143
    expected = b"".join(bytes([97 + i % 26]) * 1_000_000 for i in range(150))
    assert proxy.log() == b"no telemetry " + expected + b"\n"
    assert proxy.rejects() == [b'{"event_type":"step","action":"' + expected]


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
    for turn in range(8):
        proxy = make_proxy(recorder.target, f"spool-{turn}").start(command)
        if turn % 2:
            wait_until((proxy.spool / "stdout.fifo").exists)
            time.sleep(chance.uniform(0.0, 0.06))
        else:
            time.sleep(chance.uniform(0.2, 0.6))
        proxy.kill()
        if not (proxy.spool / "stream.json").exists():
            continue
        assert proxy.adopt().wait() == 0, proxy.complaints()
        stream = json.loads((proxy.spool / "stream.json").read_bytes())["stream_id"]
        rows = recorder.streams[stream].rows
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
    wait_until((proxy.spool / "exit.json").exists)
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
        proxy.worker()
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


@pytest.mark.once
def test_memory_stays_flat_while_the_daemon_is_away(
    short_directory: Path, recorder: RecordingDaemon, make_proxy: MakeProxy
) -> None:
    body = """
    lines = b"".join(
        b'{"event_type":"step","episode_index":0,"step_index":%d,"action":%d,"info":"%s"}\\n'
        % (i, i, b"x" * 200) for i in range(1000))
    emit.step(0, 0, action=-1)
    while not os.path.exists(sys.argv[1]): time.sleep(0.01)
    for _ in range(600):
        data = lines
        while data: data = data[os.write(1, data):]
    open(sys.argv[1] + ".done", "w").close()
    """
    go = short_directory / "go"
    proxy = make_proxy(recorder.target).start([*script(short_directory, body), str(go)])
    recorder.wait_for("steps", 1)
    recorder.stop()
    before = resident_bytes(proxy.pid)
    go.touch()
    wait_until((short_directory / "go.done").exists)
    spooled = sum(path.stat().st_size for path in proxy.spool.glob("journal-*"))
    assert spooled > 150_000_000
    grown = resident_bytes(proxy.pid) - before
    assert grown < 60 * 2**20, f"{grown} bytes more"
    assert len(list(proxy.spool.glob("journal-*"))) > 1
    recorder.start()
    assert proxy.wait() == 0
    assert actions(recorder) == [-1, *[i for _ in range(600) for i in range(1000)]]
    assert not list(proxy.spool.glob("journal-*"))
    assert "kept in" in proxy.complaints()


@pytest.fixture
def small_disk(short_directory: Path) -> Iterator[Path]:
    """A file system of two MiB."""
    disk = short_directory / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a tmpfs")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


@pytest.mark.once
def test_a_full_disk_makes_the_worker_wait_and_loses_nothing(
    short_directory: Path, small_disk: Path, recorder: RecordingDaemon, make_proxy: MakeProxy
) -> None:
    filler = small_disk / "filler"
    filler.write_bytes(b"x" * 700_000)
    recorder.hold_acknowledgements = True
    proxy = make_proxy(recorder.target, "disk/spool")
    proxy.said = short_directory / "said"
    proxy.start([*script(short_directory, STEADY), "60000", "0"])
    wait_until(lambda: proxy.said.exists() and "the worker waits" in proxy.complaints())
    time.sleep(0.3)
    assert proxy.running()
    filler.unlink()
    time.sleep(0.3)
    recorder.hold_acknowledgements = False
    recorder.restart()
    assert proxy.wait() == 0, proxy.complaints()
    check_steady(recorder, proxy, 60000)


@pytest.mark.once
def test_a_full_disk_that_can_not_even_take_the_complaint_about_it_loses_nothing(
    short_directory: Path, small_disk: Path, recorder: RecordingDaemon, make_proxy: MakeProxy
) -> None:
    proxy = make_proxy(recorder.target, "disk/spool")  # and what the proxy says is there, too
    proxy.start([*script(short_directory, STEADY), "40000", "0.001"])
    recorder.wait_for("steps", 1000)
    recorder.hold_acknowledgements = True
    with (
        (small_disk / "filler").open("wb", buffering=0) as filler,
        pytest.raises(OSError, match="space"),
    ):
        while True:  # at once, so that nothing of the complaint has a place
            filler.write(b"x" * 2**21)
    time.sleep(1.0)
    assert proxy.running()
    assert proxy.complaints() == ""
    assert not proxy.checkpoint()["finished"]
    assert recorder.count() < 40_000
    (small_disk / "filler").unlink()
    recorder.hold_acknowledgements = False
    recorder.restart()
    assert proxy.wait() == 0, proxy.complaints()
    assert "Traceback" not in proxy.complaints()
    check_steady(recorder, proxy, 40_000)


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
    wait_until(lambda: recorder.count() == 100 and proxy.checkpoint()["next_seq"]["steps"] == 101)
    proxy.kill()
    del recorder.only_stream().rows["steps"][60:]
    go.touch()
    assert proxy.adopt().wait() == 76
    assert f"--adopt {proxy.spool} --new-stream" in proxy.complaints()
    assert recorder.count() == 60
    assert proxy.adopt("--new-stream").wait() == 0
    assert actions(recorder) == [*range(60), *range(100, 150)]
    assert len(recorder.streams) == 2
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


def test_without_the_extra_the_command_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['grpc'] = None; from lanekit.cli import main; "
        "sys.exit(main(['proxy', '--run', 'r', '--', 'true']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 1
    assert "pip install 'lanekit[slow]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_two_proxies_can_not_share_a_spool_but_can_share_a_run(
    short_directory: Path, recorder: RecordingDaemon, make_proxy: MakeProxy
) -> None:
    body = "for i in range(100): emit.step(0, i, action=i)\ntime.sleep(2)"
    command = script(short_directory, body)
    first = make_proxy(recorder.target).start(command)
    first.worker()
    intruder = ProxyProcess(short_directory, recorder.target).start(command)
    assert intruder.wait() == 1
    assert f"process {first.pid} sends from" in intruder.complaints()
    second = make_proxy(recorder.target, "other").start(command)
    assert (first.wait(), second.wait()) == (0, 0)
    assert len(recorder.streams) == 2
    for stream in recorder.streams.values():
        assert [json.loads(step.action_json) for step in stream.rows["steps"]] == list(range(100))


def test_signals_go_to_the_worker_and_one_that_ignores_them_is_waited_for(
    short_directory: Path, recorder: RecordingDaemon, make_proxy: MakeProxy
) -> None:
    body = """
    def heard(number, frame):
        emit.event("heard", number=number)
        if number == signal.SIGINT: sys.exit(7)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP): signal.signal(number, heard)
    emit.event("ready")
    while True: time.sleep(60)
    """
    proxy = make_proxy(recorder.target).start(script(short_directory, body))
    recorder.wait_for("events", 1)
    for count, number in enumerate((signal.SIGTERM, signal.SIGHUP, signal.SIGTERM), 2):
        os.kill(proxy.pid, number)
        recorder.wait_for("events", count)
        assert proxy.running()
    os.kill(proxy.pid, signal.SIGINT)
    assert proxy.wait() == 7
    numbers = [
        json.loads(e.payload_json)["number"] for e in recorder.rows("events") if e.name == "heard"
    ]
    assert numbers == [signal.SIGTERM, signal.SIGHUP, signal.SIGTERM, signal.SIGINT]


def test_a_worker_that_closes_its_output_is_watched_to_its_end(
    short_directory: Path, recorder: RecordingDaemon, make_proxy: MakeProxy
) -> None:
    body = """
    emit.step(0, 0)
    os.close(1); os.close(2)
    time.sleep(1)
    os._exit(4)
    """
    proxy = make_proxy(recorder.target).start(script(short_directory, body))
    recorder.wait_for("steps", 1)
    began = time.process_time()
    assert proxy.wait() == 4
    assert time.process_time() >= began
    assert recorder.event_names() == ["worker_exited"]


def test_a_grandchild_that_keeps_the_output_open_does_not_hold_the_proxy(
    short_directory: Path, recorder: RecordingDaemon, make_proxy: MakeProxy
) -> None:
    body = """
    emit.step(0, 0)
    if os.fork() == 0:
        time.sleep(0.3)
        emit.step(0, 1)
        time.sleep(30)
        os._exit(0)
    """
    proxy = make_proxy(recorder.target).start(script(short_directory, body))
    assert proxy.wait() == 0
    assert [step.step for step in recorder.rows()] == [0, 1]
    assert recorder.event_names() == ["worker_exited"]


def test_commands_reach_the_worker(
    short_directory: Path, recorder: RecordingDaemon, make_proxy: MakeProxy
) -> None:
    body = """
    from lanekit.slow.control import ControlInbox
    inbox = ControlInbox.from_environment()
    emit.run_started()
    i = 0
    while inbox.wait_while_paused():
        emit.step(0, i); i += 1
        time.sleep(0.01)
    emit.run_completed()
    """
    proxy = make_proxy(recorder.target).start(script(short_directory, body))
    recorder.wait_for("steps", 3)
    recorder.commands.append((1, pb.CONTROL_ACTION_PAUSE))
    recorder.wait_for("events", 2)
    proxy.kill()
    proxy.adopt()  # which gets the command again; the worker knows it already
    recorder.commands.append((2, pb.CONTROL_ACTION_RESUME))
    recorder.wait_for("events", 3)
    recorder.commands.append((3, pb.CONTROL_ACTION_STOP))
    assert proxy.wait() == 0
    applied = [e for e in recorder.rows("events") if e.name == "control_applied"]
    assert [json.loads(e.payload_json) for e in applied] == [
        {"command_id": number, "action": action}
        for number, action in ((1, "pause"), (2, "resume"), (3, "stop"))
    ]


def test_frames_in_steps_are_seen_on_the_fast_lane(
    short_directory: Path, recorder: RecordingDaemon, make_proxy: MakeProxy
) -> None:
    body = """
    import numpy as np
    for size in (4, 6):
        for i in range(3):
            emit.step(0, i, reward=0.5, frame=np.full((size, 8, 3), 10 * size + i, np.uint8))
        while not os.path.exists(f"{sys.argv[1]}{size}"): time.sleep(0.01)
    """
    go = short_directory / "go"
    proxy = make_proxy(recorder.target)
    proxy.start([*script(short_directory, body), str(go)], "--mirror-frames")
    recorder.wait_for("steps", 3)
    wait_until(lambda: Path(f"/dev/shm/{lanekit.segment_name('frame', RUN)}").exists())
    with lanekit.FastLaneReader.attach(RUN) as reader:
        frame = reader.latest_frame()
        assert frame is not None
        assert np.array_equal(frame.array, np.full((4, 8, 3), 42, np.uint8))
        assert frame.metrics.last_reward == 0.5
        assert frame.metrics.rolling_return == 1.5
    Path(f"{go}4").touch()
    recorder.wait_for("steps", 6)
    wait_until(lambda: newest_value() == 62)
    Path(f"{go}6").touch()
    assert proxy.wait() == 0
    assert len([step for step in recorder.rows() if step.HasField("frame")]) == 6
    assert recorder.rows()[5].frame.height == 6


def newest_value() -> int | None:
    try:
        with lanekit.FastLaneReader.attach(RUN) as reader:
            frame = reader.latest_frame()
            return None if frame is None else int(frame.array[0, 0, 0])
    except lanekit.SegmentError:
        return None


def test_a_clock_that_goes_backwards_changes_nothing(
    short_directory: Path, recorder: RecordingDaemon, make_proxy: MakeProxy
) -> None:
    body = """
    for i in range(500):
        print(json.dumps({"event_type": "step", "episode_index": 0, "step_index": i,
                          "time_ns": 10**18 - i * 10**9}))
    for stamp in (1.5, -2.0):
        print(json.dumps({"event_type": "step", "episode_index": 1, "step_index": 0,
                          "timestamp": stamp}))
    """
    proxy = make_proxy(recorder.target).start(script(short_directory, body))
    assert proxy.wait() == 0
    rows = recorder.rows()
    assert [step.step for step in rows[:500]] == list(range(500))
    assert [step.wall_time_ns for step in rows[:500]] == [10**18 - i * 10**9 for i in range(500)]
    assert [step.wall_time_ns for step in rows[500:]] == [1_500_000_000, -2_000_000_000]


def test_without_a_daemon_the_status_says_that_events_are_kept_and_adopting_sends_them(
    short_directory: Path, recorder: RecordingDaemon, make_proxy: MakeProxy
) -> None:
    recorder.stop()
    proxy = make_proxy(recorder.target)
    proxy.start(script(short_directory, "emit.step(0, 0)"), "--drain-timeout", "0.5")
    assert proxy.wait() == 75
    assert f"--adopt {proxy.spool}" in proxy.complaints()
    recorder.start()
    assert proxy.adopt().wait() == 0
    assert (recorder.count(), recorder.event_names()) == (1, ["worker_exited"])


def test_lines_from_stdin_are_published(
    short_directory: Path, recorder: RecordingDaemon, make_proxy: MakeProxy
) -> None:
    reader, writer = os.pipe()
    proxy = make_proxy(recorder.target).start([], stdin=reader)
    os.close(reader)
    os.write(writer, step_line(0) + b"hello\n" + step_line(1))
    recorder.wait_for("steps", 2)
    os.close(writer)
    assert proxy.wait() == 0
    assert proxy.log() == b"hello\n"
    with (short_directory / "file").open("w+b") as file:
        file.write(b"".join(map(step_line, range(2, 3000))))
        file.seek(0)
        again = make_proxy(recorder.target).start([], stdin=file.fileno())
        assert again.wait() == 0
    assert actions(recorder) == list(range(3000))


def test_bytes_count_as_taken_in_only_once_they_are_synchronised_if_asked_for(
    short_directory: Path, recorder: RecordingDaemon, make_proxy: MakeProxy
) -> None:
    proxy = make_proxy(recorder.target)
    proxy.start([*script(short_directory, STEADY), "3000", "0"], "--fsync")
    assert proxy.wait() == 0
    check_steady(recorder, proxy, 3000)


def test_a_signal_that_comes_before_the_worker_is_not_lost(
    short_directory: Path, recorder: RecordingDaemon, make_proxy: MakeProxy
) -> None:
    for pause in (0.2, 0.3, 0.4):
        proxy = make_proxy(recorder.target, f"s{pause}")
        proxy.start(script(short_directory, "time.sleep(600)"))
        time.sleep(pause)
        os.kill(proxy.pid, signal.SIGTERM)
        assert proxy.wait() in (-signal.SIGTERM, 143)


def test_misuse_is_explained(
    short_directory: Path, recorder: RecordingDaemon, make_proxy: MakeProxy
) -> None:
    proxy = make_proxy(recorder.target, "a").start(["/no/such/program"])
    assert proxy.wait() == 1
    assert "could not be started" in proxy.complaints()
    assert "No such file" in proxy.complaints()
    proxy = make_proxy(recorder.target, "b").start([sys.executable, "-c", ""])
    assert proxy.wait() == 0
    assert proxy.start([sys.executable, "-c", ""]).wait() == 1
    assert "had a worker already" in proxy.complaints()
    proxy = make_proxy(recorder.target, "w").start(["true"], "--worker", "a\tb")
    assert proxy.wait() == 1
    assert "a worker id must not have control characters" in proxy.complaints()
    assert not proxy.spool.exists()
    proxy = make_proxy("nonsense", "c").start([sys.executable, "-c", ""])
    assert proxy.wait() == 1
    assert "no daemon's address" in proxy.complaints()
    nowhere = ProxyProcess(short_directory, recorder.target, "nowhere")
    assert nowhere.adopt().wait() == 1
    assert "is no spool" in nowhere.complaints()
