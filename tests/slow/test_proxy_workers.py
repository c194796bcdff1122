"""The proxy and its worker: signals, commands, frames, and outputs closed or left open."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import numpy as np
from proxy_process import RUN, MakeProxy, script
from recording_daemon import RecordingDaemon

import lanekit
from lanekit.slow.proto import telemetry_pb2 as pb
from patience import until


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
    assert proxy.wait() == 4
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
    until(lambda: newest_value() == 42)  # frames are shown after their steps are sent
    with lanekit.FastLaneReader.attach(RUN) as reader:
        frame = reader.latest_frame()
        assert frame is not None
        assert np.array_equal(frame.array, np.full((4, 8, 3), 42, np.uint8))
        assert frame.metrics.last_reward == 0.5
        assert frame.metrics.rolling_return == 1.5
    Path(f"{go}4").touch()
    recorder.wait_for("steps", 6)
    until(lambda: newest_value() == 62)
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
