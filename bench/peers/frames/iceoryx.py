"""iceoryx2: publish-subscribe in shared memory, the newest sample overwriting the one before."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import iceoryx2
import numpy as np

from bench.peers.frames import FramePeer, Marks, Pixels, Publish, Receive, Task, draw_marks, marks


def _service(task: Task) -> Any:
    iceoryx2.set_log_level(iceoryx2.LogLevel.Error)
    node = iceoryx2.NodeBuilder.new().create(iceoryx2.ServiceType.Ipc)
    builder = node.service_builder(iceoryx2.ServiceName.new(task.name))
    pixels: Any = ctypes.c_uint8 * task.size
    service = builder.publish_subscribe(pixels).enable_safe_overflow(True)
    return node, service.subscriber_max_buffer_size(1).max_publishers(1).open_or_create()


class Copied(FramePeer):
    """The frame copied into a sample, and out of it."""

    package = "iceoryx2"
    calls = "send_copy(array), safe overflow, buffer of 1; receive() and memmove, polled"
    sleeps = False

    @contextmanager
    def writer(self, task: Task) -> Iterator[Publish]:
        _node, service = _service(task)
        publisher, pixels = service.publisher_builder().create(), ctypes.c_uint8 * task.size
        yield lambda frame: publisher.send_copy(pixels.from_buffer(frame))

    @contextmanager
    def reader(self, task: Task) -> Iterator[Receive]:
        _node, service = _service(task)
        subscriber = service.subscriber_builder().create()
        out = np.zeros(task.size, np.uint8)
        address = out.ctypes.data

        def receive(_: float) -> Marks | None:
            if (sample := subscriber.receive()) is None:
                return None
            ctypes.memmove(address, sample.payload_ptr, task.size)
            return marks(out)

        yield receive


class Loaned(FramePeer):
    """A sample lent to be drawn into, and looked at where it lies."""

    package = "iceoryx2"
    calls = "loan_uninit(), assume_init(), send(); receive() and payload(), polled"
    sleeps = False
    in_place = True

    @contextmanager
    def writer(self, task: Task) -> Iterator[Publish]:
        _node, service = _service(task)
        publisher = service.publisher_builder().create()

        def publish(frame: Pixels) -> None:
            sample = publisher.loan_uninit()
            draw_marks(frame, np.ctypeslib.as_array(sample.payload().contents))
            sample.assume_init().send()

        yield publish

    @contextmanager
    def reader(self, task: Task) -> Iterator[Receive]:
        _node, service = _service(task)
        subscriber = service.subscriber_builder().create()

        def receive(_: float) -> Marks | None:
            sample = subscriber.receive()
            return None if sample is None else marks(sample.payload().contents)

        yield receive
