"""The ways from several producers to one consumer that the benchmark compares.

Each has ``produce``, which runs in a process of its own until it is killed, and ``consume``, which
receives for some seconds in the measuring process and accounts for what came. A consumer has
received a record when all its arrays can be looked at.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import multiprocessing
import os
import queue
import tempfile
import threading
import time
import uuid
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

import lanekit
from bench.peers.naive_buffer import NaiveBuffer
from bench.trajectory_records import (
    AT_HAND,
    SCHEMA,
    WHO_AND_NUMBER,
    Account,
    look_at,
    look_at_lists,
    make,
)

SPAWN = multiprocessing.get_context("spawn")
# As much room for each transport that has a size: what the lane has by default for each producer.
RING_BYTES = 4 << 20


class Transport:
    """One way. The object goes to the producers, so it holds what they need to find it."""

    name = ""
    needs: tuple[str, ...] = ()
    """Modules; :attr:`packages` are the distributions that they come from."""
    packages: tuple[str, ...] = ()
    calls = ""
    """What is called on each side, for the table."""

    def __init__(self, tokens: int, producers: int) -> None:
        self.tokens = tokens
        self.producers = producers

    @classmethod
    def missing(cls) -> list[str]:
        """Return the packages that it needs and this environment does not have."""
        return [name for name in cls.needs if importlib.util.find_spec(name) is None]

    @classmethod
    def about(cls) -> dict[str, str]:
        """Return what a table says about it."""
        found = ", ".join(f"{name} {version(name)}" for name in cls.packages)
        return {"version": found, "calls": cls.calls}

    def open(self) -> None:
        """Make what the consumer makes."""

    def produce(self, who: int) -> None:
        """Send records for ever."""
        raise NotImplementedError

    def consume(self, account: Account, until: Callable[[], bool]) -> None:
        """Receive records until it is enough."""
        raise NotImplementedError

    def close(self) -> None:
        """Remove what was made."""


class Lane(Transport):
    """lanekit's trajectory lane: records seen in place."""

    name = "lanekit"
    packages = ("lanekit",)
    calls = "put(arrays, meta); get_batch(16), looked at in place"
    copied = False

    def open(self) -> None:
        self.lane = f"bench-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self._reader = lanekit.TrajectoryReader.create(
            self.lane, SCHEMA, producers=self.producers, ring_bytes=RING_BYTES
        )

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key != "_reader"}

    def produce(self, who: int) -> None:
        records = make(who, self.tokens)
        with lanekit.TrajectoryWriter.attach(self.lane) as writer:
            for number in range(1 << 62):
                writer.put(records[number % AT_HAND], WHO_AND_NUMBER.pack(who, number))

    def consume(self, account: Account, until: Callable[[], bool]) -> None:
        while not until():
            for record in self._reader.get_batch(16, timeout=0.1):
                who, number = WHO_AND_NUMBER.unpack(record.meta)
                arrays = record.copy() if self.copied else record
                seen = look_at(
                    arrays["tokens"], arrays["masks"], arrays["logprobs"], arrays["score"]
                )
                account.take(who, number, seen)

    def close(self) -> None:
        self._reader.close()


class LaneCopied(Lane):
    """The same, and the consumer copies every array, as the others' consumers get theirs."""

    name = "lanekit, copied out"
    calls = "put(arrays, meta); get_batch(16), record.copy()"
    copied = True


class Naive(Transport):
    """Plain numpy over shared memory, with indices that nothing protects."""

    name = "numpy over shared memory, plain indices"
    calls = "a row of a structured array filled, then index + 1; looked at in place"

    def open(self) -> None:
        self._buffer = NaiveBuffer(self.tokens)
        self.memory = self._buffer.name

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key != "_buffer"}

    def produce(self, who: int) -> None:
        buffer = NaiveBuffer(self.tokens, self.memory)
        records = make(who, self.tokens)
        for number in range(1 << 62):
            while not buffer.put(who, number, records[number % AT_HAND]):
                time.sleep(0)  # it would drop; so that its rate can be compared, it waits

    def consume(self, account: Account, until: Callable[[], bool]) -> None:
        while not until():
            row = self._buffer.get()
            if row is None:
                time.sleep(0)
                continue
            seen = look_at(row["tokens"], row["masks"], row["logprobs"], row["score"])
            account.take(int(row["who"]), int(row["number"]), seen)
            self._buffer.done()

    def close(self) -> None:
        self._buffer.close(unlink=True)


class _Pickled(Transport):
    """A queue of Python objects."""

    queue: Any

    def _send(self, item: Any) -> None:
        self.queue.put(item)

    def _receive(self) -> list[Any]:
        return [self.queue.get(timeout=0.1)]

    def produce(self, who: int) -> None:
        records = make(who, self.tokens)
        for number in range(1 << 62):
            self._send((who, number, records[number % AT_HAND]))

    def consume(self, account: Account, until: Callable[[], bool]) -> None:
        while not until():
            with contextlib.suppress(queue.Empty):
                for who, number, arrays in self._receive():
                    account.take(who, number, look_at(*(arrays[name] for name in SCHEMA)))


class ProcessQueue(_Pickled):
    """multiprocessing.Queue."""

    name = "multiprocessing.Queue"
    calls = "Queue(64); put((who, number, arrays)); get()"

    def open(self) -> None:
        self.queue = SPAWN.Queue(64)


class FasterFifo(_Pickled):
    """faster-fifo."""

    name = "faster-fifo"
    needs = ("faster_fifo",)
    packages = ("faster-fifo",)
    calls = "put((who, number, arrays)); get_many()"

    def open(self) -> None:
        import faster_fifo

        self.queue = faster_fifo.Queue(RING_BYTES * self.producers)

    def _send(self, item: Any) -> None:
        import faster_fifo

        while True:
            try:
                self.queue.put(item, timeout=1.0)
                return
            except (faster_fifo.Full, queue.Full):
                continue

    def _receive(self) -> list[Any]:
        found: list[Any] = self.queue.get_many(timeout=0.1)
        return found

    def close(self) -> None:
        self.queue.close()


class ZeroMQ(Transport):
    """ZeroMQ PUSH/PULL over a Unix socket; arrays as parts of a message, without copies of ours."""

    name = "ZeroMQ PUSH/PULL"
    needs = ("zmq",)
    packages = ("pyzmq",)
    calls = (
        "ipc://, high-water mark 64; send_multipart(arrays, copy=False); recv_multipart(copy=False)"
    )

    def open(self) -> None:
        import zmq

        self.address = f"ipc://{tempfile.mkdtemp(prefix='lanekit-bench-')}/socket"
        self._socket = zmq.Context.instance().socket(zmq.PULL)
        self._socket.set_hwm(64)
        self._socket.bind(self.address)

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key != "_socket"}

    def produce(self, who: int) -> None:
        import zmq

        socket = zmq.Context.instance().socket(zmq.PUSH)
        socket.set_hwm(64)
        socket.connect(self.address)
        records = make(who, self.tokens)
        for number in range(1 << 62):
            parts = [WHO_AND_NUMBER.pack(who, number), *records[number % AT_HAND].values()]
            socket.send_multipart(parts, copy=False)

    def consume(self, account: Account, until: Callable[[], bool]) -> None:
        while not until():
            if not self._socket.poll(100):
                continue
            head, tokens, masks, logprobs, score = self._socket.recv_multipart(copy=False)
            who, number = WHO_AND_NUMBER.unpack(head.buffer)
            seen = look_at(
                np.frombuffer(tokens.buffer, np.int32),
                np.frombuffer(masks.buffer, np.int32),
                np.frombuffer(logprobs.buffer, np.float32),
                np.frombuffer(score.buffer, np.float32),
            )
            account.take(who, number, seen)

    def close(self) -> None:
        self._socket.close(0)
        path = Path(self.address.removeprefix("ipc://"))
        path.unlink(missing_ok=True)
        path.parent.rmdir()


class HttpJson(Transport):
    """HTTP and JSON as Atropos does it: FastAPI and pydantic take lists, aiohttp posts them."""

    name = "HTTP/JSON, FastAPI and aiohttp"
    needs = ("fastapi", "uvicorn", "aiohttp")
    packages = ("fastapi", "uvicorn", "aiohttp")
    calls = "session.post(json.dumps(lists)) on one connection; a pydantic model behind uvicorn"

    def open(self) -> None:
        import fastapi
        import uvicorn
        from pydantic import BaseModel

        class ScoredData(BaseModel):
            tokens: list[list[int]]
            masks: list[list[int]]
            scores: list[float]
            inference_logprobs: list[list[float]]
            env_id: int
            number: int

        app = fastapi.FastAPI()
        self._received: queue.Queue[Any] = queue.Queue(64)

        def scored_data(scored: ScoredData) -> dict[str, str]:
            self._received.put(scored)
            return {"status": "received"}

        scored_data.__annotations__["scored"] = ScoredData
        app.post("/scored_data")(scored_data)
        config = uvicorn.Config(app, port=0, log_level="error")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._thread.start()
        while not self._server.started:
            time.sleep(0.01)
        port = self._server.servers[0].sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}/scored_data"

    def __getstate__(self) -> dict[str, Any]:
        return {"tokens": self.tokens, "producers": self.producers, "url": self.url}

    def produce(self, who: int) -> None:
        asyncio.run(self._post_for_ever(who))

    async def _post_for_ever(self, who: int) -> None:
        import aiohttp

        records = make(who, self.tokens)
        async with aiohttp.ClientSession() as session:
            for number in range(1 << 62):
                arrays = records[number % AT_HAND]
                scored = {
                    "tokens": [arrays["tokens"].tolist()],
                    "masks": [arrays["masks"].tolist()],
                    "scores": [float(arrays["score"])],
                    "inference_logprobs": [arrays["logprobs"].tolist()],
                    "env_id": who,
                    "number": number,
                }
                async with session.post(
                    self.url, data=json.dumps(scored), headers={"Content-Type": "application/json"}
                ) as answer:
                    await answer.read()

    def consume(self, account: Account, until: Callable[[], bool]) -> None:
        while not until():
            with contextlib.suppress(queue.Empty):
                got = self._received.get(timeout=0.1)
                seen = look_at_lists(
                    got.tokens[0], got.masks[0], got.inference_logprobs[0], got.scores[0]
                )
                account.take(got.env_id, got.number, seen)

    def close(self) -> None:
        self._server.should_exit = True
        while self._thread.is_alive():  # handlers may wait for room in the queue
            with contextlib.suppress(queue.Empty):
                self._received.get(timeout=0.05)
        self._thread.join()


TRANSPORTS: tuple[type[Transport], ...] = (
    Lane,
    LaneCopied,
    Naive,
    ZeroMQ,
    FasterFifo,
    ProcessQueue,
    HttpJson,
)
