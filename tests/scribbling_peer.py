"""A process that stores random and edge values over the words of live segments.

``test_scribbling_peer.py`` uses the lanes meanwhile.
"""

from __future__ import annotations

import mmap
import os
import random
import struct
import sys
import time

from lanekit.segments import segment_path

_EDGES = (
    *(0, 1, 2, 3, 7, 63, 64, 65, 4095, 4096, 0x40000000),
    *(2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**38, 2**62, 2**62 + 64),
    *(2**63 - 1, 2**63, 2**64 - 65, 2**64 - 64, 2**64 - 1),
)
_WORD = struct.Struct("<Q")
# The header's fields, then whatever each kind of lane has behind it in the first pages.
_RANGES = ((0, 512), (512, 1024), (576, 768), (1024, 1232), (4096, 4160), (4096, 8704))


def bad_word(good: int, chance: random.Random) -> int:
    kind = chance.randrange(5)
    if kind == 0:
        return chance.choice(_EDGES)
    if kind == 1:
        return (good + chance.randrange(-2, 3)) % 2**64
    if kind == 2:
        return (good + 64 * chance.randrange(-2, 3)) % 2**64
    if kind == 3:
        return good ^ (1 << chance.randrange(64))
    return chance.getrandbits(64)


def scribble_over(path: str, chance: random.Random) -> int:
    """Scribble over one segment for a while; return how many words."""
    try:
        fd = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        time.sleep(0.002)
        return 0
    try:
        size = os.fstat(fd).st_size
        if size < 4096:
            return 0
        with mmap.mmap(fd, size) as memory:
            # One kind of words for a while, so that calls get as far as these.
            begin, end = chance.choice([*_RANGES, (0, size)])
            for _ in range(200):
                at = min(chance.randrange(begin, end), size - 8) // 8 * 8
                good = memory[at : at + 8]
                memory[at : at + 8] = _WORD.pack(bad_word(_WORD.unpack(good)[0], chance))
                if chance.randrange(4):
                    memory[at : at + 8] = good
    finally:
        os.close(fd)
    return 200


def scribble(*arguments: str) -> None:
    """Scribble over the named segments until standard input ends; say how many words."""
    *names, seed = arguments
    chance = random.Random(int(seed))
    paths = [str(segment_path(name)) for name in names]
    words = 0
    os.set_blocking(sys.stdin.fileno(), False)
    print("begun", flush=True)
    while sys.stdin.buffer.read(1) is None:
        words += scribble_over(chance.choice(paths), chance)
    print(words, flush=True)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
