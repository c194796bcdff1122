"""The demo's processes: a training and a viewer that come and go cleanly."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lanekit import (
    FastLaneConfig,
    FastLaneFrame,
    FastLaneReader,
    FastLaneWriter,
    inspect_segment,
    segment_name,
)
from lanekit.cli import main
from lanekit.cli.demo_runs import without_tracebacks
from patience import patience, until
from pseudo_terminal import Terminal


@pytest.fixture
def run_id() -> Iterator[str]:
    """A run of this test's own, which must have left nothing behind when the test ends."""
    slug = f"demo-{uuid.uuid4().hex[:12]}"
    yield slug
    assert left_behind(slug) == []


def left_behind(slug: str) -> list[str]:
    return [name for name in os.listdir("/dev/shm") if name.startswith("lanekit") and slug in name]


@contextmanager
def training(run_id: str, **options: object) -> Iterator[subprocess.Popen[str]]:
    """A worker without a daemon, which trains for as long as it is let."""
    config = {"run_id": run_id, "total_steps": 0, "num_envs": 4, **options}
    with subprocess.Popen(
        (sys.executable, "-m", "lanekit.demo.worker"),
        env={**os.environ, "LANEKIT_CONFIG_JSON": json.dumps(config)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.terminate()


def demo(run_id: str, *options: str) -> tuple[str, ...]:
    """The demo as the base install has it."""
    command = (sys.executable, "-m", "lanekit", "demo", "--no-record", "--view", "terminal")
    return (*command, "--run-id", run_id, *options)


def trainer_pid(run_id: str) -> int:
    return inspect_segment(segment_name("frame", run_id)).owner_pid


# --- the training process -------------------------------------------------------------------------


def test_nobody_watching_means_no_frames_but_all_of_the_learning(run_id: str) -> None:
    with (
        training(run_id),
        FastLaneReader.attach(run_id, timeout=patience(), lease=0.0) as reader,
    ):
        until(lambda: reader.metrics().rolling_return > 30, "a return above 30")
        assert reader.metrics().step_rate_hz > 0
        assert reader.latest_frame() is None


def test_a_viewer_gets_moving_pictures_with_the_numbers_of_the_run(run_id: str) -> None:
    with training(run_id), FastLaneReader.attach(run_id, timeout=patience()) as reader:
        frames: list[FastLaneFrame] = []
        while len(frames) < 30:
            assert reader.wait(patience())
            frame = reader.latest_frame(fresh=True)
            assert frame is not None
            frames.append(frame)
    assert len({frame.data for frame in frames}) > 20
    notes = json.loads(frames[-1].metadata or b"")
    assert notes["episode"] > 0
    assert notes["best"] > 0
    assert notes["policy"] == "learning"
    assert frames[-1].metrics.rolling_return > 0
    assert frames[-1].metrics.step_rate_hz > 0
    assert {frame.metrics.last_reward for frame in frames} <= {0.0, 1.0}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_training_quietly(run_id: str, number: signal.Signals) -> None:
    with training(run_id) as process, FastLaneReader.attach(run_id, timeout=patience()) as reader:
        assert reader.wait(patience())
        process.send_signal(number)
        assert process.wait(patience()) == (130 if number == signal.SIGINT else 0)
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()
        assert not reader.connected


def test_the_training_ends_by_itself_when_its_steps_are_done(run_id: str) -> None:
    with training(run_id, total_steps=2000) as process:
        assert process.wait(patience()) == 0


def test_the_training_does_not_outlive_the_process_that_wanted_it(run_id: str) -> None:
    with subprocess.Popen(("sleep", "600")) as parent:
        with training(run_id, parent=parent.pid) as process:
            until(lambda: left_behind(run_id) != [], "the lane")
            assert process.poll() is None
            parent.kill()
            parent.wait()
            assert process.wait(patience()) == 0


def test_a_run_that_is_taken_is_refused(run_id: str) -> None:
    with FastLaneWriter.create(run_id, FastLaneConfig(8, 8)), training(run_id) as process:
        assert process.wait(patience()) == 1
        assert process.stderr is not None
        complaint = process.stderr.read()
    assert f"process {os.getpid()}" in complaint


def test_of_a_traceback_only_what_failed_is_told() -> None:
    said = ["before", "  Traceback (most recent call last):", '    File "x.py"', "      f()"]
    said += ["  ValueError: it is so", "after"]
    assert without_tracebacks(said) == ["before", "  ValueError: it is so", "after"]


# --- the whole demo -------------------------------------------------------------------------------


def test_the_demo_shows_a_moving_picture_and_its_numbers(run_id: str) -> None:
    with Terminal(*demo(run_id)) as terminal:
        terminal.read_until(lambda: len(terminal.screen.picture) == 80 * 20, "a picture")
        terminal.read_until_text("episode 2")
        for words in (
            f"run {run_id}",
            "live",
            "reward",
            "return",
            "step/s",
            "fps",
            "age",
            "skipped",
            "best",
            "policy learning",
        ):
            assert words in terminal.screen.text
        for _ in range(3):
            terminal.read_until_picture_differs(terminal.screen.picture)
        terminal.press("q")
        assert "Traceback" not in terminal.finish()
        assert terminal.process.returncode == 0
        terminal.assert_restored()
        farewell = terminal.output.decode().rpartition("\x1b[?1049l")[2]
        assert f"run '{run_id}' is over" in farewell
        assert "frames shown, nothing recorded" in farewell
        assert "try next:" in farewell
        assert "lanekit workers" in farewell


def default_demo(run_id: str) -> subprocess.Popen[str]:
    """Start the demo as without a run id, where the usual one would be ``run_id``."""
    script = (
        "import sys\n"
        "from lanekit.cli import demo_runs, main\n"
        f"demo_runs.RUN_ID = {run_id!r}\n"
        "sys.exit(main(['demo', '--no-record', '--view', 'terminal', '--seconds', '0.5']))\n"
    )
    pipe = subprocess.PIPE
    return subprocess.Popen((sys.executable, "-c", script), stdout=pipe, stderr=pipe, text=True)


def test_a_second_demo_takes_a_run_id_of_its_own_and_says_so(run_id: str) -> None:
    with FastLaneWriter.create(run_id, FastLaneConfig(8, 8)), default_demo(run_id) as second:
        shown, said = second.communicate(timeout=patience())
    assert second.returncode == 0
    assert f"process {os.getpid()} publishes run {run_id!r}" in said
    assert f"this is run '{run_id}-{second.pid}'" in said
    assert f"run '{run_id}-{second.pid}' is over" in shown


def test_the_run_id_of_a_demo_that_was_killed_is_free_again(run_id: str) -> None:
    with training(run_id) as killed, FastLaneReader.attach(run_id, timeout=patience()):
        killed.kill()
        killed.wait()
    with default_demo(run_id) as second:
        shown, said = second.communicate(timeout=patience())
    assert second.returncode == 0
    assert "publishes run" not in said
    assert f"run {run_id!r} is over" in shown


@pytest.mark.parametrize("seed", ["-1", "half", ""])
def test_a_seed_that_no_generator_takes_is_misuse(
    seed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["demo", "--seed", seed])
    assert f"argument --seed: must be a whole number and not negative, got {seed}" in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize("key", ["\x03", "q"])
def test_a_key_ends_the_demo_and_leaves_nothing_behind(run_id: str, key: str) -> None:
    with Terminal(*demo(run_id)) as terminal:
        terminal.read_until(lambda: bool(terminal.screen.picture), "a picture")
        assert left_behind(run_id) != []
        terminal.press(key)
        assert "Traceback" not in terminal.finish()
        assert terminal.process.returncode == 0
        terminal.assert_restored()
        assert left_behind(run_id) == []


def test_sigterm_ends_the_demo_and_its_training(run_id: str) -> None:
    with Terminal(*demo(run_id)) as terminal:
        terminal.read_until(lambda: bool(terminal.screen.picture), "a picture")
        pid = trainer_pid(run_id)
        terminal.process.terminate()
        assert "Traceback" not in terminal.finish()
        assert terminal.process.returncode == 0
        terminal.assert_restored()
        assert not os.path.exists(f"/proc/{pid}")


def test_a_demo_that_is_killed_takes_its_training_with_it(run_id: str) -> None:
    with Terminal(*demo(run_id)) as terminal:
        terminal.read_until(lambda: bool(terminal.screen.picture), "a picture")
        terminal.process.kill()
        until(lambda: left_behind(run_id) == [], "the end of the training")


def test_a_training_process_that_is_killed_is_noticed(run_id: str) -> None:
    with Terminal(*demo(run_id)) as terminal:
        terminal.read_until(lambda: bool(terminal.screen.picture), "a picture")
        os.kill(trainer_pid(run_id), signal.SIGKILL)
        assert "the training process ended with status -9" in terminal.finish()
        assert terminal.process.returncode == 1
        terminal.assert_restored()


def test_a_training_process_that_hangs_is_killed_and_tidied_up_after(run_id: str) -> None:
    with Terminal(*demo(run_id)) as terminal:
        terminal.read_until(lambda: bool(terminal.screen.picture), "a picture")
        pid = trainer_pid(run_id)
        os.kill(pid, signal.SIGSTOP)
        terminal.press("\x03")
        assert "Traceback" not in terminal.finish()
        assert terminal.process.returncode == 0
        assert not os.path.exists(f"/proc/{pid}")


def test_a_training_process_that_can_not_start_says_why(run_id: str) -> None:
    with (
        FastLaneWriter.create(run_id, FastLaneConfig(8, 8)),
        Terminal(*demo(run_id)) as terminal,
    ):
        complaint = terminal.finish()
        assert "the training process ended with status 1" in complaint
        assert f"{os.getpid()}" in complaint
        assert "Traceback" not in complaint
        assert terminal.process.returncode == 1
        terminal.assert_restored()
        assert left_behind(run_id) != [], "the other writer's segment is not ours to remove"


def test_the_demo_prints_plain_lines_into_a_pipe(run_id: str) -> None:
    with subprocess.Popen(
        demo(run_id), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            if f"run {run_id}: live | reward" in line:
                process.send_signal(signal.SIGINT)
    assert process.returncode == 0
    assert "\x1b" not in "".join(lines)
    assert "nothing recorded" in "".join(lines)
