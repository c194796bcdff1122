"""The consumers' turns: all come round, none holds up the event loop for the others."""

from __future__ import annotations

import itertools
import time

import pytest
from PyQt6 import sip
from PyQt6.QtCore import QObject, Qt, QTimer, pyqtSignal
from PyQt6.QtTest import QTest
from pytestqt.qtbot import QtBot

from lanekit.viewer.fastlane.turns import TICK_MS, TurnTimer, phase


class Asker(QObject):
    """Asks the event loop for its attention."""

    asked = pyqtSignal()


def test_timers_that_begin_together_have_their_turns_at_different_moments() -> None:
    for first in range(100):
        moments = sorted(phase(first + number) for number in range(8))
        assert moments[0] >= 0
        assert moments[-1] < TICK_MS / 1000
        assert min(later - earlier for earlier, later in itertools.pairwise(moments)) > 0.0008


def test_between_two_that_are_due_the_loop_is_there_for_others(qtbot: QtBot) -> None:
    done: list[str] = []
    asker = Asker()
    # Queued: handled in the loop's next turn, as a key press is.
    asker.asked.connect(lambda: done.append("answer"), type=Qt.ConnectionType.QueuedConnection)

    def work() -> None:
        done.append("work")
        asker.asked.emit()
        time.sleep(0.02)  # longer than a tick: all others are due when it ends

    timers = [TurnTimer(TICK_MS) for _ in range(8)]
    for timer in timers:
        timer.timeout.connect(work)
        timer.start()
    qtbot.waitUntil(lambda: len(done) >= 64)
    for timer in timers:
        timer.stop()
    assert done[:64] == ["work", "answer"] * 32


def test_each_has_its_turn_even_if_there_is_no_time_for_all(qtbot: QtBot) -> None:
    turns_of = [0] * 4
    timers = []
    for number in range(4):
        timer = TurnTimer(TICK_MS)

        def work(number: int = number) -> None:
            turns_of[number] += 1
            time.sleep(0.01)

        timer.timeout.connect(work)
        timer.start()
        timers.append(timer)
    qtbot.waitUntil(lambda: sum(turns_of) >= 40)
    for timer in timers:
        timer.stop()
    assert max(turns_of) - min(turns_of) <= 2


def test_one_that_was_stopped_or_destroyed_comes_no_more(qtbot: QtBot) -> None:
    heard: list[str] = []
    parent = QObject()
    gone, stopped, other = TurnTimer(TICK_MS, parent), TurnTimer(TICK_MS), TurnTimer(TICK_MS)
    for timer, name in ((gone, "gone"), (stopped, "stopped"), (other, "other")):
        timer.timeout.connect(lambda name=name: heard.append(name))
        timer.start()
    qtbot.waitUntil(lambda: set(heard) == {"gone", "stopped", "other"})
    sip.delete(parent)
    stopped.stop()
    stopped.stop()
    heard.clear()
    qtbot.waitUntil(lambda: len(heard) >= 5)
    assert set(heard) == {"other"}
    other.stop()
    heard.clear()
    QTest.qWait(3 * TICK_MS)
    assert heard == []


def test_turns_that_were_missed_are_not_made_up_for() -> None:
    timer = TurnTimer(TICK_MS)
    timer.due = 100.0
    timer.plan_next(100.0)
    assert timer.due == pytest.approx(100.016)
    timer.plan_next(101.0)
    assert 101.0 <= timer.due < 101.016
    assert (timer.due - 100.0) / 0.016 == pytest.approx(round((timer.due - 100.0) / 0.016))


def test_another_pace_and_a_second_start_keep_the_phase(qtbot: QtBot) -> None:
    timer = TurnTimer(TICK_MS)
    timer.set_interval(500)
    assert not timer.active
    timer.start()
    first = timer.due
    timer.set_interval(TICK_MS)
    timer.start()
    ticks = (timer.due - first) / 0.016
    assert ticks == pytest.approx(round(ticks), abs=1e-6)
    timer.stop()


def test_a_turn_may_run_a_loop_of_its_own(qtbot: QtBot) -> None:
    heard: list[str] = []
    slow, other = TurnTimer(TICK_MS), TurnTimer(TICK_MS)
    waited = False

    def wait() -> None:
        nonlocal waited
        if not waited:
            waited = True
            heard.clear()
            qtbot.waitUntil(lambda: heard.count("other") >= 3)
            QTimer.singleShot(0, lambda: heard.append("after"))

    slow.timeout.connect(wait)
    other.timeout.connect(lambda: heard.append("other"))
    slow.start()
    other.start()
    qtbot.waitUntil(lambda: "after" in heard)
    slow.stop()
    other.stop()
