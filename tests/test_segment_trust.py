"""Whose segment is it? Another user's file, a link, a pipe or a file that others may write to is
refused for every kind of lane, on attaching, following, creating and reclaiming.

The squatter is a second user who knows the name that the victim is going to use.
"""

from __future__ import annotations

import os
import pickle
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lanekit
from lanekit import (
    FastLaneConfig,
    FastLaneReader,
    FastLaneWriter,
    SegmentPermissionDenied,
    StepClient,
    StepServer,
    TrajectoryReader,
    TrajectoryWriter,
    segment_name,
)
from lanekit.segments import segment_path

SQUATTER, VICTIM = 65534, 12345
LANEKIT = [sys.executable, "-m", "lanekit"]
CONFIG = FastLaneConfig(8, 4, capacity=2)
SCHEMA = {"x": "float32"}
KINDS: dict[Any, tuple[Callable[[str], Any], Callable[..., Any]]] = {
    "frame": (lambda run: FastLaneWriter.create(run, CONFIG), FastLaneReader.attach),
    "step": (lambda run: StepServer.create(run, 1, 1, 1), StepClient.attach),
    "traj": (lambda run: TrajectoryReader.create(run, SCHEMA), TrajectoryWriter.attach),
}
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become other users")


def as_user(uid: int, action: Callable[[], Any]) -> Any:
    """Return what an action answers in a process of another user; an error comes as text."""
    receiving, sending = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
            try:
                answer = action()
            except Exception as error:
                answer = f"{type(error).__name__}: {error}"
            os.write(sending, pickle.dumps(answer))
        finally:
            os._exit(0)
    os.close(sending)
    with os.fdopen(receiving, "rb") as file:
        answer = file.read()
    os.waitpid(pid, 0)
    return pickle.loads(answer)


@pytest.fixture
def squatted(request: pytest.FixtureRequest, run_id: str) -> Iterator[tuple[str, Path, int]]:
    """A lane of another user under the run's name, open to everybody: kind, path, its pid."""
    kind: Any = request.param
    path = segment_path(segment_name(kind, run_id))
    receiving, sending = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setgroups([])
        os.setgid(SQUATTER)
        os.setuid(SQUATTER)
        lane = KINDS[kind][0](run_id)
        os.chmod(path, 0o666)
        os.write(sending, b"1")
        signal.pause()
        del lane
    assert os.read(receiving, 1) == b"1"
    yield kind, path, pid
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(receiving)
    os.close(sending)
    path.unlink(missing_ok=True)


@needs_root
@pytest.mark.parametrize("squatted", KINDS, indirect=True)
def test_a_lane_that_another_user_opened_to_everybody_is_refused(
    squatted: tuple[str, Path, int], run_id: str
) -> None:
    kind, path, pid = squatted
    before = path.read_bytes()
    create, attach = KINDS[kind]
    for uid in (VICTIM, 0):  # root may open whatever there is, and must not
        for action in (attach, create):
            answer = as_user(uid, lambda action=action: action(run_id))
            assert answer.startswith("SegmentPermissionDenied"), answer
            assert f"uid {SQUATTER}" in answer
            assert "another run id" in answer
        answer = as_user(uid, lambda: lanekit.reclaim_segment(path.name, force=True))
        assert answer.startswith("SegmentPermissionDenied"), answer
    # Dead or alive makes no difference.
    os.kill(pid, signal.SIGKILL)
    for action in (attach, create):
        answer = as_user(VICTIM, lambda action=action: action(run_id))
        assert answer.startswith("SegmentPermissionDenied"), answer
    if kind != "traj":
        assert path.read_bytes() == before  # nothing was written to it, no record, no flag
    assert int.from_bytes(path.read_bytes()[68:72], "little") == 0


@needs_root
@pytest.mark.parametrize("squatted", ["frame"], indirect=True)
def test_commands_name_the_other_user_and_leave_the_lane_alone(
    squatted: tuple[str, Path, int], run_id: str, tmp_path: Path
) -> None:
    _, path, _ = squatted
    listed = subprocess.run([*LANEKIT, "ls"], capture_output=True, text=True, check=True).stdout
    assert f"uid {SQUATTER}" in listed
    for command in (
        ["view", run_id, "--snapshot", str(tmp_path / "x.png")],
        ["clean", "--force", "--yes", path.name],
    ):
        done = subprocess.run([*LANEKIT, *command], capture_output=True, text=True, check=False)
        assert f"belongs to user nobody (uid {SQUATTER})" in done.stdout + done.stderr
        assert "cannot be written" not in done.stderr
        assert path.exists()


@needs_root
@pytest.mark.parametrize("squatted", KINDS, indirect=True)
def test_a_segment_shared_on_purpose_is_opened_by_the_number_of_its_user(
    squatted: tuple[str, Path, int], run_id: str
) -> None:
    kind, path, _ = squatted
    attach = KINDS[kind][1]

    def works(allow_uid: int | None) -> str:
        with attach(run_id, allow_uid=allow_uid):
            return "worked"

    assert "Denied" in as_user(0, lambda: works(SQUATTER))  # everybody may write: never
    path.chmod(0o660)
    os.chown(path, SQUATTER, VICTIM)
    assert as_user(VICTIM, lambda: works(SQUATTER)) == "worked"
    assert "Denied" in as_user(VICTIM, lambda: works(None))
    assert "Denied" in as_user(VICTIM, lambda: works(VICTIM))
    path.chmod(0o600)
    assert as_user(0, lambda: works(SQUATTER)) == "worked"


@pytest.mark.parametrize("wrong", [-1, 2**32 - 1, "root", 1.5])
def test_a_user_that_is_none_is_refused(run_id: str, wrong: Any) -> None:
    with pytest.raises(ValueError, match="allow_uid"):
        FastLaneReader.attach(run_id, allow_uid=wrong)


@needs_root
def test_a_reader_does_not_follow_its_run_to_another_users_segment(run_id: str) -> None:
    path = segment_path(segment_name("frame", run_id))
    writer = FastLaneWriter.create(run_id, CONFIG)
    with FastLaneReader.attach(run_id) as reader:
        writer.publish(np.zeros(CONFIG.shape, np.uint8))
        assert reader.latest_frame() is not None
        writer.close()
        writer.unlink()

        def squat() -> None:
            squatter = FastLaneWriter.create(run_id, CONFIG)
            squatter.publish(np.ones(CONFIG.shape, np.uint8))
            os.chmod(path, 0o666)
            os.kill(os.getpid(), signal.SIGKILL)

        with pytest.raises(EOFError):
            as_user(SQUATTER, squat)
        assert path.stat().st_uid == SQUATTER
        with pytest.raises(SegmentPermissionDenied, match=f"uid {SQUATTER}"):
            for _ in range(1000):
                frame = reader.latest_frame()
                assert frame is None or not frame.array.any()
                reader.wait(0.05)
    path.unlink()


# --- what is no regular file ----------------------------------------------------------------------


def bind_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


SPECIAL: dict[str, tuple[Callable[[Path], Any], str]] = {
    "symbolic link": (lambda path: path.symlink_to("/dev/shm/elsewhere"), "symbolic link"),
    "link to a file": (lambda path: path.symlink_to(path.with_name("target")), "symbolic link"),
    "FIFO": (os.mkfifo, "FIFO"),
    "directory": (lambda path: path.mkdir(), "directory"),
    "socket": (bind_socket, "socket"),
}


@pytest.fixture
def special(request: pytest.FixtureRequest, run_id: str) -> Iterator[tuple[Path, str]]:
    path = segment_path(segment_name("frame", run_id))
    target = path.with_name("target")
    with FastLaneWriter.create(f"{run_id}-target", CONFIG) as writer:
        target.write_bytes(segment_path(writer.name).read_bytes())
    make, word = SPECIAL[request.param]
    make(path)
    yield path, word
    target.unlink()
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    else:
        path.unlink(missing_ok=True)


@pytest.mark.parametrize("special", SPECIAL, indirect=True)
def test_a_squatted_name_is_refused_with_its_owner_and_the_remedy(
    special: tuple[Path, str], run_id: str
) -> None:
    path, word = special
    for action in (
        lambda: FastLaneReader.attach(run_id),
        lambda: FastLaneWriter.create(run_id, CONFIG),
        lambda: lanekit.reclaim_segment(path.name),
    ):
        with pytest.raises(SegmentPermissionDenied, match=word) as refusal:
            action()
        assert str(path) in str(refusal.value)
        assert "remove" in str(refusal.value)
    if os.geteuid() == 0:
        os.lchown(path, SQUATTER, SQUATTER)
        with pytest.raises(SegmentPermissionDenied, match=f"uid {SQUATTER}"):
            FastLaneWriter.create(run_id, CONFIG)
        with pytest.raises(SegmentPermissionDenied, match="rm "):
            lanekit.reclaim_segment(path.name, force=True)
        os.lchown(path, 0, 0)
    if word != "directory":
        lanekit.reclaim_segment(path.name, force=True)
        assert not path.is_symlink()
        assert not path.exists()
        assert path.with_name("target").exists()  # a link's target is not touched


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_may_write_to_is_refused(run_id: str, mode: int) -> None:
    with FastLaneWriter.create(run_id, CONFIG) as writer:
        path = segment_path(writer.name)
        path.chmod(mode)
        with pytest.raises(SegmentPermissionDenied, match=f"mode {mode:04o}"):
            FastLaneReader.attach(run_id)
        path.chmod(0o644)  # to be read by others is its owner's business
        FastLaneReader.attach(run_id).close()


def test_errors_mean_what_the_builtin_ones_mean(run_id: str) -> None:
    with pytest.raises(FileNotFoundError):
        FastLaneReader.attach(run_id)
    with FastLaneWriter.create(run_id, CONFIG) as writer:
        with pytest.raises(FileExistsError):
            FastLaneWriter.create(run_id, CONFIG)
        segment_path(writer.name).chmod(0o666)
        with pytest.raises(PermissionError):
            FastLaneReader.attach(run_id)
