"""What can go wrong around an engine: nobody hangs, nothing leaks, everybody is told."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psutil
import pytest
from served_engine import Serve

from lanekit import FastLaneReader, PeerLost, RemoteError, SegmentExists
from lanekit.command import messages as m
from lanekit.engine import Engine, EngineClient, SimulationContract
from patience import patience

Connect = Callable[[], EngineClient]
Start = Callable[..., "subprocess.Popen[str]"]

TRAINER = """
import sys, numpy as np
from lanekit.engine import EngineClient
client = EngineClient(sys.argv[1], timeout=None)
client.reset(seed=1)
print("stepping", flush=True)
while True:
    client.step(np.zeros((client.num_envs, client.config.act_size), np.float32))
"""


def lanekit(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "lanekit", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=patience())


# --- the command line -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "status", "told"),
    [
        (["--model", "no-such-model.xml"], 1, "no such file, and no built-in model"),
        (["--model", "hopper", "--task", "fly"], 1, "unknown task 'fly'"),
        (["--model", "hopper", "--view-camera", "nowhere"], 1, "no camera 'nowhere'"),
        (["--model", "hopper", "--image", "64"], 2, "a size is WIDTHxHEIGHT"),
        (["--model", "hopper", "--num-envs", "0"], 2, "must be at least 1"),
        (["--model", "hopper", "--num-envs", "many"], 2, "must be a whole number, got 'many'"),
        (["--model", "hopper", "--num-envs", "100000000000"], 1, "num_envs is 1 to 16777216"),
        (["--model", "hopper", "--threads", "100000"], 1, "threads is 1 to 1024"),
        (["--model", "hopper", "--episode-steps", "-1"], 2, "must be at least 0, got -1"),
        (["--model", "hopper", "--num-envs", "1", "--pipelined"], 1, "needs num_envs of 2 or more"),
        (["--model", "hopper", "--image", "5000x16"], 1, "1 to 4096 pixels"),
        (["--model", "hopper", "--view", "--view-size", "16x5000"], 1, "1 to 4096 pixels"),
        ([], 2, "--model"),
    ],
)
def test_a_command_line_that_can_not_be_served_says_why(
    lane: str, arguments: list[str], status: int, told: str
) -> None:
    answer = lanekit("engine", "--name", lane, *arguments)
    assert answer.returncode == status
    assert told in answer.stderr
    assert "Traceback" not in answer.stderr


def test_a_broken_model_file_is_told_in_mujocos_words(lane: str, tmp_path: Path) -> None:
    path = tmp_path / "broken.xml"
    path.write_text("<mujoco><worldbody><body><geom type='cube'/></body></worldbody></mujoco>")
    answer = lanekit("engine", "--name", lane, "--model", str(path))
    assert answer.returncode == 1
    assert "MuJoCo can not load it" in answer.stderr
    assert "cube" in answer.stderr


def test_a_second_engine_of_the_same_name_is_refused(serve: Serve, lane: str) -> None:
    serve("cartpole", 1)
    with pytest.raises(SegmentExists, match=str(os.getpid())):
        Engine(lane, "cartpole", 1)


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_engine_cleanly(engine_process: Start, lane: str, end: int) -> None:
    process = engine_process("--model", "cartpole", "--num-envs", "2", "--view")
    with EngineClient(lane, timeout=patience()) as client:
        client.reset(seed=1)
        process.send_signal(end)
        assert process.wait(patience()) == 0
        with pytest.raises(PeerLost):
            client.step(np.zeros((2, 1), np.float32))
    assert not [name for name in os.listdir("/dev/shm") if lane in name]


NO_EGL = """
import ctypes

load = ctypes.CDLL.__init__

def without_egl(self, name, *args, **options):
    if "EGL" in str(name):
        raise OSError(f"{name}: cannot open shared object file: No such file or directory")
    load(self, name, *args, **options)

ctypes.CDLL.__init__ = without_egl
"""


def test_without_opengl_an_engine_serves_everything_but_pictures(
    engine_process: Start, lane: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(NO_EGL)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("MUJOCO_GL", "egl")
    engine_process("--model", "cartpole", "--num-envs", "2", "--image", "16x16", "--view")
    with EngineClient(lane, timeout=patience()) as client, FastLaneReader.attach(lane) as viewer:
        client.reset(seed=1)
        for options in ({"into_images": True}, {"width": 16, "height": 16}):
            with pytest.raises(RemoteError, match="no picture can be drawn off screen here"):
                client.stream_camera(**options).next(timeout=patience())  # type: ignore[arg-type]
        for _ in range(50):
            client.step(np.zeros((2, 1), np.float32))
        assert viewer.latest_frame() is None
        assert client.schema().num_envs == 2


# --- deaths ---------------------------------------------------------------------------------------


def test_a_trainer_that_is_killed_mid_step_is_followed_by_the_next(serve: Serve, lane: str) -> None:
    served = serve("humanoid", 8)
    for round_ in range(3):
        trainer = subprocess.Popen(
            [sys.executable, "-c", TRAINER, lane], stdout=subprocess.PIPE, text=True
        )
        assert trainer.stdout is not None
        assert trainer.stdout.readline() == "stepping\n"
        begun = served.simulation.steps
        while served.simulation.steps < begun + 5:
            time.sleep(0.001)
        trainer.kill()
        trainer.wait(patience())
        trainer.stdout.close()
        with EngineClient(lane, timeout=patience()) as successor:
            assert np.isfinite(successor.reset(seed=round_)).all()
            successor.step(np.zeros((8, 17), np.float32))
            assert successor.schema().num_envs == 8
    assert served.error is None


def test_streams_of_a_killed_trainer_end(serve: Serve, lane: str) -> None:
    served = serve("cartpole", 2, image=(16, 16))
    code = TRAINER.replace(
        'print("stepping"',
        "streams = [client.stream_telemetry(), client.stream_camera(into_images=True)]\n"
        "streams[0].next()\n"
        'print("stepping"',
    )
    trainer = subprocess.Popen(
        [sys.executable, "-c", code, lane], stdout=subprocess.PIPE, text=True
    )
    assert trainer.stdout is not None
    assert trainer.stdout.readline() == "stepping\n"
    while served.engine.commands.streams < 2:
        time.sleep(0.001)
    trainer.kill()
    trainer.wait(patience())
    trainer.stdout.close()
    with EngineClient(lane, timeout=patience()) as successor:
        successor.schema()
        while served.engine.commands.streams or served.engine._cameras.writing_images:
            time.sleep(0.001)
        successor.reset(seed=1)
        successor.step(np.zeros((2, 1), np.float32))


def test_an_engine_that_is_killed_mid_render_is_told_to_the_trainer(
    engine_process: Start, lane: str
) -> None:
    process = engine_process("--model", "humanoid", "--num-envs", "4", "--image", "256x256")
    client = EngineClient(lane, timeout=patience())
    client.reset(seed=1)
    stream = client.stream_camera("track", range(4), into_images=True)
    images = client.images
    assert images is not None
    actions = np.zeros((4, 17), np.float32)
    while not images.any():
        client.step(actions)
    # With four large pictures in each step, almost all of its time is drawing.
    killer = threading.Timer(0.02, process.kill)
    killer.start()
    with pytest.raises(PeerLost, match="died or left"):
        while True:
            client.step(actions)
    with pytest.raises(PeerLost):
        while stream.next(timeout=patience()) is not None:
            pass
    with pytest.raises(PeerLost):
        client.schema()
    client.close()
    process.wait(patience())
    # Its name is free for the next one.
    engine_process("--model", "cartpole", "--num-envs", "1")
    with EngineClient(lane, timeout=patience()) as successor:
        assert successor.reset(seed=1).shape == (1, 4)


def test_an_engine_that_fails_tells_the_trainer_the_reason(lane: str) -> None:
    with Engine(lane, "cartpole", 2) as engine:

        def broken(*_: object) -> None:
            raise RuntimeError("the bearings are worn out")

        engine.simulation.step = broken  # type: ignore[method-assign]
        errors: list[BaseException] = []

        def serve() -> None:
            try:
                engine.serve()
            except RuntimeError as error:
                errors.append(error)

        thread = threading.Thread(target=serve)
        thread.start()
        with EngineClient(lane, timeout=patience()) as client:
            with pytest.raises(PeerLost, match="the bearings are worn out"):
                client.step(np.zeros((2, 1), np.float32))
        thread.join(patience())
        assert len(errors) == 1


# --- bad requests ---------------------------------------------------------------------------------


def test_a_contract_out_of_range_is_refused_at_both_ends(serve: Serve, client: Connect) -> None:
    serve("hopper", 2)
    trainer = client()
    trainer.reset(seed=1)
    before = trainer.obs.copy()
    with pytest.raises(ValueError, match="friction: 5 to 50 is outside"):
        trainer.reset(contract=SimulationContract(friction=(5.0, 50.0)))
    # Also one that another language's client did not check.
    for message, told in (
        (m.SimulationContract(friction_range=m.Range(5.0, 50.0)), "friction: 5 to 50 is outside"),
        (m.SimulationContract(mass_scale_range=m.Range(2.0, 1.0)), "the smaller number is first"),
        (m.SimulationContract(friction_range=m.Range(np.nan, 1.0)), "finite"),
        (m.SimulationContract(joint_position_noise=-1.0), "standard deviation"),
        (m.SimulationContract(terrain_type="stairs"), "terrain_type can not be kept"),
        (
            m.SimulationContract(
                push_interval_range=m.Range(1, 1), push_velocity_range=m.Range(1, 1)
            ),
            "no free body to push",
        ),
    ):
        with pytest.raises(RemoteError, match=told):
            trainer.reset_agent(message)
    np.testing.assert_array_equal(trainer.obs, before)


def test_a_trainer_whose_action_is_no_number_loses_one_episode_and_not_the_engine(
    serve: Serve, client: Connect
) -> None:
    serve("hopper", 3)
    trainer = client()
    trainer.reset(seed=1)
    actions = np.zeros((3, 3), np.float32)
    actions[1] = np.nan
    result = trainer.step(actions)
    assert result.dones.tolist() == [False, True, False]
    assert trainer.lane.infos["diverged"].tolist() == [0, 1, 0]
    assert np.isfinite(result.obs).all()
    assert not trainer.step(np.zeros((3, 3), np.float32)).dones.any()


def test_a_divergence_leaves_no_log_file(
    engine_process: Start, lane: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    engine_process("--model", "hopper", "--num-envs", "2")
    with EngineClient(lane, timeout=patience()) as client:
        client.reset(seed=1)
        for _ in range(3):
            result = client.step(np.full((2, 3), np.nan, np.float32))
            assert result.dones.all()
    assert not list(tmp_path.iterdir())


# --- endurance ------------------------------------------------------------------------------------


def test_thousands_of_resets_in_a_row_leave_nothing_behind(
    engine_process: Start, lane: str
) -> None:
    process = engine_process("--model", "hopper", "--num-envs", "16")
    engine = psutil.Process(process.pid)
    with EngineClient(lane, timeout=patience()) as client:

        def resets(count: int, *, first: int) -> None:
            for number in range(first, first + count):
                if number % 4:
                    client.reset([number % 16], seed=number)
                else:
                    contract = SimulationContract(friction=0.5 + number / 1e5, mass_scale=1.1)
                    client.reset([number % 16], contract=contract, seed=number)
                client.step(np.zeros((16, 3), np.float32))

        resets(200, first=0)  # until what is cached is cached
        memory, files, threads = engine.memory_info().rss, engine.num_fds(), engine.num_threads()
        resets(1000, first=200)
        assert engine.memory_info().rss - memory < 4_000_000
        assert (engine.num_fds(), engine.num_threads()) == (files, threads)


def test_many_streams_one_after_the_other_leave_nothing_behind(
    serve: Serve, client: Connect
) -> None:
    served = serve("cartpole", 2, image=(16, 16))
    trainer = client()
    for _ in range(60):
        with trainer.stream_telemetry() as stream:
            stream.next(timeout=patience())
        with trainer.stream_camera(into_images=True):
            pass
    while served.engine.commands.streams:
        time.sleep(0.001)
    assert not served.engine._cameras.writing_images


def test_pictures_of_many_sizes_do_not_pile_up(serve: Serve, client: Connect) -> None:
    served = serve("cartpole", 1)
    trainer = client()
    for size in range(16, 25):
        with trainer.stream_camera(width=size, height=16) as stream:
            assert stream.next(timeout=patience()) is not None
    assert len(served.engine.pictures._renderers) <= 6
