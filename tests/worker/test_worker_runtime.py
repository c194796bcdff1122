"""What surrounds a training: what it tells, and how it ends, in real processes."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest
from small_trainings import Config, counts
from training_process import TRAININGS, Start

from lanekit.slow.emit import Emitter
from lanekit.worker import WorkerRuntime
from patience import patience

ALWAYS = 10**9


def names(events: list[dict[str, Any]]) -> list[str]:
    return [event["event"] for event in events]


def test_a_run_tells_its_start_its_progress_and_its_end(start: Start) -> None:
    run = start("counts", total_steps=200, seed=4)
    events, errors = run.finish()
    assert (run.returncode, errors) == (0, "a-run: completed\n")
    assert names(events)[0] == "run_started"
    assert events[0]["payload"] == {"run_id": "a-run", "seed": 4, "total_steps": 200}
    assert set(names(events)[1:-1]) == {"heartbeat"}
    assert events[-2]["payload"] == {"step": 200, "total_steps": 200, "twice": 400}
    assert names(events)[-1] == "run_completed"
    summary = events[-1]["payload"]
    assert (summary["status"], summary["counted"]) == ("completed", 200)
    assert summary["seconds"] >= 0.2


def test_the_shortest_run_has_a_heartbeat(start: Start) -> None:
    events, _ = start("counts", total_steps=1, variables={"QUICK_BEATS": ""}).finish()
    assert "heartbeat" in names(events)


def test_a_failure_is_told_with_its_reason(start: Start) -> None:
    run = start("fails")
    events, errors = run.finish()
    assert run.returncode == 1
    assert names(events)[-1] == "run_failed"
    assert events[-1]["payload"]["error"] == "RuntimeError: the cart fell over"
    assert "Traceback" in errors
    assert errors.endswith("a-run: failed\n")


def test_a_training_that_exits_has_not_completed(start: Start) -> None:
    run = start("exits")
    events, _ = run.finish()
    assert (run.returncode, names(events)[-1]) == (1, "run_failed")


def test_sigterm_ends_a_training_at_its_next_question(start: Start) -> None:
    run = start("counts", total_steps=ALWAYS)
    run.read_event("heartbeat")
    run.terminate()
    events, errors = run.finish()
    assert (run.returncode, errors) == (0, "a-run: stopped\n")
    assert events[-1]["payload"]["status"] == "stopped"
    assert events[-1]["payload"]["counted"] > 0


def test_sigterm_interrupts_a_training_that_never_asks(start: Start) -> None:
    run = start("never_asks")
    run.read_event("deaf")
    run.terminate()
    events, errors = run.finish()
    assert run.returncode == 0
    assert "did not ask keep_going()" in errors
    assert events[-1]["event"] == "run_completed"
    assert events[-1]["payload"]["status"] == "stopped"
    assert events[-1]["payload"]["interrupted"] is True


def test_a_second_sigterm_is_not_made_to_wait(start: Start) -> None:
    run = start("never_asks", variables={"QUICK_BEATS": ""})
    run.read_event("deaf")
    while run.poll() is None:  # the first may not have been taken yet when the second comes
        run.terminate()
        try:
            run.wait(0.2)
        except subprocess.TimeoutExpired:
            continue
    events, _ = run.finish()
    assert events[-1]["payload"]["status"] == "stopped"


def test_ctrl_c_is_a_stop_and_shows_no_traceback(start: Start) -> None:
    run = start("waits_for_sigint")
    run.read_event("here")
    run.send_signal(signal.SIGINT)
    events, errors = run.finish()
    assert (run.returncode, errors) == (130, "a-run: stopped by Ctrl-C\n")
    assert names(events)[-1] == "run_completed"
    assert events[-1]["payload"]["status"] == "stopped"


def test_a_forked_process_can_be_terminated(start: Start) -> None:
    events, _ = start("forks").finish()
    assert events[-1]["payload"]["exitcode"] == -signal.SIGTERM
    assert events[-1]["payload"]["asked"] is False


class Control:
    """The pipe for commands that a proxy makes."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "control.fifo"
        os.mkfifo(self.path)
        self._file = os.open(self.path, os.O_RDWR)
        self.variables = {"LANEKIT_CONTROL_FIFO": str(self.path)}
        self._number = 0

    def send(self, action: str) -> None:
        self._number += 1
        line = json.dumps({"command_id": self._number, "action": action})
        os.write(self._file, f"{line}\n".encode())

    def close(self) -> None:
        os.close(self._file)


@pytest.fixture
def control(tmp_path: Path) -> Any:
    opened = Control(tmp_path)
    yield opened
    opened.close()


def test_a_run_pauses_resumes_and_stops_as_it_is_told(start: Start, control: Control) -> None:
    run = start("counts", total_steps=ALWAYS, variables=control.variables)
    run.read_event("heartbeat")
    control.send("pause")
    assert run.read_event("control_applied")["action"] == "pause"
    run.read_event("heartbeat")
    steps = {run.read_event("heartbeat")["step"] for _ in range(4)}
    assert len(steps) == 1, "it goes on while it is paused"
    control.send("resume")
    assert run.read_event("control_applied")["action"] == "resume"
    while run.read_event("heartbeat")["step"] in steps:
        pass
    control.send("stop")
    events, _ = run.finish()
    assert run.returncode == 0
    assert events[-1]["payload"]["status"] == "stopped"


def test_sigterm_ends_a_pause(start: Start, control: Control) -> None:
    run = start("counts", total_steps=ALWAYS, variables={**control.variables, "QUICK_BEATS": ""})
    control.send("pause")
    run.read_event("control_applied")
    run.terminate()
    events, _ = run.finish()
    assert run.returncode == 0
    assert events[-1]["payload"]["status"] == "stopped"
    assert "interrupted" not in events[-1]["payload"]


def test_a_pause_asked_for_before_the_training_began_holds_it_at_once(
    start: Start, control: Control
) -> None:
    control.send("pause")
    run = start("counts", total_steps=ALWAYS, variables=control.variables)
    run.read_event("control_applied")
    assert run.read_event("heartbeat")["step"] == 0
    control.send("stop")
    events, _ = run.finish()
    assert events[-1]["payload"]["counted"] == 0


def test_a_control_pipe_that_is_gone_does_not_keep_a_run_from_training(
    start: Start, tmp_path: Path
) -> None:
    run = start("counts", variables={"LANEKIT_CONTROL_FIFO": str(tmp_path / "gone")})
    _, errors = run.finish()
    assert run.returncode == 0
    assert "LANEKIT_CONTROL_FIFO" in errors
    assert "a-run: completed" in errors


def test_training_goes_on_when_the_reader_of_its_output_is_gone(start: Start) -> None:
    run = start("loses_its_reader")
    assert run.stdout is not None
    run.stdout.readline()
    run.stdout.close()
    assert run.stderr is not None
    errors = run.stderr.read()
    assert run.wait(patience()) == 0, errors
    assert errors.count("training goes on without it") == 1
    assert "trained on after True" in errors
    assert errors.endswith("a-run: completed\n")


def test_a_full_disk_behind_its_output_does_not_end_a_training(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text('{"run_id": "a-run"}')
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, str(TRAININGS), "counts", "--config", str(config)],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=patience(),
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert "No space left on device" in done.stderr
    assert done.stderr.endswith("a-run: completed\n")


def test_a_result_that_is_no_mapping_is_a_failure_in_clear_words(start: Start) -> None:
    events, _ = start("returns_a_number").finish()
    assert events[-1]["payload"]["error"] == (
        "TypeError: train() returns a mapping or None, not int"
    )


def test_a_result_that_can_not_be_told_does_not_undo_the_training(start: Start) -> None:
    run = start("returns_an_object")
    events, errors = run.finish()
    assert run.returncode == 0
    assert "can not be told: object can not be written as JSON" in errors
    assert names(events)[-1] == "run_completed"
    assert events[-1]["payload"]["status"] == "completed"


def test_progress_that_can_not_be_told_costs_its_numbers_only(start: Start) -> None:
    run = start("tells_an_object")
    events, errors = run.finish()
    assert run.returncode == 0
    assert events[-2]["payload"] == {"step": 3}
    assert errors.count("can not be told") == 1


# --- within this process --------------------------------------------------------------------------


@dataclass(kw_only=True)
class TerminatedEarly(Config):
    """SIGTERM comes while the run is being told of, before the training begins."""

    def to_dict(self) -> dict[str, Any]:
        signal.raise_signal(signal.SIGTERM)
        return super().to_dict()


class Counting(WorkerRuntime[Config]):
    def train(self) -> Mapping[str, Any]:
        return counts(self)  # type: ignore[arg-type]


def test_sigterm_before_the_training_began_is_not_forgotten() -> None:
    before = signal.getsignal(signal.SIGTERM)
    told = io.StringIO()
    run = Counting(TerminatedEarly(run_id="a", total_steps=ALWAYS), telemetry=Emitter(told))
    assert run.run() == {"seconds": ANY, "counted": 0, "status": "stopped"}
    assert names([json.loads(line) for line in told.getvalue().splitlines()]) == [
        *("run_started", "heartbeat", "run_completed")
    ]
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_run_in_a_thread_leaves_signals_alone() -> None:
    before = signal.getsignal(signal.SIGTERM)
    seen = []

    class Looking(Counting):
        def train(self) -> Mapping[str, Any]:
            seen.append(signal.getsignal(signal.SIGTERM))
            return super().train()

    run = Looking(Config(run_id="a", total_steps=3), telemetry=Emitter(io.StringIO()))
    with ThreadPoolExecutor() as pool:
        assert pool.submit(run.run).result(patience())["status"] == "completed"
    assert seen == [before]
