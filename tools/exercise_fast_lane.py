"""Publish and read self-checking frames in two threads of this interpreter; print the counts.

For interpreters that can not run the test suite, such as an emulated one.
"""

from __future__ import annotations

import platform
import sys
import threading
import uuid

import numpy as np

from lanekit import FastLaneConfig, FastLaneReader, FastLaneWriter

FRAMES = 3000
READ = 50
"""So many are to be read; a busy machine may let the writer finish before the reader looks once."""
MOST_FRAMES = 100 * FRAMES


def main() -> int:
    """Return 1 if a frame was mixed."""
    run_id = f"exercise-{uuid.uuid4()}"
    config = FastLaneConfig(width=61, height=37, capacity=3, metadata_size=8)
    seq = read = torn = 0
    done = threading.Event()
    with FastLaneWriter.create(run_id, config) as writer, FastLaneReader.attach(run_id) as reader:

        def publish() -> None:
            nonlocal seq
            while seq < FRAMES or (read < READ and seq < MOST_FRAMES):
                seq += 1
                pixels = np.full(config.shape, seq % 251, np.uint8)
                writer.publish(pixels, metadata=seq.to_bytes(8, "little"))
            done.set()

        thread = threading.Thread(target=publish)
        thread.start()
        while not done.is_set():
            reader.wait(0.1)
            frame = reader.latest_frame(fresh=True)
            if frame is not None:
                whole = (frame.array == frame.seq % 251).all()
                torn += not whole or frame.metadata != frame.seq.to_bytes(8, "little")
                read += 1
        thread.join()
    print(f"{platform.machine()}: {seq} frames published, {read} read, {torn} torn")
    return int(torn > 0 or read == 0)


if __name__ == "__main__":
    sys.exit(main())
