"""gRPC with the batch as bytes: no protobuf around them, so that nothing is encoded."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import numpy as np

from bench.peers.steppers import Step, Task

PACKAGE = "grpcio"
CALLS = "unary call of bytes over a Unix socket"
OPTIONS = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
_ADDRESS = "unix:engine"  # in the directory that each way has for itself
_UNARY, _STREAM = "/bench.Engine/Step", "/bench.Engine/Steps"


class _Engine:
    """Answers actions with observations, rewards, ends of episodes."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._memory = bytearray(task.envs * (4 * task.obs + 4 + 2))
        self._obs = np.frombuffer(self._memory, np.float32, task.envs * task.obs)
        self._number = 0

    def step(self, request: bytes, _: grpc.ServicerContext) -> bytes:
        np.frombuffer(request, np.float32)
        self._number += 1
        if self._task.work == "touch":
            self._obs[0] = self._number
        else:
            self._obs[:] = self._number
        return bytes(self._memory)

    def steps(self, requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        for request in requests:
            yield self.step(request, context)


def _serve(task: Task, said: Any) -> None:
    task.pin_engine()
    engine = _Engine(task)
    server = grpc.server(ThreadPoolExecutor(2), options=OPTIONS)
    methods = {
        "Step": grpc.unary_unary_rpc_method_handler(engine.step),
        "Steps": grpc.stream_stream_rpc_method_handler(engine.steps),
    }
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("bench.Engine", methods)])
    server.add_insecure_port(_ADDRESS)
    server.start()
    said.send("listening")
    server.wait_for_termination()


def connect(task: Task) -> grpc.Channel:
    """Start an engine and return a channel to it."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    context.Process(target=_serve, args=(task, theirs), daemon=True).start()
    ours.recv()
    return grpc.insecure_channel(_ADDRESS, options=OPTIONS)


def begin(task: Task) -> Step:
    """Call it once for each step."""
    call = connect(task).unary_unary(_UNARY)
    actions = np.ones((task.envs, task.act), np.float32)
    return lambda: np.frombuffer(
        call(actions.tobytes(), wait_for_ready=True), np.float32, task.envs * task.obs
    )[0]


def begin_stream(task: Task) -> Step:
    """Keep one stream open for all steps."""
    import queue

    outgoing: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    answers = connect(task).stream_stream(_STREAM)(iter(outgoing.get, None), wait_for_ready=True)
    actions = np.ones((task.envs, task.act), np.float32)

    def step() -> object:
        outgoing.put(actions.tobytes())
        return np.frombuffer(next(answers), np.float32, task.envs * task.obs)[0]

    return step
