"""What the demo trains: a cart-pole that is really learned, and what is shown of it."""

from __future__ import annotations

import json

import numpy as np
import pytest

from lanekit.demo import cartpole
from lanekit.demo.networks import Network
from lanekit.demo.ppo import Learner, Options, Policy
from lanekit.demo.recording import Recording
from lanekit.demo.show import Rate
from lanekit.demo.stages import FALL_FRAMES, CartPoleStage
from lanekit.demo.worlds import CartPoles, Continuous, World, WorldStep
from lanekit.slow.emit import Emitter

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
