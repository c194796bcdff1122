"""What the core publishes, an independent implementation of atomics sees, in order."""

from __future__ import annotations

import mmap
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from lanekit import FastLaneConfig, FastLaneWriter
from lanekit.segments import segment_path

if sys.version_info >= (3, 14):
    pytest.skip(
        "the atomics package has no build for this Python; 3.11 to 3.13 run this test",
        allow_module_level=True,
    )
import atomics

CONFIG = FastLaneConfig(width=8, height=4, capacity=3)
HEAD, SLOTS = 576, 4096


@contextmanager
def counter(memory: mmap.mmap, offset: int) -> Iterator[atomics.AtomicUintView]:
    view = memoryview(memory)[offset : offset + 8]
    with atomics.atomicview(buffer=view, atype=atomics.UINT) as word:
        yield word
    view.release()


def test_head_and_slot_words_move_forward_and_agree(run_id: str) -> None:
    done = threading.Event()
    with FastLaneWriter.create(run_id, CONFIG) as writer:

        def publish() -> None:
            frame = np.zeros(CONFIG.shape, np.uint8)
            while not done.is_set():
                writer.publish(frame)

        with segment_path(writer.name).open("r+b") as file:
            memory = mmap.mmap(file.fileno(), 0)
        thread = threading.Thread(target=publish)
        thread.start()
        with counter(memory, HEAD) as head, counter(memory, SLOTS) as first_slot:
            seen, moves = 0, 0
            while moves < 200:
                now = head.load(atomics.MemoryOrder.ACQUIRE)
                word = first_slot.load(atomics.MemoryOrder.ACQUIRE)
                assert now >= seen
                # Slot 0 holds frames 1, 4, 7, ...: at least the newest of them up to `now`.
                if now > 0:
                    assert word >= 2 * (now - (now - 1) % 3)
                moves += now > seen
                seen = now
            done.set()
        thread.join()
        memory.close()
