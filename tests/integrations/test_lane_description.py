"""What a lane says about its spaces: all of it comes back, and none is believed blindly."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

from lanekit import SchemaMismatch, StepLaneConfig, StepServer
from lanekit.integrations import LaneVectorEnv
from lanekit.integrations.stepping import LaneDescription
from patience import patience

pytestmark = pytest.mark.once

SPACES: list[spaces.Space[Any]] = [
    spaces.Box(-1, 1, (3,)),
    spaces.Box(np.array([-1.5, -np.inf]), np.array([np.inf, 1e300]), dtype=np.float64),
    spaces.Box(np.float32(0.1), np.float32(0.7), (2, 2), np.float32),
    spaces.Box(0, 255, (84, 84, 4), np.uint8),
    spaces.Box(-(2**62), 2**62, (1,), np.int64),
    spaces.Box(-1, 1, (), np.float16),
    spaces.Discrete(5),
    spaces.Discrete(2**40, start=-(2**50)),
    spaces.MultiDiscrete([2, 3, 4]),
    spaces.MultiDiscrete([[2, 3], [4, 5]], dtype=np.int32, start=[[0, 1], [2, -3]]),
    spaces.MultiBinary(3),
    spaces.MultiBinary([2, 3]),
    spaces.MultiBinary((1,)),
]


def lane_of(space: spaces.Space[Any], **options: Any) -> StepLaneConfig:
    values: dict[str, Any] = {"autoreset_mode": AutoresetMode.SAME_STEP, **options}
    return LaneDescription(space, spaces.Discrete(2), **values).lane_config(3, None)


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_every_space_comes_back_as_it_was(space: spaces.Space[Any]) -> None:
    config = lane_of(space)
    back = LaneDescription.from_lane(config, "lane")
    assert (back.observation_space, back.observation_space.dtype) == (space, space.dtype)
    if isinstance(space, spaces.Box):
        assert isinstance(back.observation_space, spaces.Box)
        assert back.observation_space.low.tobytes() == space.low.tobytes()
        assert back.observation_space.high.tobytes() == space.high.tobytes()
    back.observation_space.seed(3)
    space.seed(3)
    np.testing.assert_array_equal(back.observation_space.sample(), space.sample())
    json.loads(config.description, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))


def test_everything_else_comes_back_too() -> None:
    metadata = {"render_modes": ["human"], "render_fps": 30, "unsayable": object(), "nan": np.nan}
    infos = {"a": np.dtype("int64"), "b/c": np.dtype("bool")}
    config = lane_of(SPACES[0], env_id="Some-v1", metadata=metadata, infos=infos)
    assert config.infos == (
        *("a", "_a", "b/c", "_b/c"),
        *("final_info/a", "_final_info/a", "final_info/b/c", "_final_info/b/c"),
    )
    back = LaneDescription.from_lane(config, "lane")
    assert back.env_id == "Some-v1"
    assert back.autoreset_mode is AutoresetMode.SAME_STEP
    assert back.metadata == {"render_modes": ["human"], "render_fps": 30}
    assert back.infos == infos


@pytest.mark.parametrize(
    "space",
    [
        spaces.Text(5),
        spaces.Sequence(spaces.Discrete(2)),
        spaces.Box(-1, 1, (0,)),
    ],
    ids=str,
)
def test_what_is_no_array_of_numbers_is_refused(space: spaces.Space[Any]) -> None:
    with pytest.raises(ValueError, match="observations"):
        LaneDescription(space, spaces.Discrete(2), AutoresetMode.DISABLED)


def changed(**changes: Any) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(lane_of(SPACES[0]).description)
    for path, value in changes.items():
        *keys, last = path.split("__")
        place = said
        for key in keys:
            place = place[key]
        if value is ...:
            del place[last]
        else:
            place[last] = value
    return said


LIES: dict[str, Any] = {
    "no JSON": "{",
    "a list": [],
    "a number": 3,
    "another form": changed(gymnasium=2),
    "no form": changed(gymnasium=...),
    "no space": changed(observation_space=...),
    "a space that is a list": changed(observation_space=[1]),
    "an unknown space": changed(observation_space__kind="Dict"),
    "no kind": changed(observation_space__kind=...),
    "a shape of another size": changed(observation_space__shape=[4]),
    "a huge shape": changed(observation_space__shape=[2**62, 2**62]),
    "a negative shape": changed(observation_space__shape=[-3, -1]),
    "a shape of words": changed(observation_space__shape=["3"]),
    "a shape of truths": changed(observation_space__shape=[True, 3]),
    "a shape that is a number": changed(observation_space__shape=3),
    "another type": changed(observation_space__dtype="<f8"),
    "no type at all": changed(observation_space__dtype="nonsense"),
    "objects": changed(observation_space__dtype="O"),
    "too few bounds": changed(observation_space__low=[0, 0]),
    "bounds of words": changed(observation_space__low="low"),
    "bounds within bounds": changed(observation_space__low=[[0], [0], [0]]),
    "no bounds": changed(observation_space__low=None),
    "a low above the high": changed(observation_space__low=3),
    "no choice": changed(action_space__n=0),
    "a negative choice": changed(action_space__n=-3),
    "a choice of words": changed(action_space__n="2"),
    "a choice beyond 64 bits": changed(action_space__n=2**70),
    "an unknown mode": changed(autoreset_mode="Sometimes"),
    "no mode": changed(autoreset_mode=...),
    "metadata that are a word": changed(metadata="fast"),
    "a name that is a number": changed(env_id=3),
    "infos that are a list": changed(infos=["a"]),
    "deep": "[" * 100_000,
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES.keys())
def test_a_description_that_makes_no_sense_is_told(lie: Any) -> None:
    text = lie if isinstance(lie, str) else json.dumps(lie)
    config = replace(lane_of(SPACES[0]), description=text)
    with pytest.raises(SchemaMismatch, match="its description makes no sense"):
        LaneDescription.from_lane(config, "lane")


def test_no_change_of_a_few_characters_does_worse_than_be_told() -> None:
    chosen = random.Random(3)
    infos = {"a": np.dtype("int64")}
    config = lane_of(SPACES[9], infos=infos)
    refused = 0
    for _ in range(1000):
        text = list(config.description)
        for _ in range(chosen.randint(1, 3)):
            text[chosen.randrange(len(text))] = chosen.choice('0129-{}[],":.einfNa ')
        try:
            LaneDescription.from_lane(replace(config, description="".join(text)), "lane")
        except SchemaMismatch:
            refused += 1
    assert refused > 100


def test_same_step_needs_room_for_the_last_observations() -> None:
    config = replace(lane_of(SPACES[0]), final_obs=False)
    with pytest.raises(SchemaMismatch, match="needs a lane with final observations"):
        LaneDescription.from_lane(config, "lane")


def test_a_lane_that_says_nothing_is_refused_with_the_remedy_and_left(run_id: str) -> None:
    with StepServer.create(run_id, 2, 3, 1) as server:
        for _ in range(2):  # the place is free again
            with pytest.raises(SchemaMismatch, match=r"docs/step-lane-gymnasium\.md"):
                LaneVectorEnv(run_id, timeout=patience(5))
        assert server.state.client_pid == 0


@pytest.mark.parametrize(
    ("infos", "problem"),
    [
        ("left", "several names"),
        (["final_obs"], "another use for it"),
        (["final_info/x"], "another use for it"),
        (["_left"], "another use for it"),
        ({"left": "U5"}, "numbers are carried"),
        (["x" * 70], "1 to 63 bytes"),
    ],
)
def test_infos_that_can_not_be_carried_are_told(infos: Any, problem: str) -> None:
    from lanekit.integrations.stepping.description import typed_infos

    with pytest.raises((ValueError, TypeError), match=problem):
        lane_of(SPACES[0], infos=typed_infos(infos))
