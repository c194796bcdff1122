"""The command line of a worker: its configuration, its exit status, its way to a daemon."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from training_process import TRAININGS, Start

from lanekit.worker.reporting import without_daemon_options
from patience import patience


def worker(*options: str, status: int, **variables: str) -> str:
    done = subprocess.run(
        [sys.executable, str(TRAININGS), "counts", *options],
        capture_output=True,
        text=True,
        timeout=patience(),
        env={**os.environ, **variables},
        check=False,
    )
    assert done.returncode == status, done.stderr
    return done.stderr if status else done.stdout


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not JSON: Expecting property name"),
        ("[1]", "the configuration is a JSON object, not list"),
        ('{"run_id": "a", "stpes": 1}', "Config has no 'stpes'"),
        ('{"run_id": "a", "total_steps": NaN}', "total_steps is int, not nan"),
        ("{}", "missing: run_id"),
        ("\xff", "not JSON"),
    ],
)
def test_a_bad_configuration_is_refused_in_one_line(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "config.json"
    file.write_text(text, encoding="utf-8")
    said = worker("--config", str(file), status=2)
    assert said.startswith(f"small_trainings: {file}: ")
    assert words in said
    assert len(said.splitlines()) == 1


def test_a_file_that_is_missing_or_binary_is_refused(tmp_path: Path) -> None:
    missing = tmp_path / "none.json"
    assert f"{missing}: No such file or directory" in worker("--config", str(missing), status=2)
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    assert "can't decode" in worker("--config", str(tmp_path / "binary"), status=2)


def test_without_a_configuration_it_says_which_option_to_give() -> None:
    assert "give --config FILE" in worker(status=2)


def test_the_configuration_may_come_from_the_environment() -> None:
    output = worker(status=0, LANEKIT_CONFIG_JSON='{"run_id": "from-there", "total_steps": 3}')
    assert json.loads(output.splitlines()[0])["payload"]["run_id"] == "from-there"


def test_the_launcher_names_the_run(start: Start) -> None:
    run = start("counts", variables={"LANEKIT_RUN_ID": "the-launchers"})
    events, errors = run.finish()
    assert events[0]["payload"]["run_id"] == "the-launchers"
    assert "run id 'the-launchers' instead of 'a-run'" in errors


def test_the_daemons_options_are_left_out_when_it_starts_again() -> None:
    command = (
        "w.py --grpc --config c --grpc-target h:1 --tls-ca=x --token-file t --insecure-loopback"
    )
    assert without_daemon_options(command.split()) == ["w.py", "--config", "c"]
    assert without_daemon_options(["--grpc-target", "--grpc", "x"]) == ["x"]


# --- with --grpc ----------------------------------------------------------------------------------


@pytest.fixture
def state() -> Iterator[Path]:
    """A place for the slow lane's files, with a name that is short enough for a socket."""
    pytest.importorskip("grpc")
    with tempfile.TemporaryDirectory(prefix="lk-") as directory:
        yield Path(directory)


@pytest.fixture
def daemon(state: Path) -> Iterator[dict[str, str]]:
    """A daemon; the variables with which others find it."""
    variables = {"LANEKIT_STATE": str(state), "LANEKIT_DAEMON": f"unix:{state / 'd.sock'}"}
    command = [sys.executable, "-m", "lanekit", "daemon", "--socket", str(state / "d.sock")]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, **variables}
    )
    assert process.stdout is not None
    assert process.stdout.readline().startswith("listening on")
    yield variables
    process.terminate()
    process.communicate(timeout=patience())


def recorded(variables: dict[str, str]) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "lanekit", "runs", "--json"],
        capture_output=True,
        text=True,
        timeout=patience(),
        env={**os.environ, **variables},
        check=True,
    )
    (run,) = json.loads(done.stdout)
    assert isinstance(run, dict)
    return run


def test_with_grpc_the_daemon_records_the_run(start: Start, daemon: dict[str, str]) -> None:
    run = start("counts", "--grpc", variables=daemon)
    _, errors = run.communicate(timeout=patience())
    assert run.returncode == 0, errors
    record = recorded(daemon)
    assert (record["run_id"], record["state"]) == ("a-run", "completed")
    assert record["events"] >= 3


def test_with_grpc_a_failure_is_the_exit_status(start: Start, daemon: dict[str, str]) -> None:
    run = start("fails", "--grpc", "--grpc-target", daemon["LANEKIT_DAEMON"], variables=daemon)
    _, errors = run.communicate(timeout=patience())
    assert run.returncode == 1, errors
    assert recorded(daemon)["state"] == "failed"


def test_without_a_daemon_training_goes_on_and_the_warning_says_what_to_do(
    start: Start, state: Path
) -> None:
    variables = {"LANEKIT_STATE": str(state), "LANEKIT_DAEMON": f"unix:{state / 'd.sock'}"}
    run = start("counts", "--grpc", variables=variables)
    _, errors = run.communicate(timeout=patience())
    assert errors.count("training goes on") == 1
    assert "`lanekit daemon` starts one" in errors
    (spool,) = (state / "spool").iterdir()
    assert (spool / "worker.err").read_text().endswith("a-run: completed\n")
    assert run.returncode == 75  # what the proxy says when it keeps telemetry for later
    assert "lanekit proxy --adopt" in errors


def test_under_a_proxy_grpc_starts_no_second_one(start: Start) -> None:
    run = start("counts", "--grpc", variables={"LANEKIT_TELEMETRY_FIFO": "/dev/null"})
    events, errors = run.finish()
    assert "a proxy has started this worker already" in errors
    assert events[-1]["event"] == "run_completed"


def test_an_address_that_is_none_is_a_misuse(start: Start) -> None:
    pytest.importorskip("grpc")
    run = start("counts", "--grpc", "--grpc-target", "nowhere")
    _, errors = run.communicate(timeout=patience())
    assert run.returncode == 2
    assert "'nowhere' is no daemon's address" in errors


def test_without_the_slow_lane_training_goes_on_and_the_warning_names_the_extra(
    start: Start, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\nsys.modules['grpc'] = None\n"  # as if it were not installed
    )
    run = start("counts", "--grpc", variables={"PYTHONPATH": str(tmp_path)})
    events, errors = run.finish()
    assert "pip install 'lanekit[slow]'" in errors
    assert events[-1]["event"] == "run_completed"


def test_sigterm_reaches_the_worker_through_its_proxy(start: Start, daemon: dict[str, str]) -> None:
    run = start("counts", "--grpc", total_steps=10**9, variables=daemon)
    spools = Path(daemon["LANEKIT_STATE"]) / "spool"
    while not list(spools.glob("*/worker.json")) or not recorded_events(daemon):
        assert run.poll() is None
    run.send_signal(signal.SIGTERM)
    _, errors = run.communicate(timeout=patience())
    assert run.returncode == 0, errors
    (spool,) = spools.glob("a-run-*")
    assert (spool / "worker.err").read_text().endswith("a-run: stopped\n")


def recorded_events(variables: dict[str, str]) -> int:
    done = subprocess.run(
        [sys.executable, "-m", "lanekit", "runs", "--json"],
        capture_output=True,
        text=True,
        timeout=patience(),
        env={**os.environ, **variables},
        check=False,
    )
    return sum(run["events"] for run in json.loads(done.stdout or "[]"))
