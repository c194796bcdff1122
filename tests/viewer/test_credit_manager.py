"""Credits: how much a tab may be sent."""

from __future__ import annotations

import pytest

from lanekit.viewer.live.credit_manager import CreditManager

RUN, AGENT = "run", "agent"


class Heard:
    """Writes down what a manager says."""

    def __init__(self, manager: CreditManager) -> None:
        self.said: list[tuple[str, str, str]] = []
        manager.starved.connect(lambda run, agent: self.said.append(("starved", run, agent)))
        manager.resumed.connect(lambda run, agent: self.said.append(("resumed", run, agent)))

    @property
    def words(self) -> list[str]:
        return [word for word, _, _ in self.said]


@pytest.fixture
def manager() -> CreditManager:
    """One with an open account."""
    manager = CreditManager()
    manager.initialize_stream(RUN, AGENT)
    return manager


def test_an_account_begins_with_200_credits(manager: CreditManager) -> None:
    assert manager.credits(RUN, AGENT) == 200


def test_opening_an_account_twice_changes_nothing(manager: CreditManager) -> None:
    manager.consume_credits(RUN, AGENT, 50)
    manager.initialize_stream(RUN, AGENT)
    assert manager.credits(RUN, AGENT) == 150


def test_no_more_is_taken_than_there_is(manager: CreditManager) -> None:
    assert manager.consume_credits(RUN, AGENT, 150) == 150
    assert manager.consume_credits(RUN, AGENT, 150) == 50
    assert manager.consume_credits(RUN, AGENT) == 0


def test_taking_less_than_nothing_gives_nothing(manager: CreditManager) -> None:
    manager.consume_credits(RUN, AGENT, 100)
    assert manager.consume_credits(RUN, AGENT, -50) == 0
    assert manager.grant_credits(RUN, AGENT, -50) == 100


def test_no_account_holds_more_than_it_began_with(manager: CreditManager) -> None:
    manager.consume_credits(RUN, AGENT, 30)
    assert manager.grant_credits(RUN, AGENT, 1000) == 200


def test_starvation_is_told_once_and_so_is_its_end(manager: CreditManager) -> None:
    heard = Heard(manager)
    manager.consume_credits(RUN, AGENT, 190)
    assert heard.words == []  # ten are left: that is the threshold
    manager.consume_credits(RUN, AGENT)
    manager.consume_credits(RUN, AGENT, 20)
    assert heard.said == [("starved", RUN, AGENT)]
    manager.grant_credits(RUN, AGENT, 9)
    assert heard.words == ["starved"]
    manager.grant_credits(RUN, AGENT, 1)
    manager.grant_credits(RUN, AGENT, 100)
    assert heard.said[1:] == [("resumed", RUN, AGENT)]
    manager.consume_credits(RUN, AGENT, 200)
    assert heard.words == ["starved", "resumed", "starved"]


def test_accounts_do_not_touch_each_other(manager: CreditManager) -> None:
    manager.initialize_stream(RUN, "other")
    manager.consume_credits(RUN, AGENT, 200)
    assert manager.credits(RUN, "other") == 200


def test_without_an_account_there_is_nothing_to_take_or_to_give() -> None:
    manager = CreditManager()
    assert manager.consume_credits(RUN, AGENT) == 0
    assert manager.grant_credits(RUN, AGENT, 5) == 0
    assert manager.credits(RUN, AGENT) == 0


def test_what_comes_back_after_the_account_was_closed_opens_none(manager: CreditManager) -> None:
    heard = Heard(manager)
    manager.consume_credits(RUN, AGENT, 200)
    manager.close_stream(RUN, AGENT)
    manager.grant_credits(RUN, AGENT, 200)
    assert manager.credits(RUN, AGENT) == 0
    assert heard.words == ["starved"]


@pytest.mark.parametrize("threshold", [0, -1, 21])
def test_a_threshold_that_can_not_be_met_is_refused(threshold: int) -> None:
    with pytest.raises(ValueError, match="starvation threshold"):
        CreditManager(initial_credits=20, starvation_threshold=threshold)
