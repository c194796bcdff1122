"""A run as the curves that experiment trackers draw: a number over time, for each track."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lanekit.slow.export.source import ExportSource, Track


@dataclass(frozen=True)
class Point:
    """What one step, or one episode, adds to the curves of its track."""

    track: Track
    index: int
    """The step's number among all steps of its track, or the episode's own number."""
    wall_time: float
    values: dict[str, float]


def step_points(source: ExportSource) -> Iterator[Point]:
    """Give the rewards of all steps that have one."""
    counts: dict[Track, int] = {}
    for window in source.step_windows():
        rewards, times = window.reward.tolist(), (window.wall_time_ns / 1e9).tolist()
        absent = np.isnan(window.reward).tolist()
        for i, track in enumerate(zip(window.worker, window.agent, strict=True)):
            index = counts.get(track, 0)
            counts[track] = index + 1
            if not absent[i]:
                yield Point(track, index, times[i], {"step/reward": rewards[i]})


def episode_points(source: ExportSource) -> Iterator[Point]:
    """Give the lengths of all episodes, and the returns of those that have one."""
    for row in source.episodes():
        values = {"episode/length": float(row.length)}
        if row.HasField("episode_return"):
            values["episode/return"] = row.episode_return
        track = (row.worker_id, row.agent_id)
        yield Point(track, row.episode, row.wall_time_ns / 1e9, values)


def track_names(tracks: list[Track]) -> dict[Track, str]:
    """Name each track in a way that any file system and any tracker takes, no two alike.

    The only track needs no name.
    """
    if len(tracks) < 2:
        return dict.fromkeys(tracks, "")
    workers, agents = ({track[i] for track in tracks} for i in (0, 1))
    names: dict[Track, str] = {}
    taken: set[str] = set()
    for worker, agent in tracks:
        parts = ([worker] if len(workers) > 1 else []) + ([agent] if len(agents) > 1 else [])
        name = re.sub(r"[^A-Za-z0-9._-]+", "_", "-".join(filter(None, parts))).strip(".")
        name = unique = name[:80] or "main"
        number = 2
        while unique.lower() in taken:
            unique, number = f"{name}-{number}", number + 1
        taken.add(unique.lower())
        names[worker, agent] = unique
    return names
