"""TensorBoard: its own event writer, without torch or TensorFlow."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench.peers.trackers import Recorder
from bench.slow_events import Step

PACKAGE = "tensorboard"
CALLS = "EventFileWriter.add_event, one event with 6 scalars a step (a SummaryWriter writes 6)"


def begin(directory: Path) -> Recorder:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    writer = EventFileWriter(str(directory), max_queue_size=10_000)
    value = Summary.Value

    def record(steps: Sequence[Step]) -> None:
        for i, step in enumerate(steps):
            values = [
                value(tag="reward", simple_value=step.reward),
                value(tag="action", simple_value=step.action),
            ]
            for at, number in enumerate(step.observation):
                values.append(value(tag=f"observation/{at}", simple_value=number))
            when = step.time_ns / 1e9
            writer.add_event(Event(wall_time=when, step=i, summary=Summary(value=values)))
        writer.close()

    return record
