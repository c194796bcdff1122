"""Log frames to Rerun's viewer at 60 Hz until standard input ends.

usage: python -m bench.peers.rerun URL WIDTH HEIGHT

As its documents advise for a live picture: batches that wait for nothing, and static data, of which
the viewer keeps only the newest. Its panels are hidden, so that the picture has the window.
"""

from __future__ import annotations

import sys

import rerun
import rerun.blueprint as layout

from bench.stamped_frames import StampedFrames, at_60_hz


def main() -> None:
    url, width, height = sys.argv[1:]
    stream = rerun.RecordingStream(
        "lanekit-bench", batcher_config=rerun.ChunkBatcherConfig.LOW_LATENCY()
    )
    stream.connect_grpc(url)
    stream.send_blueprint(
        layout.Blueprint(
            layout.Spatial2DView(origin="frame"),
            layout.TopPanel(state="hidden"),
            layout.BlueprintPanel(state="hidden"),
            layout.SelectionPanel(state="hidden"),
            layout.TimePanel(state="hidden"),
            auto_layout=False,
            auto_views=False,
        )
    )
    frames = StampedFrames(int(width), int(height))
    print("sending", flush=True)
    for _ in at_60_hz():
        stream.log("frame", rerun.Image(frames.stamped()), static=True)


if __name__ == "__main__":
    main()
