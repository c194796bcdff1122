"""Without a daemon: a worker started by hand, a framework's environments in a test's process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from watching import HERE, Watched, check_lanes_are_gone

import lanekit
from lanekit.integrations import FastLaneWarning, FrameNote
from patience import patience, until
from run_lanes import lanes_of

WORLDS = str(Path(__file__).resolve().parent.parent / "integrations")
SLOT_SHOWN = 2
NUM_ENVS = 3


class Tinted:
    """Makes an environment whose picture tells its number; also in a process of its own."""

    def __init__(self, number: int, **options: Any) -> None:
        self._options = {"tint": tint_of(number), **options}

    def __call__(self) -> gymnasium.Env[Any, Any]:
        register_worlds()
        return gymnasium.make("LimitedCounter-v0", **self._options)


def tint_of(number: int) -> int:
    return 50 + 10 * number


def register_worlds() -> None:
    """Make the environments of the wrappers' tests known, and one with a limit of steps."""
    if WORLDS not in sys.path:
        sys.path.insert(0, WORLDS)
    import worlds

    worlds.register()
    if "LimitedCounter-v0" not in gymnasium.registry:
        gymnasium.register(
            "LimitedCounter-v0", entry_point="worlds:Counter", max_episode_steps=10_000
        )


def check_learned(watched: Watched) -> None:
    """The last episodes are longer than those at the beginning, which are like random ones."""
    returns = watched.summary["episode_returns"]
    first, last = sum(returns[:20]) / 20, sum(returns[-20:]) / 20
    assert first < 40, "an untrained CartPole falls after 22 steps or so"
    assert last > 2 * first, (first, last)


def check_slot_shown(run_id: str, step: Callable[[], object]) -> None:
    """The pictures are those of environment number SLOT_SHOWN, and change with its steps."""
    assert lanes_of(run_id) == [], "environments that were only asked for their spaces"
    step()
    seen: dict[int, int] = {}
    with lanekit.FastLaneReader.attach(run_id, timeout=patience(240)) as reader:

        def enough() -> bool:
            step()
            frame = reader.latest_frame(fresh=True)
            if frame is not None:
                note = FrameNote.decode(frame.metadata)
                assert note is not None
                assert frame.array[0, 0, 2] == tint_of(SLOT_SHOWN)
                assert frame.array[0, 0, 0] == note.step % 251
                seen[note.step] = int(frame.array[0, 0, 0])
            return len(seen) >= 3

        until(enough, "frames", 240)


def check_goes_on_without_pictures(step: Callable[[], object]) -> None:
    """An environment that can not draw trains on; one warning says what to do."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(200):
            step()
    said = [str(w.message) for w in caught if issubclass(w.category, FastLaneWarning)]
    assert len(said) == 1, said
    assert "render_mode='rgb_array'" in said[0]
    assert "training goes on" in said[0]


def check_name_taken(worker: str, run_id: str, **config: Any) -> None:
    """A run whose id somebody else uses trains on; one warning says who has it."""
    taken = lanekit.FastLaneConfig(8, 8)
    with lanekit.FastLaneWriter.create(run_id, taken):
        summary, errors = run_by_hand(worker, run_id=run_id, **config)
    assert summary["status"] == "completed"
    assert summary["steps"] >= config["total_steps"]
    assert errors.count("lanekit can not show run") == 1, errors
    assert str(os.getpid()) in errors
    check_lanes_are_gone(run_id)


def check_refusing_to_draw(
    worker: str, run_id: str, monkeypatch: pytest.MonkeyPatch, **config: Any
) -> None:
    """An environment that refuses every render mode is trained all the same, with one warning."""
    monkeypatch.setenv("PYTHONPATH", str(HERE))
    summary, errors = run_by_hand(
        worker, run_id=run_id, env_id="plain:Plain-v0", total_steps=256, **config
    )
    assert (summary["status"], summary["steps"]) == ("completed", 256)
    assert errors.count("lanekit can not show run") == 1, errors


def run_by_hand(worker: str, **config: Any) -> tuple[dict[str, Any], str]:
    """Run a worker that no daemon started; return its summary and what it said on stderr."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("LANEKIT_")}
    done = subprocess.run(
        [sys.executable, "-m", f"lanekit.integrations.workers.{worker}"],
        env={**environment, "LANEKIT_CONFIG_JSON": json.dumps(config)},
        capture_output=True,
        text=True,
        timeout=patience(240),
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    said = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"event')]
    summary: dict[str, Any] = said[-1]["payload"]
    assert said[-1]["event"] == "run_completed"
    return summary, done.stderr


ABSENT = """
import importlib.abc, sys

class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == {package!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
import lanekit.integrations.workers.{framework}
import lanekit.integrations.{framework}
"""


def check_missing(framework: str, package: str | None = None) -> None:
    """Without the framework its worker can be imported; its integration says what to install."""
    code = ABSENT.format(framework=framework, package=package or framework)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"pip install 'lanekit[{framework}]'" in done.stderr.splitlines()[-1], done.stderr
