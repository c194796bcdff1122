"""The keyboard, as the game understands it."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

from PyQt6.QtCore import QEvent, QObject, pyqtSignal
from PyQt6.QtGui import QKeyEvent

from lanekit.viewer.human.key_map import Binding, DiscreteKeys, KeyMap

MOST_TURNS = 8
"""Moves that may be typed ahead of a game that is slower."""


class HumanInputController(QObject):
    """Turns key presses and releases into actions.

    Watches a widget's keys as its event filter. Keys are heard in the window's thread; the thread
    that plays asks :meth:`current` and :meth:`next_turn`. A key that repeats itself while it is
    held is one press; a press too short for the game's rate still counts once; keys held when the
    keyboard goes elsewhere are let go.
    """

    held_changed = pyqtSignal()
    pressed = pyqtSignal()
    """A key of the game went down."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._lock = threading.Lock()
        self._map: KeyMap = DiscreteKeys(())
        self._by_code: dict[int, Binding] = {}
        self._down: dict[int, Binding] = {}  # by key, the newest last
        self._tapped: list[Binding] = []
        self._turns: deque[Binding] = deque(maxlen=MOST_TURNS)
        self._touched = False

    @property
    def key_map(self) -> KeyMap:
        """The keys there are."""
        return self._map

    def set_key_map(self, key_map: KeyMap) -> None:
        """Listen to other keys."""
        with self._lock:
            self._map = key_map
            self._by_code = {code: item for item in key_map.bindings for code in item.codes}
            self._down.clear()
        self.clear()
        self.held_changed.emit()

    @property
    def held(self) -> list[Binding]:
        """What is held now, the newest last."""
        with self._lock:
            return list(self._down.values())

    @property
    def held_codes(self) -> set[int]:
        """Qt's numbers of the keys that are held now."""
        with self._lock:
            return set(self._down)

    # --- keys ------------------------------------------------------------------------------------

    def press(self, code: int) -> bool:
        """Hear that a key went down; False if the game has no use for it."""
        with self._lock:
            binding = self._by_code.get(code)
            if binding is None:
                return False
            self._down.pop(code, None)
            self._down[code] = binding
            self._tapped.append(binding)
            self._turns.append(binding)
            self._touched = True
        self.held_changed.emit()
        self.pressed.emit()
        return True

    def release(self, code: int) -> bool:
        """Hear that a key went up; False if the game has no use for it."""
        with self._lock:
            known = code in self._by_code
            was_down = self._down.pop(code, None) is not None
        if was_down:
            self.held_changed.emit()
        return known

    def release_all(self) -> None:
        """Let go of everything, as when the keyboard goes to another window."""
        with self._lock:
            self._down.clear()
            self._tapped.clear()
        self.held_changed.emit()

    def eventFilter(self, watched: QObject | None, event: QEvent | None) -> bool:  # noqa: N802
        """Hear the keys of a widget; those of the game go no further."""
        if isinstance(event, QKeyEvent):
            kind, code = event.type(), event.key()
            if kind == QEvent.Type.ShortcutOverride and code in self._by_code:
                event.accept()  # not a shortcut of the window's: it will come as a key
                return True
            if kind == QEvent.Type.KeyPress:
                return code in self._by_code if event.isAutoRepeat() else self.press(code)
            if kind == QEvent.Type.KeyRelease:
                return code in self._by_code if event.isAutoRepeat() else self.release(code)
        elif event is not None and event.type() == QEvent.Type.FocusOut:
            self.release_all()
        return False

    # --- actions, for the thread that plays ------------------------------------------------------

    def current(self) -> Any | None:
        """Return the action of the keys held, or pressed since the last call; else the idle one."""
        with self._lock:
            tapped = [item for item in self._tapped if item not in self._down.values()]
            held = [*tapped, *self._down.values()]
            self._tapped.clear()
            action = self._map.action(held)
            return self._map.idle if action is None else action

    def current_held(self) -> Any | None:
        """Return the action of the keys held, or pressed since the last call; None without any."""
        with self._lock:
            anything = bool(self._tapped or self._down)
        return self.current() if anything else None

    def next_turn(self) -> Any | None:
        """Return the action of the oldest press that made none yet; None if there is none."""
        with self._lock:
            return self._map.action([self._turns.popleft()]) if self._turns else None

    @property
    def touched(self) -> bool:
        """Whether a key went down since :meth:`clear`."""
        return self._touched

    def forget_presses(self) -> None:
        """Drop presses that made no action yet; keys that are held stay so."""
        with self._lock:
            self._tapped.clear()
            self._turns.clear()

    def clear(self) -> None:
        """Forget all that came before: a new episode begins."""
        self.forget_presses()
        self._touched = False
