"""A method of the command lane: its name, what it takes, what it gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from lanekit.command.flatbuffer import Message

Q = TypeVar("Q", bound=Message)
R = TypeVar("R", bound=Message)


@dataclass(frozen=True)
class Method(Generic[Q, R]):
    """A method; those of the schema are in ``lanekit.command``: ``Agent.ResetAgent`` and so on.

    For a method of your own, name it and choose its messages among those of the schema; ``Bytes``
    carries whatever the two ends agree on.

    >>> from lanekit.command import Bytes, Method
    >>> Method("Weather.SetWind", Bytes, Bytes).name
    'Weather.SetWind'
    """

    name: str
    request: type[Q]
    response: type[R]
    streams: bool = False

    def __str__(self) -> str:
        return self.name
