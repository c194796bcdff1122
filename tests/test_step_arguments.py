"""What a step lane's calls are given: all of it is checked before any of it is shared."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from lanekit import StepClient, StepLaneConfig, StepServer
from patience import patience

ENVS = 3


@pytest.fixture
def ends(run_id: str) -> Iterator[tuple[StepServer, StepClient]]:
    with StepServer.create(run_id, ENVS, 1, 2) as server, StepClient.attach(run_id) as client:
        yield server, client


def resets_of(
    ends: tuple[StepServer, StepClient], *arguments: Any, **options: Any
) -> list[tuple[int, int | None]]:
    """Reset, and return the flags that the server saw, with the seeds that they make valid."""
    server, client = ends
    with pytest.raises(Exception, match="not completed in time"):
        client.reset(*arguments, timeout=0, **options)
    assert server.wait_actions(patience(5)) is not None
    seen = [
        (flag, seed if flag == 2 else None)
        for flag, seed in zip(server.resets.tolist(), server.seeds.tolist(), strict=True)
    ]
    server.commit()
    client.recv(patience(5))
    assert client.resets.tolist() == [0] * ENVS
    return seen


def test_seeds_go_to_the_environments_they_are_for(ends: tuple[StepServer, StepClient]) -> None:
    assert resets_of(ends, seed=5) == [(2, 5), (2, 6), (2, 7)]
    assert resets_of(ends) == [(1, None)] * 3
    assert resets_of(ends, [2, 0], seed=2**64 - 2) == [(2, 2**64 - 1), (0, None), (2, 2**64 - 2)]
    assert resets_of(ends, seed=[None, 8, None]) == [(1, None), (2, 8), (1, None)]
    assert resets_of(ends, [False, True, False], seed=[np.int64(9)])[1] == (2, 9)
    assert resets_of(ends, seed=[0, 0, 0]) == [(2, 0)] * 3


@pytest.mark.parametrize(
    ("seed", "problem"),
    [
        ([1, -1, 2], "number from 0 to 2"),
        (-1, "number from 0 to 2"),
        (2**64 - 2, "number from 0 to 2"),
        ([1, 2, 2**64], "number from 0 to 2"),
        ([1, 1.5, 2], "whole number or None, not float"),
        ("abc", "whole number or None, not str"),
        ([1, 2], "3 environments are reset, but 2 seeds"),
    ],
)
def test_a_seed_that_can_not_be_leaves_no_reset_behind(
    ends: tuple[StepServer, StepClient], seed: Any, problem: str
) -> None:
    server, client = ends
    with pytest.raises((ValueError, TypeError), match=problem):
        client.reset(seed=seed, timeout=0)
    client.send(np.zeros((ENVS, 2)))
    exchange = server.wait_actions(patience(5))
    assert exchange is not None
    assert exchange.request == "step"
    assert server.resets.tolist() == [0] * ENVS


@pytest.mark.parametrize("option", ["obs_dtype", "act_dtype", "reward_dtype"])
def test_a_type_that_does_not_exist_is_told_with_its_option(option: str) -> None:
    options: dict[str, Any] = {option: "flot32"}
    with pytest.raises(TypeError, match=f"{option}: 'flot32' is no type .* 'float32'"):
        StepLaneConfig(1, 1, 1, **options)


def test_actions_are_never_mixed_up_between_environments(
    ends: tuple[StepServer, StepClient],
) -> None:
    server, client = ends
    actions = np.arange(6, dtype=np.float32)
    for wrong in (actions.reshape(2, 3), actions[:3], actions.reshape(1, 3, 2)):
        with pytest.raises(ValueError, match="shape"):
            client.send(wrong)
    client.send(actions.reshape(3, 1, 2))
    assert server.wait_actions(patience(5)) is not None
    assert server.actions.tolist() == [[0, 1], [2, 3], [4, 5]]


def test_one_name_is_not_taken_for_several_infos() -> None:
    with pytest.raises(TypeError, match="several names"):
        StepLaneConfig(1, 1, 1, infos="up")  # type: ignore[arg-type]


def test_a_long_description_is_not_part_of_messages(run_id: str) -> None:
    with pytest.raises(ValueError, match="no lane can have this shape") as caught:
        StepServer.create(run_id, 1, 1, 1, description="x" * (17 << 20))
    assert len(str(caught.value)) < 1000
