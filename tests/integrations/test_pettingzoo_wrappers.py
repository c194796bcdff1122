"""PettingZoo: agents in turn, and all at once."""

from __future__ import annotations

import sys
from typing import Any

import gymnasium
import numpy as np
import pytest
import worlds
from heard import Heard

import lanekit
from lanekit.integrations import (
    FastLaneAECWrapper,
    FastLaneParallelWrapper,
    FastLaneWarning,
    FrameNote,
)

pettingzoo = pytest.importorskip("pettingzoo")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


class Together(pettingzoo.ParallelEnv):  # type: ignore[misc]
    """Two agents; an episode is five steps long, each worth 1 and 2."""

    metadata = {"name": "together", "render_modes": ["rgb_array"], "is_parallelizable": True}  # noqa: RUF012
    possible_agents = ["a", "b"]  # noqa: RUF012

    def __init__(self, render_mode: str | None = "rgb_array") -> None:
        self.render_mode = render_mode
        self.agents: list[str] = []
        self.steps = 0

    def observation_space(self, agent: str) -> Any:
        return gymnasium.spaces.Discrete(2)

    def action_space(self, agent: str) -> Any:
        return gymnasium.spaces.Discrete(2)

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self.agents = self.possible_agents[:]
        self.steps = 0
        return dict.fromkeys(self.agents, 0), {agent: {} for agent in self.agents}

    def step(self, actions: dict[str, Any]) -> Any:
        self.steps += 1
        over = self.steps == 5
        acting = self.agents
        if over:
            self.agents = []
        return (
            dict.fromkeys(acting, 0),
            {"a": 1.0, "b": 2.0},
            dict.fromkeys(acting, over),
            dict.fromkeys(acting, False),
            {agent: {} for agent in acting},
        )

    def render(self) -> Any:
        return worlds.picture(self.steps)


def read(reader: lanekit.FastLaneReader) -> tuple[lanekit.FastLaneFrame, FrameNote]:
    frame = reader.latest_frame()
    assert frame is not None
    note = FrameNote.decode(frame.metadata)
    assert note is not None
    return frame, note


def test_all_at_once(run_id: str) -> None:
    env = FastLaneParallelWrapper(Together(), run_id, every_step=True)
    env.reset(seed=1)
    env.step({"a": 0, "b": 0})
    with lanekit.FastLaneReader.attach(run_id) as reader:
        for total in range(2, 13):
            if not env.agents:
                env.reset()
            env.step({"a": 0, "b": 0})
            frame, note = read(reader)
            assert note.step == total
            np.testing.assert_array_equal(frame.array, worlds.picture(env.unwrapped.steps))
            assert frame.metrics.last_reward == 3.0
        assert frame.metrics.rolling_return == 15.0
    env.close()
    env.close()


def test_in_turn(run_id: str) -> None:
    from pettingzoo.utils.conversions import parallel_to_aec

    env = FastLaneAECWrapper(parallel_to_aec(Together()), run_id, every_step=True)
    env.reset(seed=1)
    env.step(0)
    with lanekit.FastLaneReader.attach(run_id) as reader:
        for _ in range(40):
            if not env.agents:
                env.reset()
            dead = env.terminations[env.agent_selection]
            env.step(None if dead else 0)
            frame, _ = read(reader)
        np.testing.assert_array_equal(frame.array, worlds.picture(env.unwrapped.steps))
        assert frame.metrics.rolling_return == 15.0
    env.close()
    env.close()


@pytest.mark.parametrize("wrapper", [FastLaneAECWrapper, FastLaneParallelWrapper])
def test_telemetry_hears_of_each_agent_by_its_name(run_id: str, wrapper: Any) -> None:
    from pettingzoo.utils.conversions import parallel_to_aec

    heard = Heard()
    aec = wrapper is FastLaneAECWrapper
    env = wrapper(parallel_to_aec(Together()) if aec else Together(), run_id, telemetry=heard)
    for _ in range(2):
        env.reset()
        while env.agents:
            if not aec:
                env.step({"a": 0, "b": 0})
            else:
                over = env.terminations[env.agent_selection]
                env.step(None if over else 0)
    env.close()
    for agent, reward in (("a", 1.0), ("b", 2.0)):
        steps = [step[1:] for step in heard.steps if step[0] == agent]
        assert steps == [(n // 5, n % 5, reward, n % 5 == 4) for n in range(10)]
    assert sorted(heard.episodes) == [
        ("a", 0, 5.0, 5),
        ("a", 1, 5.0, 5),
        ("b", 0, 10.0, 5),
        ("b", 1, 10.0, 5),
    ]


def test_what_another_agents_move_brings_belongs_to_the_step_before(run_id: str) -> None:
    """In a game won by the last move, the loser hears of it without another move of its own."""
    rps = pytest.importorskip("pettingzoo.classic.rps.rps", reason="needs pettingzoo[classic]")
    heard = Heard()
    env = FastLaneAECWrapper(
        rps.env(render_mode="rgb_array", max_cycles=3), run_id, telemetry=heard
    )
    env.reset(seed=1)
    for agent in env.agent_iter():
        over = env.terminations[agent] or env.truncations[agent]
        env.step(None if over else (1 if agent == "player_0" else 0))  # paper beats rock
    env.close()
    assert sorted(heard.episodes) == [
        ("player_0", 0, 3.0, 3),
        ("player_1", 0, -3.0, 3),
    ]


@pytest.mark.pygame
def test_a_game_of_pettingzoo_itself(run_id: str) -> None:
    classic = pytest.importorskip("pettingzoo.classic.rps.rps", reason="needs pettingzoo[classic]")
    env = FastLaneAECWrapper(classic.env(render_mode="rgb_array"), run_id, every_step=True)
    env.reset(seed=1)
    env.step(0)
    with lanekit.FastLaneReader.attach(run_id) as reader:
        for _ in range(6):
            env.step(0)
            frame, _ = read(reader)
            np.testing.assert_array_equal(frame.array[..., :3], env.render())
    env.close()
    assert "pygame" in sys.modules


@pytest.mark.parametrize("wrapper", [FastLaneAECWrapper, FastLaneParallelWrapper])
def test_without_pictures_one_warning_and_training_goes_on(run_id: str, wrapper: Any) -> None:
    from pettingzoo.utils.conversions import parallel_to_aec

    together = Together(render_mode=None)
    aec = wrapper is FastLaneAECWrapper
    env = wrapper(parallel_to_aec(together) if aec else together, run_id)
    env.reset()
    action = 0 if aec else {"a": 0, "b": 0}
    with pytest.warns(FastLaneWarning, match="render_mode='rgb_array'"):
        env.step(action)
    env.step(action)
    env.close()


@pytest.mark.parametrize("wrapper", [FastLaneAECWrapper, FastLaneParallelWrapper])
@pytest.mark.parametrize("thing", ["rps_v2", None])
def test_what_is_no_game_is_told_with_how_to_make_one(wrapper: Any, thing: Any) -> None:
    with pytest.raises(TypeError, match=rf"not {thing!r}; make one first: .* import rps_v2"):
        wrapper(thing, "run-1")
