"""Telemetry that keeps what it is told."""

from __future__ import annotations

from typing import Any


class Heard:
    """Steps: agent, episode, step, reward, over. Episodes: agent, episode, return, length."""

    def __init__(self) -> None:
        self.steps: list[tuple[str, int, int, float, bool]] = []
        self.episodes: list[tuple[str, int, float, int]] = []

    def step(self, episode_index: int, step_index: int, **content: Any) -> None:
        agent, over = content["agent_id"], content["terminated"] or content["truncated"]
        self.steps.append((agent, episode_index, step_index, content["reward"], over))

    def episode(self, episode_index: int, **content: Any) -> None:
        self.episodes.append(
            (content["agent_id"], episode_index, content["episode_return"], content["length"])
        )
