"""Frameworks train on environments behind a step lane, and learn the very same as without it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from serve_counted import NUM_ENVS, make_env
from stable_baselines3 import A2C, DQN, PPO, SAC
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv, VecMonitor
from watching import HERE

from lanekit import PeerLost, segment_name
from lanekit.integrations import LaneVectorEnv
from lanekit.integrations.stepping.sb3 import LaneVecEnv
from lanekit.integrations.workers import ppo
from lanekit.segments import segment_path
from patience import patience, until

# What the framework itself warns about is its own.
pytestmark = pytest.mark.filterwarnings("ignore")

PAGE = HERE.parents[1] / "docs" / "step-lane-gymnasium.md"
Serve = Callable[..., str]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts a server in a process of its own and returns its lane's name."""
    started: list[tuple[subprocess.Popen[bytes], str]] = []

    def start(env_id: str, mode: AutoresetMode, workers: int = 1) -> str:
        name = f"test-{os.getpid()}-{uuid.uuid4().hex[:12]}"
        script = [str(HERE / "serve_counted.py"), env_id, name, mode.value, str(workers)]
        started.append((subprocess.Popen([sys.executable, *script]), name))
        return name

    yield start
    for process, name in started:
        process.send_signal(signal.SIGTERM)
        assert process.wait(patience(240)) == -signal.SIGTERM, (
            "as a process that handles no signals"
        )
        until(
            lambda name=name: not segment_path(segment_name("step", name)).exists(),
            "its lane to go",
        )


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Sums in the same order, whatever else this machine does."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def bits_of(state: dict[str, Any]) -> dict[str, bytes]:
    """A network's weights, to be compared exactly."""
    return {key: value.detach().cpu().numpy().tobytes() for key, value in state.items()}


# --- Stable-Baselines3 ----------------------------------------------------------------------------

ALGORITHMS: dict[str, tuple[type[Any], str, dict[str, Any]]] = {
    "PPO": (PPO, "CartPole-v1", {"n_steps": 128, "batch_size": 128}),
    "A2C": (A2C, "Acrobot-v1", {"n_steps": 16}),
    "DQN": (DQN, "CartPole-v1", {"learning_starts": 200, "buffer_size": 2_000}),
    "SAC": (SAC, "Pendulum-v1", {"learning_starts": 200, "buffer_size": 2_000}),
}


def trained(algorithm: str, env: VecEnv, steps: int) -> tuple[dict[str, bytes], list[Any]]:
    """Train; return the weights, and the returns and lengths of episodes."""
    kind, _, options = ALGORITHMS[algorithm]
    with closing(VecMonitor(env)) as envs:
        model = kind("MlpPolicy", envs, seed=3, device="cpu", **options)
        model.learn(steps)
        episodes = [(info["r"], info["l"]) for info in model.ep_info_buffer]
        return bits_of(model.policy.state_dict()), episodes


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_stable_baselines3_learns_the_same(serve: Serve, algorithm: str, workers: int) -> None:
    steps = 4_096 if algorithm in ("PPO", "A2C") else 1_600
    env_id = ALGORITHMS[algorithm][1]
    local = trained(algorithm, DummyVecEnv([partial(make_env, env_id)] * NUM_ENVS), steps)
    lane = trained(algorithm, LaneVecEnv(serve(env_id, AutoresetMode.SAME_STEP, workers)), steps)
    assert lane == local
    assert len(local[1]) > 3, "episodes ended"


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pendulum-v1"])
def test_every_step_of_stable_baselines3s_own_environments_is_the_same(
    serve: Serve, env_id: str
) -> None:
    local = DummyVecEnv([partial(make_env, env_id)] * NUM_ENVS)
    lane = LaneVecEnv(serve(env_id, AutoresetMode.SAME_STEP))
    ended = 0
    for envs in (local, lane):
        envs.seed(5)
    assert lane.reset().tobytes() == local.reset().tobytes()
    local.action_space.seed(4)
    for _ in range(450):
        actions = np.array([local.action_space.sample() for _ in range(NUM_ENVS)])
        found, expected = lane.step(actions), local.step(actions)
        for mine, theirs in zip(found[:3], expected[:3], strict=True):
            assert (mine.dtype, mine.tobytes()) == (theirs.dtype, theirs.tobytes())
        for mine, theirs in zip(found[3], expected[3], strict=True):
            theirs.get("episode", {}).pop("t", None)
            assert mine.keys() == theirs.keys()
            last = "terminal_observation"
            np.testing.assert_array_equal(mine.pop(last, None), theirs.pop(last, None))
            assert mine == theirs
        ended += int(expected[2].sum())
        assert lane.reset_infos == local.reset_infos
    assert ended > 4
    lane.close()
    local.close()


def test_what_a_lane_can_not_do_for_stable_baselines3_is_told(serve: Serve) -> None:
    with pytest.raises(ValueError, match="--autoreset same-step"):
        LaneVecEnv(serve("CartPole-v1", AutoresetMode.NEXT_STEP))
    envs = LaneVecEnv(serve("CartPole-v1", AutoresetMode.SAME_STEP))
    assert not envs.has_attr("gravity")
    assert envs.env_is_wrapped(gymnasium.Wrapper) == [False] * NUM_ENVS
    assert envs.get_images() == [None] * NUM_ENVS
    for refused in (lambda: envs.set_attr("gravity", 1), lambda: envs.env_method("render")):
        with pytest.raises(NotImplementedError, match="live in another process"):
            refused()
    envs.set_options({"low": 0})
    with pytest.raises(ValueError, match="no options of a reset"):
        envs.reset()
    envs.close()


# --- CleanRL --------------------------------------------------------------------------------------


class Options:
    """What the PPO in one file is told."""

    seed = 2
    total_steps = 6_144
    learning_rate = 2.5e-3
    rollout_steps = 128
    minibatches = 4
    epochs = 4
    gamma = 0.99
    gae_lambda = 0.95
    clip = 0.2
    entropy = 0.01
    value_weight = 0.5
    largest_gradient = 0.5


def learned(
    envs: VectorEnv[Any, Any, Any], monkeypatch: pytest.MonkeyPatch
) -> tuple[dict[str, bytes], int, list[float]]:
    """Train with the PPO of one file, as it stands."""
    agents: list[Any] = []

    class Kept(ppo.Agent):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            agents.append(self)

    monkeypatch.setattr(ppo, "Agent", Kept)
    with closing(envs):
        steps, returns = ppo.learn(envs, Options(), lambda: True, lambda _: None)
    monkeypatch.undo()
    return bits_of(agents[0].state_dict()), steps, returns


@pytest.mark.parametrize("workers", [1, 2])
def test_a_script_in_the_style_of_cleanrl_learns_the_same(
    serve: Serve, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    mode = AutoresetMode.SAME_STEP
    local = learned(
        SyncVectorEnv([partial(make_env, "CartPole-v1")] * NUM_ENVS, autoreset_mode=mode),
        monkeypatch,
    )
    lane = learned(LaneVectorEnv(serve("CartPole-v1", mode, workers)), monkeypatch)
    assert lane == local
    returns = local[2]
    assert np.mean(returns[-20:]) > 1.5 * np.mean(returns[:20]), "and it learns"


# --- TorchRL --------------------------------------------------------------------------------------


def torchrl_batches(envs: VectorEnv[Any, Any, Any]) -> tuple[list[Any], dict[str, bytes]]:
    """Collect and learn with TorchRL's parts; return the batches and the weights."""
    from tensordict.nn import TensorDictModule
    from torchrl.collectors import Collector
    from torchrl.envs import GymWrapper
    from torchrl.modules import MLP, ProbabilisticActor, ValueOperator
    from torchrl.objectives import ClipPPOLoss
    from torchrl.objectives.value import GAE

    torch.manual_seed(4)
    env = GymWrapper(envs, categorical_action_encoding=True)
    env.set_seed(4)
    actor = ProbabilisticActor(
        TensorDictModule(
            MLP(in_features=4, out_features=2, num_cells=[32]), ["observation"], ["logits"]
        ),
        in_keys=["logits"],
        distribution_class=torch.distributions.Categorical,
        return_log_prob=True,
    )
    critic = ValueOperator(MLP(in_features=4, out_features=1, num_cells=[32]))
    advantage = GAE(gamma=0.99, lmbda=0.95, value_network=critic)
    loss = ClipPPOLoss(actor, critic)
    optimizer = torch.optim.Adam(loss.parameters(), lr=3e-3)
    batches = []
    collector = Collector(
        env, actor, frames_per_batch=64 * NUM_ENVS, total_frames=8 * 64 * NUM_ENVS
    )
    for batch in collector:
        batches.append(batch.clone())
        for _ in range(3):
            with torch.no_grad():
                advantage(batch)
            losses = loss(batch.reshape(-1))
            optimizer.zero_grad()
            sum(value for key, value in losses.items() if key.startswith("loss_")).backward()
            optimizer.step()
    collector.shutdown()
    if not env.is_closed:
        env.close()
    return batches, bits_of(loss.state_dict())


@pytest.mark.parametrize("mode", [AutoresetMode.DISABLED, AutoresetMode.SAME_STEP])
def test_torchrl_collects_and_learns_the_same(serve: Serve, mode: AutoresetMode) -> None:
    make = partial(gymnasium.make, "CartPole-v1")
    local, weights = torchrl_batches(SyncVectorEnv([make] * NUM_ENVS, autoreset_mode=mode))
    found, found_weights = torchrl_batches(LaneVectorEnv(serve("CartPole-v1", mode, 2)))
    assert len(found) == len(local) == 8
    for mine, theirs in zip(found, local, strict=True):
        assert set(mine.keys(True, True)) == set(theirs.keys(True, True))
        for key in theirs.keys(True, True):
            value, expected = mine[key], theirs[key]
            if isinstance(expected, torch.Tensor):
                assert torch.equal(value.nan_to_num(7.0), expected.nan_to_num(7.0)), key
    assert sum(int(batch["next", "done"].sum()) for batch in local) > 20
    assert found_weights == weights


# --- for all --------------------------------------------------------------------------------------


def test_a_training_ends_with_the_servers_reason(serve: Serve, tmp_path: Path) -> None:
    broken = tmp_path / "broken_worlds.py"
    broken.write_text(
        "import gymnasium\n"
        "from gymnasium.envs.classic_control import CartPoleEnv\n"
        "class Broken(CartPoleEnv):\n"
        "    left = 100\n"
        "    def step(self, action):\n"
        "        self.left -= 1\n"
        "        if not self.left:\n"
        "            raise RuntimeError('the track is torn up')\n"
        "        return super().step(action)\n"
        "gymnasium.register('Broken-v0', Broken, max_episode_steps=500)\n"
    )
    name = f"test-{os.getpid()}-{uuid.uuid4().hex[:12]}"
    command = ["serve", "broken_worlds:Broken-v0", "--autoreset", "same-step", "--name", name]
    server = subprocess.Popen([sys.executable, "-m", "lanekit", *command], cwd=tmp_path)
    with closing(LaneVecEnv(name)) as envs:
        with pytest.raises(PeerLost, match="RuntimeError: the track is torn up"):
            PPO("MlpPolicy", envs, n_steps=64, device="cpu").learn(1_000)
    assert server.wait(patience(240)) == 1


@pytest.mark.parametrize("framework", ["sb3", "torchrl"])
def test_the_examples_of_the_page_run_as_written(serve: Serve, framework: str) -> None:
    pattern = rf"^```python {framework}\n(.*?)^```"
    (code,) = re.findall(pattern, PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    mode = AutoresetMode.SAME_STEP if framework == "sb3" else AutoresetMode.DISABLED
    code = code.replace("my-envs", serve("CartPole-v1", mode))
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=patience(240),
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
