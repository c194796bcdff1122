"""The demo: a cart-pole that really learns, and two processes that come and go cleanly."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from lanekit import (
    FastLaneConfig,
    FastLaneFrame,
    FastLaneReader,
    FastLaneWriter,
    inspect_segment,
    segment_name,
)
from lanekit.cli import main
from lanekit.demo import cartpole, train
from lanekit.demo.learner import MEMBERS, PROBES, Learner, evaluate
from lanekit.demo.train import FALL_FRAMES, Rate, Stage
from pseudo_terminal import WATCHDOG, Terminal


@pytest.fixture
def run_id() -> Iterator[str]:
    """A run of this test's own, which must have left nothing behind when the test ends."""
    slug = f"demo-{uuid.uuid4().hex[:12]}"
    yield slug
    assert left_behind(slug) == []


def left_behind(slug: str) -> list[str]:
    return [name for name in os.listdir("/dev/shm") if name.startswith("lanekit") and slug in name]


def wait_until(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + WATCHDOG
    while not condition():
        if time.monotonic() > end:
            pytest.fail(f"never saw {what}")
        time.sleep(0.02)


@contextmanager
def training(run_id: str, *options: str) -> Iterator[subprocess.Popen[str]]:
    command = (sys.executable, "-m", "lanekit.demo.train", "--run-id", run_id, *options)
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.terminate()


def demo(run_id: str, *options: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "lanekit", "demo", "--run-id", run_id, *options)


def trainer_pid(run_id: str) -> int:
    return inspect_segment(segment_name("frame", run_id)).owner_pid


# --- the task -------------------------------------------------------------------------------------


def test_a_push_from_rest_moves_cart_and_pole_by_the_known_amounts() -> None:
    after = cartpole.advance(np.zeros((1, 4)), np.array([10.0]))
    assert after[0] == pytest.approx([0.0, 0.195122, 0.0, -0.292683], abs=1e-6)


def test_the_physics_know_no_left_or_right() -> None:
    states = np.random.default_rng(0).normal(size=(50, 4))
    force = np.random.default_rng(1).normal(size=50)
    assert np.allclose(cartpole.advance(-states, -force), -cartpole.advance(states, force))


def test_a_pole_falls_the_way_it_leans() -> None:
    states = np.array([[0.0, 0.0, 0.01, 0.0], [0.0, 0.0, -0.01, 0.0]])
    for _ in range(100):
        states = cartpole.advance(states, np.zeros(2))
    assert states[0, 2] > cartpole.THETA_LIMIT
    assert states[1, 2] < -cartpole.THETA_LIMIT
    assert cartpole.failed(states).all()


@pytest.mark.parametrize(("height", "width"), [(120, 240), (120, 160), (64, 64), (7, 5)])
def test_a_drawing_covers_the_whole_image_whatever_was_there(height: int, width: int) -> None:
    state = np.array([0.5, 0.0, 0.1, 0.0])
    one = np.zeros((height, width, 3), np.uint8)
    other = np.full((height, width, 3), 255, np.uint8)
    cartpole.draw(state, one, push=0.5)
    cartpole.draw(state, other, push=0.5)
    assert np.array_equal(one, other)


def test_the_mirrored_state_is_the_mirrored_picture() -> None:
    one, other = (np.zeros((120, 240, 3), np.uint8) for _ in range(2))
    state = np.array([0.7, 0.0, 0.15, 0.0])
    cartpole.draw(state, one, push=0.8)
    cartpole.draw(-state, other, push=-0.8)
    assert np.abs(one.astype(int) - other[:, ::-1].astype(int)).max() <= 2


@pytest.mark.parametrize("number", [0, 2])
def test_a_small_move_shows_in_the_picture(number: int) -> None:
    one, other = (np.zeros((120, 240, 3), np.uint8) for _ in range(2))
    state = np.zeros(4)
    cartpole.draw(state, one)
    state[number] = 0.01
    cartpole.draw(state, other)
    assert not np.array_equal(one, other)


def test_a_cart_far_off_the_track_is_simply_not_in_the_picture() -> None:
    image = np.zeros((120, 240, 3), np.uint8)
    cartpole.draw(np.array([50.0, 0.0, 0.0, 0.0]), image)
    empty = np.zeros((120, 240, 3), np.uint8)
    cartpole.draw(np.array([-50.0, 0.0, 0.0, 0.0]), empty)
    assert np.array_equal(image, empty)


# --- the learner ----------------------------------------------------------------------------------


def learned(seed: int, generations: int) -> Learner:
    learner = Learner(seed)
    while learner.generation < generations:
        learner.step()
    return learner


@pytest.mark.parametrize("seed", range(3))
def test_the_learner_really_learns_to_balance(seed: int) -> None:
    rng = np.random.default_rng(12345)
    assert evaluate(learned(seed, 0).mean, rng, 100).mean() < 50
    assert evaluate(learned(seed, 25).mean, rng, 100).mean() >= 400


def test_the_same_seed_learns_the_same_policy() -> None:
    assert np.array_equal(learned(3, 6).mean, learned(3, 6).mean)
    assert not np.array_equal(learned(3, 6).mean, learned(4, 6).mean)


def test_every_step_and_every_episode_is_counted_once() -> None:
    learner = Learner(0)
    returns: list[float] = []
    while learner.generation < 4:
        returns += learner.step()
    assert len(returns) == learner.episodes == 4 * (MEMBERS + PROBES)
    assert sum(returns) == learner.steps
    assert max(returns) == learner.best_return


# --- what is shown of it --------------------------------------------------------------------------


def test_a_fall_is_shown_to_the_end_before_the_next_episode_begins() -> None:
    stage = Stage(0)
    clueless = Learner(0).mean
    while stage.reward or not stage.steps:
        stage.step(clueless, pushes=False)
    angles = []
    for _ in range(FALL_FRAMES):
        angles.append(abs(stage.state[2]))
        stage.step(clueless, pushes=False)
    assert angles == sorted(angles)
    assert angles[-1] > 0.5
    assert abs(stage.state[2]) <= 0.05
    stage.step(clueless, pushes=False)
    assert stage.reward == 1.0


def test_the_solved_policy_withstands_most_pushes() -> None:
    stage = Stage(1)
    policy = learned(1, 25).mean
    rewards, pushes = [], 0
    for _ in range(5000):
        stage.step(policy, pushes=True)
        rewards.append(stage.reward)
        pushes += stage.push != 0
    assert pushes > 100
    assert np.mean(rewards) > 0.9


def test_a_rate_is_what_was_counted_over_the_time_it_took() -> None:
    rate = Rate()
    assert rate.update(0, 10.0) == 0.0
    assert rate.update(50, 10.5) == pytest.approx(100.0)
    for tenth in range(100):
        value = rate.update(50 + 20 * tenth, 10.6 + 0.1 * tenth)
    assert value == pytest.approx(200.0)


# --- the training process -------------------------------------------------------------------------


def test_nobody_watching_means_no_frames_but_all_of_the_learning(run_id: str) -> None:
    with (
        training(run_id),
        FastLaneReader.attach(run_id, timeout=WATCHDOG, lease=0.0) as reader,
    ):
        wait_until(lambda: reader.metrics().rolling_return > 100, "a return above 100")
        assert reader.metrics().step_rate_hz > 0
        assert reader.latest_frame() is None


def test_a_viewer_gets_moving_pictures_with_the_numbers_of_the_run(run_id: str) -> None:
    with training(run_id), FastLaneReader.attach(run_id, timeout=WATCHDOG) as reader:
        frames: list[FastLaneFrame] = []
        while len(frames) < 30:
            assert reader.wait(WATCHDOG)
            frame = reader.latest_frame(fresh=True)
            assert frame is not None
            frames.append(frame)
    assert len({frame.data for frame in frames}) > 20
    notes = json.loads(frames[-1].metadata or b"")
    assert notes["generation"] >= 1
    assert notes["episode"] >= MEMBERS
    assert notes["best"] > 0
    assert frames[-1].metrics.rolling_return > 0
    assert frames[-1].metrics.step_rate_hz > 0
    assert {frame.metrics.last_reward for frame in frames} <= {0.0, 1.0}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_training_quietly(run_id: str, number: signal.Signals) -> None:
    with training(run_id) as process, FastLaneReader.attach(run_id, timeout=WATCHDOG) as reader:
        assert reader.wait(WATCHDOG)
        process.send_signal(number)
        assert process.wait(WATCHDOG) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""
        assert not reader.connected


def test_the_training_ends_by_itself_when_its_time_is_up(run_id: str) -> None:
    with training(run_id, "--seconds", "0.5") as process:
        assert process.wait(WATCHDOG) == 0


def test_the_training_does_not_outlive_the_process_that_wanted_it(run_id: str) -> None:
    script = (
        "import os, subprocess, sys, time\n"
        "subprocess.Popen([sys.executable, '-m', 'lanekit.demo.train',"
        f" '--run-id', {run_id!r}, '--parent', str(os.getpid())])\n"
        "time.sleep(600)\n"
    )
    with subprocess.Popen((sys.executable, "-c", script)) as parent:
        try:
            wait_until(lambda: left_behind(run_id) != [], "the lane")
        finally:
            parent.kill()
    wait_until(lambda: left_behind(run_id) == [], "the end of the training")


def test_a_run_that_is_taken_is_one_line_and_no_traceback(run_id: str) -> None:
    with FastLaneWriter.create(run_id, FastLaneConfig(8, 8)), training(run_id) as process:
        assert process.wait(WATCHDOG) == 1
        assert process.stderr is not None
        complaint = process.stderr.read()
    assert complaint.startswith("lanekit.demo.train: ")
    assert str(os.getpid()) in complaint
    assert complaint.count("\n") == 1


# --- the whole demo -------------------------------------------------------------------------------


def test_the_demo_shows_a_moving_picture_and_its_numbers(run_id: str) -> None:
    with Terminal(*demo(run_id)) as terminal:
        terminal.read_until(lambda: len(terminal.screen.picture) == 80 * 20, "a picture")
        terminal.read_until_text("generation 2")
        for words in (
            f"run {run_id}",
            "live",
            "reward",
            "return",
            "step/s",
            "fps",
            "age",
            "skipped",
            "best",
            "policy learning",
        ):
            assert words in terminal.screen.text
        for _ in range(3):
            terminal.read_until_picture_differs(terminal.screen.picture)
        terminal.press("q")
        assert terminal.finish() == ""
        assert terminal.process.returncode == 0
        terminal.assert_restored()
        farewell = terminal.output.decode().rpartition("\x1b[?1049l")[2]
        assert f"run '{run_id}'" in farewell
        assert "frames shown, best return" in farewell
        assert "lanekit ls" in farewell
        assert farewell.count("\n") == 2


def default_demo(run_id: str) -> subprocess.Popen[str]:
    """Start the demo as without a run id, where the usual one would be ``run_id``."""
    script = (
        "import sys\n"
        "from lanekit.cli import demo, main\n"
        f"demo.RUN_ID = {run_id!r}\n"
        "sys.exit(main(['demo', '--seconds', '0.5']))\n"
    )
    pipe = subprocess.PIPE
    return subprocess.Popen((sys.executable, "-c", script), stdout=pipe, stderr=pipe, text=True)


def test_a_second_demo_takes_a_run_id_of_its_own_and_says_so(run_id: str) -> None:
    with FastLaneWriter.create(run_id, FastLaneConfig(8, 8)), default_demo(run_id) as second:
        shown, said = second.communicate(timeout=WATCHDOG)
    assert second.returncode == 0
    assert f"process {os.getpid()} publishes run {run_id!r}" in said
    assert f"this is run '{run_id}-{second.pid}'" in said
    assert f"run '{run_id}-{second.pid}': " in shown


def test_the_run_id_of_a_demo_that_was_killed_is_free_again(run_id: str) -> None:
    with training(run_id) as killed, FastLaneReader.attach(run_id, timeout=WATCHDOG):
        killed.kill()
        killed.wait()
    with default_demo(run_id) as second:
        shown, said = second.communicate(timeout=WATCHDOG)
    assert (second.returncode, said) == (0, "")
    assert f"run {run_id!r}: " in shown


@pytest.mark.parametrize("seed", ["-1", "half", ""])
def test_a_seed_that_no_generator_takes_is_misuse(
    seed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for command, arguments in ((main, ["demo"]), (train.main, ["--run-id=none"])):
        with pytest.raises(SystemExit, match="2"):
            command([*arguments, "--seed", seed])
        assert f"argument --seed: must be a whole number and not negative, got {seed}" in (
            capsys.readouterr().err
        )


@pytest.mark.parametrize("key", ["\x03", "q"])
def test_a_key_ends_the_demo_and_leaves_nothing_behind(run_id: str, key: str) -> None:
    with Terminal(*demo(run_id)) as terminal:
        terminal.read_until(lambda: bool(terminal.screen.picture), "a picture")
        assert left_behind(run_id) != []
        terminal.press(key)
        assert terminal.finish() == ""
        assert terminal.process.returncode == 0
        terminal.assert_restored()
        assert left_behind(run_id) == []


def test_sigterm_ends_the_demo_and_its_training(run_id: str) -> None:
    with Terminal(*demo(run_id)) as terminal:
        terminal.read_until(lambda: bool(terminal.screen.picture), "a picture")
        pid = trainer_pid(run_id)
        terminal.process.terminate()
        assert terminal.finish() == ""
        assert terminal.process.returncode == 0
        terminal.assert_restored()
        assert not os.path.exists(f"/proc/{pid}")


def test_a_demo_that_is_killed_takes_its_training_with_it(run_id: str) -> None:
    with Terminal(*demo(run_id)) as terminal:
        terminal.read_until(lambda: bool(terminal.screen.picture), "a picture")
        terminal.process.kill()
        wait_until(lambda: left_behind(run_id) == [], "the end of the training")


def test_a_training_process_that_is_killed_is_noticed(run_id: str) -> None:
    with Terminal(*demo(run_id)) as terminal:
        terminal.read_until(lambda: bool(terminal.screen.picture), "a picture")
        os.kill(trainer_pid(run_id), signal.SIGKILL)
        assert "the training process ended with status -9" in terminal.finish()
        assert terminal.process.returncode == 1
        terminal.assert_restored()


def test_a_training_process_that_hangs_is_killed_and_tidied_up_after(run_id: str) -> None:
    with Terminal(*demo(run_id)) as terminal:
        terminal.read_until(lambda: bool(terminal.screen.picture), "a picture")
        pid = trainer_pid(run_id)
        os.kill(pid, signal.SIGSTOP)
        terminal.press("\x03")
        assert terminal.finish() == ""
        assert terminal.process.returncode == 0
        assert not os.path.exists(f"/proc/{pid}")


def test_a_training_process_that_can_not_start_says_why(run_id: str) -> None:
    with (
        FastLaneWriter.create(run_id, FastLaneConfig(8, 8)),
        Terminal(*demo(run_id)) as terminal,
    ):
        complaint = terminal.finish()
        assert "the training process ended with status 1" in complaint
        assert f"{os.getpid()}" in complaint
        assert "Traceback" not in complaint
        assert terminal.process.returncode == 1
        terminal.assert_restored()
        assert left_behind(run_id) != [], "the other writer's segment is not ours to remove"


def test_the_demo_prints_plain_lines_into_a_pipe(run_id: str) -> None:
    with subprocess.Popen(demo(run_id), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            if f"run {run_id}: live | reward" in line:
                process.send_signal(signal.SIGINT)
    assert process.returncode == 0
    assert "\x1b" not in "".join(lines)
    assert "best return" in lines[-2]
