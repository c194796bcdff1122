"""Publish known frames until standard input ends: RUN WIDTH HEIGHT FORMAT RATE."""

from __future__ import annotations

import select
import sys
import time

from known_frames import config_of, in_format, known_rgb

from lanekit import FastLaneMetrics, FastLaneWriter


def main() -> None:
    run_id, width, height, pixel_format, rate = sys.argv[1:]
    size = int(width), int(height)
    with FastLaneWriter.create(run_id, config_of(*size, pixel_format)) as writer:
        frames = [in_format(known_rgb(*size, i), pixel_format) for i in range(2)]
        number = 0
        due = time.monotonic()
        while not select.select([sys.stdin], [], [], max(0.0, due - time.monotonic()))[0]:
            writer.publish(
                frames[number % 2],
                metrics=FastLaneMetrics(1.0, float(number), 60.0),
                metadata=b'{"step": %d}' % (10 * number),
            )
            if number == 0:
                print("publishing", flush=True)
            number += 1
            due = max(due + 1 / float(rate), time.monotonic() - 1.0)


if __name__ == "__main__":
    main()
