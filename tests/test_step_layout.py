"""docs/layout.md suffices: an engine and a trainer written from the page alone join real peers.

Nothing of lanekit is used by the two classes below. Python has no fences: the system calls around
every wait stand for them, and single 8-byte stores through a memory map are what the page asks for.
"""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import mmap
import os
import platform
import re
import struct
import subprocess
import sys
import textwrap
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import lanekit
from lanekit import StepClient, StepServer, segment_name
from lanekit.segments import segment_path
from patience import patience, until

ENVS, OBS, ACT = 6, 4, 2
FUTEX_WAKE, SYS_FUTEX = 1, {"x86_64": 202, "aarch64": 98}.get(platform.machine())
LIBC = ctypes.CDLL(None, use_errno=True)


def name_from_the_page(lane: str) -> str:
    digest = hashlib.sha256(lane.encode()).hexdigest()[:16]
    slug = re.sub(r"[^A-Za-z0-9._]+", "-", lane).strip("-")[:48] or "run"
    return f"lanekit-step-{slug}-{digest}"


def take_role(path: str, role: int) -> int:
    """Lock one byte through a descriptor that is never mapped, and return it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    lock = struct.pack("@hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, role, 1, 0)
    fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, lock)
    return descriptor


class RawLane:
    """A mapped segment, its words, and the futex call."""

    def __init__(self, file: Any, size: int) -> None:
        self.memory = mmap.mmap(file.fileno(), size)

    def word(self, offset: int) -> ctypes.c_uint64:
        return ctypes.c_uint64.from_buffer(self.memory, offset)

    def u32(self, offset: int) -> int:
        return int(struct.unpack_from("<I", self.memory, offset)[0])

    def array(self, offset: int, dtype: str, shape: tuple[int, ...]) -> npt.NDArray[Any]:
        count = int(np.prod(shape))
        return np.frombuffer(self.memory, dtype, count, offset).reshape(shape)

    def announce(self, sequence: int, wake_at: int, value: int) -> None:
        self.word(sequence).value = value
        if self.word(wake_at).value >= value:
            address = ctypes.addressof(self.word(sequence))
            LIBC.syscall(SYS_FUTEX, ctypes.c_void_p(address), FUTEX_WAKE, 2**31 - 1, 0, 0, 0)

    def await_value(self, sequence: int, value: int) -> None:
        # spins, which the page allows
        until(lambda: self.word(sequence).value >= value, "the other side", pause=0)


class EngineFromThePage(RawLane):
    """Creates a lane of float32 arrays and serves it."""

    def __init__(self, lane: str) -> None:
        sizes = [4 * ENVS * OBS, 4 * ENVS * ACT, 4 * ENVS, ENVS, ENVS, ENVS, 8 * ENVS]
        offsets, end = [], 4096
        for size in sizes:
            offsets.append(end)
            end += -(-size // 64) * 64
        name = name_from_the_page(lane)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
        self.path = Path("/dev/shm") / name
        with open(os.open(self.path, flags, 0o600), "r+b") as file:
            naming = take_role(str(self.path), 0)
            self.owning = take_role(str(self.path), 1)
            os.posix_fallocate(file.fileno(), 0, end)
            super().__init__(file, end)
        pid = os.getpid()
        namespace = os.stat(f"/proc/{pid}/ns/pid").st_ino
        header = struct.pack("<IHHIIQQ", 0x4C524243, 2, 0, 4096, pid, end, time.time_ns())
        header += struct.pack("<Q", namespace)
        self.memory[: len(header)] = header
        self.memory[128 : 136 + len(lane)] = struct.pack("<II", len(lane), 0) + lane.encode()
        geometry = struct.pack("<BBBBIII8s8sII", 0, 1, 0, 0, ENVS, OBS, ACT, b"<f4", b"<f4", 4, 4)
        self.memory[512 : 512 + len(geometry)] = geometry
        self.memory[640:696] = struct.pack("<7Q", *offsets)
        self.memory[760:764] = struct.pack("<I", 4)
        self.obs = self.array(offsets[0], "<f4", (ENVS, OBS))
        self.actions = self.array(offsets[1], "<f4", (ENVS, ACT))
        self.rewards = self.array(offsets[2], "<f4", (ENVS,))
        self.dones = self.array(offsets[3], "u1", (ENVS,))
        self.resets = self.array(offsets[5], "u1", (ENVS,))
        self.seeds = self.array(offsets[6], "<u8", (ENVS,))
        self.memory[64:68] = struct.pack("<I", 0x52454459)  # ready, last
        os.close(naming)

    def serve(self, exchanges: int) -> None:
        for number in range(1, exchanges + 1):
            self.await_value(1088, number)
            reset = self.resets != 0
            if self.u32(1104) == 0:
                self.obs[~reset] += self.actions[~reset].sum(axis=1, keepdims=True)
            self.obs[reset] = np.where(self.resets == 2, self.seeds, 0)[reset, None]
            self.rewards[:] = number
            self.dones[:] = self.obs[:, 0] > 1000
            self.resets[:] = 0
            self.announce(1152, 1096, number)


class TrainerFromThePage(RawLane):
    """Takes the trainer's place at a lane of float32 arrays."""

    def __init__(self, lane: str) -> None:
        path = f"/dev/shm/{name_from_the_page(lane)}"
        with open(path, "r+b") as file:
            super().__init__(file, os.fstat(file.fileno()).st_size)
        assert self.u32(0) == 0x4C524243
        assert self.u32(64) == 0x52454459
        envs, obs, act = struct.unpack_from("<3I", self.memory, 516)
        offsets = struct.unpack_from("<7Q", self.memory, 640)
        self.obs = self.array(offsets[0], "<f4", (envs, obs))
        self.actions = self.array(offsets[1], "<f4", (envs, act))
        self.resets = self.array(offsets[5], "u1", (envs,))
        self.place = take_role(path, 2)
        self.word(1032).value += 1
        self.word(1024).value = os.getpid() << 32 | self.word(1032).value & 0xFFFFFFFF
        assert self.word(1088).value == self.word(1152).value
        self.resets[:] = 0

    def step(self) -> None:
        number = self.word(1088).value + 1
        self.memory[1104:1108] = struct.pack("<I", 0)
        self.announce(1088, 1160, number)
        self.await_value(1152, number)

    def leave(self) -> None:
        self.word(1024).value = 0
        os.close(self.place)


@pytest.fixture
def lane() -> Iterator[str]:
    name = f"page/{uuid.uuid4().hex}"
    yield name
    segment_path(segment_name("step", name)).unlink(missing_ok=True)


pytestmark = pytest.mark.skipif(SYS_FUTEX is None, reason="the number of the futex call is unknown")


def test_an_engine_written_from_the_page_alone_serves_a_trainer(lane: str) -> None:
    body = f"""
    import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})
    from test_step_layout import EngineFromThePage
    engine = EngineFromThePage(sys.argv[1])
    print("ready", flush=True)
    engine.serve(102)
    sys.stdin.read()
    """
    command = [sys.executable, "-c", textwrap.dedent(body), lane]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as engine:
        assert engine.stdout is not None
        assert engine.stdout.readline() == b"ready\n"
        with StepClient.attach(lane, timeout=patience()) as client:
            assert (client.config.num_envs, client.config.infos) == (ENVS, ())
            obs = client.reset([1, 4], seed=[70, 80], timeout=patience())
            model = np.zeros((ENVS, OBS), np.float32)
            model[[1, 4]] = [[70], [80]]
            assert np.array_equal(obs, model)
            for n in range(2, 102):
                actions = np.full((ENVS, ACT), n % 7, np.float32)
                actions[:, 1] = np.arange(ENVS)
                obs, rewards, dones, _ = client.step(actions, timeout=patience())
                model += actions.sum(axis=1, keepdims=True)
                assert np.array_equal(obs, model)
                assert (rewards == n).all()
                assert np.array_equal(dones, model[:, 0] > 1000)
            client.step(timeout=patience())
            engine.communicate(timeout=patience())
            with pytest.raises(lanekit.PeerLost):
                client.step(timeout=patience())


@pytest.mark.parametrize("wait", ["hybrid", "block"])
def test_a_trainer_written_from_the_page_alone_steps_an_engine(lane: str, wait: Any) -> None:
    body = f"""
    import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})
    from test_step_layout import TrainerFromThePage
    trainer = TrainerFromThePage(sys.argv[1])
    for n in range(1, 101):
        trainer.actions[:] = n
        trainer.resets[n % {ENVS}] = 1
        trainer.step()
        assert (trainer.obs == -n).all(), trainer.obs
        assert not trainer.resets.any()
    trainer.leave()
    print("done", flush=True)
    """
    with StepServer.create(lane, ENVS, OBS, ACT, wait=wait) as server:
        command = [sys.executable, "-c", textwrap.dedent(body), lane]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as trainer:
            for n in range(1, 101):
                asked = server.wait_actions(patience(100))
                assert asked is not None
                assert asked.number == n
                assert server.state.client_pid == trainer.pid
                assert (server.actions == n).all()
                assert server.resets.tolist() == [int(i == n % ENVS) for i in range(ENVS)]
                server.obs[:] = -n
                server.commit()
            out, _ = trainer.communicate(timeout=patience(100))
            assert out == b"done\n"
        assert server.state.client_pid == 0
