"""Sensible keys for the environments people know, and for those nobody here has heard of."""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Sequence
from typing import Any

from lanekit.integrations.playing.environments import Axes, Choices, NotPlayable
from lanekit.viewer.human.key_map import AxisKeys, Binding, DiscreteKeys, KeyMap, axis_keys

LEFT, RIGHT, UP, DOWN = "Left A", "Right D", "Up W", "Down S"
_NUMBERED = [*string.digits, *string.ascii_uppercase]
_PAIRS = (("Left", "Right"), ("Down", "Up"), ("A", "D"), ("S", "W"), ("J", "L"), ("K", "I"))
_ATARI = {"LEFT": LEFT, "RIGHT": RIGHT, "UP": UP, "DOWN": DOWN, "FIRE": "Space"}


def _actions(
    *keys: tuple[str, str, int], idle: int | None = None, turns: bool = False
) -> DiscreteKeys:
    bindings = tuple(Binding(tuple(names.split()), label, number) for names, label, number in keys)
    return DiscreteKeys(bindings, idle, turns)


def _lander(low: Any, high: Any) -> AxisKeys:
    return axis_keys(
        low, high, [(UP, "main engine", 0, 1), (LEFT, "left", 1, -1), (RIGHT, "right", 1, 1)]
    )


def _pushed(low: Any, high: Any) -> AxisKeys:
    return axis_keys(low, high, [(LEFT, "push left", 0, -1), (RIGHT, "push right", 0, 1)])


def _car(low: Any, high: Any) -> AxisKeys:
    return axis_keys(
        low,
        high,
        [
            (LEFT, "steer left", 0, -1),
            (RIGHT, "steer right", 0, 1),
            (UP, "gas", 1, 1),
            (DOWN, "brake", 2, 1),
        ],
    )


_push = (LEFT, "push left", 0), (RIGHT, "push right", 2)
_grid = (LEFT, "left", 0), (DOWN, "down", 1), (RIGHT, "right", 2), (UP, "up", 3)

# The beginning of a name, the number of actions it must have, and its keys.
_DISCRETE: list[tuple[str, int, DiscreteKeys]] = [
    ("CartPole", 2, _actions((LEFT, "push left", 0), (RIGHT, "push right", 1))),
    ("MountainCar", 3, _actions(*_push, idle=1)),
    ("Acrobot", 3, _actions((LEFT, "turn one way", 0), (RIGHT, "turn the other", 2), idle=1)),
    (
        "LunarLander",
        4,
        _actions(
            (LEFT, "left engine", 1), (UP, "main engine", 2), (RIGHT, "right engine", 3), idle=0
        ),
    ),
    ("FrozenLake", 4, _actions(*_grid, turns=True)),
    (
        "CliffWalking",
        4,
        _actions(
            (UP, "up", 0), (RIGHT, "right", 1), (DOWN, "down", 2), (LEFT, "left", 3), turns=True
        ),
    ),
    (
        "Taxi",
        6,
        _actions(
            ("Left", "west", 3),
            ("Right", "east", 2),
            ("Up", "north", 1),
            ("Down", "south", 0),
            ("P", "pick up", 4),
            ("D", "drop off", 5),
            turns=True,
        ),
    ),
    ("Blackjack", 2, _actions(("H", "hit: another card", 1), ("S", "stick", 0), turns=True)),
    (
        "CarRacing",
        5,
        _actions(
            (LEFT, "steer left", 2),
            (RIGHT, "steer right", 1),
            (UP, "gas", 3),
            (DOWN, "brake", 4),
            idle=0,
        ),
    ),
]
_BOXES: list[tuple[str, int, Callable[[Any, Any], AxisKeys]]] = [
    ("LunarLander", 2, _lander),
    ("CarRacing", 3, _car),
    ("MountainCarContinuous", 1, _pushed),
    ("Inverted", 1, _pushed),
    (
        "Pendulum",
        1,
        lambda low, high: axis_keys(
            low, high, [(LEFT, "turn clockwise", 0, -1), (RIGHT, "turn anticlockwise", 0, 1)]
        ),
    ),
]
# Names of axes that have the usual pairs of keys.
_AXES = [
    ("BipedalWalker", ("hip 1", "knee 1", "hip 2", "knee 2")),
    ("Reacher", ("shoulder", "elbow")),
    ("Hopper", ("thigh", "leg", "foot")),
    ("Swimmer", ("first joint", "second joint")),
]


def key_map_for(name: str, actions: Choices | Axes) -> KeyMap:
    """Return the keys for an environment of this name; NotPlayable if there are too few."""
    if isinstance(actions, Axes):
        return _axes(name, actions)
    for beginning, count, keys in _DISCRETE:
        if name.startswith(beginning) and actions.count == count:
            return keys
    if actions.meanings is not None and len(actions.meanings) == actions.count:
        return _from_meanings(actions.meanings)
    return _numbered(actions.count, actions.first)


def _numbered(count: int, start: int) -> DiscreteKeys:
    if count > len(_NUMBERED):
        raise NotPlayable(f"{count:,} actions; there are keys for {len(_NUMBERED)}")
    keys = [(key, f"action {start + i}", start + i) for i, key in enumerate(_NUMBERED[:count])]
    return _actions(*keys, turns=True)


def _axes(name: str, axes: Axes) -> AxisKeys:
    count = len(axes)
    for beginning, known_count, make in _BOXES:
        if name.startswith(beginning) and count == known_count:
            return make(axes.low, axes.high)
    if count > len(_PAIRS):
        raise NotPlayable(f"{count} axes; there are keys for {len(_PAIRS)}")
    known = (names for beginning, names in _AXES if name.startswith(beginning))
    names = next((names for names in known if len(names) == count), None)
    names = names or tuple(f"axis {axis}" for axis in range(count))
    pushes = [
        (key, f"{names[axis]} {word}", axis, sign)
        for axis, pair in enumerate(_PAIRS[:count])
        for key, word, sign in zip(pair, ("−", "+"), (-1, 1), strict=True)
    ]
    return axis_keys(axes.low, axes.high, pushes)


def _from_meanings(meanings: Sequence[str]) -> KeyMap:
    """Find keys by words such as UP, LEFT and FIRE, and what they are together."""
    words = [frozenset(re.findall("UP|DOWN|LEFT|RIGHT|FIRE", text)) for text in meanings]
    single = {next(iter(word)): number for number, word in enumerate(words) if len(word) == 1}
    together = {
        frozenset(single[word] for word in several): number
        for number, several in enumerate(words)
        if len(several) > 1 and several <= single.keys()
    }
    named = {frozenset[str](): meanings.index("NOOP")} if "NOOP" in meanings else {}
    if len(single) + len(together) + len(named) < len(meanings):
        return _numbered(len(meanings), 0)  # other words, or some that can not be told apart
    keys = [(_ATARI[word], word.lower(), number) for word, number in single.items()]
    made = _actions(*keys, idle=named.get(frozenset()))
    return DiscreteKeys(made.bindings, made.idle, together=together)
