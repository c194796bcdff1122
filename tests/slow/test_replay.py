"""Replays: recorded frames on the fast lane, in order, on time, and nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from recorded_runs import (
    BEGIN,
    SECOND,
    Recording,
    filmed_steps,
    frame_message,
    number_of,
    open_store,
    picture,
)

from lanekit import FastLaneConfig, FastLaneReader, FastLaneWriter, segment_name
from lanekit.errors import RunNotFound, TelemetryError
from lanekit.segments import segment_path
from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.replay import player as player_module
from lanekit.slow.replay.pacing import LONGEST_GAP, USUAL_GAP, timeline
from lanekit.slow.replay.player import Replay, ReplayState
from lanekit.slow.store.run_store import RunStore
from patience import patience, until

sys.path.insert(0, str(Path(__file__).parent.parent))

from pseudo_terminal import Terminal


def store_at(path: Path, steps: list[pb.Step], run_id: str = "filmed") -> RunStore:
    with open_store(path) as store:
        recording = Recording(store, run_id)
        recording.steps(steps)
    return RunStore.open(path)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RunStore]:
    """Two episodes of 20 steps, every second step with a frame, 50 steps a second."""
    with store_at(tmp_path / "runs.db", filmed_steps(2, 20, every=2)) as opened:
        yield opened


class Player:
    """A replay in a thread of its own, and what it published."""

    def __init__(self, replay: Replay) -> None:
        self.replay = replay
        self.shown: list[tuple[int, int]] = []
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._play)

    def _play(self) -> None:
        try:
            self.replay.play(lambda status: self.shown.append((status.episode, status.step)))
        except BaseException as error:
            self.error = error

    def __enter__(self) -> Player:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.replay.stop()
        self._thread.join(patience())
        assert not self._thread.is_alive()

    def finish(self) -> None:
        self._thread.join(patience())
        assert not self._thread.is_alive()

    def wait_for_step(self, step: int) -> None:
        until(lambda: self.shown[-1:] != [] and self.shown[-1][1] == step, f"step {step}")

    def wait_for_state(self, state: ReplayState) -> None:
        until(lambda: self.replay.status().state is state, state.value)


# --- what a viewer sees -------------------------------------------------------------------------

VIEWER = """
import json, sys, time
from lanekit import FastLaneReader
reader = FastLaneReader.attach(sys.argv[1], timeout=None)
seen = []
while len(seen) < int(sys.argv[2]):
    frame = reader.next_frame()
    if frame is None:
        reader.wait(0.1)
        continue
    a = frame.array
    m = frame.metrics
    seen.append([int(a[0, 0, 0]) * 251 + int(a[-1, -1, 0]), m.last_reward, m.rolling_return,
                 m.step_rate_hz, json.loads(frame.metadata), frame.skipped])
print(json.dumps(seen))
"""


def test_a_viewer_in_another_process_sees_every_frame_in_order_with_its_numbers(
    store: RunStore, run_id: str
) -> None:
    # Held at the end: the viewer may come late, and the ring has room for all frames.
    replay = Replay(store, "filmed", publish_as=run_id, hold=True)
    with Player(replay) as player:
        viewer = subprocess.run(
            [sys.executable, "-c", VIEWER, run_id, "20"],
            stdout=subprocess.PIPE,
            text=True,
            timeout=patience(),
            check=True,
        )
    assert player.error is None
    seen = json.loads(viewer.stdout)
    # Frames of steps 0, 2, 4 … of both episodes; rewards are 1, 2, 3 … within an episode.
    steps = list(range(0, 20, 2)) * 2
    assert [row[0] for row in seen] == [e * 20 + s for e in (0, 1) for s in range(0, 20, 2)]
    assert [row[1] for row in seen] == [step + 1.0 for step in steps]
    # Steps without a frame count, too: 1, 1+2+3, …
    assert [row[2] for row in seen] == [(s + 1) * (s + 2) / 2 for s in steps]
    assert [row[3] for row in seen[1:]] == pytest.approx([50.0] * 19)
    assert [row[4] for row in seen] == [
        {"episode": e, "step": s} for e in (0, 1) for s in range(0, 20, 2)
    ]
    assert sum(row[5] for row in seen) == 0
    assert player.shown == [(e, s) for e in (0, 1) for s in range(0, 20, 2)]


def test_one_episode_of_one_agent_can_be_chosen(tmp_path: Path, run_id: str) -> None:
    with open_store(tmp_path / "runs.db") as opened:
        recording = Recording(opened, "filmed")
        recording.steps(filmed_steps(3, 4, agent="red") + filmed_steps(3, 4, agent="blue"))
    with RunStore.open(tmp_path / "runs.db") as store:
        replay = Replay(store, "filmed", agent="blue", episode=1, publish_as=run_id, speed=1000)
        assert replay.reel.track == ("w0", "blue")
        assert replay.reel.others == (("w0", "red"),)
        with Player(replay) as player:
            player.finish()
        assert player.shown == [(1, 0), (1, 1), (1, 2), (1, 3)]
        assert replay.status().metrics.rolling_return == 10.0


def test_a_worker_that_was_started_again_is_shown_in_the_order_of_its_lives(tmp_path: Path) -> None:
    with open_store(tmp_path / "runs.db") as opened:
        Recording(opened, "filmed", "first").steps(filmed_steps(1, 3))
        Recording(opened, "filmed", "second").steps(filmed_steps(1, 2))
    with RunStore.open(tmp_path / "runs.db") as store:
        assert Replay(store, "filmed").reel.step.tolist() == [0, 1, 2, 0, 1]


def test_frames_that_change_their_size_get_a_new_lane(tmp_path: Path, run_id: str) -> None:
    steps = [
        pb.Step(step=i, wall_time_ns=BEGIN + i * SECOND, frame=frame_message(pixels))
        for i, pixels in enumerate(
            [picture(1, 4, 2), picture(2, 8, 6), picture(3, 8, 6, 1), picture(4, 8, 6, 4)]
        )
    ]
    shapes = []
    with store_at(tmp_path / "runs.db", steps) as store:
        replay = Replay(store, "filmed", publish_as=run_id)
        replay.pause()
        with Player(replay) as player:
            player.wait_for_step(0)
            with FastLaneReader.attach(run_id) as reader:
                for number in range(4):
                    replay.seek(number)
                    player.wait_for_step(number)
                    until(lambda n=number: showing(reader) == n + 1, f"frame {number}")
                    frame = reader.latest_frame()
                    assert frame is not None
                    shapes.append((*frame.array.shape, frame.pixel_format))
        assert player.error is None
    assert shapes == [(2, 4, 3, "RGB"), (6, 8, 3, "RGB"), (6, 8, 1, "GRAY"), (6, 8, 4, "RGBA")]


def showing(reader: FastLaneReader) -> int | None:
    frame = reader.latest_frame()
    return None if frame is None else number_of(frame.array)


def test_the_lane_has_a_name_of_its_own(tmp_path: Path, run_id: str) -> None:
    with store_at(tmp_path / "runs.db", filmed_steps(1, 3), run_id=run_id) as store:
        config = FastLaneConfig(width=2, height=2)
        with FastLaneWriter.create(run_id, config):  # the run itself is live
            replay = Replay(store, run_id, speed=1000)
            assert replay.run_id == f"{run_id}-replay"
            replay.play()


def test_a_name_that_is_taken_is_a_clear_error(store: RunStore, run_id: str) -> None:
    with FastLaneWriter.create(run_id, FastLaneConfig(width=2, height=2)):
        with pytest.raises(TelemetryError, match=rf"process {os.getpid()} .*--as"):
            Replay(store, "filmed", publish_as=run_id).play()


# --- time ---------------------------------------------------------------------------------------


def test_frames_come_at_their_recorded_distances(
    store: RunStore, run_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    moments: list[float] = []
    now = [100.0]
    replay = Replay(store, "filmed", publish_as=run_id, speed=2.0)

    def pass_time(seconds: float) -> bool:
        now[0] += seconds
        return False

    monkeypatch.setattr(player_module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(replay._changed, "wait", pass_time)
    replay.play(lambda status: moments.append(now[0]))
    # 20 frames, 40 ms apart, at twice the speed.
    assert [moment - moments[0] for moment in moments] == pytest.approx(
        [index * 0.02 for index in range(20)]
    )
    assert replay.timeline.duration == pytest.approx(19 * 0.04)


def test_a_clock_that_went_backwards_is_replaced_by_the_usual_gap() -> None:
    ms = SECOND // 1000
    times = np.array([0, 20, 40, -5000, -4980, -4960], np.int64) * ms + BEGIN
    line = timeline(times)
    assert line.seconds.tolist() == pytest.approx([0, 0.02, 0.04, 0.06, 0.08, 0.1])
    assert (line.backwards, line.shortened) == (1, 0)
    (remark,) = line.remarks()
    assert "clock went backwards once" in remark


def test_a_long_gap_is_shortened() -> None:
    times = np.array([0, 1, 3600, 3601], np.int64) * SECOND + BEGIN
    line = timeline(times)
    assert line.seconds.tolist() == [0, 1, 1 + LONGEST_GAP, 2 + LONGEST_GAP]
    assert line.shortened == 1
    assert "shortened to 2 s" in line.remarks()[0]


def test_frames_without_times_come_at_a_usual_rate() -> None:
    line = timeline(np.zeros(4, np.int64))
    assert line.untimed
    assert line.seconds.tolist() == pytest.approx([0, USUAL_GAP, 2 * USUAL_GAP, 3 * USUAL_GAP])


def test_no_clock_is_too_strange() -> None:
    extremes = [-(2**63), 2**63 - 1, 0, -(2**63), 1, 1, 2**62]
    line = timeline(np.array(extremes, np.int64))
    assert (np.diff(line.seconds) >= 0).all()
    assert (np.diff(line.seconds) <= LONGEST_GAP).all()
    assert line.backwards == 2
    assert timeline(np.zeros(0, np.int64)).duration == 0
    assert timeline(np.array([5], np.int64)).seconds.tolist() == [0]


def test_an_impossible_speed_is_refused(store: RunStore) -> None:
    for speed in (0.0, -1.0, float("nan"), float("inf"), 1e9):
        with pytest.raises(ValueError, match="speed is a factor"):
            Replay(store, "filmed", speed=speed)


# --- pause and seek -----------------------------------------------------------------------------


def test_a_paused_replay_shows_the_frame_it_is_sent_to(store: RunStore, run_id: str) -> None:
    replay = Replay(store, "filmed", publish_as=run_id, speed=0.01)
    replay.pause()
    with Player(replay) as player:
        player.wait_for_step(0)
        replay.seek(7)  # has no frame: the next one that has
        player.wait_for_step(8)
        replay.seek(4, episode=1)
        player.wait_for_step(4)
        assert player.shown[-1] == (1, 4)
        replay.seek_frames(-1)
        player.wait_for_step(2)
        replay.seek_frames(-100)
        until(lambda: player.shown[-1] == (0, 0), "the first frame")
        replay.seek_seconds(0.05)
        player.wait_for_step(4)
        replay.seek_seconds(-0.001)  # less than a frame is a frame
        player.wait_for_step(2)
        replay.seek_seconds(1e9)
        until(lambda: player.shown[-1] == (1, 18), "the last frame")
        assert replay.status().state is ReplayState.PAUSED
        with FastLaneReader.attach(run_id) as reader:
            frame = reader.latest_frame()
            assert frame is not None
            assert number_of(frame.array) == 38
    assert not segment_path(segment_name("frame", run_id)).exists()


def test_seeking_nowhere_says_what_there_is(store: RunStore) -> None:
    replay = Replay(store, "filmed")
    with pytest.raises(ValueError, match="episode 9 has no frames here; those that have: 0-1"):
        replay.seek(0, episode=9)
    with pytest.raises(
        ValueError, match="no frame at or after step 19; its last one is at step 18"
    ):
        replay.seek(19)


def test_a_replay_goes_on_from_where_it_was_sent(store: RunStore, run_id: str) -> None:
    replay = Replay(store, "filmed", publish_as=run_id, speed=100)
    replay.seek(14, episode=1)
    with Player(replay) as player:
        player.finish()
    assert player.shown == [(1, 14), (1, 16), (1, 18)]


def test_a_pause_stands_still_and_goes_on(store: RunStore, run_id: str) -> None:
    replay = Replay(store, "filmed", publish_as=run_id, speed=0.2)
    with Player(replay) as player:
        until(lambda: len(player.shown) > 2, "some frames")
        replay.pause()
        player.wait_for_state(ReplayState.PAUSED)
        shown = len(player.shown)
        time.sleep(0.5)  # more than twice the time between two frames
        assert len(player.shown) == shown
        replay.speed = 100
        replay.resume()
        player.finish()
    assert player.shown == [(e, s) for e in (0, 1) for s in range(0, 20, 2)]


def test_a_loop_begins_again(store: RunStore, run_id: str) -> None:
    replay = Replay(store, "filmed", episode=0, publish_as=run_id, speed=1000, loop=True)
    with Player(replay) as player:
        until(lambda: len(player.shown) > 25, "the third round")
    assert player.shown[8:12] == [(0, 16), (0, 18), (0, 0), (0, 2)]


def test_a_held_replay_stays_at_the_end_and_can_be_sent_back(store: RunStore, run_id: str) -> None:
    replay = Replay(store, "filmed", publish_as=run_id, speed=1000, hold=True)
    with Player(replay) as player:
        player.wait_for_state(ReplayState.ENDED)
        assert segment_path(segment_name("frame", run_id)).exists()
        replay.seek(16, episode=1)
        until(lambda: player.shown[-2:] == [(1, 16), (1, 18)] and len(player.shown) > 20, "again")
        player.wait_for_state(ReplayState.ENDED)
        replay.resume()  # from the beginning
        until(lambda: len(player.shown) == 42, "all of it again")


def test_two_threads_can_not_play_one_replay(store: RunStore, run_id: str) -> None:
    replay = Replay(store, "filmed", publish_as=run_id, speed=0.01)
    with replay, Player(replay) as player:
        player.wait_for_step(0)
        with pytest.raises(RuntimeError, match="another thread plays"):
            replay.play()


# --- what is not there --------------------------------------------------------------------------


def test_a_run_without_frames_says_how_to_record_them(tmp_path: Path) -> None:
    with store_at(tmp_path / "runs.db", [pb.Step(step=0)]) as store:
        with pytest.raises(TelemetryError, match=r"no recorded frames.*emit\.step\(.*frame="):
            Replay(store, "filmed")
        with pytest.raises(RunNotFound):
            Replay(store, "unheard-of")


def test_an_episode_or_agent_without_frames_says_which_have_some(store: RunStore) -> None:
    with pytest.raises(TelemetryError, match=r"episode 5 of run filmed .* those that have: 0-1"):
        Replay(store, "filmed", episode=5)
    with pytest.raises(
        TelemetryError, match="no frames for --agent 'x'; it has some of: worker 'w0'"
    ):
        Replay(store, "filmed", agent="x")


# --- the command --------------------------------------------------------------------------------


def command(store: RunStore, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "lanekit", "replay", "filmed", "--store", store.path, *arguments]


def test_the_command_publishes_and_ends(store: RunStore, run_id: str) -> None:
    done = subprocess.run(
        command(store, "--as", run_id, "--speed", "50", "--from", "10"),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=patience(),
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert f"replaying 20 frames of worker 'w0', 0:00; watch with: lanekit view {run_id}" in (
        done.stdout
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_command_leaves_no_lane(
    number: signal.Signals, store: RunStore, run_id: str
) -> None:
    process = subprocess.Popen(
        command(store, "--as", run_id, "--loop"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    FastLaneReader.attach(run_id, timeout=patience()).close()
    process.send_signal(number)
    assert process.wait(patience()) == 130
    assert not segment_path(segment_name("frame", run_id)).exists()


def test_the_keys_of_the_command_pause_seek_and_quit(store: RunStore, run_id: str) -> None:
    with Terminal(*command(store, "--as", run_id, "--speed", "0.01"), columns=100) as terminal:
        terminal.read_until_text("space pause")
        terminal.press(" ")
        terminal.read_until_text("‖ 0:00 / 0:00")
        terminal.press("\x1b[C")
        terminal.read_until(lambda: b"frame 20/20" in terminal.output, "the last frame")
        terminal.press("\x1b[D")
        terminal.read_until(
            lambda: b"frame 1/20" in terminal.output.split(b"20/20")[-1], "the first"
        )
        terminal.press(".")
        terminal.read_until(lambda: b"step 2 " in terminal.output.split(b"20/20")[-1], "the second")
        terminal.press("+")
        terminal.read_until(lambda: b"x0.02" in terminal.output, "twice the speed")
        terminal.press("q")
        assert terminal.finish() == ""
        assert terminal.process.returncode == 0
        assert terminal.attributes == terminal.attributes_before


def test_ctrl_c_on_a_terminal_gives_it_back(store: RunStore, run_id: str) -> None:
    with Terminal(*command(store, "--as", run_id), columns=100) as terminal:
        terminal.read_until(lambda: "■".encode() in terminal.output, "the end, held")
        terminal.press("\x03")
        assert terminal.finish() == ""
        assert terminal.attributes == terminal.attributes_before
    assert not segment_path(segment_name("frame", run_id)).exists()


def test_odd_clocks_are_mentioned(tmp_path: Path, run_id: str) -> None:
    steps = filmed_steps(1, 6)
    steps[3].wall_time_ns = BEGIN - SECOND
    with store_at(tmp_path / "runs.db", steps) as store:
        done = subprocess.run(
            command(store, "--as", run_id, "--speed", "1000"),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=patience(),
            check=True,
        )
    assert "note: the worker's clock went backwards once" in done.stdout
