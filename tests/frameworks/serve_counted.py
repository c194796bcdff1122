"""Serves environments that count their episodes: ``python serve_counted.py ENV_ID NAME MODE K``."""

from __future__ import annotations

import sys
from typing import Any

import gymnasium
from gymnasium.wrappers import FlattenObservation, RecordEpisodeStatistics

from lanekit.integrations import serve_vector_env

NUM_ENVS = 4
INFOS = {"episode/r": "float64", "episode/l": "int64"}


def make_env(env_id: str) -> gymnasium.Env[Any, Any]:
    """Make one as CleanRL's scripts do."""
    return FlattenObservation(RecordEpisodeStatistics(gymnasium.make(env_id)))


if __name__ == "__main__":
    chosen, name, mode, workers = sys.argv[1:]
    serve_vector_env(
        lambda: make_env(chosen),
        NUM_ENVS,
        name,
        workers=int(workers),
        autoreset_mode=mode,
        infos=INFOS,
    )
