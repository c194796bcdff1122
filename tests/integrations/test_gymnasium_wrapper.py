"""One environment, watched from another process."""

from __future__ import annotations

import itertools
import json
import os
import pickle
import subprocess
import sys
import time
import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest
import trainer
import worlds
from trainer import Replay, Training, frames, rgb

import lanekit
from lanekit.integrations import Demand, FastLaneTelemetryWrapper, FastLaneWarning, FrameNote
from lanekit.integrations.showing import publisher
from lanekit.integrations.showing.tally import BatchTally, Tally
from lanekit.slow.emit import Emitter
from patience import Watchdog, patience
from run_lanes import lanes_of

HERE = json.dumps({"rendering": "in-process"})


def step(env: Any, count: int = 1) -> None:
    for _ in range(count):
        env.step(0)


def steps_until(env: Any, condition: Any, what: str) -> None:
    watchdog = Watchdog(what)
    while not condition():
        env.step(0)
        watchdog.check()


# --- pictures -------------------------------------------------------------------------------------


@pytest.mark.pygame
def test_another_process_sees_what_render_returns(run_id: str) -> None:
    replay = Replay("CartPole-v1")
    with Training(trainer.train, run_id, "CartPole-v1", HERE) as training:
        with training.reader() as reader:
            for frame, note in frames(reader, 10):
                assert note.rendering == "in-process"
                np.testing.assert_array_equal(rgb(frame), replay.picture_at(note.step))
                assert frame.metrics.last_reward == 1.0
                assert frame.metrics.rolling_return > 0
                assert frame.metrics.step_rate_hz > 0
    assert training.result["warnings"] == []


def test_nothing_is_rendered_while_nobody_watches(run_id: str) -> None:
    bare = worlds.Counter()
    with FastLaneTelemetryWrapper(bare, run_id) as env:
        env.reset()
        step(env, 5000)
        assert bare.renders == 0
        assert lanes_of(run_id) == [run_id]
        with lanekit.FastLaneReader.attach(run_id) as reader:
            steps_until(env, lambda: reader.latest_frame() is not None, "a frame")
        steps_until(env, lambda: not env.publisher._lanes[0].watched, "the viewer's lease ends")
        step(env, 100)
        rendered = bare.renders
        step(env, 5000)
        assert bare.renders == rendered


def test_nothing_exists_before_the_first_step(run_id: str) -> None:
    env = FastLaneTelemetryWrapper(worlds.Counter(), run_id)
    env.reset()
    assert lanes_of(run_id) == []
    env.close()


def test_every_step_can_be_shown(run_id: str) -> None:
    with FastLaneTelemetryWrapper(worlds.Counter(), run_id, every_step=True, capacity=64) as env:
        env.reset()
        step(env)
        with lanekit.FastLaneReader.attach(run_id) as reader:
            step(env)
            assert reader.wait(patience(10))  # on to the ring that has the picture's size
            step(env, 49)
            seen = [FrameNote.decode(f.metadata).step for f in iter(reader.next_frame, None)]  # type: ignore[union-attr]
    assert seen == list(range(2, 52))


def test_pictures_come_as_often_as_asked(run_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [10**12]
    monkeypatch.setattr(publisher, "_now", lambda: now[0])

    def steps_of_a_millisecond(count: int) -> None:
        for _ in range(count):
            now[0] += 10**6
            step(env)

    bare = worlds.Counter()
    with FastLaneTelemetryWrapper(bare, run_id, max_hz=20) as env:
        env.reset()
        steps_of_a_millisecond(1)
        with lanekit.FastLaneReader.attach(run_id, lease=3600) as reader:
            steps_of_a_millisecond(200)
            assert reader.wait(patience())  # on to the ring that has the picture's size
            steps_of_a_millisecond(200)
            before = bare.renders
            steps_of_a_millisecond(1000)
            assert bare.renders - before == 20


def test_viewers_follow_when_the_size_changes_at_a_reset(run_id: str) -> None:
    with Training(trainer.train, run_id, "Growing-v0") as training, training.reader() as reader:
        sizes = set()
        for frame, note in itertools.islice(frames(reader, 10_000), 400):
            size = frame.array.shape[:2]
            np.testing.assert_array_equal(frame.array, worlds.picture(note.step, size=size))
            sizes.add(size)
            if len(sizes) == 3:
                break
        assert len(sizes) == 3
        assert reader.stats().reattached >= 3
    assert training.result["warnings"] == []


def test_the_run_can_be_named_by_the_launcher_or_after_its_environment(
    run_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = gymnasium.make("CartPole-v1", render_mode="rgb_array")
    assert FastLaneTelemetryWrapper(made).settings.run_id == "CartPole-v1"
    monkeypatch.setenv("LANEKIT_RUN_ID", run_id)
    assert FastLaneTelemetryWrapper(made).settings.run_id == run_id


def test_a_wrapped_environment_keeps_a_spec_that_makes_it_again(run_id: str) -> None:
    made = FastLaneTelemetryWrapper(gymnasium.make("CartPole-v1"), run_id, max_hz=7)
    assert made.spec is not None
    again = gymnasium.make(made.spec)
    assert isinstance(again, FastLaneTelemetryWrapper)
    assert again.settings == made.settings


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rendering": "here"}, "rendering"),
        ({"max_hz": 0}, "max_hz"),
        ({"video_mode": "both"}, "video_mode"),
        ({"slot": -1}, "slot"),
        ({"capacity": 0}, "capacity"),
    ],
)
def test_misuse_is_told_at_once(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FastLaneTelemetryWrapper(worlds.Counter(), "run", **options)


# --- numbers --------------------------------------------------------------------------------------


def test_the_rolling_return_is_the_mean_of_the_last_hundred_episodes() -> None:
    tally = Tally()
    tally.episode_return = 3.0
    assert tally.rolling_return == 3.0  # none has ended
    for number in range(150):
        tally.episode_return = float(number)
        tally.end_episode()
    assert tally.rolling_return == np.mean(range(50, 150))


def test_the_step_rate_is_that_of_the_last_second() -> None:
    tally = Tally()
    for tick in range(1, 61):
        tally.steps += 10 if tick <= 30 else 100
        rate = tally.step_rate(tick * 100_000_000)
    assert rate == pytest.approx(1000)


def test_each_environment_of_a_batch_has_its_own_returns() -> None:
    tally = BatchTally(3)
    for number in range(1, 5):
        tally.add(np.array([1.0, 2.0, 3.0]), np.array([number == 2, number == 4, False]), 1)
    assert list(tally.returns) == [2.0, 8.0]
    assert (tally.steps, tally.last_reward, tally.episodes) == (12, 2.0, 2)


def test_numbers_are_those_of_the_environment(run_id: str) -> None:
    with FastLaneTelemetryWrapper(worlds.Counter(), run_id, every_step=True) as env:
        env.reset()
        step(env, 25)
        with lanekit.FastLaneReader.attach(run_id) as reader:
            step(env)
            frame = reader.latest_frame()
            assert frame is not None
            assert frame.metrics.last_reward == 1.0
            assert frame.metrics.rolling_return == 10.0
            note = FrameNote.decode(frame.metadata)
            assert note is not None
            assert (note.step, note.episode) == (26, 2)


def test_rewards_of_several_parts_do_not_disturb(run_id: str) -> None:
    class Many(worlds.Counter):
        def step(self, action: Any) -> Any:
            result = super().step(action)
            return result[0], np.array([1.0, 2.0]), *result[2:]

    with FastLaneTelemetryWrapper(Many(), run_id, every_step=True) as env:
        env.reset()
        step(env)
        with lanekit.FastLaneReader.attach(run_id) as reader:
            for _ in range(30):
                reader.latest_frame()
                step(env)
            assert reader.metrics().rolling_return == 30.0


def test_steps_and_episodes_are_told_to_whoever_wants_them(run_id: str) -> None:
    told: list[Any] = []

    class Notebook:
        def step(self, *where: int, **what: Any) -> None:
            told.append(("step", *where, what["reward"]))

        def episode(self, *where: int, **what: Any) -> None:
            told.append(("episode", *where, what["episode_return"], what["length"]))

    with FastLaneTelemetryWrapper(worlds.Counter(), run_id, telemetry=Notebook()) as env:
        env.reset()
        step(env, 12)
        env.reset()  # in the middle of an episode
        step(env)
    episodes = [line for line in told if line[0] == "episode"]
    assert episodes == [("episode", 0, 10.0, 10)]
    steps = [line[1:3] for line in told if line[0] == "step"]
    assert steps == [(0, n) for n in range(10)] + [(1, 0), (1, 1), (2, 0)]


def test_looks_keep_their_rate_but_do_not_catch_up() -> None:
    demand = Demand(max_hz=100)
    assert demand.next_look(4_000_000) == 10_000_000
    assert demand.next_look(10_000_000) == 20_000_000
    assert demand.next_look(15_000_000) == 20_000_000
    assert demand.next_look(95_000_000) == 100_000_000
    assert Demand(every_step=True).next_look(10) == 0


def test_looks_are_seldom_while_nobody_watches_but_at_the_same_moments() -> None:
    demand = Demand(max_hz=100)
    assert demand.next_look(4_000_000, watched=False) == 100_000_000
    assert demand.next_look(100_000_000, watched=False) == 200_000_000
    assert Demand(max_hz=60).next_look(0, watched=False) % Demand(max_hz=60).next_look(0) == 0
    assert Demand(max_hz=1).next_look(0, watched=False) == Demand(max_hz=1).next_look(0)


# --- what goes wrong ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (None, "render_mode='rgb_array'"),
        ([], "empty list"),
        (np.zeros((5, 7, 2), np.uint8), "shape"),
        ("text", "text"),
        (RuntimeError("no display"), "RuntimeError: no display"),
    ],
)
def test_a_render_that_fails_is_told_once_and_training_goes_on(
    run_id: str, result: Any, message: str
) -> None:
    bare = worlds.Odd(result)
    with FastLaneTelemetryWrapper(bare, run_id) as env:
        env.reset()
        step(env)
        with lanekit.FastLaneReader.attach(run_id, lease=60):
            with pytest.warns(FastLaneWarning, match=message):
                steps_until(env, lambda: bare.renders > 0, "an attempt to render")
            # Tried again a second later, not on every step, and not told again.
            step(env, 1000)
            assert bare.renders < 5
            bare.result = worlds.picture(1)
            with lanekit.FastLaneReader.attach(run_id) as reader:
                steps_until(env, lambda: reader.latest_frame() is not None, "a frame")


@pytest.mark.parametrize("mode", [None, "human", "ansi"])
def test_an_environment_without_pictures_is_told_at_its_first_step(
    run_id: str, mode: str | None
) -> None:
    bare = worlds.Counter(render_mode=mode)
    with FastLaneTelemetryWrapper(bare, run_id) as env:
        env.reset()
        with pytest.warns(FastLaneWarning, match="render_mode='rgb_array'"):
            step(env)
        step(env, 100)
        assert bare.renders == 0


def test_a_name_that_another_run_has_is_told_and_taken_when_it_is_free(run_id: str) -> None:
    with FastLaneTelemetryWrapper(worlds.Counter(), run_id) as first:
        first.reset()
        step(first)
        second = FastLaneTelemetryWrapper(worlds.Counter(), run_id)
        second.reset()
        with pytest.warns(FastLaneWarning, match=f"process {os.getpid()} is publishing"):
            steps_until(second, lambda: second.publisher._warned, "the warning")
        step(second, 100)
    steps_until(second, lambda: second.publisher.rendering == "in-process", "the free name taken")
    second.close()


def test_a_name_that_is_taken_for_a_moment_only_is_waited_for(run_id: str) -> None:
    """As when a run is started again while its last helper is still ending."""
    first = FastLaneTelemetryWrapper(worlds.Counter(), run_id)
    second = FastLaneTelemetryWrapper(worlds.Counter(), run_id)
    for env in (first, second):
        env.reset()
        step(env)
    assert second.publisher.rendering == "off"
    first.close()
    steps_until(second, lambda: second.publisher.rendering == "in-process", "the free name taken")
    second.close()


def test_full_shared_memory_is_told_and_training_goes_on(run_id: str) -> None:
    within = ["unshare", "--mount"] + ([] if os.geteuid() == 0 else ["--map-root-user"])
    mount = "mount -t tmpfs -o size=1m tmpfs /dev/shm"
    if subprocess.run([*within, "sh", "-c", mount], capture_output=True, check=False).returncode:
        pytest.skip("needs root, or unprivileged user namespaces, to mount a tmpfs")
    command = [*within, "sh", "-c", f'{mount} && exec "$@"', "sh", sys.executable, __file__, run_id]
    shared = os.path.dirname(os.path.dirname(__file__))  # what all tests may import from
    done = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": shared},
        capture_output=True,
        text=True,
        timeout=patience(120),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert len(said) == 1
    assert "--shm-size" in said[0]


def train_in_little_memory(run_id: str) -> None:
    """Show pictures of 2 MB where there is 1 MB; print the warnings."""
    bare = worlds.Odd(np.zeros((1000, 700, 3), np.uint8))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with FastLaneTelemetryWrapper(bare, run_id) as env:
            env.reset()
            step(env)
            with lanekit.FastLaneReader.attach(run_id, lease=60):
                steps_until(env, lambda: bare.renders > 0, "an attempt to render")
                end = time.monotonic() + 1.5
                while time.monotonic() < end:
                    step(env)
    print(json.dumps([str(warning.message) for warning in caught]))


def test_a_killed_viewer_is_noticed(run_id: str) -> None:
    code = (
        "import lanekit, sys, time; r = lanekit.FastLaneReader.attach(sys.argv[1])\n"
        "while True: r.latest_frame(); print(flush=True); time.sleep(0.01)"
    )
    bare = worlds.Counter()
    with FastLaneTelemetryWrapper(bare, run_id) as env:
        env.reset()
        step(env)
        viewer = subprocess.Popen([sys.executable, "-c", code, run_id], stdout=subprocess.PIPE)
        assert viewer.stdout is not None
        steps_until(env, lambda: bare.renders > 3, "pictures for the viewer")
        viewer.kill()
        viewer.wait()
        viewer.stdout.close()
        steps_until(env, lambda: not env.publisher._lanes[0].watched, "its lease ends")
        rendered = bare.renders
        step(env, 1000)
        assert bare.renders == rendered


def test_a_killed_worker_is_followed_by_the_next_one(run_id: str) -> None:
    with Training(trainer.train, run_id, "Counter-v0", HERE) as first, first.reader() as reader:
        list(frames(reader, 2))
        first.process.kill()
        first.process.communicate()
        with Training(trainer.train, run_id, "Counter-v0", HERE) as second:
            for frame, note in frames(reader, 3):
                np.testing.assert_array_equal(frame.array, worlds.picture(note.step))
        assert second.result["warnings"] == []


def test_a_segment_that_was_removed_by_force_is_made_again(run_id: str) -> None:
    with FastLaneTelemetryWrapper(worlds.Counter(), run_id, every_step=True) as env:
        env.reset()
        step(env)
        lanekit.reclaim_segment(lanekit.segment_name("frame", run_id), force=True)
        steps_until(env, lambda: lanes_of(run_id) == [run_id], "a new segment")
        with lanekit.FastLaneReader.attach(run_id, timeout=patience(10)) as reader:
            steps_until(env, lambda: reader.latest_frame() is not None, "a frame")


def test_closing_twice_is_fine_and_stepping_afterwards_shows_nothing(run_id: str) -> None:
    env = FastLaneTelemetryWrapper(worlds.Counter(), run_id)
    env.reset()
    step(env)
    env.close()
    env.close()
    step(env, 100)
    assert lanes_of(run_id) == []


# --- into other processes -------------------------------------------------------------------------


@pytest.mark.parametrize("used", [False, True])
@pytest.mark.parametrize("tool", ["pickle", "cloudpickle"])
def test_a_wrapper_travels_to_another_process(run_id: str, tool: str, used: bool) -> None:
    pickler = pickle if tool == "pickle" else pytest.importorskip("cloudpickle")
    env = FastLaneTelemetryWrapper(gymnasium.make("Counter-v0"), run_id, rendering="in-process")
    if used:
        env.reset()
        step(env)
    packed = pickler.dumps(env)
    env.close()
    code = (
        "import sys, pickle; sys.path.insert(0, sys.argv[1]); import worlds, lanekit\n"
        "env = pickle.loads(sys.stdin.buffer.read()); env.reset(); env.step(0)\n"
        "reader = lanekit.FastLaneReader.attach(sys.argv[2])\n"
        "while reader.latest_frame() is None: env.step(0)\n"
        "env.close(); print('seen')"
    )
    command = [sys.executable, "-c", code, os.path.dirname(__file__), run_id]
    done = subprocess.run(
        command, input=packed, capture_output=True, timeout=patience(), check=False
    )
    assert (done.stdout, done.stderr) == (b"seen\n", b"")


def test_a_forked_copy_leaves_its_parents_lane_alone(run_id: str) -> None:
    code = (
        "import os, sys, warnings; sys.path.insert(0, sys.argv[1]); import worlds, lanekit\n"
        "from lanekit.integrations import FastLaneTelemetryWrapper\n"
        "env = FastLaneTelemetryWrapper(worlds.Counter(), sys.argv[2], every_step=True)\n"
        "env.reset(); env.step(0)\n"
        "warnings.simplefilter('ignore')\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    [env.step(0) for _ in range(10)]; env.close(); os._exit(0)\n"
        "os.waitpid(child, 0)\n"
        "reader = lanekit.FastLaneReader.attach(sys.argv[2]); env.step(0)\n"
        "print(reader.latest_frame() is not None); env.close()"
    )
    command = [sys.executable, "-c", code, os.path.dirname(__file__), run_id]
    done = subprocess.run(command, capture_output=True, timeout=patience(), check=False)
    assert (done.stdout, done.stderr) == (b"True\n", b"")


def test_a_training_outlives_the_reader_of_its_telemetry(run_id: str) -> None:
    reading, writing = os.pipe()
    with open(writing, "w", encoding="utf-8") as stream:
        env = FastLaneTelemetryWrapper(worlds.Counter(), run_id, telemetry=Emitter(stream))
        env.reset()
        env.step(0)
        os.close(reading)
        with pytest.warns(FastLaneWarning, match=r"env-0 are no longer reported.*training goes on"):
            env.step(0)
        env.step(0)  # without a further word
        env.close()
        os.dup2(os.open(os.devnull, os.O_WRONLY), writing)  # for the stream's own last flush


if __name__ == "__main__":
    train_in_little_memory(sys.argv[1])


@pytest.mark.parametrize("max_hz", [0, -1.0, 2e6, float("nan")])
def test_a_rate_that_can_not_be_is_told_with_its_range(max_hz: float) -> None:
    with pytest.raises(ValueError, match="max_hz must be above 0 and at most 1,000,000, not"):
        Demand(max_hz)
