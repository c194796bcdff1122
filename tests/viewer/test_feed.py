"""The threads that fetch a run's events, against a real daemon."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from stored_runs import RUN, DaemonProcess, Sender, connect_to, running_daemon

from lanekit.slow.daemon_client import DaemonClient
from lanekit.slow.display_rows import LONGEST_TEXT, episode_block
from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.viewer.live.feed import EPISODES_AT_ONCE, Catch, RunFeed
from lanekit.viewer.live.history import LIVE_STEP_QUEUE_SIZE, RECENT_REWARDS
from patience import patience, until

MakeFeed = Callable[[], RunFeed]


@pytest.fixture
def daemon() -> Iterator[DaemonProcess]:
    """A running daemon."""
    with running_daemon() as daemon:
        yield daemon


@pytest.fixture
def make_feed(daemon: DaemonProcess) -> Iterator[MakeFeed]:
    """Makes feeds that are started; none outlives the test."""
    feeds: list[RunFeed] = []

    def make() -> RunFeed:
        feeds.append(RunFeed(RUN, lambda: connect_to(daemon), lambda: None))
        feeds[-1].start()
        return feeds[-1]

    yield make
    for feed in feeds:
        feed.stop()
        feed.join()
        assert not feed.running


class Taken:
    """Everything that was taken from a feed so far."""

    def __init__(self, feed: RunFeed) -> None:
        self._feed = feed
        self.counts: dict[str, int] = {}
        self.positions: list[int] = []
        self.episodes: list[int] = []

    def take(self) -> Catch:
        catch = self._feed.take()
        for agent, steps in catch.steps.items():
            self.counts[agent] = self.counts.get(agent, 0) + steps.count
            self.positions += [row.position for row in steps.newest]
        for block in catch.episodes:
            self.episodes += block.episode.tolist()
        return catch

    def until_steps(self, count: int) -> None:
        until(lambda: (self.take(), sum(self.counts.values()) >= count)[1])

    def until_episodes(self, count: int) -> None:
        until(lambda: (self.take(), len(self.episodes) >= count)[1])


def test_steps_that_nobody_took_are_counted_and_the_newest_kept(
    daemon: DaemonProcess, make_feed: MakeFeed
) -> None:
    sender = Sender(daemon)
    feed = make_feed()
    until(lambda: feed.steps_before is not None)
    sender.steps(3000, ("a", "b"))
    until(lambda: _counted(feed) == 3000)
    catch = feed.take()
    for place, agent in enumerate(("a", "b")):
        steps = catch.steps[agent]
        assert steps.count == 1500
        expected = range(3000 - 2 * LIVE_STEP_QUEUE_SIZE + place, 3000, 2)
        assert [row.position for row in steps.newest] == list(expected)
        assert [row.reward for row in steps.newest] == list(expected)
        assert steps.rewards.tolist() == list(range(place, 3000, 2))
    assert feed.take() == Catch()


def _counted(feed: RunFeed) -> int:
    return sum(steps.count for steps in feed._catch.steps.values())


def test_a_long_run_begins_with_its_last_steps_and_the_rewards_of_some_more(
    daemon: DaemonProcess, make_feed: MakeFeed
) -> None:
    sender = Sender(daemon)
    sender.steps(5000)
    taken = Taken(feed := make_feed())
    rewards: list[float] = []

    def all_came() -> bool:
        for steps in taken.take().steps.values():
            rewards.extend(steps.rewards)
        return len(rewards) >= RECENT_REWARDS

    until(all_came)
    assert feed.steps_before == 5000 - LIVE_STEP_QUEUE_SIZE
    assert taken.counts == {"": LIVE_STEP_QUEUE_SIZE}
    assert taken.positions == list(range(5000 - LIVE_STEP_QUEUE_SIZE, 5000))
    assert rewards == list(range(5000 - RECENT_REWARDS, 5000))


def test_all_of_25_000_episodes_come_while_few_wait_at_any_time(
    daemon: DaemonProcess, make_feed: MakeFeed
) -> None:
    sender = Sender(daemon)
    sender.episodes(25_000, ("a", "b", "c"))
    feed = make_feed()
    until(lambda: sum(map(len, feed._catch.episodes)) >= EPISODES_AT_ONCE)
    taken = Taken(feed)
    most = 0

    def all_came() -> bool:
        nonlocal most
        most = max(most, sum(map(len, taken.take().episodes)))
        return len(taken.episodes) >= 25_000

    until(all_came)
    assert taken.episodes == list(range(25_000))
    assert most < 2 * EPISODES_AT_ONCE


def test_an_episode_without_a_return_has_none() -> None:
    block = episode_block([pb.Episode(length=3), pb.Episode(episode_return=0.0, truncated=True)])
    assert np.isnan(block.returns[0])
    assert block.returns[1] == 0.0
    assert block.ending.tolist() == [0, 2]


def test_a_huge_observation_is_kept_as_its_beginning(
    daemon: DaemonProcess, make_feed: MakeFeed
) -> None:
    sender = Sender(daemon)
    sender.steps(2, text=b'"' + "é".encode() * 50_000 + b'"')
    feed = make_feed()
    until(lambda: _counted(feed) == 2)
    text = feed.take().steps[""].newest[0].observation
    assert text.startswith('"ééé')
    assert text.endswith("é…")
    assert len(text) <= LONGEST_TEXT


def test_a_daemon_that_dies_and_comes_back_costs_no_event_and_repeats_none(
    daemon: DaemonProcess, make_feed: MakeFeed
) -> None:
    sender = Sender(daemon)
    sender.episodes(1500)
    sender.steps(50)
    taken = Taken(feed := make_feed())
    taken.until_episodes(1500)
    taken.until_steps(50)
    daemon.kill()
    until(lambda: feed.problem != "")
    assert str(daemon.socket) in feed.problem
    daemon.start()
    sender.episodes(700)
    sender.steps(50)
    taken.until_episodes(2200)
    taken.until_steps(100)
    assert taken.episodes == list(range(2200))
    assert taken.positions == list(range(100))
    until(lambda: feed.problem == "")


def test_all_is_well_again_also_when_the_daemon_comes_back_with_nothing_new(
    daemon: DaemonProcess, make_feed: MakeFeed
) -> None:
    Sender(daemon).steps(3)
    feed = make_feed()
    until(lambda: _counted(feed) == 3)
    daemon.kill()
    until(lambda: feed.problem != "")
    daemon.start()
    until(lambda: feed.problem == "")


def test_a_run_that_is_not_there_yet_is_told_and_waited_for(
    daemon: DaemonProcess, make_feed: MakeFeed
) -> None:
    feed = make_feed()
    until(lambda: RUN in feed.problem)
    Sender(daemon).steps(1)
    until(lambda: _counted(feed) == 1)
    until(lambda: feed.problem == "")


def test_a_connection_that_can_not_even_be_tried_is_told() -> None:
    def connect() -> DaemonClient:
        return DaemonClient("not an address")

    feed = RunFeed(RUN, connect, lambda: None)
    feed.start()
    until(lambda: "not an address" in feed.problem)
    feed.stop()
    feed.join()


@pytest.mark.parametrize("full", [False, True])
def test_stopping_ends_the_threads_also_those_that_wait_for_room(
    daemon: DaemonProcess, full: bool
) -> None:
    sender = Sender(daemon)
    sender.episodes(2 * EPISODES_AT_ONCE if full else 1)
    feed = RunFeed(RUN, lambda: connect_to(daemon), lambda: None)
    feed.start()
    expected = EPISODES_AT_ONCE if full else 1
    until(lambda: sum(map(len, feed._catch.episodes)) >= expected)
    feed.stop()
    feed.join()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("feed-")]


def test_stopping_while_the_connection_is_being_made_ends_the_threads(
    daemon: DaemonProcess,
) -> None:
    connecting, go_on = threading.Event(), threading.Event()

    def connect() -> DaemonClient:
        connecting.set()
        go_on.wait(patience())
        return connect_to(daemon)

    Sender(daemon).steps(1)
    feed = RunFeed(RUN, connect, lambda: None)
    feed.start()
    assert connecting.wait(patience())
    feed.stop()
    go_on.set()
    feed.join()
    assert not feed.running
