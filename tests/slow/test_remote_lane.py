"""Another machine's lane on this one: what local viewers see of it, and what it costs when unseen.

Both machines are this one here; the daemon between them is real.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from daemon_process import DaemonProcess
from picture_worker import PictureWorker

from lanekit import FastLaneFrame, FastLaneReader, errors
from lanekit.segments import segment_names
from lanekit.slow.daemon_client import DaemonClient
from lanekit.slow.remote_lane import RemoteLane, decode, is_published
from lanekit.slow.watched_frames import Picture, Recipe
from patience import patience, until

PNG = Recipe("png")


@pytest.fixture
def run_id() -> str:
    return f"far-{time.time_ns()}"


def frame_where(
    reader: FastLaneReader, condition: Callable[[FastLaneFrame], bool]
) -> FastLaneFrame:
    while True:
        reader.wait(0.1, strategy="block")
        frame = reader.latest_frame(fresh=True)
        if frame is not None and condition(frame):
            return frame


def test_a_viewer_here_sees_what_the_worker_there_published(
    client: DaemonClient, run_id: str, worker: PictureWorker
) -> None:
    with RemoteLane(client, run_id, recipe=PNG) as remote:
        assert remote.local_id == f"{run_id} at {client.target}"
        with FastLaneReader.attach(remote.local_id, timeout=None) as reader:
            frame = frame_where(reader, lambda frame: frame.width == 64)
            n = int(frame.metrics.last_reward)
            assert frame.metrics.rolling_return == 2.0 * n
            assert frame.metadata == b'{"step": %d}' % n
            assert frame.data == bytes([n % 256]) * (64 * 48 * 3)
    assert not [name for name in segment_names() if "at-unix" in name and run_id in name]


def test_nobody_here_means_nothing_is_drawn_there(
    client: DaemonClient, run_id: str, worker: PictureWorker
) -> None:
    with RemoteLane(client, run_id, rate=100) as remote:
        with FastLaneReader.attach(remote.local_id, timeout=None) as reader:
            frame_where(reader, lambda frame: frame.width == 64)
        worker.wait_for("watched")
        worker.wait_for("alone")
        with FastLaneReader.attach(remote.local_id, timeout=None) as reader:
            frame_where(reader, lambda frame: frame.width == 64)
            worker.wait_for("watched")


def test_the_lane_comes_back_with_the_daemon_and_with_the_worker(
    daemon: DaemonProcess, client: DaemonClient, run_id: str, worker: PictureWorker
) -> None:
    with RemoteLane(client, run_id, recipe=PNG) as remote:
        with FastLaneReader.attach(remote.local_id, timeout=None) as reader:
            frame_where(reader, lambda frame: frame.width == 64)
            daemon.kill()
            until(lambda: not reader.connected and bool(remote.problem))
            daemon.start()
            # First the writer: of the one before, the reader may not have seen the last frame yet.
            until(lambda: reader.connected)
            frame_where(reader, lambda frame: frame.width == 64)
            worker.kill()
            until(lambda: reader.latest_frame() is not None and not reader.connected)
            other = PictureWorker(run_id, 20, 10)
            frame_where(reader, lambda frame: (frame.width, frame.height) == (20, 10))
            other.leave()


def test_two_viewers_of_one_machine_do_not_get_in_each_others_way(
    client: DaemonClient, run_id: str, worker: PictureWorker
) -> None:
    with RemoteLane(client, run_id) as first:
        until(lambda: is_published(first.local_id))
        with RemoteLane(client, run_id) as second:
            assert second.local_id != first.local_id
            for remote in (first, second):
                with FastLaneReader.attach(remote.local_id, timeout=None) as reader:
                    frame_where(reader, lambda frame: frame.width == 64)


def test_raw_and_broken_pictures() -> None:
    pixels, pixel_format = decode(Picture(b"\1\2\3\4" * 6, 3, 2, "raw", "BGRX"))
    assert (pixels.shape, pixel_format) == ((2, 3, 4), "BGRX")
    with pytest.raises(errors.DaemonError, match="3x2"):
        decode(Picture(b"123", 3, 2, "raw", "RGB"))
    with pytest.raises(errors.DaemonError, match="none"):
        decode(Picture(b"\xff\xd8 no jpeg", 3, 2, "jpeg", "RGB"))


def view(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "lanekit", "view", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=patience(120), check=False
    )


def test_the_terminal_shows_a_run_of_another_machine(
    daemon: DaemonProcess, run_id: str, worker: PictureWorker
) -> None:
    command = [sys.executable, "-m", "lanekit", "view", "--daemon", daemon.target, "--terminal"]
    with subprocess.Popen([*command, run_id], stdout=subprocess.PIPE, text=True) as viewing:
        assert viewing.stdout is not None
        line = next(line for line in viewing.stdout if "live | reward" in line)
        assert line.startswith(f"run {run_id} at unix")
        viewing.send_signal(signal.SIGTERM)
        viewing.stdout.read()
    worker.wait_for("watched")
    worker.wait_for("alone")


def test_a_snapshot_of_another_machines_run_is_exact(
    daemon: DaemonProcess, run_id: str, worker: PictureWorker, tmp_path: Path
) -> None:
    from PIL import Image

    path = tmp_path / "picture.png"
    done = view("--daemon", daemon.target, "--snapshot", str(path), run_id)
    assert done.returncode == 0, done.stderr
    number = int(done.stdout.split("frame ")[1].split()[0])
    with Image.open(path) as image:
        assert image.size == (64, 48)
        assert image.getextrema() == ((number % 256,) * 2,) * 3


def test_what_can_not_be_shown_is_said(daemon: DaemonProcess, tmp_path: Path) -> None:
    path = str(tmp_path / "x.png")
    missing = view("--daemon", daemon.target, "--snapshot", path, "--wait", "0.1", "no-such-run")
    assert missing.returncode == 1
    assert "nothing publishes run 'no-such-run'" in missing.stderr
    nobody = view("--daemon", f"unix:{tmp_path}/none", "--snapshot", path, "--wait", "1", "x")
    assert nobody.returncode == 1
    assert "no daemon answers" in nobody.stderr
    for done in (missing, nobody):
        assert "Traceback" not in done.stderr
