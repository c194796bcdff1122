"""Serving environments: errors, deaths and signals, with real processes."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import lane_worlds
import numpy as np
import pytest
from gymnasium.wrappers import FlattenObservation
from lane_serving import HERE, Command, check_nothing_left, served, step_lanes_of

from lanekit import PeerLost, SegmentExists, reclaim_segment, segment_name
from lanekit.integrations import LaneVectorEnv, VectorEnvServer, serve_vector_env
from lanekit.integrations.stepping import EnvironmentFailed
from patience import patience, until

pytestmark = pytest.mark.once


@pytest.fixture
def name(run_id: str) -> Iterator[str]:
    """A lane's name that nobody else uses, and of which nothing may be left."""
    yield run_id
    check_nothing_left(run_id)


def misbehaved(trouble: str) -> Any:
    return functools.partial(lane_worlds.Misbehaved, trouble)


# --- environments that fail -----------------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    ("trouble", "message"),
    [
        ("step", "environment 1 failed: ZeroDivisionError: the ground is gone – ünderground"),
        ("exit", "environment 1 failed: SystemExit: quit"),
        ("shape", r"environment 1 failed: ValueError: an observation has shape \(1,\)"),
        ("info", "environment 1 failed: TypeError: info 'left' is a str"),
        ("huge", r"environment 1 failed: ValueError: info 'left' is 9007199254740993; .* 2\*\*53"),
    ],
)
def test_the_trainer_reads_why_an_environment_failed(
    name: str, trouble: str, message: str, workers: int
) -> None:
    with pytest.raises(EnvironmentFailed, match=message):
        with served(misbehaved(trouble), 3, name, workers=workers, infos=["left"]):
            envs = LaneVectorEnv(name, timeout=patience())
            envs.reset(seed=1)
            envs.step(np.zeros(3, int))
            with pytest.raises(PeerLost, match=f"{message}.*; 2 of 3 exchanges are complete"):
                envs.step(np.array([0, 9, 0]))
            for go_on in (lambda: envs.step(np.zeros(3, int)), envs.step_wait, envs.reset):
                with pytest.raises(PeerLost, match=message):
                    go_on()
            envs.close()


def test_a_reset_that_fails_is_told_alike(name: str) -> None:
    with pytest.raises(EnvironmentFailed, match="environment 0 failed: ValueError: can not begin"):
        with served(misbehaved("reset"), 2, name):
            envs = LaneVectorEnv(name, timeout=patience())
            with pytest.raises(PeerLost, match="can not begin"):
                envs.reset()
            envs.close()


def test_a_worker_that_is_killed_ends_the_lane_with_that_reason(name: str) -> None:
    with pytest.raises(EnvironmentFailed, match=r"worker process 1 .* was killed \(SIGKILL\)"):
        with served(misbehaved("kill"), 4, name, workers=2) as server:
            envs = LaneVectorEnv(name, timeout=patience())
            envs.reset(seed=1)
            victim = server.worker_pids[1]
            with pytest.raises(PeerLost, match=rf"pid {victim}\) was killed \(SIGKILL\)"):
                envs.step(np.array([0, 0, 0, 9]))
            envs.close()


def test_a_worker_that_dies_between_steps_is_noticed_at_the_next(name: str) -> None:
    with pytest.raises(EnvironmentFailed, match="was killed"):
        with served("CartPole-v1", 4, name, workers=2) as server:
            envs = LaneVectorEnv(name, timeout=patience())
            envs.reset(seed=1)
            os.kill(server.worker_pids[0], signal.SIGKILL)
            with pytest.raises(PeerLost, match="worker process 0"):
                for _ in range(1000):
                    envs.step(np.zeros(4, int))
            envs.close()


@pytest.mark.parametrize("workers", [1, 2])
def test_an_environment_that_can_not_be_made_leaves_nothing(name: str, workers: int) -> None:
    with pytest.raises(EnvironmentFailed, match="can not be made: RuntimeError: no power"):
        VectorEnvServer(misbehaved("make"), 2, name, workers=workers)


class SecondFails:
    """Makes one environment, and no other in any process."""

    def __init__(self, mark: Path) -> None:
        self._mark = mark

    def __call__(self) -> Any:
        if self._mark.exists():
            raise RuntimeError("only one in the box")
        self._mark.touch()
        return lane_worlds.Scalar()


@pytest.mark.parametrize("workers", [1, 2])
def test_one_of_many_that_can_not_be_made_is_told_by_number(
    name: str, workers: int, tmp_path: Path
) -> None:
    with pytest.raises(
        EnvironmentFailed, match="environment 0 could not be made: RuntimeError: on"
    ):
        VectorEnvServer(SecondFails(tmp_path / "made"), 2, name, workers=workers)


def test_environments_with_other_spaces_are_refused(name: str) -> None:
    kinds = iter([lane_worlds.Scalar, lane_worlds.Scalar, lane_worlds.Slots])
    with pytest.raises(EnvironmentFailed, match="environment 1: its observation space is Multi"):
        VectorEnvServer(lambda: next(kinds)(), 2, name)


def test_a_function_that_can_not_travel_is_told(name: str) -> None:
    lock = threading.Lock()

    def make() -> Any:
        with lock:
            return lane_worlds.Scalar()

    with pytest.raises(EnvironmentFailed, match=r"can not be sent to another process .* workers=1"):
        VectorEnvServer(make, 2, name, workers=2)


# --- what is asked for ----------------------------------------------------------------------------


def test_what_can_not_be_served_is_told_with_the_remedy(name: str) -> None:
    with pytest.raises(ValueError, match="'CartPoel-v1' is registered; near names: CartPole-v"):
        VectorEnvServer("CartPoel-v1", 1, name)
    with pytest.raises(ValueError, match=r"'nonsense' is registered. That of a package"):
        VectorEnvServer("nonsense", 1, name)
    with pytest.raises(EnvironmentFailed, match="No module named 'no_such_module'"):
        VectorEnvServer("no_such_module:Env-v0", 1, name)
    with pytest.raises(EnvironmentFailed, match="unexpected keyword argument 'speed'"):
        VectorEnvServer("CartPole-v1", 1, name, make_kwargs={"speed": 3})
    with pytest.raises(ValueError, match=r"observations are Dicts.*FlattenObservation"):
        VectorEnvServer("Nested-v0", 1, name)
    with pytest.raises(ValueError, match=r"actions are Tuples.*spaces.flatten"):
        VectorEnvServer("Choosy-v0", 1, name)
    with pytest.raises(ValueError, match="3 worker processes for 2 environments"):
        VectorEnvServer("CartPole-v1", 2, name, workers=3)
    for wrong in (0, -1):
        with pytest.raises(ValueError, match="num_envs is at least 1"):
            VectorEnvServer("CartPole-v1", wrong, name)
        with pytest.raises(ValueError, match="workers is at least 1"):
            VectorEnvServer("CartPole-v1", 1, name, workers=wrong)
    with pytest.raises(TypeError, match="num_envs is a whole number"):
        VectorEnvServer("CartPole-v1", 2.0, name)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="id of an environment, or a function"):
        VectorEnvServer(3, 1, name)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"make_kwargs are for gymnasium.make"):
        VectorEnvServer(lane_worlds.Scalar, 1, name, make_kwargs={"a": 1})
    with pytest.raises(ValueError, match="must not be empty"):
        VectorEnvServer("CartPole-v1", 1, "")
    with pytest.raises(ValueError, match="render_mode='rgb_array'"):
        VectorEnvServer(lane_worlds.Scalar, 1, name, image=True)
    with pytest.raises(ValueError, match="not a valid AutoresetMode"):
        VectorEnvServer("CartPole-v1", 1, name, autoreset_mode="never")
    with pytest.raises(ValueError, match="wait is one of"):
        VectorEnvServer("CartPole-v1", 1, name, wait="sleep")  # type: ignore[arg-type]


def test_an_environment_without_its_package_says_which(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "Box2D", None)
    for module in [module for module in sys.modules if module.startswith("gymnasium.envs.box2d")]:
        monkeypatch.delitem(sys.modules, module)
    with pytest.raises(EnvironmentFailed, match=r"LunarLander-v3 can not be made: .*pip install"):
        VectorEnvServer("LunarLander-v3", 1, name)


def test_several_things_seen_can_be_made_one_array(name: str) -> None:
    local = FlattenObservation(lane_worlds.Nested())
    for env in ("Nested-v0", lane_worlds.Nested):
        with served(env, 1, name, flatten=True, workers=1):
            envs = LaneVectorEnv(name, timeout=patience())
            assert envs.single_observation_space == local.observation_space
            np.testing.assert_array_equal(envs.reset(seed=4)[0][0], local.reset(seed=4)[0])
            envs.close()


def test_what_only_this_process_has_registered_is_known_to_its_workers(name: str) -> None:
    env_id = f"Only{os.getpid()}-v0"
    gymnasium.register(
        env_id, lane_worlds.Marked, kwargs={"mark": os.devnull}, disable_env_checker=True
    )
    with served(env_id, 2, name, workers=2):
        envs = LaneVectorEnv(name, timeout=patience())
        envs.reset(seed=1)
        envs.close()
    del gymnasium.registry[env_id]


def test_two_servers_can_not_have_one_name(name: str) -> None:
    with served("CartPole-v1", 1, name):
        with pytest.raises(SegmentExists, match=str(os.getpid())):
            serve_vector_env("CartPole-v1", 1, name)


# --- the command ----------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("workers", ["1", "2"])
def test_the_command_ends_in_good_order(
    name: str, how: signal.Signals, workers: str, tmp_path: Path
) -> None:
    mark = tmp_path / "closed"
    with Command(
        *("lane_worlds:Marked-v0", "--num-envs", "3", "--workers", workers, "--name", name),
        *("--make", f'{{"mark": "{mark}"}}'),
    ) as command:
        envs = LaneVectorEnv(name, timeout=patience())
        envs.reset(seed=1)
        envs.step(np.zeros(3, int))
        lanes = 1 if workers == "1" else 3
        assert len(step_lanes_of(name)) == lanes
        assert command.end(how) == 0, command.said
        assert step_lanes_of(name) == []
        with pytest.raises(PeerLost, match="the server died or left; 2 of 2"):
            envs.step(np.zeros(3, int))
        envs.close()
    # One more was made first, to see its spaces.
    assert mark.read_text() == "closed\n" * 4
    assert f"3 x lane_worlds:Marked-v0{' in 2 processes' if lanes == 3 else ''} as" in command.said


def test_the_command_carries_what_it_is_told_to(name: str) -> None:
    arguments = ["--num-envs", "2", "--autoreset", "same-step", "--info", "left:int64"]
    with Command("lane_worlds:Scalar-v0", *arguments, "--image", LUCKY_SHM_NAME=name) as command:
        envs = LaneVectorEnv(name, timeout=patience())
        _, infos = envs.reset(seed=1)
        assert infos["left"].dtype == np.int64
        while "final_info" not in infos:
            infos = envs.step(np.zeros(2, int))[4]
        assert (infos["final_info"]["left"][infos["_final_info"]] <= 0).all()
        assert len(envs.render()) == 2
        envs.close()
        assert command.end() == 0
    check_nothing_left(name)


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["CartPoel-v1"], 2, "near names: CartPole-v"),
        (["CartPole-v1", "--num-envs", "1", "--workers", "2"], 2, "each needs one at least"),
        (["CartPole-v1", "--num-envs", "x"], 2, "invalid int value"),
        (["CartPole-v1", "--name", ""], 2, "must not be empty"),
        (["CartPole-v1", "--make", "[1]"], 2, "not a JSON object"),
        (["CartPole-v1", "--make", "{"], 2, "is not JSON"),
        (["CartPole-v1", "--info", "a:U3"], 2, "numbers are carried"),
        (["CartPole-v1", "--info", "a:nonsense"], 2, "nonsense"),
        (["lane_worlds:Nested-v0"], 2, "--flatten"),
        (["lane_worlds:Misbehaved-v0", "--make", '{"trouble": "make"}'], 1, "no power"),
        (["CartPole-v1", "--make", '{"foo": 1}'], 1, "unexpected keyword argument 'foo'"),
        (["no_such_module:X-v0"], 1, "No module named 'no_such_module'"),
        ([], 2, "ENV_ID"),
    ],
)
def test_the_command_says_what_is_wrong(arguments: list[str], status: int, words: str) -> None:
    with Command(*arguments) as command:
        assert command.wait() == status, command.said
    assert words in command.said
    assert "Traceback" not in command.said
    assert status != 1 or command.said.count("\n") == 1, "one line, of the environment's failure"


@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.parametrize("debug", ["", "1"])
def test_the_command_shows_on_request_where_an_environment_failed(
    name: str, workers: str, debug: str
) -> None:
    arguments = ["--name", name, "--num-envs", "2", "--make", '{"trouble": "step"}']
    with Command(
        *("lane_worlds:Misbehaved-v0", *arguments, "--workers", workers), LANEKIT_DEBUG=debug
    ) as command:
        envs = LaneVectorEnv(name, timeout=patience())
        envs.reset()
        with pytest.raises(PeerLost, match="the ground is gone"):
            envs.step(np.array([0, 9]))
        envs.close()
        assert command.wait() == 1
    assert ("lane_worlds.py" in command.said) == bool(debug), "the traceback"
    assert "lanekit serve: environment 1 " in command.said
    check_nothing_left(name)


TRAINER = """
import os, signal, sys
import numpy as np
from lanekit.integrations import LaneVectorEnv
envs = LaneVectorEnv(sys.argv[1], timeout=None)
envs.reset(seed=1)
for _ in range(20):
    envs.step(np.zeros(envs.num_envs, int))
if sys.argv[2] == "under way":
    envs.step_async(np.zeros(envs.num_envs, int))
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_trainer_that_is_killed_makes_room_for_the_next(name: str, workers: str) -> None:
    arguments = ["CartPole-v1", "--num-envs", "2", "--workers", workers, "--name", name]
    with Command(*arguments) as command:
        for when in ("between", "under way"):
            done = subprocess.run([sys.executable, "-c", TRAINER, name, when], timeout=patience())
            assert done.returncode == -signal.SIGKILL
        envs = LaneVectorEnv(name, timeout=patience())
        local = gymnasium.make_vec("CartPole-v1", 2, vectorization_mode="sync")
        np.testing.assert_array_equal(envs.reset(seed=1)[0], local.reset(seed=1)[0])
        command.wait_for("died; ")
        envs.close()
        command.wait_for("left; waiting for the next")
        assert command.end() == 0
    check_nothing_left(name)


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_trainer_hears_of_it_when_the_server_is_killed_in_a_step(name: str, workers: str) -> None:
    arguments = ["CartPole-v1", "--num-envs", "2", "--workers", workers, "--name", name]
    with Command(*arguments) as command:
        envs = LaneVectorEnv(name, timeout=patience())
        envs.reset(seed=1)
        killer = threading.Timer(0.05, command.process.kill)
        killer.start()
        with pytest.raises(PeerLost, match="the server died or left; "):
            while True:
                envs.step(np.zeros(2, int))
        killer.join()
        envs.close()
        until(lambda: step_lanes_of(name) == [name], "the workers' lanes removed")
    reclaim_segment(segment_name("step", name))


def test_workers_do_not_outlive_a_server_that_is_killed(name: str) -> None:
    with Command("CartPole-v1", "--num-envs", "2", "--workers", "2", "--name", name) as command:
        command.wait_for("2 x CartPole-v1")
        command.process.kill()
        command.process.wait(patience())
        # What it owned itself waits for its successor, or for `lanekit clean`.
        until(lambda: step_lanes_of(name) == [name], "the workers' lanes removed")
    with Command("CartPole-v1", "--num-envs", "2", "--workers", "2", "--name", name) as command:
        command.wait_for("2 x CartPole-v1")
        envs = LaneVectorEnv(name, timeout=patience())
        envs.reset()
        envs.close()
        assert command.end() == 0


def test_a_second_ctrl_c_ends_an_environment_that_hangs(name: str, tmp_path: Path) -> None:
    (tmp_path / "hanging.py").write_text(
        "import time, gymnasium, lane_worlds\n"
        "class Hanging(lane_worlds.Scalar):\n"
        "    def step(self, action):\n"
        "        print('hangs', flush=True)\n"
        "        time.sleep(600)\n"
        "gymnasium.register('Hanging-v0', Hanging, disable_env_checker=True)\n"
    )
    path = os.pathsep.join([str(tmp_path), str(HERE)])
    with Command("hanging:Hanging-v0", "--name", name, PYTHONPATH=path) as command:
        envs = LaneVectorEnv(name, timeout=patience())
        envs.reset()
        envs.step_async(np.zeros(1, int))
        command.wait_for("hangs")
        command.process.send_signal(signal.SIGINT)
        command.wait_for("again ends at once")
        assert command.end(signal.SIGINT) == 130
        with pytest.raises(PeerLost):
            envs.step_wait()
        envs.close()


def test_serving_can_be_ended_by_the_program_that_serves(name: str) -> None:
    asked = []

    def keep_serving() -> bool:
        asked.append(len(asked))
        return len(asked) < 3

    serve_vector_env("CartPole-v1", 1, name, keep_serving=keep_serving)
    assert asked == [0, 1, 2]
