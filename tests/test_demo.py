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
from lanekit.cli.demo_runs import without_tracebacks
from lanekit.demo import cartpole
from lanekit.demo.networks import Network
from lanekit.demo.ppo import Learner, Options, Policy
from lanekit.demo.recording import Recording
from lanekit.demo.show import Rate
from lanekit.demo.stages import FALL_FRAMES, CartPoleStage
from lanekit.demo.worlds import CartPoles, Continuous, World, WorldStep
from lanekit.slow.emit import Emitter
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
def training(run_id: str, **options: object) -> Iterator[subprocess.Popen[str]]:
    """A worker without a daemon, which trains for as long as it is let."""
    config = {"run_id": run_id, "total_steps": 0, "num_envs": 4, **options}
    with subprocess.Popen(
        (sys.executable, "-m", "lanekit.demo.worker"),
        env={**os.environ, "LANEKIT_CONFIG_JSON": json.dumps(config)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.terminate()


def demo(run_id: str, *options: str) -> tuple[str, ...]:
    """The demo as the base install has it."""
    command = (sys.executable, "-m", "lanekit", "demo", "--no-record", "--view", "terminal")
    return (*command, "--run-id", run_id, *options)


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


class ToTheMiddle:
    """Four numbers to steer: the reward is how close the action is to minus the observation."""

    count, observation_size = 8, 1
    actions = Continuous(1)

    def __init__(self) -> None:
        self._rng = np.random.default_rng(0)

    def reset(self) -> np.ndarray:
        self._seen = self._rng.uniform(-0.8, 0.8, (self.count, 1))
        return self._seen

    def step(self, actions: np.ndarray) -> WorldStep:
        rewards = -np.abs(actions + self._seen)[:, 0]
        last = self._seen
        over = np.ones(self.count, bool)
        return WorldStep(self.reset(), rewards, over, np.zeros(self.count, bool), last)


def after(world: World, seed: int, updates: int) -> Learner:
    learner = Learner(world, seed)
    while learner.updates < updates:
        learner.work()
    return learner


def greedy_return(policy: Policy) -> float:
    world = CartPoles(40, seed=12345)
    seen, alive, earned = world.reset(), np.ones(40, bool), np.zeros(40)
    while alive.any():
        step = world.step(policy.best(seen))
        earned += alive
        alive &= ~(step.terminated | step.truncated)
        seen = step.observations
    return float(earned.mean())


@pytest.mark.parametrize("seed", [0, 1])
def test_the_agent_really_learns_to_balance(seed: int) -> None:
    learner = Learner(CartPoles(16, seed), seed)
    assert greedy_return(learner.policy) < 50
    best = 0.0
    while best < 400 and learner.updates < 40:
        learner.work()
        if learner.updates and learner.updates % 8 == 0:
            best = max(best, greedy_return(learner.policy))
    assert best >= 400


def test_the_agent_learns_continuous_actions_too() -> None:
    learner = after(ToTheMiddle(), 0, updates=30)  # type: ignore[arg-type]
    seen = np.linspace(-0.8, 0.8, 9)[:, None]
    assert np.abs(learner.policy.best(seen) + seen).mean() < 0.15


def test_the_same_seed_learns_the_same_policy() -> None:
    one, same, other = (after(CartPoles(4, s), s, updates=2).policy for s in (3, 3, 4))
    for mine, its in zip(one.actor.parameters, same.actor.parameters, strict=True):
        assert np.array_equal(mine, its)
    assert not np.array_equal(one.actor.parameters[0], other.actor.parameters[0])


def test_every_step_and_every_episode_is_counted_once() -> None:
    learner = Learner(CartPoles(4, seed=0), 0, Options(rollout_steps=32))
    ended = [episode for _ in range(200) for episode in learner.work()]
    assert learner.episodes == len(ended) > 0
    assert all(episode.episode_return == episode.length for episode in ended)
    assert sum(episode.length for episode in ended) <= learner.steps
    assert learner.best_return == max(episode.episode_return for episode in ended)


def test_the_networks_gradients_are_those_that_small_changes_show() -> None:
    rng = np.random.default_rng(0)
    network, inputs = Network((3, 5, 2), rng, 1.0), rng.normal(size=(7, 3))
    weights = rng.normal(size=(7, 2))
    network(inputs, remember=True)
    for parameter, gradient in zip(network.parameters, network.backward(weights), strict=True):
        at = tuple(rng.integers(size) for size in parameter.shape)
        before = (network(inputs) * weights).sum()
        parameter[at] += 1e-6
        slope = ((network(inputs) * weights).sum() - before) / 1e-6
        parameter[at] -= 1e-6
        assert gradient[at] == pytest.approx(slope, rel=1e-3, abs=1e-6)


@pytest.mark.parametrize("world", [CartPoles(4, 0), ToTheMiddle()], ids=["discrete", "continuous"])
def test_the_policys_gradients_are_those_that_small_changes_show(world: World) -> None:
    rng = np.random.default_rng(0)
    policy = Policy(world, rng)
    outputs = rng.normal(size=(6, world.actions.size))
    actions, weight = policy.sample(outputs, rng), rng.normal(size=6)
    slope, _ = policy.gradients(outputs, actions, weight, entropy=0.0)
    for at in ((0, 0), (5, world.actions.size - 1)):
        moved = outputs.copy()
        moved[at] += 1e-6
        rise = policy.log_probability(moved, actions) - policy.log_probability(outputs, actions)
        assert slope[at] == pytest.approx((weight * rise).sum() / 1e-6, rel=1e-3, abs=1e-6)


def test_an_episode_that_was_cut_off_is_not_taken_for_a_failure() -> None:
    world = CartPoles(2, seed=0)
    world.reset()
    world._ages[:] = cartpole.MAX_STEPS - 1
    step = world.step(np.array([0, 1]))
    assert step.truncated.all()
    assert not step.terminated.any()
    assert not np.array_equal(step.observations, step.last_observations)


# --- what is shown of it --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def clueless() -> Policy:
    return Learner(CartPoles(4, 0), 0).policy


@pytest.fixture(scope="module")
def skilled() -> Policy:
    learner = Learner(CartPoles(16, 1), 1)
    while learner.updates % 8 or learner.updates == 0 or greedy_return(learner.policy) < 450:
        learner.work()
    return learner.policy


def test_a_fall_is_shown_to_the_end_before_the_next_episode_begins(clueless: Policy) -> None:
    stage = CartPoleStage(0)
    while (step := stage.step(clueless, solved=False)) is not None and not step.terminated:
        pass
    assert step is not None
    angles = []
    for _ in range(FALL_FRAMES - 1):
        assert stage.step(clueless, solved=False) is None
        angles.append(abs(stage.state[2]))
    assert angles == sorted(angles)
    assert angles[-1] > 0.5
    assert stage.step(clueless, solved=False) is None  # the new episode is in place
    assert abs(stage.state[2]) <= 0.05
    assert stage.step(clueless, solved=False) is not None


def test_the_solved_policy_withstands_most_pushes(skilled: Policy) -> None:
    stage = CartPoleStage(1)
    steps = [stage.step(skilled, solved=True) for _ in range(3000)]
    taken = [step for step in steps if step is not None]
    assert len(taken) / len(steps) > 0.8
    assert any(stage.push or step.terminated or step.truncated for step in taken)


class Heard(Emitter):
    """Notes what it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[dict[str, object]] = []

    def write_line(self, text: str) -> None:
        self.lines.append(json.loads(text))


def test_pictures_are_recorded_until_there_is_no_more_room(clueless: Policy) -> None:
    heard, stage = Heard(), CartPoleStage(0)
    recording = Recording(heard, room=3 * 240 * 120 * 3)
    while len(heard.lines) < 60:
        step = stage.step(clueless, solved=False)
        if step is not None:
            recording.shown(step, stage.picture())
    steps = [line for line in heard.lines if line.get("event_type") == "step"]
    frames = [line["frame"] for line in steps if "frame" in line]
    assert len(frames) == 3
    assert {(f["width"], f["height"]) for f in frames} == {(240, 120)}  # type: ignore[index]
    assert not recording.has_room
    episodes = [line for line in heard.lines if line.get("event_type") == "episode"]
    assert episodes[0]["return"] == episodes[0]["length"]
    assert [line["episode_index"] for line in episodes] == list(range(len(episodes)))


def test_without_a_daemon_nothing_is_recorded(clueless: Policy) -> None:
    recording = Recording(None, room=1 << 20)
    stage = CartPoleStage(0)
    step = stage.step(clueless, solved=False)
    assert step is not None
    recording.shown(step, stage.picture())
    assert not recording.has_room


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
        wait_until(lambda: reader.metrics().rolling_return > 30, "a return above 30")
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
    assert notes["episode"] > 0
    assert notes["best"] > 0
    assert notes["policy"] == "learning"
    assert frames[-1].metrics.rolling_return > 0
    assert frames[-1].metrics.step_rate_hz > 0
    assert {frame.metrics.last_reward for frame in frames} <= {0.0, 1.0}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_training_quietly(run_id: str, number: signal.Signals) -> None:
    with training(run_id) as process, FastLaneReader.attach(run_id, timeout=WATCHDOG) as reader:
        assert reader.wait(WATCHDOG)
        process.send_signal(number)
        assert process.wait(WATCHDOG) == (130 if number == signal.SIGINT else 0)
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()
        assert not reader.connected


def test_the_training_ends_by_itself_when_its_steps_are_done(run_id: str) -> None:
    with training(run_id, total_steps=2000) as process:
        assert process.wait(WATCHDOG) == 0


def test_the_training_does_not_outlive_the_process_that_wanted_it(run_id: str) -> None:
    with subprocess.Popen(("sleep", "600")) as parent:
        with training(run_id, parent=parent.pid) as process:
            wait_until(lambda: left_behind(run_id) != [], "the lane")
            assert process.poll() is None
            parent.kill()
            parent.wait()
            assert process.wait(WATCHDOG) == 0


def test_a_run_that_is_taken_is_refused(run_id: str) -> None:
    with FastLaneWriter.create(run_id, FastLaneConfig(8, 8)), training(run_id) as process:
        assert process.wait(WATCHDOG) == 1
        assert process.stderr is not None
        complaint = process.stderr.read()
    assert f"process {os.getpid()}" in complaint


def test_of_a_traceback_only_what_failed_is_told() -> None:
    said = ["before", "  Traceback (most recent call last):", '    File "x.py"', "      f()"]
    said += ["  ValueError: it is so", "after"]
    assert without_tracebacks(said) == ["before", "  ValueError: it is so", "after"]


# --- the whole demo -------------------------------------------------------------------------------


def test_the_demo_shows_a_moving_picture_and_its_numbers(run_id: str) -> None:
    with Terminal(*demo(run_id)) as terminal:
        terminal.read_until(lambda: len(terminal.screen.picture) == 80 * 20, "a picture")
        terminal.read_until_text("episode 2")
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
        assert "Traceback" not in terminal.finish()
        assert terminal.process.returncode == 0
        terminal.assert_restored()
        farewell = terminal.output.decode().rpartition("\x1b[?1049l")[2]
        assert f"run '{run_id}' is over" in farewell
        assert "frames shown, nothing recorded" in farewell
        assert "try next:" in farewell
        assert "lanekit workers" in farewell


def default_demo(run_id: str) -> subprocess.Popen[str]:
    """Start the demo as without a run id, where the usual one would be ``run_id``."""
    script = (
        "import sys\n"
        "from lanekit.cli import demo_runs, main\n"
        f"demo_runs.RUN_ID = {run_id!r}\n"
        "sys.exit(main(['demo', '--no-record', '--view', 'terminal', '--seconds', '0.5']))\n"
    )
    pipe = subprocess.PIPE
    return subprocess.Popen((sys.executable, "-c", script), stdout=pipe, stderr=pipe, text=True)


def test_a_second_demo_takes_a_run_id_of_its_own_and_says_so(run_id: str) -> None:
    with FastLaneWriter.create(run_id, FastLaneConfig(8, 8)), default_demo(run_id) as second:
        shown, said = second.communicate(timeout=WATCHDOG)
    assert second.returncode == 0
    assert f"process {os.getpid()} publishes run {run_id!r}" in said
    assert f"this is run '{run_id}-{second.pid}'" in said
    assert f"run '{run_id}-{second.pid}' is over" in shown


def test_the_run_id_of_a_demo_that_was_killed_is_free_again(run_id: str) -> None:
    with training(run_id) as killed, FastLaneReader.attach(run_id, timeout=WATCHDOG):
        killed.kill()
        killed.wait()
    with default_demo(run_id) as second:
        shown, said = second.communicate(timeout=WATCHDOG)
    assert second.returncode == 0
    assert "publishes run" not in said
    assert f"run {run_id!r} is over" in shown


@pytest.mark.parametrize("seed", ["-1", "half", ""])
def test_a_seed_that_no_generator_takes_is_misuse(
    seed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["demo", "--seed", seed])
    assert f"argument --seed: must be a whole number and not negative, got {seed}" in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize("key", ["\x03", "q"])
def test_a_key_ends_the_demo_and_leaves_nothing_behind(run_id: str, key: str) -> None:
    with Terminal(*demo(run_id)) as terminal:
        terminal.read_until(lambda: bool(terminal.screen.picture), "a picture")
        assert left_behind(run_id) != []
        terminal.press(key)
        assert "Traceback" not in terminal.finish()
        assert terminal.process.returncode == 0
        terminal.assert_restored()
        assert left_behind(run_id) == []


def test_sigterm_ends_the_demo_and_its_training(run_id: str) -> None:
    with Terminal(*demo(run_id)) as terminal:
        terminal.read_until(lambda: bool(terminal.screen.picture), "a picture")
        pid = trainer_pid(run_id)
        terminal.process.terminate()
        assert "Traceback" not in terminal.finish()
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
        assert "Traceback" not in terminal.finish()
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
    with subprocess.Popen(
        demo(run_id), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            if f"run {run_id}: live | reward" in line:
                process.send_signal(signal.SIGINT)
    assert process.returncode == 0
    assert "\x1b" not in "".join(lines)
    assert "nothing recorded" in "".join(lines)
