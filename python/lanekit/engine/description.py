"""What the lane says about its environments: the JSON that Gymnasium's adapter reads."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import numpy.typing as npt

from lanekit.engine.simulation import INFOS, VectorSimulation

FINAL = "final_info/"
"""In front of an info's name: its value at the last step of an episode that has ended."""


def info_rows() -> tuple[str, ...]:
    """Return the lane's infos: of this step, of an episode's last step, and whether it was one."""
    final = [row for name in INFOS for row in (f"{FINAL}{name}", f"_{FINAL}{name}")]
    return (*INFOS, *final)


def lane_description(simulation: VectorSimulation) -> str:
    """Return the text for the lane."""
    low, high = simulation.action_limits()
    unbounded = np.full(simulation.obs_size, np.inf, np.float32)
    said = {
        "gymnasium": 1,
        "env_id": f"{simulation.path.stem}/{simulation.task.name}",
        "observation_space": _box(-unbounded, unbounded),
        "action_space": _box(low, high),
        "autoreset_mode": "SameStep",
        "metadata": {"render_modes": ["rgb_array"], "step_seconds": simulation.step_seconds},
        "infos": dict.fromkeys(INFOS, "<f8"),
        "engine": {
            "model": simulation.path.name,
            "task": simulation.task.name,
            "observation_names": simulation.observation_names,
            "episode_steps": simulation.episode_steps,
            "threads": simulation.threads,
        },
    }
    return json.dumps(said, allow_nan=False)


def _box(low: npt.NDArray[np.float32], high: npt.NDArray[np.float32]) -> dict[str, Any]:
    return {
        "kind": "Box",
        "low": _numbers(low),
        "high": _numbers(high),
        "shape": [len(low)],
        "dtype": np.dtype(np.float32).str,
    }


def _numbers(values: npt.NDArray[np.float32]) -> Any:
    """Return one number if all are the same, else all in a row; JSON has no infinity."""
    row = [
        ("inf" if value > 0 else "-inf") if math.isinf(value) else value
        for value in values.tolist()
    ]
    return row[0] if all(value == row[0] for value in row) else row
