"""Publish pictures while somebody watches, until standard input ends: RUN WIDTH HEIGHT RATE.

Frame n is n's last byte in every pixel; its reward is n, its return 2 n. Says "ready" once, then
"watched" and "alone" as that changes. With RATE 0 it publishes one frame, watched or not.
"""

from __future__ import annotations

import select
import subprocess
import sys

import numpy as np

from lanekit import FastLaneConfig, FastLaneMetrics, FastLaneWriter


class PictureWorker:
    """The process, as a test sees it."""

    def __init__(self, run_id: str, width: int = 64, height: int = 48, rate: float = 200) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, run_id, str(width), str(height), str(rate)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.wait_for("ready")

    def wait_for(self, word: str) -> None:
        """Wait until it says so; what it says before is passed over."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.strip() == word:
                return
        raise AssertionError(f"the worker ended before it was {word}")

    def leave(self) -> None:
        """Let it end by itself, and take its lane along; nothing, if it has been killed."""
        if self._process.returncode is None:
            self._process.communicate("")

    def kill(self) -> None:
        """End it without a chance to say good-bye."""
        self._process.kill()
        self._process.communicate()


def picture(
    number: int, width: int, height: int
) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    return np.full((height, width, 3), number % 256, np.uint8)


def main() -> None:
    run_id, width, height, rate = (
        sys.argv[1],
        int(sys.argv[2]),
        int(sys.argv[3]),
        float(sys.argv[4]),
    )
    config = FastLaneConfig(width, height, capacity=4, metadata_size=64)
    with FastLaneWriter.create(run_id, config) as writer:
        number, watched = 0, False
        if rate == 0:
            writer.publish(picture(7, width, height), metrics=FastLaneMetrics(7.0, 14.0, 1.0))
        print("ready", flush=True)
        while not select.select([sys.stdin], [], [], 1 / (rate or 20))[0]:
            if writer.watched != watched:
                watched = not watched
                print("watched" if watched else "alone", flush=True)
            if not watched or rate == 0:
                continue
            number += 1
            writer.publish(
                picture(number, width, height),
                metrics=FastLaneMetrics(float(number), 2.0 * number, rate),
                metadata=b'{"step": %d}' % number,
            )


if __name__ == "__main__":
    main()
