"""``lanekit run``, typed as a user types it: an installed worker, a daemon that comes by itself."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from training_desk import Desk, finish, started_daemon

from lanekit.slow import local_daemon
from lanekit.slow.daemon_client import DaemonClient
from patience import patience, until

pytest.importorskip("gymnasium")

SLOW_STEPS = ("--steps", "100000", "--set", "pause=0.01")


@pytest.fixture
def desk(short_directory: Path) -> Iterator[Desk]:
    opened = Desk(short_directory)
    yield opened
    opened.close()


@pytest.fixture
def served(desk: Desk) -> Desk:
    """A desk whose daemon runs already."""
    desk.lanekit("run", "--worker", "stepping", "--steps", "1", "--detach")
    return desk


# --- training -------------------------------------------------------------------------------------


def test_a_run_trains_to_completion_and_the_store_has_every_step(desk: Desk) -> None:
    said, complained = desk.lanekit(
        *("run", "--worker", "stepping", "--env", "CartPole-v1", "--steps", "700"),
        *("--seed", "5", "--run", "first", "--set", "note=a b", "--video-mode", "grid"),
    )
    lines = said.splitlines()
    assert lines[0] == "first"
    assert re.fullmatch(
        r"first completed after \S+: 700 steps, \d+ episodes, mean return [\d.]+", lines[-1]
    )
    assert "  watch    lanekit view first\n" in complained
    assert "  details  lanekit show first\n" in complained
    assert "  control  lanekit control first pause\n" in complained
    with desk.store() as store:
        record = store.run("first")
        assert (str(record.state), record.exit_status) == ("completed", 0)
        steps, episodes = store.steps("first"), store.episodes("first")
        assert len(steps) == 700
        ended = int((steps.terminated | steps.truncated).sum())
        assert len(episodes) == ended > 0
        assert f"{ended:,} episodes" in lines[-1]
        mean = float(episodes.episode_return[-100:].mean())
        assert float(lines[-1].split()[-1]) == pytest.approx(mean, abs=0.01)
    assert record.config == {
        "run_id": "first",
        "seed": 5,
        "env_id": "CartPole-v1",
        "total_steps": 700,
        "pause": 0.0,
        "fail_at": None,
        "stubborn": False,
        "note": "a b",
    }
    (environment,) = desk.payloads("first", "environment")
    assert environment["MOSAIC_FASTLANE_VIDEO_MODE"] == "grid"


def test_a_run_without_a_name_gets_one_that_tells_its_worker(desk: Desk) -> None:
    said, complained = desk.lanekit("run", "--worker", "stepping", "--video-mode", "off")
    run_id = said.splitlines()[0]
    assert re.fullmatch(r"stepping-\d{8}-\d{6}-[0-9a-f]{6}", run_id)
    assert desk.state_of(run_id) == "completed"
    assert "lanekit view" not in complained


def test_options_come_from_a_file_and_the_command_line_overrides_them(desk: Desk) -> None:
    file = desk.directory / "options.json"
    file.write_text(json.dumps({"run_id": "filed", "total_steps": 9, "seed": 1, "note": "x"}))
    desk.lanekit("run", "--worker", "stepping", "--config", file, "--seed", "2", "--set", "note=7e")
    with desk.store() as store:
        config = store.run("filed").config
    assert (config["total_steps"], config["seed"], config["note"]) == (9, 2, "7e")


def test_a_workers_environment_is_the_callers_and_not_that_of_who_started_the_daemon(
    desk: Desk,
) -> None:
    arguments = ("run", "--worker", "stepping", "--steps", "1", "--run")
    desk.lanekit(*arguments, "one", STEPPING_DEVICE="1")
    desk.lanekit(*arguments, "two", STEPPING_KEY="2", MOSAIC_FASTLANE_GRID_LIMIT="9")
    (one,), (two,) = (desk.payloads(run_id, "environment") for run_id in ("one", "two"))
    assert one["STEPPING_DEVICE"] == "1"
    assert "STEPPING_DEVICE" not in two
    assert two["STEPPING_KEY"] == "2"
    assert (one["MOSAIC_FASTLANE_GRID_LIMIT"], two["MOSAIC_FASTLANE_GRID_LIMIT"]) == ("4", "9")
    assert one["MOSAIC_FASTLANE_VIDEO_MODE"] == "single"


def test_a_worker_that_stores_no_steps_tells_how_far_it_is_by_heartbeats(desk: Desk) -> None:
    said, _ = desk.lanekit(
        "run", "--worker", "stepping", "--steps", "40", "--run", "fast", MOSAIC_FASTLANE_ONLY="1"
    )
    assert re.search(r"^completed  100%  40/40 steps", said, re.MULTILINE)
    assert re.search(r"^fast completed after \S+: 40 steps, 0 episodes$", said, re.MULTILINE)
    with desk.store() as store:
        assert store.run("fast").steps == 0
    said, _ = desk.lanekit("show", "fast")
    assert re.search(r"^  steps +40 made, none recorded one by one$", said, re.MULTILINE)
    said, _ = desk.lanekit("runs")
    assert re.search(r"^fast  completed .*  40  +0  +-$", said, re.MULTILINE)
    (row,) = json.loads(desk.lanekit("runs", "--json")[0])
    assert (row["steps"], row["reported_steps"]) == (0, 40)


def test_a_worker_that_fails_is_shown_with_the_end_of_its_stderr(desk: Desk) -> None:
    said, complained = desk.lanekit(
        "run", "--worker", "stepping", "--run", "broken", "--set", "fail_at=20", status=1
    )
    assert said.splitlines()[-1].startswith("broken failed after ")
    assert "20 steps" in said.splitlines()[-1]
    assert "the pole is broken" in said.splitlines()[-1]
    assert re.search(r"the end of its stderr, \S+/worker\.err:\n  Traceback", complained)
    assert "RuntimeError: the pole is broken" in complained
    assert "\x1b" not in said + complained
    shown, _ = desk.start("show", "broken").communicate(timeout=patience())
    assert re.search(r"^  the end of its stderr, \S+/worker\.err:\n    Traceback", shown, re.M)
    assert "    RuntimeError: the pole is broken" in shown
    (worker,) = json.loads(desk.lanekit("show", "broken", "--json")[0])["workers"]
    assert "the pole is broken" in Path(worker["stderr_file"]).read_text()


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--set", "total_stepz=5"], "Config has no 'total_stepz'; did you mean total_steps?"),
        (["--set", "pause=fast"], "pause is float, not 'fast'"),
        (["--set", "pause=NaN"], "pause is float, not 'NaN'"),
        (["--set", "pause=1e999"], "pause is inf"),
        (["--set", "pause"], "--set takes KEY=VALUE, got 'pause'"),
        (["--seed", "1", "--set", "seed=2"], "seed is given twice"),
        (["--steps", "0"], "total_steps is at least 1, not 0"),
        (["--run", "a b"], "a run id is 1 to 128 letters"),
        (["--slot", "-1"], "fastlane_slot must not be negative"),
        (["--store", "mine.db"], "--store: only with --cluster; a daemon of this machine has its"),
        (["--cpus", "3", "--node", "n"], "--cpus, --node: only with --cluster"),
        (["--config", "missing.json"], "missing.json: No such file or directory"),
        (["--config", "list.json"], "list.json holds no JSON object, but list"),
        (["--config", "site/stepping_worker.py"], "holds no JSON:"),
    ],
)
def test_bad_options_are_refused_before_anything_is_started(
    desk: Desk, options: list[str], message: str
) -> None:
    (desk.directory / "list.json").write_text("[1]")
    said, complained = desk.lanekit("run", "--worker", "stepping", *options, status=2)
    assert said == ""
    assert complained.startswith("lanekit run: ")
    assert message in complained
    assert not desk.state.exists()


def test_an_unknown_worker_is_refused_with_the_nearest_name(desk: Desk) -> None:
    _, complained = desk.lanekit("run", "--worker", "steping", status=1)
    assert complained == (
        "lanekit: no worker named 'steping' is installed; did you mean stepping?\n"
    )
    assert not desk.state.exists()


def test_a_run_id_that_is_taken_is_refused(served: Desk) -> None:
    arguments = ("run", "--worker", "stepping", "--steps", "1", "--run", "same")
    served.lanekit(*arguments)
    said, complained = served.lanekit(*arguments, status=1)
    assert said == ""
    assert "same" in complained
    assert "exists" in complained


def test_without_the_slow_extra_the_command_names_it(desk: Desk) -> None:
    code = "import sys; sys.modules['grpc'] = None; from lanekit.cli import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", code, "run", "--worker", "stepping"],
        env={**os.environ, **desk.environment},
        capture_output=True,
        text=True,
        timeout=patience(),
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("lanekit: this command needs lanekit's slow lane")
    assert "pip install 'lanekit[slow]'" in done.stderr
    assert not desk.state.exists()


# --- the daemon -----------------------------------------------------------------------------------


def test_a_daemon_is_started_when_none_runs_and_left_running_for_the_next(desk: Desk) -> None:
    _, complained = desk.lanekit("run", "--worker", "stepping", "--steps", "5")
    pid = started_daemon(complained)
    assert f"its log is {desk.log}\n" in complained
    assert [daemon.pid for daemon in desk.daemons()] == [pid]
    assert os.getsid(pid) == pid
    _, complained = desk.lanekit("run", "--worker", "stepping", "--steps", "5")
    assert "started a daemon" not in complained
    assert [daemon.pid for daemon in desk.daemons()] == [pid]


def test_two_commands_at_the_same_moment_end_with_one_daemon_and_two_runs(desk: Desk) -> None:
    both = [
        desk.start("run", "--worker", "stepping", "--run", run_id) for run_id in ("left", "right")
    ]
    complaints = [finish(process, 0)[1] for process in both]
    assert sum("started a daemon" in complained for complained in complaints) == 1
    assert len(desk.daemons()) == 1
    assert [desk.state_of(run_id) for run_id in ("left", "right")] == ["completed", "completed"]


def test_a_daemon_that_is_started_by_hand_at_that_moment_is_as_good(desk: Desk) -> None:
    by_hand = desk.start("daemon", "--socket", desk.socket)
    desk.lanekit("run", "--worker", "stepping", "--run", "one")
    assert desk.state_of("one") == "completed"
    # Whichever was quicker is the one that stays.
    until(lambda: len(desk.daemons()) == 1)
    (daemon,) = desk.daemons()
    assert (daemon.pid == by_hand.pid) == (by_hand.poll() is None)


def test_a_daemon_is_started_with_the_token_that_its_callers_have(desk: Desk) -> None:
    token = desk.directory / "token"
    token.write_text("0123456789abcdef" * 2)
    token.chmod(0o600)
    arguments = ("run", "--worker", "stepping", "--steps", "5")
    _, complained = desk.lanekit(*arguments, "--run", "one", "--token-file", token)
    assert f"lanekit control one pause --token-file {token}\n" in complained
    _, complained = desk.lanekit(*arguments, status=1)
    assert "token" in complained


def test_the_hints_name_the_daemon_that_the_caller_named(served: Desk) -> None:
    target = f"unix:{served.socket}"
    _, complained = served.lanekit(
        "run", "--worker", "stepping", "--steps", "5", "--run", "one", "--daemon", target
    )
    assert f"lanekit control one pause --daemon {target}\n" in complained


def test_a_daemon_that_can_not_start_is_shown_with_the_end_of_its_log(desk: Desk) -> None:
    desk.state.mkdir()
    desk.log.write_text("what another one said before\n")
    (desk.state / "lanekit.db").write_text("Dear Ada, " * 1000)
    said, complained = desk.lanekit("run", "--worker", "stepping", status=1)
    assert said == ""
    assert f"the daemon ended with status 1; its log {desk.log} says:\n  " in complained
    assert "lanekit.db is not a sound" in complained
    assert "what another one said before" not in complained


def test_a_daemon_that_has_no_room_even_for_its_log_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert local_daemon._why_silent(tmp_path) == ["nothing"]
    full = shutil.disk_usage(tmp_path)._replace(free=4096)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: full)
    (words,) = local_daemon._why_silent(tmp_path)
    assert words.startswith(f"the disk of {tmp_path} is full: `df -h ")
    assert "LANEKIT_STATE=DIR" in words


def test_a_place_where_nothing_can_be_written_is_named_with_the_way_to_another(desk: Desk) -> None:
    desk.state.write_text("a file")
    _, complained = desk.lanekit("run", "--worker", "stepping", status=1)
    assert complained.startswith(
        f"lanekit: no daemon runs, and none can be started: {desk.state}: File exists; "
        "LANEKIT_STATE=DIR names another place"
    )


@pytest.mark.parametrize("named_by", ["option", "option with a path", "variable"])
def test_a_daemon_that_was_named_is_never_started(desk: Desk, named_by: str) -> None:
    elsewhere = "127.0.0.1:9"
    options: dict[str, tuple[list[str], dict[str, str]]] = {
        "option": (["--daemon", elsewhere], {}),
        "option with a path": (["--daemon", f"unix:{desk.directory}/other.sock"], {}),
        "variable": ([], {"LANEKIT_DAEMON": elsewhere}),
    }
    arguments, environment = options[named_by]
    _, complained = desk.lanekit(
        "run", "--worker", "stepping", "--insecure-loopback", *arguments, status=1, **environment
    )
    assert "no daemon answers at " in complained
    assert not desk.state.exists()


def test_a_run_is_followed_across_a_new_daemon(desk: Desk) -> None:
    following = desk.start("run", "--worker", "stepping", *SLOW_STEPS, "--run", "long")
    desk.until_it_steps("long")
    (daemon,) = desk.daemons()
    daemon.kill()
    assert following.stderr is not None
    said = ""
    while "no daemon answers any more" not in said:
        line = following.stderr.readline()
        assert line, said
        said += line
    desk.lanekit("run", "--worker", "stepping", "--steps", "1")
    desk.lanekit("control", "long", "stop")
    said, _ = finish(following, 0)
    assert said.splitlines()[-1].startswith("long stopped after ")
    with desk.store() as store:
        (done,) = desk.payloads("long", "run_completed")
        assert len(store.steps("long")) == done["steps"]


def test_a_run_that_nobody_can_stop_is_left_alone(desk: Desk) -> None:
    following = desk.start("run", "--worker", "stepping", *SLOW_STEPS, "--run", "long")
    desk.until_it_steps("long")
    (daemon,) = desk.daemons()
    daemon.kill()
    following.send_signal(signal.SIGINT)
    _, complained = finish(following, 130)
    assert "no daemon answers at " in complained
    assert complained.endswith("; the run goes on\n")
    (spool,) = (desk.state / "spool").glob("long-*/")
    worker = psutil.Process(json.loads((spool / "worker.json").read_text())["pid"])
    assert worker.status() != psutil.STATUS_ZOMBIE


def test_detached_the_run_is_left_to_the_daemon_and_only_its_id_is_printed(desk: Desk) -> None:
    said, complained = desk.lanekit("run", "--worker", "stepping", "--detach", "--steps", "50")
    run_id = said.removesuffix("\n")
    assert "\n" not in run_id
    assert f"lanekit view {run_id}\n" in complained
    until(lambda: desk.state_of(run_id) == "completed")


# --- a terminal, and other people's commands ------------------------------------------------------


def test_pause_resume_and_stop_reach_the_worker_and_show_in_the_bar(served: Desk) -> None:
    with served.terminal("run", "--worker", "stepping", *SLOW_STEPS, "--run", "long") as terminal:
        terminal.read_until_text("running")
        terminal.read_until(lambda: b"/s" in terminal.output, "a rate")
        served.lanekit("control", "long", "pause")
        terminal.read_until_text("paused")
        with DaemonClient(f"unix:{served.socket}") as client:
            until(lambda: client.run("long").steps > 0)
            paused_at = client.run("long").steps
            served.lanekit("control", "long", "resume")
            terminal.read_until(
                lambda: terminal.output.rfind(b"running") > terminal.output.rfind(b"paused"),
                "running again",
            )
            until(lambda: client.run("long").steps > paused_at)
        served.lanekit("control", "long", "stop")
        terminal.finish()
        assert terminal.process.returncode == 0
        assert "long stopped after " in terminal.screen.text
    actions = [payload["action"] for payload in served.payloads("long", "control_applied")]
    assert actions == ["pause", "resume", "stop"]


def test_the_bar_tells_share_steps_rate_returns_and_the_time_that_is_left(served: Desk) -> None:
    with served.terminal(
        *("run", "--worker", "stepping", "--steps", "600", "--set", "pause=0.005"), columns=120
    ) as terminal:
        pattern = re.compile(
            r"running [█░]{8,40}  ?\d+%  \d+/600  [\d.,]+/s  return [\d.]+  mean [\d.]+  "
            r"\d:\d\d  \d:\d\d left"
        )
        plain = re.compile("\x1b\\[[0-9;]*m")
        terminal.read_until(
            lambda: bool(pattern.search(plain.sub("", terminal.output.decode("utf-8", "ignore")))),
            "a whole bar",
        )
        terminal.finish()
        assert terminal.process.returncode == 0
    # The bar is written over itself, and stays once at the end.
    _, bars, summary, rest = plain.sub("", terminal.output.decode()).split("\r\n")
    assert bars.split("\r")[-1].startswith(f"completed {'█' * 40} 100%  600/600  return ")
    assert " completed after " in summary
    assert rest == ""


def test_without_a_terminal_there_are_lines_and_no_escapes(served: Desk) -> None:
    said, complained = served.lanekit("run", "--worker", "stepping", "--steps", "300")
    assert "\x1b" not in said + complained
    assert "\r" not in said + complained
    lines = said.splitlines()
    assert re.fullmatch(r"completed  100%  300/300 steps  return .*elapsed", lines[-2])
    states = [line.split()[0] for line in lines[1:-1]]
    assert states == sorted(set(states), key=states.index), "one line for each state"


def test_ctrl_c_stops_the_run_politely(served: Desk) -> None:
    with served.terminal("run", "--worker", "stepping", *SLOW_STEPS, "--run", "long") as terminal:
        terminal.read_until_text("running")
        terminal.press("\x03")
        complained = terminal.finish()
        assert terminal.process.returncode == 130
        assert "stopping long; Ctrl-C again ends it by force\n" in complained
        assert "long stopped after " in terminal.screen.text
    (done,) = served.payloads("long", "run_completed")
    assert done["status"] == "stopped"
    with served.store() as store:
        assert len(store.steps("long")) == done["steps"]
    assert len(served.daemons()) == 1


def test_ctrl_c_twice_ends_a_run_that_does_not_listen(served: Desk) -> None:
    with served.terminal(
        *("run", "--worker", "stepping", *SLOW_STEPS, "--run", "deaf", "--set", "stubborn=true")
    ) as terminal:
        terminal.read_until_text("running")
        with served.store() as store:
            worker = json.loads(
                (Path(store.run("deaf").senders[0].spool_directory) / "worker.json").read_text()
            )["pid"]
        terminal.press("\x03")
        terminal.read_until(lambda: "stopping deaf" in terminal.complaints(), "the first answer")
        until(lambda: served.payloads("deaf", "control_applied"))
        assert terminal.process.poll() is None
        terminal.press("\x03")
        complained = terminal.finish()
        assert terminal.process.returncode == 130
        assert "ending deaf by force\n" in complained
        assert "deaf cancelled after " in terminal.screen.text
    until(lambda: not psutil.pid_exists(worker))


def test_sigterm_stops_the_run_as_ctrl_c_does(served: Desk) -> None:
    following = served.start("run", "--worker", "stepping", *SLOW_STEPS, "--run", "long")
    served.until_it_steps("long")
    following.send_signal(signal.SIGTERM)
    said, _ = finish(following, 128 + signal.SIGTERM)
    assert said.splitlines()[-1].startswith("long stopped after ")


def test_a_run_goes_on_when_the_terminal_is_closed(served: Desk) -> None:
    following = served.start("run", "--worker", "stepping", *SLOW_STEPS, "--run", "long")
    served.until_it_steps("long")
    following.send_signal(signal.SIGHUP)
    finish(following, -signal.SIGHUP)
    with DaemonClient(f"unix:{served.socket}") as client:
        steps = client.run("long").steps
        until(lambda: client.run("long").steps > steps)
    assert served.state_of("long") == "running"
