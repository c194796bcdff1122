"""A worker whose whole output is known beforehand, so that what arrives can be compared with it.

``python numbered_worker.py COUNT RATE TALLY``: write COUNT steps (and the episodes, prints and bad
lines between them) at RATE steps a second (0: as fast as the pipe takes them), cut into writes at
odd places. TALLY is a file whose first 8 bytes say, at any moment, how many bytes of the output are
certainly written.

Standard library only: it must start at once.
"""

from __future__ import annotations

import mmap
import os
import random
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path

STEPS_PER_EPISODE = 50
STEPS_PER_PRINT = 97
STEPS_PER_BAD_LINE = 301


def step(n: int) -> str:
    """Return step n's line. The clock goes backwards now and then."""
    return (
        f'{{"event_type":"step","agent_id":"agent_{n % 3}",'
        f'"episode_index":{n // STEPS_PER_EPISODE},"step_index":{n % STEPS_PER_EPISODE},'
        f'"action":[{n % 7}],'
        f'"observation":{{"x": [{n}, 0.5],"name":"\\u00e9"}},"reward":{n / 8},'
        f'"terminated":{"true" if n % STEPS_PER_EPISODE == 49 else "false"},'
        f'"info":{{"n":{n}}},"time_ns":{1_700_000_000_000_000_000 + n * 1000 - n % 10 * 5000}}}'
    )


def lines(count: int) -> Iterator[tuple[str, str]]:
    """Yield all lines with their kinds: step, episode, event, print, bad."""
    yield "event", f'{{"event":"run_started","payload":{{"total":{count}}},"time_ns":1}}'
    for n in range(count):
        if n % STEPS_PER_PRINT == 5:
            yield "print", f"epoch {n}: loss={n / 3}"
        if n % STEPS_PER_BAD_LINE == 7:
            yield "bad", f'{{"event_type":"step","reward":NaN,"step_index":{n}}}'
        yield "step", step(n)
        if n % STEPS_PER_EPISODE == STEPS_PER_EPISODE - 1:
            number = n // STEPS_PER_EPISODE
            yield (
                "episode",
                f'{{"event_type":"episode","episode_index":{number},"return":{number / 4},'
                f'"length":{STEPS_PER_EPISODE},"time_ns":{n}}}',
            )
    yield "event", f'{{"event":"run_completed","payload":{{"steps":{count}}},"time_ns":2}}'


def output(count: int) -> bytes:
    """Return everything the worker writes."""
    return b"".join(line.encode() + b"\n" for _, line in lines(count))


def main() -> None:
    count, rate, tally_path = int(sys.argv[1]), float(sys.argv[2]), Path(sys.argv[3])
    data = output(count)
    per_step = len(data) / count
    with tally_path.open("r+b") as file:
        tally = mmap.mmap(file.fileno(), 8)
    chance = random.Random(len(data))
    written = 0
    started = time.monotonic()
    while written < len(data):
        piece = data[written : written + chance.choice((1, 7, 100, 1000, 4096, 60_000))]
        written += os.write(sys.stdout.fileno(), piece)
        tally[:] = struct.pack("<Q", written)
        if rate:
            ahead = written / per_step / rate - (time.monotonic() - started)
            if ahead > 0.002:
                time.sleep(ahead)


if __name__ == "__main__":
    main()
