"""Pictures of an engine: cameras, the image region, the viewport, and what is drawn into them."""

from __future__ import annotations

import copy
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import numpy.typing as npt
import pytest
from served_engine import Serve

from lanekit import FastLaneReader, RemoteError, TooLarge
from lanekit.command import messages as m
from lanekit.engine import Engine, EngineClient, pixels_of
from lanekit.engine.drawing_threads import DrawingThreads
from lanekit.engine.simulation import VectorSimulation
from lanekit.errors import EngineError
from patience import patience

Connect = Callable[[], EngineClient]
Pixels = npt.NDArray[np.uint8]

RED = m.Color(1.0, 0.0, 0.0, 1.0)
WHITE = m.Color(1.0, 1.0, 1.0, 1.0)


def drawn_by_mujoco(
    simulation: VectorSimulation, env: int, camera: str, width: int, height: int
) -> Pixels:
    """What MuJoCo's own renderer makes of an environment, with the engine's plain looks."""
    model = copy.copy(simulation.model)
    model.vis.quality.offsamples, model.vis.quality.shadowsize = 0, 0
    model.vis.quality.numslices, model.vis.quality.numstacks = 16, 8
    model.vis.global_.offwidth, model.vis.global_.offheight = width, height
    data = simulation.batch.get_data(env)
    mujoco.mj_forward(model, data)
    with mujoco.Renderer(model, height, width) as renderer:
        renderer.scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = False
        renderer.scene.flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = False
        renderer.update_scene(data, camera)
        pixels: Pixels = renderer.render()
        return pixels


def difference(one: Pixels, other: Pixels) -> float:
    return float(np.abs(one.astype(int) - other.astype(int)).mean())


def one_picture(trainer: EngineClient, camera: str, **options: int) -> Pixels:
    env = options.pop("env", 0)
    with trainer.stream_camera(camera, [env], **options) as stream:
        frame = stream.next(timeout=patience())
    assert frame is not None
    assert frame.env_id == env
    return pixels_of(frame)


def test_cameras_show_what_mujoco_draws(serve: Serve, client: Connect) -> None:
    served = serve("hopper", 3)
    trainer = client()
    trainer.reset(seed=1)
    for _ in range(15):
        trainer.step(np.tile(np.float32([[1.0], [-1.0], [0.0]]), (1, 3)))
    assert trainer.cameras() == {"track": 1, "chase": 2, "free": 3}
    seen = {}
    for camera in ("track", "chase"):
        for env in (0, 1):
            found = one_picture(trainer, camera, env=env, width=96, height=64)
            expected = drawn_by_mujoco(served.simulation, env, camera, 96, 64)
            assert found.shape == (64, 96, 3)
            assert difference(found, expected) < 0.5
            seen[camera, env] = found
    assert difference(seen["track", 0], seen["track", 1]) > 1
    assert difference(seen["track", 0], seen["chase", 0]) > 1


def test_several_cameras_stream_beside_the_steps(serve: Serve, client: Connect) -> None:
    serve("cartpole", 2)
    trainer = client()
    trainer.reset(seed=1)
    with (
        trainer.stream_camera("side", [0, 1], width=32, height=24) as side,
        trainer.stream_camera("front", [1], width=48, height=32) as front,
    ):
        envs, sizes = set(), set()
        for _ in range(8):
            trainer.step(np.zeros((2, 1), np.float32))
            for stream in (side, front):
                frame = stream.next(timeout=patience())
                assert frame is not None
                envs.add(frame.env_id)
                sizes.add(pixels_of(frame).shape)
    assert envs == {0, 1}
    assert sizes == {(24, 32, 3), (32, 48, 3)}


def test_pictures_in_the_image_region_are_those_of_the_step(serve: Serve, client: Connect) -> None:
    served = serve("hopper", 4, image=(48, 32))
    trainer = client()
    trainer.reset(seed=3)
    images = trainer.images
    assert images is not None
    assert images.shape == (4, 32, 48, 3)
    assert not images.any()
    with trainer.stream_camera("track", [0, 2], into_images=True) as stream:
        written = None
        while written is None or not images[2].any():
            # Each step draws, once the engine has taken the request.
            trainer.step(np.full((4, 3), 0.5, np.float32))
            if images[0].any():
                written = stream.next(timeout=patience())
        assert written.data == b""
        assert (written.width, written.height) == (48, 32)
        for _ in range(4):
            trainer.step(np.full((4, 3), 0.5, np.float32))
            for env in (0, 2):
                expected = drawn_by_mujoco(served.simulation, env, "track", 48, 32)
                assert difference(images[env], expected) < 0.5
        assert not images[[1, 3]].any()
    # Nobody wants them any more: what is there stays.
    while trainer.joint_state() and served.engine._cameras.writing_images:
        pass
    before = images.copy()
    trainer.step(np.full((4, 3), -0.5, np.float32))
    np.testing.assert_array_equal(images, before)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"into_images": True}, "has no image region; start the engine with --image"),
        ({"camera": "nowhere"}, "no camera 'nowhere'; there are 1 'side', 2 'front', 3 'free'"),
        ({"width": 5000, "height": 10}, "1 to 4096 pixels"),
    ],
)
def test_a_stream_that_can_not_be_is_refused(
    serve: Serve, client: Connect, options: dict[str, object], told: str
) -> None:
    serve("cartpole", 1)
    with pytest.raises(RemoteError, match=told):
        client().stream_camera(**options).next(timeout=patience())  # type: ignore[arg-type]


def test_images_of_another_size_than_the_region_are_refused(serve: Serve, client: Connect) -> None:
    serve("cartpole", 1, image=(32, 24))
    trainer = client()
    with pytest.raises(RemoteError, match="images have 32x24 pixels, not 64x64"):
        stream = trainer.stream_camera(width=64, height=64, into_images=True)
        stream.next(timeout=patience())


def test_a_picture_too_large_for_the_command_lane_says_so(serve: Serve, client: Connect) -> None:
    serve("cartpole", 1)
    with pytest.raises((TooLarge, RemoteError), match=r"larger|carry"):
        client().stream_camera(width=1024, height=1024).next(timeout=patience())


def test_a_camera_keeps_what_is_set_and_can_be_switched_off(serve: Serve, client: Connect) -> None:
    serve("cartpole", 1)
    trainer = client()
    before = one_picture(trainer, "side", width=64, height=48)
    config = trainer.camera_config("side")
    assert (config.id, config.name, config.enabled) == (1, "side", True)
    changed = trainer.set_camera_config(
        m.CameraConfig(name="side", width=40, height=30, field_of_view_degrees=20.0)
    )
    assert (changed.width, changed.height, changed.field_of_view_degrees) == (40, 30, 20.0)
    assert trainer.camera_config("side") == changed
    assert one_picture(trainer, "side").shape == (30, 40, 3)
    assert difference(one_picture(trainer, "side", width=64, height=48), before) > 5
    trainer.set_camera_config(m.CameraConfig(name="side", enabled=False))
    with pytest.raises(RemoteError, match="switched off"):
        one_picture(trainer, "side")
    with pytest.raises(RemoteError, match="between 0 and 180"):
        trainer.set_camera_config(m.CameraConfig(name="side", field_of_view_degrees=180.0))
    with pytest.raises(RemoteError, match="from near to far"):
        trainer.set_camera_config(m.CameraConfig(name="side", near_clip=5.0, far_clip=1.0))


def test_shapes_are_drawn_into_one_environments_pictures_until_they_are_cleared(
    serve: Serve, client: Connect
) -> None:
    serve("cartpole", 2)
    trainer = client()

    def look(env: int = 0) -> Pixels:
        return one_picture(trainer, "side", env=env, width=160, height=120)

    def red(pixels: Pixels) -> int:
        r, g, b = np.moveaxis(pixels.astype(int), -1, 0)
        return int(((r > 150) & (g < 60) & (b < 60)).sum())

    plain, other = look(), look(1)
    assert red(plain) == 0
    up = m.Vec3(0.0, 0.0, 1.0)
    shapes: list[dict[str, object]] = [
        {"lines": [m.DebugLine(m.Vec3(-1.0, 0.0, 0.8), m.Vec3(1.0, 0.0, 0.8), RED)]},
        {"arrows": [m.DebugArrow(m.Vec3(-0.8, 0.0, 0.0), up, RED, 1.2)]},
        {"spheres": [m.DebugSphere(m.Vec3(0.8, 0.0, 0.8), 0.2, RED)]},
    ]
    for shape in shapes:
        trainer.draw(clear=True, **shape)  # type: ignore[arg-type]
        assert red(look()) > 5, shape
    trainer.draw(clear=True)
    assert difference(look(), plain) == 0
    trainer.draw(texts=[m.DebugText(m.Vec3(0.0, -0.5, 1.2), "lanekit", WHITE)])
    assert (np.abs(look().astype(int) - plain.astype(int)).max(axis=2) > 100).sum() > 20
    trainer.draw(
        velocity_command=m.DebugVelocityCommand(m.Vec3(0.0, -0.5, 0.5), 1.0, 0.0, 0.5), clear=True
    )
    assert difference(look(), plain) > 0
    assert difference(look(1), other) == 0


@pytest.mark.parametrize(
    ("shapes", "told"),
    [
        ({"spheres": [m.DebugSphere(m.Vec3(0, 0, 0), -1.0, RED)]}, "radius above 0"),
        ({"spheres": [m.DebugSphere(None, 1.0, RED)]}, "without one of its points"),
        ({"lines": [m.DebugLine(m.Vec3(0, 0, 0), m.Vec3(np.nan, 0, 0), RED)]}, "nowhere"),
        ({"texts": [m.DebugText(m.Vec3(0, 0, 0), "x" * 200, RED)]}, "at most 99 bytes"),
        (
            {"lines": [m.DebugLine(m.Vec3(0, 0, 0), m.Vec3(1, 0, 0), m.Color(2, 0, 0, 1))]},
            "from 0 to 1",
        ),
        (
            {"lines": [m.DebugLine(m.Vec3(0, 0, 0), m.Vec3(1, 0, 0), RED)] * 2001},
            "more than the 2000 that are kept",
        ),
    ],
)
def test_shapes_that_can_not_be_drawn_are_refused(
    serve: Serve, client: Connect, shapes: dict[str, object], told: str
) -> None:
    serve("cartpole", 1)
    with pytest.raises(RemoteError, match=told):
        client().draw(**shapes)  # type: ignore[arg-type]


def test_the_viewport_streams_and_is_on_the_fast_lane_while_a_trainer_steps(
    serve: Serve, client: Connect, lane: str
) -> None:
    serve("hopper", 2, view=lane, view_size=(80, 60), view_fps=1000.0)
    trainer = client()
    trainer.reset(seed=1)
    info = trainer.viewport_info()
    assert (info.fast_lane_run, info.width, info.height) == (lane, 80, 60)
    assert (info.camera_name, info.env_id) == ("track", 0)
    with FastLaneReader.attach(lane) as viewer:
        frames = []
        while len(frames) < 3:
            trainer.step(np.full((2, 3), 0.3, np.float32))
            frame = viewer.latest_frame()
            if frame is not None and (not frames or frame.seq != frames[-1].seq):
                frames.append(frame)
    assert frames[0].array.shape == (60, 80, 3)
    assert frames[0].array.std() > 5
    assert frames[-1].metrics is not None
    assert frames[-1].metrics.last_reward != 0
    with trainer.stream_viewport("chase", 1, width=40, height=30) as stream:
        item = stream.next(timeout=patience())
        assert item is not None
        assert (item.env_id, pixels_of(item).shape) == (1, (30, 40, 3))
        now = trainer.viewport_info()
        assert (now.camera_name, now.env_id, now.streaming) == ("chase", 1, True)


def test_a_picture_is_drawn_beside_the_steps(serve: Serve, client: Connect) -> None:
    served = serve("cartpole", 1)
    trainer = client()
    trainer.reset(seed=1)
    may_draw, begun = threading.Event(), threading.Event()
    draw = served.engine.pictures.draw

    def draw_slowly(*args: Any) -> Pixels:
        begun.set()
        assert may_draw.wait(patience())
        return draw(*args)

    with trainer.stream_camera("side", width=16, height=16, fps=100) as stream:
        assert stream.next(timeout=patience()) is not None
        served.engine.pictures.draw = draw_slowly  # type: ignore[method-assign]
        assert begun.wait(patience())
        for _ in range(100):  # none of them waits for the picture
            trainer.step(np.zeros((1, 1), np.float32))
        assert trainer.schema().num_envs == 1
        may_draw.set()
        while stream.next(timeout=patience()).frame_number < 3:  # type: ignore[union-attr]
            pass


def test_a_picture_shows_the_moment_at_which_it_was_asked_for(serve: Serve) -> None:
    pictures = serve("hopper", 1).engine.pictures
    camera = pictures.camera(name="track")
    sight = pictures.look(0, camera, 64, 48)
    served_simulation = pictures._simulation
    expected = drawn_by_mujoco(served_simulation, 0, "track", 64, 48)
    served_simulation.set_qpos(0, np.array([2]), [1.0])
    with ThreadPoolExecutor(1) as elsewhere:
        try:
            found = elsewhere.submit(pictures.draw, sight).result(patience())
        finally:
            elsewhere.submit(pictures.close).result(patience())
    assert difference(found, expected) < 0.5
    assert difference(drawn_by_mujoco(served_simulation, 0, "track", 64, 48), expected) > 1


def test_many_pictures_are_shared_by_threads_and_are_those_that_one_draws(serve: Serve) -> None:
    pictures = serve("hopper", 11).engine.pictures
    for env in range(11):
        pictures._simulation.set_qpos(env, np.array([2]), [0.1 * env])
    camera = pictures.camera(name="track")
    sights = [pictures.look(env, camera, 40, 30) for env in range(11)]
    together, alone = np.zeros((2, 11, 30, 40, 3), np.uint8)
    for threads, out in ((2, together), (1, alone)):
        drawing = DrawingThreads(pictures.twin(), threads)
        try:
            drawing.fill(sights, out)
            used = [painter._pictures.drawn for painter in drawing._painters]
        finally:
            drawing.close()
        assert used == ([6, 5] if threads == 2 else [11])
    assert np.array_equal(together, alone)
    assert difference(alone[0], alone[10]) > 1


@pytest.mark.parametrize(("way", "threads"), [("egl", 2), ("glfw", 1), ("", 1)])
def test_only_what_draws_without_a_screen_draws_in_several_threads(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, way: str, threads: int
) -> None:
    pictures = serve("hopper", 1).engine.pictures
    monkeypatch.setenv("MUJOCO_GL", way)
    drawing = DrawingThreads(pictures.twin(), 2)
    try:
        assert len(drawing._painters_for(8)) == threads
    finally:
        drawing.close()


def test_a_picture_that_fails_lets_the_other_threads_finish_theirs(serve: Serve) -> None:
    pictures = serve("hopper", 8).engine.pictures
    camera = pictures.camera(name="track")
    sights = [pictures.look(env, camera, 40, 30) for env in range(8)]
    out = np.zeros((8, 30, 40, 3), np.uint8)
    broken = pictures.twin()

    def fail(*_: Any) -> Pixels:
        raise EngineError("no driver")

    broken.draw = fail  # type: ignore[method-assign]
    drawing = DrawingThreads(broken, 2)
    try:
        with pytest.raises(EngineError, match="no driver"):
            drawing.fill(sights, out)
    finally:
        drawing.close()
    assert not out[:4].any()
    assert all(picture.any() for picture in out[4:])


@pytest.mark.parametrize("why", ["switched off", "no driver"])
def test_a_viewport_that_can_not_be_drawn_is_told_once_and_training_goes_on(
    serve: Serve, client: Connect, lane: str, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    served = serve("cartpole", 2, view=lane, view_size=(32, 24), view_fps=1000.0)
    trainer = client()
    trainer.reset(seed=1)
    if why == "switched off":
        trainer.set_camera_config(m.CameraConfig(name="side", enabled=False))
    else:

        def fail(*_: Any) -> Pixels:
            raise EngineError("no driver")

        served.engine.pictures.draw = fail  # type: ignore[method-assign]
    with FastLaneReader.attach(lane) as viewer:
        while not caplog.records:
            trainer.step(np.zeros((2, 1), np.float32))
        begun = time.monotonic()
        while time.monotonic() < begun + 1.5:  # until after the next try
            trainer.step(np.zeros((2, 1), np.float32))
        assert viewer.latest_frame() is None
        assert [record.getMessage() for record in caplog.records if why in record.getMessage()]
        assert len(caplog.records) == 1
        if why == "switched off":
            trainer.set_camera_config(m.CameraConfig(name="side", enabled=True))
            while viewer.latest_frame() is None:
                trainer.step(np.zeros((2, 1), np.float32))
    assert trainer.schema().num_envs == 2


@pytest.mark.parametrize("option", [{"image": (5000, 8)}, {"view": "", "view_size": (8, 5000)}])
def test_pictures_that_can_never_be_drawn_are_refused_at_the_start(
    lane: str, option: dict[str, Any]
) -> None:
    if "view" in option:
        option = {**option, "view": lane}
    with pytest.raises(EngineError, match="1 to 4096 pixels"):
        Engine(lane, "cartpole", 1, **option)


def test_lanekit_view_shows_the_engine_while_a_trainer_steps_it(
    engine_process: Callable[..., subprocess.Popen[str]], lane: str, tmp_path: Path
) -> None:
    engine_process("--model", "hopper", "--num-envs", "2", "--view", "--view-size", "120x90")
    picture = tmp_path / "hopper.png"
    with EngineClient(lane, timeout=patience()) as trainer:
        trainer.reset(seed=1)
        command = [sys.executable, "-m", "lanekit", "view", lane, "--snapshot", str(picture)]
        with subprocess.Popen([*command, "--wait", "60"]) as viewer:
            while viewer.poll() is None:
                trainer.step(np.zeros((2, 3), np.float32))
    assert viewer.returncode == 0
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_without_a_viewer_no_viewport_is_drawn(serve: Serve, client: Connect, lane: str) -> None:
    served = serve("cartpole", 1, view=lane, view_fps=1000.0)
    trainer = client()
    for _ in range(50):
        trainer.step(np.zeros((1, 1), np.float32))
    assert served.engine.pictures.drawn == 0
