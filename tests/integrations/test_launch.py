"""maybe_wrap_env: the launcher's variables decide."""

from __future__ import annotations

import gc
from typing import Any

import gymnasium
import pytest
import worlds

import lanekit
from lanekit.integrations import (
    FastLaneTelemetryWrapper,
    FastLaneVectorWrapper,
    maybe_wrap_env,
    watch_env,
    watch_env_fns,
    wrap_env_fns,
)
from lanekit.integrations.launch import asked_for
from lanekit.integrations.showing.slots import SlotClaim, slot_of_this_process
from run_lanes import lanes_of

ON = {"MOSAIC_FASTLANE_ONLY": "1"}


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch, run_id: str) -> Any:
    def launch(**settings: Any) -> None:
        variables = lanekit.apply_fastlane_environment(
            {}, **{"fastlane_only": True, "fastlane_slot": 0, **settings}
        )
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("LANEKIT_RUN_ID", run_id)

    return launch


@pytest.mark.parametrize(
    ("variables", "asks"),
    [
        ({}, False),
        (ON, True),
        ({"MOSAIC_FASTLANE_ONLY": "0"}, False),
        ({"MOSAIC_FASTLANE_ONLY": "0", "MOSAIC_FASTLANE_VIDEO_MODE": "single"}, True),
        ({**ON, "MOSAIC_FASTLANE_VIDEO_MODE": "off"}, False),
        ({"GYM_GUI_FASTLANE_ONLY": "1"}, True),
        ({"GYM_GUI_FASTLANE_SLOT": "3"}, True),
    ],
)
def test_a_launcher_asks_by_its_variables(variables: dict[str, str], asks: bool) -> None:
    assert (asked_for(variables) is not None) == asks


def test_without_a_launcher_the_environment_stays_as_it_is() -> None:
    env = worlds.Counter()
    assert maybe_wrap_env(env) is env


def test_the_slot_that_was_asked_for_is_wrapped_and_no_other(launched: Any) -> None:
    launched(fastlane_slot=1)
    envs = [maybe_wrap_env(worlds.Counter()) for _ in range(3)]
    assert [isinstance(env, FastLaneTelemetryWrapper) for env in envs] == [False, True, False]
    assert not isinstance(maybe_wrap_env(worlds.Counter(), slot=7), FastLaneTelemetryWrapper)
    assert isinstance(maybe_wrap_env(worlds.Counter(), slot=1), FastLaneTelemetryWrapper)


def test_in_a_grid_all_up_to_the_limit_are_wrapped(launched: Any) -> None:
    launched(fastlane_slot=0, video_mode="grid", grid_limit=2)
    envs = [maybe_wrap_env(worlds.Counter(), slot=slot) for slot in range(3)]
    assert [isinstance(env, FastLaneTelemetryWrapper) for env in envs] == [True, True, False]


def test_a_closed_environments_slot_is_free_again(launched: Any) -> None:
    launched()
    for _ in range(3):  # as when an environment is made only to be asked for its spaces
        env = maybe_wrap_env(worlds.Counter())
        assert isinstance(env, FastLaneTelemetryWrapper)
        env.close()
    forgotten = SlotClaim(worlds.Counter())
    gc.collect()
    assert SlotClaim(worlds.Counter()).slot == forgotten.slot == 0


def test_the_processes_of_a_vector_environment_know_their_slots(launched: Any, run_id: str) -> None:
    launched(fastlane_slot=1)
    assert slot_of_this_process() is None
    envs = gymnasium.make_vec(
        "Counter-v0", 3, vectorization_mode="async", wrappers=[maybe_wrap_env]
    )
    envs.reset()
    envs.step(envs.action_space.sample())
    assert lanes_of(run_id) in ([run_id], [run_id, f"{run_id}/state"])
    names = envs.call("class_name")  # type: ignore[attr-defined]
    assert names == ("OrderEnforcing", "FastLaneTelemetryWrapper", "OrderEnforcing")
    envs.close()


@pytest.mark.parametrize("only", [True, False])
def test_the_fast_lane_only_means_no_other_telemetry(launched: Any, only: bool) -> None:
    launched(fastlane_only=only)
    told = []

    class Notebook:
        def step(self, *where: int, **what: Any) -> None:
            told.append(where)

        def episode(self, *where: int, **what: Any) -> None:
            told.append(where)

    shown = maybe_wrap_env(worlds.Counter(), telemetry=Notebook())
    hidden = maybe_wrap_env(worlds.Counter(), telemetry=Notebook())
    for env in (shown, hidden):
        env.reset()
        env.step(0)
        env.close()
    assert told == ([] if only else [(0, 0), (0, 0)])


# --- what is no environment -----------------------------------------------------------------------


@pytest.mark.parametrize("wrap", [watch_env, maybe_wrap_env, FastLaneTelemetryWrapper])
@pytest.mark.parametrize(
    ("thing", "says"),
    [
        ("Acrobot-v1", r"an environment is expected, not 'Acrobot-v1'; .*make\('Acrobot-v1', rend"),
        (None, r"an environment is expected, not None; make one first: gymnasium.make\('CartPole"),
        (worlds.Counter, r"not an object of type \w+; make one first: gymnasium.make\("),
    ],
)
def test_what_is_no_environment_is_told_with_how_to_make_one(
    launched: Any, run_id: str, wrap: Any, thing: Any, says: str
) -> None:
    launched()
    with pytest.raises(TypeError, match=says):
        wrap(thing, run_id)
    first = maybe_wrap_env(worlds.Counter(), run_id)
    assert isinstance(first, FastLaneTelemetryWrapper), "what was refused took no slot"
    first.close()


def test_one_environment_and_many_are_told_apart(run_id: str) -> None:
    envs = gymnasium.vector.SyncVectorEnv([worlds.Counter])
    with pytest.raises(TypeError, match=r"type SyncVectorEnv; FastLaneVectorWrapper"):
        watch_env(envs, run_id)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"type Counter; FastLaneTelemetryWrapper"):
        FastLaneVectorWrapper(worlds.Counter(), run_id)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"not 'A-v1'; make one first: gymnasium.make_vec\('A-v1'"):
        FastLaneVectorWrapper("A-v1", run_id)  # type: ignore[arg-type]
    envs.close()


@pytest.mark.parametrize("wrap", [watch_env_fns, wrap_env_fns])
@pytest.mark.parametrize("things", ["A-v1", ["A-v1"], worlds.Counter, [worlds.Counter, None]])
def test_what_makes_no_environment_is_told_before_it_is_needed(
    run_id: str, wrap: Any, things: Any
) -> None:
    with pytest.raises(TypeError, match=r"functions that each make .* such as \[lambda: gym"):
        wrap(things, run_id)
