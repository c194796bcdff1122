"""The engines in examples/, built as a user would build them and stepped from Python."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import lanekit
from activated_run import run
from lanekit import StepClient, segment_name
from lanekit.segments import segment_path
from patience import patience
from working_programs import working

ENVS = 37
RUSTC = working("rustc")
HAS_MONO = bool(working("mcs") and working("mono"))
rust = pytest.mark.skipif(RUSTC is None, reason="needs rustc, and none on PATH runs here")
csharp = pytest.mark.skipif(not HAS_MONO, reason="needs mcs and mono, and they do not run here")
ENGINES = [
    "engine",
    "engine_cpp",
    pytest.param("engine_rs", marks=rust),
    pytest.param("engine_cs", marks=csharp),
]
Floats = npt.NDArray[np.float32]

pytestmark = pytest.mark.once


@pytest.fixture(scope="module")
def prefix(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library, installed somewhere by the commands of docs/own-engine.md."""
    library, prefix = (tmp_path_factory.mktemp(name) for name in ("lib", "prefix"))
    page = (root / "docs" / "own-engine.md").read_text(encoding="utf-8")
    commands = re.findall(r"^\$ (cmake .*)$", page, re.MULTILINE)
    assert len(commands) == 3
    for command in commands:
        places = {".": root, "build/library": library, "~/lanekit": prefix}
        run(*(places.get(word, word) for word in command.split()))
    return prefix


@pytest.fixture(scope="module")
def examples(root: Path, prefix: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The examples, built against what was installed."""
    build = tmp_path_factory.mktemp("build")
    warnings = ("-DCMAKE_C_FLAGS=-Werror", "-DCMAKE_CXX_FLAGS=-Werror")
    run(
        *("cmake", "-S", root / "examples", "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}", *warnings)
    )
    run("cmake", "--build", build)
    if RUSTC is not None:
        link = ("-L", prefix / "lib", "-l", "static=lanekit", "-D", "warnings")
        run(RUSTC, "-O", root / "examples/engine.rs", *link, "-o", build / "engine_rs")
    if HAS_MONO:
        build_csharp(root, build)
    return build


def build_csharp(root: Path, build: Path) -> None:
    """Do as docs/own-engine.md says, and make what starts the engine one file like the others."""
    page = (root / "docs" / "own-engine.md").read_text(encoding="utf-8")
    commands = re.findall(r"^\$ (?:gcc|mcs|LD_LIBRARY_PATH=\. mono) .*$", page, re.MULTILINE)
    library, compiler, start = (command.removeprefix("$ ") for command in commands)
    for command in (library, f"{compiler} -warnaserror"):
        line = command.replace("liblanekit.so", str(build / "liblanekit.so"))
        line = line.replace("engine.exe", str(build / "engine.exe"))
        subprocess.run(line, shell=True, cwd=root, timeout=patience(200), check=True)
    assert start.startswith("LD_LIBRARY_PATH=. mono engine.exe ")
    starter = build / "engine_cs"
    starter.write_text(f'#!/bin/sh\nLD_LIBRARY_PATH={build} exec mono {build}/engine.exe "$@"\n')
    starter.chmod(0o755)


@pytest.fixture(scope="module")
def root() -> Path:
    return Path(__file__).resolve().parent.parent


@pytest.fixture
def lane() -> Iterator[str]:
    name = f"example-{uuid.uuid4().hex}"
    yield name
    segment_path(segment_name("step", name)).unlink(missing_ok=True)


@pytest.fixture(params=ENGINES)
def engine(request: Any, examples: Path, lane: str) -> Iterator[subprocess.Popen[bytes]]:
    # What is ignored here, as SIGHUP is under nohup, would be ignored there, too.
    heard = ("env", "--default-signal=HUP,INT")
    with subprocess.Popen([*heard, examples / request.param, lane, str(ENVS)]) as process:
        yield process
        process.kill()


class Masses:
    """What the engines simulate, in numpy: each operation rounded to float32, as theirs are."""

    def __init__(self) -> None:
        self.position: Floats = np.zeros(ENVS, np.float32)
        self.velocity: Floats = np.zeros(ENVS, np.float32)

    def reset(self, envs: Any, seeds: npt.NDArray[np.uint64] | None) -> None:
        self.velocity[envs] = 0
        self.position[envs] = 0
        if seeds is not None:
            thousandths = (seeds % np.uint64(1000)).astype(np.float32)
            self.position[envs] = thousandths / np.float32(1000) - np.float32(0.5)

    def step(self, push: Floats, envs: Any) -> None:
        rate = np.float32(0.05)
        self.velocity[envs] += (push[envs] - self.position[envs]) * rate
        self.position[envs] += self.velocity[envs] * rate

    def expect(self, client: StepClient) -> None:
        assert np.array_equal(client.obs[:, 0], self.position)
        assert np.array_equal(client.obs[:, 1], self.velocity)
        assert np.array_equal(client.rewards, -self.position * self.position)
        assert np.array_equal(client.dones, np.abs(self.position) > 2)
        assert not client.truncateds.any()
        if client.config.infos:
            energy = np.float64(0.5) * self.velocity * self.velocity
            assert np.allclose(client.infos["energy"], energy, rtol=1e-6)


def test_an_engine_computes_what_the_numpy_model_does(
    engine: subprocess.Popen[bytes], lane: str
) -> None:
    chance = np.random.default_rng(11)
    model = Masses()
    with StepClient.attach(
        lane, timeout=patience(), num_envs=ENVS, obs_size=2, act_size=1
    ) as client:
        client.reset(seed=2**40, timeout=patience())
        model.reset(slice(None), np.arange(2**40, 2**40 + ENVS, dtype=np.uint64))
        model.expect(client)
        ended = 0
        for n in range(1, 1000):
            push = chance.normal(0, 8, ENVS).astype(np.float32)
            over = np.flatnonzero(client.dones)
            client.resets[over] = 1  # reset together with the others' step
            others = np.setdiff1d(np.arange(ENVS), over)
            client.step(push, timeout=patience())
            model.reset(over, None)
            model.step(push, others)
            model.expect(client)
            ended += len(over)
            if n % 100 == 0:  # a reset alone: the others stand still
                client.reset([3, 30], seed=[n, n + 7], timeout=patience())
                model.reset([3, 30], np.array([n, n + 7], np.uint64))
                model.expect(client)
        assert ended > 10, "no episode came to its end"


def test_an_engine_goes_on_with_the_next_trainer(
    engine: subprocess.Popen[bytes], lane: str
) -> None:
    body = (
        "import os, sys, lanekit; client = lanekit.StepClient.attach(sys.argv[1], timeout=None);"
        "client.step(); client.send(); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", body, lane], timeout=patience(100), check=False)
    with StepClient.attach(lane, timeout=patience()) as client:
        before = client.state.completed
        assert before >= 2
        client.step(timeout=patience())
        assert client.state.completed > before
    assert engine.poll() is None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_an_engine_that_is_ended_by_a_signal_removes_its_lane_first(
    engine: subprocess.Popen[bytes], lane: str, number: signal.Signals
) -> None:
    with StepClient.attach(lane, timeout=patience()) as client:
        client.step(timeout=patience())
        engine.send_signal(number)
        assert engine.wait(patience()) == -number
        with pytest.raises(lanekit.PeerLost):
            client.step(timeout=patience())
    assert not segment_path(segment_name("step", lane)).exists()


def test_the_cpp_engine_steps_halves_by_turns_and_says_why_it_ends(
    examples: Path, lane: str
) -> None:
    model = Masses()
    with (
        subprocess.Popen([examples / "engine_cpp", lane, str(ENVS)]) as process,
        StepClient.attach(lane, timeout=patience()) as client,
    ):
        push = np.linspace(-1, 1, ENVS, dtype=np.float32)
        halves = [client.send(push[client.next_envs]).envs for _ in range(2)]
        for n in range(200):
            envs = halves[n % 2]
            obs = client.recv(patience()).obs
            model.step(push, envs)
            assert np.array_equal(obs[:, 0], model.position[envs])
            assert client.send(push[client.next_envs]).envs == envs
        while client.under_way:
            client.recv(patience())
        push[5] = np.nan
        with pytest.raises(lanekit.PeerLost, match="a mass was pushed out of this world"):
            client.step(push, timeout=patience())
        assert process.wait(patience()) == 1


@pytest.mark.parametrize("name", ENGINES)
def test_an_engine_that_can_not_have_its_lane_says_so(examples: Path, lane: str, name: str) -> None:
    with lanekit.StepServer.create(lane, ENVS, 2, 1):
        done = subprocess.run(
            [examples / name, lane], capture_output=True, text=True, timeout=patience(), check=False
        )
        assert (done.returncode, done.stderr) == (1, f"{lane}: LK_E_EXISTS\n")


def test_the_engine_on_the_page_own_engine_is_built_and_stepped_as_written(
    root: Path, prefix: Path, tmp_path: Path
) -> None:
    page = (root / "docs" / "own-engine.md").read_text(encoding="utf-8")
    (engine,) = re.findall(r"^```cpp\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (trainer,) = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (line,) = re.findall(r"^\$ (g\+\+ .*)$", page, re.MULTILINE)
    # A name of its own, and patience for a busy machine.
    name = f"page-{uuid.uuid4().hex}"
    trainer = re.sub(r"timeout=\d+", "timeout=None", trainer.replace("my-engine", name))
    (tmp_path / "engine.cpp").write_text(engine.replace("my-engine", name), encoding="utf-8")
    home = {**os.environ, "HOME": str(tmp_path)}
    (tmp_path / "lanekit").symlink_to(prefix)
    subprocess.run(line, shell=True, cwd=tmp_path, env=home, timeout=patience(200), check=True)
    with subprocess.Popen([tmp_path / "engine"]) as process:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", trainer],
            capture_output=True,
            text=True,
            timeout=patience(100),
            check=False,
        )
        process.terminate()
    assert (done.stdout, done.stderr) == ("[0.25 0.5  0.75]\n", "")
    assert not segment_path(segment_name("step", name)).exists()
