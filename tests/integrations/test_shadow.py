"""Another process draws, from the environment's state: the same pixels, and nothing left behind."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import psutil
import pytest
import trainer
import worlds
from gymnasium.envs.registration import EnvSpec
from trainer import Replay, Training, frames, rgb

import lanekit
from lanekit import inspect_segment, segment_name
from lanekit.integrations import FastLaneTelemetryWrapper, FastLaneWarning, register_state_adapter
from lanekit.integrations.shadow.adapters import adapter_for
from lanekit.integrations.showing.frame_note import FrameNote
from lanekit.integrations.showing.helper_process import ATTEMPTS
from lanekit.integrations.showing.painter import ShadowPlan, plan_shadow
from patience import patience, until
from run_lanes import lanes_of

pytestmark = pytest.mark.once

CLASSIC = ["CartPole-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Pendulum-v1", "Acrobot-v1"]
SHADOW = json.dumps({"rendering": "shadow"})


def helpers_of(training: Training) -> list[psutil.Process]:
    """The processes that draw for a training process, of which there is one at most."""
    found = []
    for child in psutil.Process(training.process.pid).children():
        with contextlib.suppress(psutil.Error):  # one that was killed just now
            if "lanekit.integrations.shadow" in " ".join(child.cmdline()):
                found.append(child)
    assert len(found) <= 1
    return found


def helper_of(training: Training) -> psutil.Process:
    until(lambda: bool(helpers_of(training)), "a helper process")
    return helpers_of(training)[0]


@pytest.mark.pygame
@pytest.mark.parametrize("env_id", CLASSIC)
def test_a_shadow_draws_the_same_pixels(run_id: str, env_id: str) -> None:
    replay = Replay(env_id)
    with Training(trainer.train, run_id, env_id, SHADOW) as training, training.reader() as reader:
        for frame, note in frames(reader, 8):
            assert note.rendering == "shadow"
            np.testing.assert_array_equal(rgb(frame), replay.picture_at(note.step))
        assert training.end() == {
            "steps": training.result["steps"],
            "rendering": "shadow",
            "warnings": [],
        }


@pytest.mark.pygame
@pytest.mark.parametrize("env_id", CLASSIC)
def test_a_state_makes_a_copy_look_the_same_right_after_a_reset(env_id: str) -> None:
    env, copy = (gymnasium.make(env_id, render_mode="rgb_array").unwrapped for _ in range(2))
    env.reset(seed=1)
    copy.reset(seed=2)
    adapter = adapter_for(env)
    assert adapter is not None
    adapter.set_state(copy, adapter.get_state(env))
    np.testing.assert_array_equal(copy.render(), env.render())


@pytest.mark.pygame
def test_a_shadow_draws_an_environment_that_was_made_without_a_render_mode(run_id: str) -> None:
    replay = Replay("CartPole-v1")
    options = json.dumps({}), json.dumps({"render_mode": None})
    with Training(trainer.train, run_id, "CartPole-v1", *options) as training:
        with training.reader() as reader:
            for frame, note in frames(reader, 3):
                np.testing.assert_array_equal(rgb(frame), replay.picture_at(note.step))
    assert training.result["warnings"] == []


def test_an_adapter_of_the_users_own_serves_their_environment(run_id: str) -> None:
    with Training(trainer.train, run_id, "Counter-v0") as training, training.reader() as reader:
        for frame, note in frames(reader, 5):
            assert note.rendering == "shadow"
            np.testing.assert_array_equal(frame.array, worlds.picture(note.step))
        listed = subprocess.run(
            [sys.executable, "-m", "lanekit", "ls", "--json"], capture_output=True, check=True
        )
        (row,) = [row for row in json.loads(listed.stdout) if row.get("run") == run_id]
        assert row["rendering"] == "shadow"
        assert row["owner_pid"] == helper_of(training).pid


@pytest.fixture
def atari() -> Iterator[None]:
    """Atari's games, registered for one test only: others count what there is to play."""
    ale_py = pytest.importorskip("ale_py", reason="needs ale-py")
    if "ALE/Pong-v5" not in gymnasium.registry:
        ale_py.registration.register_v5_envs()
    yield
    for env_id, spec in list(gymnasium.registry.items()):
        if str(spec.entry_point).startswith("ale_py"):
            del gymnasium.registry[env_id]


@pytest.mark.usefixtures("atari")
@pytest.mark.parametrize("game", ["Pong", "Enduro", "KeystoneKapers"])  # the last one in PAL
def test_a_shadow_draws_the_same_screen_of_an_atari_game(run_id: str, game: str) -> None:
    env_id = f"ale_py:ALE/{game}-v5"
    replay = Replay(env_id)
    with Training(trainer.train, run_id, env_id) as training, training.reader() as reader:
        for frame, note in frames(reader, 12):
            assert note.rendering == "shadow"
            np.testing.assert_array_equal(rgb(frame), replay.picture_at(note.step))
        assert training.end()["warnings"] == []


@pytest.mark.usefixtures("atari")
def test_colours_that_an_atari_game_shows_later_are_learnt_when_they_come() -> None:
    env, copy = (gymnasium.make("ale_py:ALE/MsPacman-v5", obs_type="ram") for _ in range(2))
    plan = plan_shadow(env)
    assert isinstance(plan, ShadowPlan)
    env.reset(seed=1)
    copy.reset(seed=2)
    env.action_space.seed(3)
    theirs: Any = copy.unwrapped
    theirs.render_mode = "rgb_array"
    numbers = set()
    for _ in range(200):
        if any(env.step(env.action_space.sample())[2:4]):
            env.reset()
        ours: Any = env.unwrapped
        plan.adapter.set_state(theirs, plan.state())
        np.testing.assert_array_equal(theirs.render(), ours.ale.getScreenRGB())
        numbers.add(len(np.unique(ours.ale.getScreen())))
    assert len(numbers) > 1, "the game always has the same colours"


def test_mujoco_looks_the_same_elsewhere() -> None:
    pytest.importorskip("mujoco", reason="needs mujoco")
    pytest.importorskip("imageio", reason="needs imageio")
    env, copy = (gymnasium.make("Ant-v5", render_mode=None) for _ in range(2))
    env.reset(seed=1)
    copy.reset(seed=2)
    plan = plan_shadow(env)
    assert isinstance(plan, ShadowPlan)
    env.action_space.seed(3)
    for _ in range(5):
        env.step(env.action_space.sample())
        plan.adapter.set_state(copy.unwrapped, plan.state())
        ours: Any = env.unwrapped
        theirs: Any = copy.unwrapped
        for field in ("geom_xpos", "geom_xmat", "xpos", "cam_xpos", "light_xpos", "qpos", "qvel"):
            np.testing.assert_array_equal(
                getattr(ours.data, field), getattr(theirs.data, field), err_msg=field
            )


@pytest.mark.once
def test_mujoco_pixels_are_the_same_where_the_machine_can_draw_them(
    run_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MUJOCO_GL", "egl")
    pytest.importorskip("mujoco", reason="needs mujoco")
    pytest.importorskip("imageio", reason="needs imageio")
    # A camera of the model: the free one depends on when the first picture was drawn.
    make = {"width": 64, "height": 64, "camera_name": "track"}
    try:
        replay = Replay("HalfCheetah-v5", **make)
        replay.picture_at(1)
    except Exception as error:
        pytest.skip(f"this machine can not draw with MuJoCo: {error}")
    with Training(trainer.train, run_id, "HalfCheetah-v5", SHADOW, json.dumps(make)) as training:
        with training.reader() as reader:
            for frame, note in frames(reader, 2):
                np.testing.assert_array_equal(rgb(frame), replay.picture_at(note.step))
    replay.env.close()


def test_no_process_is_started_while_nobody_watches(run_id: str) -> None:
    with Training(trainer.train, run_id, "CartPole-v1", SHADOW) as training:
        until(lambda: lanes_of(run_id) == [run_id, f"{run_id}/state"], "the lanes are there")
        with lanekit.FastLaneReader.attach(f"{run_id}/state", lease=0) as states:
            assert not states.wait(0.3)
        assert psutil.Process(training.process.pid).children() == []


def test_states_stop_when_the_viewer_leaves_and_go_on_when_one_comes(run_id: str) -> None:
    with Training(trainer.train, run_id, "Counter-v0", SHADOW) as training:
        with training.reader() as reader:
            assert len(list(frames(reader, 3))) == 3
        with lanekit.FastLaneReader.attach(f"{run_id}/state", lease=0) as states:

            def silent() -> bool:
                states.latest_frame(fresh=True)
                return not states.wait(0.4)

            until(silent, "no more states")
            with training.reader() as reader:
                assert len(list(frames(reader, 3))) == 3
                assert states.wait(patience(10))


@pytest.mark.once
@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGTERM])
def test_the_helper_ends_with_the_worker(run_id: str, sign: signal.Signals) -> None:
    with Training(trainer.train, run_id, "Counter-v0", SHADOW) as training:
        with training.reader() as reader:
            list(frames(reader, 1))
            helper = helper_of(training)
            training.process.send_signal(sign)
            training.process.communicate()
            until(lambda: not helper.is_running(), "the helper's end")
    until(lambda: lanes_of(run_id) == [], "no lane left")


@pytest.mark.once
def test_the_helper_ends_with_a_worker_that_forgets_to_close(run_id: str) -> None:
    with Training(trainer.train_and_forget, run_id, "Counter-v0", SHADOW) as training:
        with training.reader() as reader:
            list(frames(reader, 1))
            helper = helper_of(training)
            training.end()
            assert training.errors == ""
    until(lambda: not helper.is_running(), "the helper's end")


@pytest.mark.once
def test_a_killed_helper_is_replaced_and_in_the_end_done_without(run_id: str) -> None:
    with Training(trainer.train, run_id, "Counter-v0", SHADOW) as training:
        with training.reader() as reader:
            killed: set[int] = set()
            for _, note in frames(reader, 10_000):
                assert note.rendering == "shadow"
                with contextlib.suppress(lanekit.SegmentError):  # a new one is being made
                    owner = inspect_segment(segment_name("frame", run_id)).owner_pid
                    for helper in helpers_of(training):
                        if helper.pid == owner:
                            helper.kill()
                            killed.add(owner)
                if len(killed) == ATTEMPTS:
                    break
            notes = (note for _, note in frames(reader, 10_000))
            assert next(note for note in notes if note.rendering == "in-process")
            for frame, note in frames(reader, 3):
                np.testing.assert_array_equal(frame.array, worlds.picture(note.step))
        result = training.end()
    assert result["rendering"] == "in-process"
    (warning,) = result["warnings"]
    assert "the training process draws instead" in warning


@pytest.mark.once
def test_a_helper_that_can_not_draw_is_reported_with_its_last_words(run_id: str) -> None:
    with Training(trainer.train, run_id, "Fatal-v0", SHADOW) as training:
        with training.reader() as reader:
            notes = (note for _, note in frames(reader, 10_000))
            assert next(note for note in notes if note.rendering == "in-process")
        (warning,) = training.end()["warnings"]
    assert "RuntimeError: no such state" in warning


def test_a_state_that_can_not_be_read_is_told_and_drawn_here(run_id: str) -> None:
    env = FastLaneTelemetryWrapper(gymnasium.make("Unreadable-v0"), run_id, rendering="shadow")
    env.reset()
    env.step(0)
    with lanekit.FastLaneReader.attach(f"{run_id}/state"):
        with pytest.warns(FastLaneWarning, match="ValueError: unreadable"):
            until(lambda: bool(env.step(0) and env.publisher._warned), "the warning")
    env.step(0)
    with lanekit.FastLaneReader.attach(run_id) as reader:
        until(lambda: bool(env.step(0) and reader.latest_frame()), "a frame drawn here")
    assert env.publisher.rendering == "in-process"
    env.close()


def test_a_shadow_draws_what_a_framework_made_under_a_name_of_its_own(run_id: str) -> None:
    # As RLlib does: it registers a function, and that name's spec replaces the environment's.
    def make(**_: Any) -> gymnasium.Env[Any, Any]:
        return FastLaneTelemetryWrapper(gymnasium.make("Counter-v0"), run_id, rendering="shadow")

    env = gymnasium.make(EnvSpec("of-a-framework-v0", entry_point=make))
    assert env.unwrapped.spec is not None
    assert env.unwrapped.spec.id == "of-a-framework-v0"
    with contextlib.closing(env):
        env.reset()
        env.step(env.action_space.sample())
        with lanekit.FastLaneReader.attach(run_id) as reader:

            def shown_by_another_process() -> bool:
                if any(env.step(env.action_space.sample())[2:4]):
                    env.reset()
                frame = reader.latest_frame()
                if frame is None or not frame.metadata:
                    return False
                return FrameNote.decode(frame.metadata).rendering == "shadow"

            until(shown_by_another_process, "a frame that another process drew")


def test_shadow_rendering_that_is_not_possible_says_why(run_id: str) -> None:
    env = FastLaneTelemetryWrapper(worlds.Counter(), run_id, rendering="shadow")
    env.reset()
    with pytest.warns(FastLaneWarning, match="not made by gymnasium.make"):
        env.step(0)
    for _ in range(5):
        env.step(0)  # and not again
    env.close()


def test_auto_draws_here_when_no_other_process_can() -> None:
    class Overlay(gymnasium.Wrapper[Any, Any, Any, Any]):
        def render(self) -> Any:
            return None

    made = gymnasium.make("CartPole-v1", render_mode="rgb_array")
    assert isinstance(plan_shadow(made), ShadowPlan)
    assert "wrapper" in str(plan_shadow(Overlay(made)))
    assert "no state adapter" in str(plan_shadow(gymnasium.make("FrozenLake-v1")))
    assert "gymnasium.make" in str(plan_shadow(worlds.Counter()))


def test_an_adapter_must_be_one() -> None:
    with pytest.raises(TypeError, match="get_state"):
        register_state_adapter(worlds.Counter, object())  # type: ignore[arg-type]


@pytest.mark.pygame
def test_os_signals_are_left_alone_in_the_training_process(run_id: str) -> None:
    """pygame's first use would take SIGTERM over, and the process could not be ended by it."""
    options = json.dumps({"rendering": "in-process"})
    with Training(trainer.train, run_id, "CartPole-v1", options) as training:
        with training.reader() as reader:
            list(frames(reader, 1))
        training.process.terminate()
        training.process.communicate()
        assert training.process.returncode == -signal.SIGTERM
