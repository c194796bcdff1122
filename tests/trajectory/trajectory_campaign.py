"""Producers and consumers of one lane under SIGKILL, every record compared.

``python -m tests.trajectory.trajectory_campaign [--records N] [--kills N] [--consumer-kills N]``

A book outside the lane says of each record whether its put has returned, and whether its release
was begun and has returned. Whatever is killed when: a record whose put has returned is released
once; one whose release has returned is never seen again; each producer's come in order; and of a
killed producer at most one more record arrives than its puts have returned.

The children are forked from a single-threaded process that holds no handle of the lane.
"""

from __future__ import annotations

import argparse
import mmap
import os
import random
import signal
import sys
import time
import traceback
import uuid
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

import lanekit

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

from numbered_records import SCHEMA, arrays_of, check_record, meta_of

from patience import Watchdog, patience

PRODUCERS = 4
# States of a record in the book.
BEGUN, RELEASED = 1, 2


class Book:
    """What everybody knows without the lane, in memory shared with all children."""

    def __init__(self, producers: int, records: int) -> None:
        self.stop = self._shared(1)
        self.finished = self._shared(4 * producers).view(np.uint32)
        self.state = self._shared(producers * (records + 1)).reshape(producers, records + 1)

    @staticmethod
    def _shared(size: int) -> npt.NDArray[np.uint8]:
        return np.frombuffer(mmap.mmap(-1, max(size, 1)), np.uint8)[:size]


class Campaign:
    """One lane, its producers and its consumers."""

    def __init__(self, records: int, kills: int, consumer_kills: int, seed: int) -> None:
        self.lane = f"campaign-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self.kills = kills
        self.consumer_kills = consumer_kills
        self.random = random.Random(seed)
        self.each = records
        self.book = Book(kills + PRODUCERS, records)
        self.born = 0
        self.producers: dict[int, int] = {}
        self.consumer = 0

    # --- the children ----------------------------------------------------------------------------

    def fork(self, work: Callable[[], None]) -> int:
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                work()
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        return pid

    def produce(self, who: int) -> None:
        with lanekit.TrajectoryWriter.attach(
            self.lane, schema=SCHEMA, timeout=patience(240)
        ) as writer:
            for number in range(1, self.each + 1):
                if self.book.stop[0]:
                    return
                done = writer.put(
                    arrays_of(who, number), meta_of(who, number), timeout=patience(240)
                )
                assert done == number
                self.book.finished[who] = number

    def consume(self, seed: int) -> None:
        chance = random.Random(seed)
        last: dict[int, int] = {}
        state = self.book.state
        reader = lanekit.TrajectoryReader.create(
            self.lane, SCHEMA, producers=PRODUCERS, ring_bytes=32768
        )
        watchdog = Watchdog("records", 240)
        while True:
            batch = reader.get_batch(chance.randint(1, 12), timeout=0.2)
            names = [check_record(record) for record in batch]
            for who, number in names:
                assert state[who, number] != RELEASED, f"{who}:{number} came twice"
                before = last.get(who, 0)
                skipped = state[who, before + 1 : number]
                assert number > before, f"{who}:{number} after {before}"
                assert skipped.all(), f"{who}:{before + 1} was left out before {number}"
                last[who] = number
            # In any order: the room of a batch goes back piece by piece.
            for i in chance.sample(range(len(batch)), len(batch)):
                state[names[i]] = BEGUN
                batch[i].release()
                state[names[i]] = RELEASED
            if len(batch):
                watchdog.restart()
            elif self.book.stop[0] == 2:
                break
            watchdog.check()
        reader.close()

    # --- the parent ------------------------------------------------------------------------------

    def start_consumer(self) -> None:
        seed = self.random.getrandbits(32)
        self.consumer = self.fork(lambda: self.consume(seed))

    def start_producer(self) -> None:
        who = self.born
        self.born += 1
        self.producers[self.fork(lambda: self.produce(who))] = who

    def kill(self, pid: int) -> bool:
        """Kill a child; False if it had ended by itself, and well."""
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        if os.WIFSIGNALED(status):
            assert os.WTERMSIG(status) == signal.SIGKILL
            return True
        assert os.WEXITSTATUS(status) == 0, "a child found something wrong"
        return False

    def run(self) -> tuple[int, int]:
        """Do it all; return how many records were compared and how many children were killed."""
        killed = {"producers": 0, "consumers": 0}
        self.start_consumer()
        for _ in range(PRODUCERS):
            self.start_producer()
        while killed["producers"] < self.kills or killed["consumers"] < self.consumer_kills:
            time.sleep(self.random.random() * 0.02)
            left = self.kills - killed["producers"], self.consumer_kills - killed["consumers"]
            if self.random.random() * sum(left) < left[1]:
                assert self.kill(self.consumer)
                killed["consumers"] += 1
                self.start_consumer()
            elif self.producers:
                victim = self.random.choice(list(self.producers))
                self.kill(victim)  # one that had done its share counts as well: its ring is free
                del self.producers[victim]
                killed["producers"] += 1
                self.start_producer()
        if self.kills:
            self.book.stop[0] = 1
        for pid in self.producers:
            _, status = os.waitpid(pid, 0)
            assert status == 0, "a producer found something wrong"
        self.book.stop[0] = 2
        _, status = os.waitpid(self.consumer, 0)
        assert status == 0, "the consumer found something wrong"
        return self.compare(killed["consumers"]), sum(killed.values())

    def compare(self, consumer_kills: int) -> int:
        """Compare the book's two sides."""
        total = unclear = 0
        for who in range(self.born):
            finished = int(self.book.finished[who])
            state = self.book.state[who]
            assert (state[1 : finished + 1] != 0).all(), f"a record of {who} was lost"
            assert (state[finished + 2 :] == 0).all(), f"{who} was read beyond its end"
            unclear += int((state == BEGUN).sum())
            total += int((state != 0).sum())
        # A consumer that was killed inside a release may have done it or not, once.
        assert unclear <= consumer_kills, f"{unclear} releases were cut short"
        return total


def main() -> int:
    """Run a campaign and say what it compared."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--records", type=int, default=2000, help="of each producer, at most")
    parser.add_argument("--kills", type=int, default=0, help="of producers")
    parser.add_argument("--consumer-kills", type=int, default=0)
    parser.add_argument("--seed", type=int, default=2026)
    options = parser.parse_args()
    signal.alarm(int(os.environ.get("CAMPAIGN_SECONDS", "3600")))
    begun = time.monotonic()
    campaign = Campaign(options.records, options.kills, options.consumer_kills, options.seed)
    compared, killed = campaign.run()
    seconds = time.monotonic() - begun
    print(f"{compared} records compared, {killed} kills, {seconds:.1f} s: none lost, none twice")
    return 0


if __name__ == "__main__":
    sys.exit(main())
