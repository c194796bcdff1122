"""The environment variables between a launcher and its workers."""

from __future__ import annotations

from typing import Any

import pytest

from lanekit import FastLaneEnvironment, apply_fastlane_environment, read_fastlane_environment


def test_what_is_applied_is_what_is_read() -> None:
    env: dict[str, Any] = {"PATH": "/bin"}
    assert (
        apply_fastlane_environment(
            env, fastlane_only=True, fastlane_slot=3, video_mode="GRID", grid_limit=9
        )
        is env
    )
    assert env == {
        "PATH": "/bin",
        "MOSAIC_FASTLANE_ONLY": "1",
        "MOSAIC_FASTLANE_SLOT": "3",
        "MOSAIC_FASTLANE_VIDEO_MODE": "grid",
        "MOSAIC_FASTLANE_GRID_LIMIT": "9",
    }
    assert read_fastlane_environment(env) == FastLaneEnvironment(True, 3, "grid", 9)


def test_absent_variables_keep_their_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_fastlane_environment({}) == FastLaneEnvironment(False, 0, "single", 4)
    monkeypatch.setenv("MOSAIC_FASTLANE_SLOT", "2")
    assert read_fastlane_environment().fastlane_slot == 2


def test_older_names_count_where_the_newer_one_is_absent() -> None:
    env = {
        "GYM_GUI_FASTLANE_ONLY": "1",
        "GYM_GUI_FASTLANE_SLOT": "5",
        "MOSAIC_FASTLANE_SLOT": "6",
        "GYM_GUI_FASTLANE_VIDEO_MODE": "off",
    }
    assert read_fastlane_environment(env) == FastLaneEnvironment(True, 6, "off", 4)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ONLY", "maybe"),
        ("SLOT", "-1"),
        ("SLOT", "first"),
        ("VIDEO_MODE", "hologram"),
        ("GRID_LIMIT", "0"),
        ("GRID_LIMIT", ""),
    ],
)
def test_a_bad_value_names_its_variable(name: str, value: str) -> None:
    with pytest.raises(ValueError, match=f"MOSAIC_FASTLANE_{name}"):
        read_fastlane_environment({f"MOSAIC_FASTLANE_{name}": value})


@pytest.mark.parametrize(
    "arguments", [{"fastlane_slot": -1}, {"video_mode": "all"}, {"grid_limit": 0}]
)
def test_a_bad_argument_changes_nothing(arguments: dict[str, Any]) -> None:
    env: dict[str, Any] = {}
    with pytest.raises(ValueError, match=next(iter(arguments))):
        apply_fastlane_environment(env, **{"fastlane_only": True, "fastlane_slot": 0, **arguments})
    assert env == {}
