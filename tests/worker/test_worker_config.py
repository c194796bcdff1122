"""A worker's configuration: what comes back from JSON, what is refused, and in which words."""

from __future__ import annotations

import dataclasses
import doctest
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lanekit.worker.config
from lanekit.worker import DataclassConfig, WorkerConfig
from lanekit.worker.json_values import fits


@dataclass
class Schedule:
    start: float
    end: float = 0.0
    milestones: tuple[int, ...] = ()


@dataclass(kw_only=True)
class Config(DataclassConfig):
    total_steps: int = 100
    rate: float = 0.5
    clip: float | None = None
    layers: tuple[int, ...] = (64, 64)
    pair: tuple[str, float] = ("a", 1.0)
    names: list[str] = field(default_factory=list)
    extras: dict[str, list[float]] = field(default_factory=dict)
    schedule: Schedule = field(default_factory=lambda: Schedule(1.0))
    schedules: list[Schedule] = field(default_factory=list)
    maybe: Schedule | None = None
    number: int | float | str = 0
    mode: Literal["fast", "slow", 1] = "fast"
    anything: Any = None
    steps_per_layer: float = field(init=False, default=0.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.steps_per_layer = self.total_steps / len(self.layers)


def through_json(config: Config) -> Config:
    return Config.from_dict(json.loads(json.dumps(config.to_dict(), allow_nan=False)))


def test_a_configuration_offers_what_every_configuration_has() -> None:
    assert isinstance(Config(run_id="a"), WorkerConfig)


def test_a_configuration_comes_back_from_json_as_it_was() -> None:
    config = Config(
        run_id="a",
        seed=3,
        rate=1,
        clip=2,
        layers=(1, 2, 3),
        pair=("b", 2.5),
        names=["x"],
        extras={"k": [1.0]},
        schedule=Schedule(1, milestones=(5, 6)),
        schedules=[Schedule(2.0)],
        maybe=Schedule(3.0),
        number=1.0,
        mode=1,
        anything={"deep": [1, None]},
    )
    again = through_json(config)
    assert again == config
    assert Config.from_dict(config.to_dict()) == config
    assert isinstance(again.layers, tuple)
    assert isinstance(again.schedule.milestones, tuple)
    assert isinstance(again.maybe, Schedule)
    assert (type(again.rate), type(again.clip)) == (float, float)
    assert config.to_dict() == json.loads(json.dumps(config.to_dict()))


finite = st.floats(allow_nan=False, allow_infinity=False)


@given(
    total_steps=st.integers(),
    rate=finite,
    clip=st.none() | finite,
    layers=st.lists(st.integers(), min_size=1).map(tuple),
    extras=st.dictionaries(st.text(), st.lists(finite)),
    number=st.integers() | finite | st.text(),
    schedules=st.lists(st.builds(Schedule, finite, finite, st.lists(st.integers()).map(tuple))),
)
def test_any_configuration_comes_back_from_json(**settings: Any) -> None:
    config = Config(run_id="a", **settings)
    again = through_json(config)
    assert again == config
    assert type(again.number) is type(config.number)


def test_what_is_derived_is_neither_told_nor_taken() -> None:
    config = Config(run_id="a", total_steps=10)
    assert config.steps_per_layer == 5
    assert "steps_per_layer" not in config.to_dict()


def test_steps_may_be_written_as_people_write_large_numbers() -> None:
    config = Config.from_dict({"run_id": "a", "total_steps": 1e6})
    assert config.total_steps == 1_000_000
    assert type(config.total_steps) is int


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"total_stpes": 1}, "Config has no 'total_stpes'; did you mean total_steps?"),
        ({"zzz": 1}, "Config has no 'zzz'; it has run_id, seed, total_steps"),
        ({"run_id": ""}, "run_id is empty"),
        ({"run_id": 7}, "run_id is str, not 7"),
        ({"seed": "x"}, "seed is int | None, not 'x'"),
        ({"seed": True}, "seed is int | None, not True"),
        ({"total_steps": 1.5}, "total_steps is int, not 1.5"),
        ({"total_steps": True}, "total_steps is int, not True"),
        ({"total_steps": None}, "total_steps is int, not None"),
        ({"rate": float("nan")}, "rate is nan, for which JSON has no word; None can stand"),
        ({"clip": float("inf")}, "clip is inf"),
        ({"rate": "0.1"}, "rate is float, not '0.1'"),
        ({"rate": 10**400}, "rate is float, not 1000"),
        ({"layers": [1, "two"]}, "layers[1] is int, not 'two'"),
        ({"layers": 64}, "layers is tuple[int, ...], not 64"),
        ({"pair": ["a"]}, "pair is tuple[str, float], not ['a']"),
        ({"names": "abc"}, "names is list[str], not 'abc'"),
        ({"extras": {"k": [float("nan")]}}, "extras.k[0] is nan"),
        ({"extras": {1: []}}, "extras is dict[str, list[float]], not {1: []}"),
        ({"schedule": {"strat": 1}}, "schedule has no 'strat'; did you mean start?"),
        ({"schedule": {}}, "schedule lacks start"),
        ({"schedule": {"start": "x"}}, "schedule.start is float, not 'x'"),
        ({"schedules": [{"start": 1, "milestones": [0.5]}]}, "schedules[0].milestones[0] is int"),
        ({"schedule": 1}, "schedule is an object with the fields of Schedule, not 1"),
        ({"maybe": {"start": None}}, "maybe.start is float, not None"),
        ({"mode": "medium"}, "mode is one of 'fast', 'slow', 1, not 'medium'"),
        ({"mode": True}, "mode is one of"),
        ({"anything": [float("nan")]}, "anything[0] is nan"),
        ({"steps_per_layer": 1.0}, "Config has no 'steps_per_layer'"),
    ],
)
def test_a_bad_setting_is_refused_by_name(settings: dict[str, Any], words: str) -> None:
    with pytest.raises((ValueError, TypeError), match=re.escape(words)):
        Config.from_dict({"run_id": "a", **settings})


def test_a_missing_setting_is_named() -> None:
    with pytest.raises(ValueError, match=r"^missing: run_id$"):
        Config.from_dict({})


@dataclass(kw_only=True)
class WithPath(DataclassConfig):
    save_to: Path = Path("model")


@dataclass(kw_only=True)
class WithNumbers(DataclassConfig):
    by_number: dict[int, str] = field(default_factory=dict)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (WithPath, "save_to has the type Path, which JSON can not carry"),
        (WithNumbers, "by_number has keys of type int; JSON has only texts"),
    ],
)
def test_a_type_that_json_can_not_carry_is_refused(config: Any, words: str) -> None:
    with pytest.raises(TypeError, match=re.escape(words)):
        config(run_id="a")


def test_values_fit_or_not() -> None:
    assert fits([1, 2], tuple[int, ...])
    assert fits(1, float)
    assert not fits([1, "x"], tuple[int, ...])
    assert not fits(True, int)


def test_the_example_in_the_docstring_runs() -> None:
    result = doctest.testmod(
        lanekit.worker.config,
        extraglobs={"dataclasses": dataclasses, "DataclassConfig": DataclassConfig},
    )
    assert result.attempted > 0
    assert result.failed == 0
