"""The proxy as a process: what its worker says arrives, in order and whole."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from proxy_process import RUN, MakeProxy, ProxyProcess, resident_bytes, script
from recording_daemon import RecordingDaemon, actions, step_line
from steady_worker import STEADY, check_steady

from patience import patience


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


def test_without_the_extra_the_command_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['grpc'] = None; from lanekit.cli import main; "
        "sys.exit(main(['proxy', '--run', 'r', '--', 'true']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=patience(120),
        check=False,
    )
    assert done.returncode == 1
    assert "pip install 'lanekit[slow]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_two_proxies_can_not_share_a_spool_but_can_share_a_run(
    short_directory: Path, recorder: RecordingDaemon, make_proxy: MakeProxy
) -> None:
    body = """
    for i in range(100): emit.step(0, i, action=i)
    while not os.path.exists(sys.argv[1]): time.sleep(0.01)
    """
    go = short_directory / "go"
    command = [*script(short_directory, body), str(go)]
    first = make_proxy(recorder.target).start(command)
    first.worker()
    intruder = ProxyProcess(short_directory, recorder.target).start(command)
    assert intruder.wait() == 1
    assert f"process {first.pid} sends from" in intruder.complaints()
    second = make_proxy(recorder.target, "other").start(command)
    go.touch()
    assert (first.wait(), second.wait()) == (0, 0)
    assert len(recorder.streams) == 2
    for stream in recorder.streams.values():
        assert [json.loads(step.action_json) for step in stream.rows["steps"]] == list(range(100))


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
