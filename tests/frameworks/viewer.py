"""Watches a run from a process of its own: ``python viewer.py RUN_ID FILE.npz``.

It reads until its standard input ends, and keeps the pictures that differ from the one before, the
first and the last of them: ``pixels`` (RGB), and for each its ``step``.
"""

from __future__ import annotations

import select
import sys

import numpy as np

import lanekit
from lanekit.integrations import FrameNote

KEPT_OF_EACH_END = 20


def told_to_end() -> bool:
    return bool(select.select([sys.stdin], [], [], 0)[0])


def rgb(frame: lanekit.FastLaneFrame) -> np.ndarray:
    return frame.array[..., 2::-1] if frame.pixel_format == "BGRX" else frame.array[..., :3]


def attach(run_id: str) -> lanekit.FastLaneReader | None:
    while not told_to_end():
        try:
            return lanekit.FastLaneReader.attach(run_id, timeout=0.2)
        except (lanekit.SegmentNotFound, lanekit.SegmentNotReady):
            continue
    return None


def main(run_id: str, path: str) -> None:
    kept: list[tuple[np.ndarray, int, str]] = []
    different = 0
    reader = attach(run_id)
    while reader is not None and not told_to_end():
        if not reader.wait(0.05):
            continue
        frame = reader.latest_frame(fresh=True)
        if frame is None:
            continue
        note = FrameNote.decode(frame.metadata)
        assert note is not None, "a frame without a note"
        pixels = rgb(frame)
        if kept and np.array_equal(kept[-1][0], pixels):
            continue
        different += 1
        kept.append((pixels.copy(), note.step, note.rendering))
        if len(kept) > 2 * KEPT_OF_EACH_END:
            del kept[KEPT_OF_EACH_END]
        print(different, flush=True)
    if reader is not None:
        reader.close()
    same_size = [item for item in kept if item[0].shape == kept[-1][0].shape]
    np.savez(
        path,
        pixels=np.array([pixels for pixels, _, _ in same_size], np.uint8),
        step=np.array([step for _, step, _ in same_size], np.int64),
        rendering=np.array([rendering for _, _, rendering in same_size], np.str_),
        different=different,
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
