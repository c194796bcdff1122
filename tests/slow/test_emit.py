"""What a worker prints: whole lines, whatever the values, threads and forks."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
from typing import Any

import numpy as np
import pytest

from lanekit.slow import emit
from lanekit.slow.emit import Emitter
from lanekit.slow.sending.lines import LineParser
from patience import patience


def emitted(*calls: Any) -> list[dict[str, Any]]:
    stream = io.StringIO()
    emitter = Emitter(stream)
    for name, arguments, options in calls:
        getattr(emitter, name)(*arguments, **options)
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_step_says_what_it_was_given_and_nothing_else() -> None:
    (line,) = emitted(("step", (3, 7), {"reward": 0.5, "action": 1, "agent_id": 2}))
    assert line.pop("time_ns") > 10**18
    assert line == {
        "event_type": "step",
        "episode_index": 3,
        "step_index": 7,
        "action": 1,
        "reward": 0.5,
        "agent_id": "2",
    }


def test_numpy_values_of_every_shape_are_taken() -> None:
    info = {"mask": np.array([True, False]), "k": np.int32(4), "deep": {"x": np.float32(0.5)}}
    (line,) = emitted(
        (
            "step",
            (np.int64(1), np.uint8(2)),
            {
                "reward": np.float64(1.5),
                "action": np.array([[1, 2], [3, 4]]),
                "observation": {"image": np.zeros((1, 2), np.uint8)},
                "terminated": np.bool_(True),
                "info": info,
                "seed": np.int64(9),
            },
        )
    )
    assert line["action"] == [[1, 2], [3, 4]]
    assert line["observation"] == {"image": [[0, 0]]}
    assert line["info"] == {"mask": [True, False], "k": 4, "deep": {"x": 0.5}}
    assert (line["terminated"], line["seed"], line["reward"]) == (True, 9, 1.5)


def test_every_call_gives_a_line_that_the_parser_takes() -> None:
    stream = io.StringIO()
    emitter = Emitter(stream)
    emitter.run_started(config={"lr": 1e-3})
    emitter.step(0, 0, action=[1.0], render_hint={"camera": 1}, frame=np.zeros((2, 3, 3), np.uint8))
    emitter.episode(0, episode_return=4.5, length=1, truncated=True, seed=3, info={})
    emitter.heartbeat()
    emitter.event("saved", path="a/b", name_of_model="x")
    emitter.run_failed(ValueError("no"))
    emitter.run_completed()
    parsed = LineParser("r").parse(stream.getvalue().encode())
    assert not parsed.rejected
    assert not parsed.prints
    assert len(parsed.steps) == len(parsed.episodes) == 1
    assert [event.event for event, _ in parsed.events] == [
        *("run_started", "heartbeat", "saved", "run_failed", "run_completed")
    ]
    assert json.loads(bytes(parsed.events[3][0].payload)) == {"error": "ValueError: no"}
    assert parsed.episodes[0][0].episode_return == 4.5


@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 1), (2, 3, 3), (2, 3, 4)])
def test_frames_travel_as_base64(shape: tuple[int, ...]) -> None:
    pixels = np.arange(np.prod(shape), dtype=np.uint8).reshape(shape)
    for frame in (pixels, np.flip(pixels, axis=1), pixels.T.copy().T):
        stream = io.StringIO()
        Emitter(stream).step(0, 0, frame=frame)
        (step,) = LineParser("r").parse(stream.getvalue().encode()).steps
        assert step.frame is not None
        assert (step.frame.height, step.frame.width) == (2, 3)
        assert step.frame.pixels == np.ascontiguousarray(frame).tobytes()


@pytest.mark.parametrize(
    "frame",
    [np.zeros((2, 2), np.float32), np.zeros(4, np.uint8), np.zeros((2, 2, 2), np.uint8), b"abc"],
)
def test_what_is_no_frame_is_refused(frame: Any) -> None:
    with pytest.raises(ValueError, match="a frame"):
        Emitter(io.StringIO()).step(0, 0, frame=frame)


def test_what_json_can_not_hold_is_refused_and_nothing_is_written() -> None:
    stream = io.StringIO()
    with pytest.raises(TypeError, match="object can not be written as JSON"):
        Emitter(stream).step(0, 0, info={"x": object()})
    assert stream.getvalue() == ""


def test_a_reward_that_is_no_number_ends_in_the_reject_file() -> None:
    stream = io.StringIO()
    Emitter(stream).step(0, 0, reward=float("nan"))
    Emitter(stream).step(0, 1, reward=np.float32("inf"), observation=[np.nan])
    Emitter(stream).episode(0, episode_return=-np.inf)
    parsed = LineParser("r").parse(stream.getvalue().encode())
    assert len(parsed.rejected) == 3


def test_numbers_that_are_none_become_null_where_any_value_may_stand() -> None:
    stream = io.StringIO()
    emitter = Emitter(stream)
    observation = {"a": np.array([[1.0, np.inf], [np.nan, 2.5]]), "b": (float("-inf"), "x", True)}
    emitter.step(
        0,
        0,
        reward=0.5,
        observation=observation,
        action=np.float32("nan"),
        info={"loss": np.float64("nan"), 3: {float("inf")}},
        render_hint=[np.float16("inf"), None, 7],
    )
    emitter.episode(0, info={"loss": float("nan")})
    emitter.event("evaluated", score=float("inf"), best=1.5)
    step, episode, event = map(json.loads, stream.getvalue().splitlines())
    assert "NaN" not in stream.getvalue()
    assert "Infinity" not in stream.getvalue()
    assert step["observation"] == {"a": [[1.0, None], [None, 2.5]], "b": [None, "x", True]}
    assert step["action"] is None
    assert step["info"] == {"loss": None, "3": [None]}
    assert step["render_hint"] == [None, None, 7]
    assert episode["info"] == {"loss": None}
    assert event["payload"] == {"score": None, "best": 1.5}
    assert LineParser("r").parse(stream.getvalue().encode()).rejected == []
    endless: list[object] = [float("nan")]
    endless.append(endless)
    with pytest.raises(ValueError, match="Circular"):
        emitter.step(0, 0, observation=endless)


def worker(body: str, **kwargs: Any) -> subprocess.CompletedProcess[bytes]:
    script = "import os, sys, threading\nfrom lanekit.slow import emit\n" + textwrap.dedent(body)
    command = [sys.executable, "-W", "error", "-c", script]
    return subprocess.run(
        command, capture_output=True, timeout=patience(120), check=False, **kwargs
    )


def test_threads_and_forked_children_never_mix_their_lines() -> None:
    done = worker(
        """
        import warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        def work(name, count):
            for i in range(count):
                # Longer than a pipe takes in one piece.
                emit.step(0, i, worker_id=name, observation="x" * (i % 3 * 6000))
        children = []
        threads = [threading.Thread(target=work, args=(f"t{k}", 150)) for k in range(3)]
        for thread in threads:
            thread.start()
        for k in range(3):
            pid = os.fork()
            if pid == 0:
                work(f"c{k}", 150)
                os._exit(0)
            children.append(pid)
        for thread in threads:
            thread.join()
        for pid in children:
            os.waitpid(pid, 0)
        """
    )
    assert done.returncode == 0, done.stderr.decode()
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    seen: dict[str, list[int]] = {}
    for line in lines:
        seen.setdefault(line["worker_id"], []).append(line["step_index"])
    assert {name: len(steps) for name, steps in seen.items()} == {
        name: 150 for name in ("t0", "t1", "t2", "c0", "c1", "c2")
    }
    assert all(steps == sorted(steps) for steps in seen.values())


def test_a_signal_handler_may_emit_in_the_midst_of_any_line() -> None:
    done = worker(
        """
        import itertools, signal
        numbers, steps, heard = itertools.count(), 0, []
        def hear(number, frame):
            mine = next(numbers)  # another signal may come in the midst of this one
            emit.event("heard", number=mine)
            heard.append(mine)
        signal.signal(signal.SIGALRM, hear)
        signal.setitimer(signal.ITIMER_REAL, 0.0002, 0.0002)
        while len(heard) < 3000:
            emit.step(0, steps)
            steps += 1
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        emit.event("counted", heard=len(heard), steps=steps)
        """
    )
    assert done.returncode == 0, done.stderr.decode()
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    counted = lines[-1]["payload"]
    heard = [line["payload"]["number"] for line in lines if line.get("event") == "heard"]
    assert sorted(heard) == list(range(counted["heard"]))
    steps = [line["step_index"] for line in lines if "step_index" in line]
    assert steps == list(range(counted["steps"]))


def test_what_a_handler_emits_before_it_ends_the_program_is_written() -> None:
    class Interrupted(io.StringIO):
        def write(self, text: str) -> int:
            if "step_index" in text:
                signal.raise_signal(signal.SIGALRM)
            return super().write(text)

    def leave(*_: object) -> None:
        emitter.event("asked to leave")
        sys.exit(3)

    stream = Interrupted()
    emitter = Emitter(stream)
    before = signal.signal(signal.SIGALRM, leave)
    try:
        with pytest.raises(SystemExit):
            emitter.step(0, 0)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert json.loads(stream.getvalue())["event"] == "asked to leave"
    emitter.event("again")
    assert len(stream.getvalue().splitlines()) == 2


def test_prints_stay_in_order_with_telemetry() -> None:
    done = worker('print("a", end=" "); emit.event("b"); print("c")')
    first, second = done.stdout.splitlines()
    assert first.startswith(b'a {"event":"b"')
    assert second == b"c"


def test_a_reader_that_left_is_an_ordinary_broken_pipe() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    script = "from lanekit.slow import emit\nemit.event('x')"
    process = subprocess.run(
        [sys.executable, "-c", script], stdout=writer, stderr=subprocess.PIPE, check=False
    )
    os.close(writer)
    assert b"BrokenPipeError" in process.stderr


def test_the_module_functions_follow_a_replaced_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    emit.event("here")
    assert json.loads(capsys.readouterr().out)["event"] == "here"


def test_emit_and_control_import_the_standard_library_only() -> None:
    done = worker(
        """
        import lanekit.slow.control
        heavy = {"grpc", "msgspec", "apsw", "google"} & set(sys.modules)
        print(sorted(heavy))
        """
    )
    assert done.stdout.strip() == b"[]", done.stderr.decode()


def test_many_threads_on_one_text_stream_keep_lines_whole() -> None:
    stream = io.StringIO()
    emitter = Emitter(stream)
    threads = [
        threading.Thread(target=lambda: [emitter.step(0, i) for i in range(300)]) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len([json.loads(line) for line in stream.getvalue().splitlines()]) == 1200
