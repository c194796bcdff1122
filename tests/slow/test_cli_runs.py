"""``lanekit runs``, ``show`` and ``export``, run as a user runs them."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import apsw
import pytest
from daemon_process import DaemonProcess, publish_steps
from recorded_runs import BEGIN, SECOND, Recording, open_store, write_training_run

from lanekit.cli import quantities
from lanekit.cli.columns import columns, width_of
from lanekit.slow.batches import events_batch
from lanekit.slow.proto import telemetry_pb2 as pb

sys.path.insert(0, str(Path(__file__).parent.parent))

from patience import patience
from pseudo_terminal import Terminal


def lanekit(*arguments: str | Path, status: int = 0, **kwargs: Any) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "lanekit", *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=patience(),
        check=False,
        **kwargs,
    )
    assert done.returncode == status, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "runs.db"
    write_training_run(path)
    now = time.time_ns()
    with open_store(path) as opened:
        live = Recording(opened, "ppo-ant", worker="left hand")
        live.event("run_started", None, now - 3700 * SECOND)
        live.steps(pb.Step(step=i, reward=i % 2) for i in range(1234))
        opened.touch_stream("ppo-ant", "s1", rejected=3)
        crashed = Recording(opened, "crashed")
        crashed.event("run_started", None, BEGIN)
        crashed.event("run_failed", {"error": "out of \x1b[31mmemory"}, BEGIN + 90 * SECOND)
        opened.create_run("hidden")
        opened.archive_run("hidden", True)
    return path


def row_of(text: str, run_id: str) -> list[str]:
    line = next(line for line in text.splitlines() if line.startswith(run_id))
    return re.split(r"\s{2,}", line)


# --- runs -----------------------------------------------------------------------------------------


def test_runs_lists_the_newest_first_in_columns(store: Path) -> None:
    text = lanekit("runs", "--store", store)
    lines = text.splitlines()
    assert [line.split()[0] for line in lines] == ["RUN", "crashed", "ppo-ant", "cartpole-7"]
    assert row_of(text, "cartpole-7")[1] == "completed"
    assert row_of(text, "cartpole-7")[3:] == ["3.0s", "300", "6", "10.50"]
    assert row_of(text, "ppo-ant")[3:] == ["1h 01m", "1,234", "0", "-", "3 rejected lines"]
    assert row_of(text, "crashed")[1] == "failed"
    assert row_of(text, "crashed")[-1].startswith("out of ")
    assert "\x1b" not in text
    # Words begin, and numbers end, in the same column.
    assert lines[0].index("STATE") == lines[1].index("failed") == lines[3].index("completed")
    assert lines[0].index("STEPS") + 5 == lines[2].index("1,234") + 5 == lines[3].index(" 300") + 4


def test_archived_runs_are_shown_when_asked_for(store: Path) -> None:
    assert "hidden" not in lanekit("runs", "--store", store)
    assert row_of(lanekit("runs", "--all", "--store", store), "hidden")[-1] == "archived"


def test_runs_speaks_json(store: Path) -> None:
    rows = {row["run_id"]: row for row in json.loads(lanekit("runs", "--json", "--store", store))}
    assert set(rows) == {"crashed", "ppo-ant", "cartpole-7"}
    row = rows["cartpole-7"]
    assert (row["state"], row["steps"], row["episodes"]) == ("completed", 300, 6)
    assert row["seconds"] == 3.0
    assert row["recent_return"] == pytest.approx(10.5)
    assert row["command"] == ["python", "train.py"]
    assert row["config"] == {"lr": 0.5}
    assert rows["ppo-ant"]["ended_ns"] is None
    assert rows["crashed"]["reason"] == "out of \x1b[31mmemory"


def test_without_a_store_the_commands_say_how_to_get_one(tmp_path: Path) -> None:
    missing = tmp_path / "nothing.db"
    for arguments in (
        ["runs"],
        ["show", "r"],
        ["replay", "r"],
        ["export", "r", "--to", "csv"],
    ):
        text = lanekit(*arguments, "--store", missing, status=1)
        assert text.startswith(f"lanekit: there is no store at {missing}")
        assert "`lanekit demo`" in text
    assert list(tmp_path.iterdir()) == []


def test_a_store_without_runs_says_how_to_start_one(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with open_store(path):
        pass
    assert "`lanekit demo` records one" in lanekit("runs", "--store", path)
    assert lanekit("runs", "--json", "--store", path) == "[]\n"
    with open_store(path) as opened:
        opened.create_run("old")
        opened.archive_run("old", True)
    assert "no runs here but 1 archived" in lanekit("runs", "--store", path)


def test_the_usual_store_is_used_when_none_is_named(store: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    for file in tmp_path.glob("runs.db*"):
        file.rename(state / file.name.replace("runs.db", "lanekit.db"))
    environment = {"LANEKIT_STATE": str(state), "PATH": "/usr/bin"}
    assert "cartpole-7" in lanekit("runs", env=environment)


def test_a_file_that_is_no_store_is_a_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "letter.txt"
    path.write_text("Dear Ada, " * 1000)
    assert f"damaged: {path} is not a sound" in lanekit("runs", "--store", path, status=1)


def test_colours_come_on_a_terminal_only_and_not_with_no_color(store: Path) -> None:
    command = [sys.executable, "-m", "lanekit", "runs", "--store", str(store)]
    with Terminal(*command, columns=120) as terminal:
        assert terminal.finish() == ""
        assert b"\x1b[31mfailed\x1b[0m" in terminal.output
    for name, value in (("NO_COLOR", "1"), ("TERM", "dumb")):
        with Terminal(*command, columns=120, **{name: value}) as terminal:
            assert terminal.finish() == ""
            assert b"\x1b" not in terminal.output


def test_a_run_is_archived_through_the_daemon(daemon: DaemonProcess) -> None:
    with daemon.connect() as stub:
        publish_steps(stub, "r", 10)
    store = daemon.store
    assert "r" in lanekit("runs", "--store", store)
    text = lanekit("runs", "--archive", "r", "--daemon", daemon.target)
    assert text == "r: archived; its data stays\n"
    assert "no runs here but 1 archived" in lanekit("runs", "--store", store)
    lanekit("runs", "--unarchive", "r", "--daemon", daemon.target)
    assert row_of(lanekit("runs", "--store", store), "r")[4] == "10"
    assert "no-such-run" in lanekit(
        "runs", "--archive", "no-such-run", "--daemon", daemon.target, status=1
    )


def test_archiving_without_a_daemon_is_a_clear_error(tmp_path: Path) -> None:
    target = f"unix:{tmp_path}/no.sock"
    text = lanekit("runs", "--archive", "r", "--daemon", target, status=1)
    assert "no daemon answers" in text


# --- show -----------------------------------------------------------------------------------------


def test_show_tells_state_counts_returns_events_and_workers(store: Path) -> None:
    text = lanekit("show", "cartpole-7", "--store", store)
    lines = text.splitlines()
    assert lines[0] == "cartpole-7  completed"
    pairs = dict(re.findall(r"^  (\w+) +(.*)$", text, re.MULTILINE))
    assert pairs["duration"] == "3.0s  (100 steps/s)"
    assert pairs["command"] == "python train.py"
    assert (pairs["steps"], pairs["episodes"], pairs["events"]) == ("300", "6", "4")
    assert pairs["exit"] == "0"
    blue = next(line for line in lines if line.startswith("blue"))
    assert re.split(r"\s{2,}", blue) == ["blue", "21", "11", "21", "50", "3 episodes", "▁▅█"]
    assert [line.split()[2] for line in lines if "w0" in line and ":" in line] == [
        "run_started",
        "checkpoint",
        "run_completed",
        "worker_exited",
    ]
    assert "4242" in lines[-1]
    assert "/var/spool/w0" in lines[-1]


def test_show_of_a_run_without_episodes_tells_its_rewards(store: Path) -> None:
    text = lanekit("show", "ppo-ant", "--store", store)
    assert "last 1,000 rewarded steps" in text
    assert "rejected  3 lines, kept in /var/spool/w0/rejects.jsonl\n" in text
    assert "left hand" in text


def test_show_can_not_disturb_the_terminal(store: Path) -> None:
    text = lanekit("show", "crashed", "--store", store)
    assert "\x1b" not in text
    assert "out of \ufffd[31mmemory" in text


def test_show_copes_with_whatever_a_worker_wrote(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    nested = '{"a":' + "[" * 700 + "]" * 700 + "}"
    with open_store(path) as opened:
        run = Recording(opened, "r")
        for number, payload in enumerate([b'{"loss": 1e400}', b"{}", b'{"last": "\xc3\xa9"}'], 1):
            event = pb.RunEvent(name=f"event-{number}", payload_json=payload)
            run.append(
                events_batch(
                    pb.PublishRunEventsRequest(
                        run_id="r", stream_id="s1", first_seq=number, events=[event]
                    )
                )
            )
    with contextlib.closing(apsw.Connection(str(path))) as connection:  # from an older version
        connection.execute("UPDATE events SET payload = ? WHERE payload = '{}'", (nested,))
    text = lanekit("show", "r", "--store", path)
    assert '{"loss": null}' in text
    assert '{"last": "é"}' in text
    document = json.loads(lanekit("show", "r", "--json", "--store", path))
    assert [event["name"] for event in document["last_events"]] == ["event-1", "event-2", "event-3"]
    assert document["last_events"][0]["payload"] == {"loss": None}


def test_show_names_how_a_worker_ended_and_not_the_daemon_among_the_workers(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with open_store(path) as opened:
        run = Recording(opened, "r")
        opened.register_stream("r", "daemon", "daemon", 4343, "host", "", aside=True)
        run.event("worker_exited", {"status": 1})
    text = lanekit("show", "r", "--store", path)
    assert re.search(r"^  exit +1$", text, re.MULTILINE)
    assert "4242" in text
    assert "4343" not in text
    document = json.loads(lanekit("show", "r", "--json", "--store", path))
    assert [worker["stream_id"] for worker in document["workers"]] == ["s1"]
    assert document["reject_files"] == []


def test_show_leaves_heartbeats_out_of_the_log(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with open_store(path) as opened:
        run = Recording(opened, "r")
        run.event("run_started")
        run.event("saved")
        for _ in range(30):
            run.event("heartbeat")
    lines = lanekit("show", "r", "--store", path).splitlines()
    assert any("saved" in line for line in lines)
    assert any(line == "(30 more, with the heartbeats)" for line in lines)


def test_show_speaks_json(store: Path) -> None:
    document = json.loads(lanekit("show", "cartpole-7", "--json", "--store", store))
    assert document["run_id"] == "cartpole-7"
    assert [agent["agent_id"] for agent in document["agents"]] == ["blue", "red"]
    assert document["agents"][1] == {
        "agent_id": "red",
        "of": "episodes",
        "count": 3,
        "last": 20.0,
        "mean": 10.0,
        "best": 20.0,
        "mean_length": 50.0,
    }
    assert document["last_events"][0]["payload"] == {"pid": 4242}
    assert document["workers"][0]["pid"] == 4242


def test_an_unknown_run_names_those_that_are_meant_perhaps(store: Path) -> None:
    for command in (["show"], ["replay"], ["export", "--to", "csv"]):
        text = lanekit(*command, "cartpol-7", "--store", store, status=1)
        assert text == (f"lanekit: no run 'cartpol-7' in {store}; did you mean 'cartpole-7'?\n")
    assert "did you mean 'ppo-ant'?" in lanekit("show", "ANT", "--store", store, status=1)
    far = lanekit("show", "xyzzy", "--store", store, status=1)
    assert "`lanekit runs --all` lists what there is" in far
    assert 'no run "\'; DROP TABLE runs; --"' in lanekit(
        "show", "'; DROP TABLE runs; --", "--store", store, status=1
    )


# --- export ---------------------------------------------------------------------------------------


def test_export_says_what_it_wrote_and_where(store: Path, tmp_path: Path) -> None:
    text = lanekit("export", "cartpole-7", "--to", "csv", "--store", store, cwd=tmp_path)
    assert text.startswith("cartpole-7-csv: 300 steps, 6 episodes, 4 events; ")
    again = lanekit("export", "cartpole-7", "--to", "csv", "--store", store, cwd=tmp_path, status=1)
    assert "cartpole-7-csv exists already; --force" in again
    lanekit("export", "cartpole-7", "--to", "csv", "--force", "--store", store, cwd=tmp_path)
    board = lanekit(
        "export", "cartpole-7", "--to", "tensorboard", "--out", "tb", "--store", store, cwd=tmp_path
    )
    assert "look at it with: tensorboard --logdir tb" in board


def test_an_unknown_format_is_a_misuse_that_lists_them(store: Path) -> None:
    text = lanekit("export", "cartpole-7", "--to", "xls", "--store", store, status=2)
    for name in ("parquet", "csv", "jsonl", "tensorboard", "wandb-offline"):
        assert name in text


def test_the_formats_of_the_command_are_those_of_the_library() -> None:
    from lanekit.cli import export
    from lanekit.slow.export.run_export import FORMATS

    assert tuple(FORMATS) == export.FORMATS


# --- words ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0ms"),
        (0.34, "340ms"),
        (0.9999, "1.0s"),
        (12.52, "12.5s"),
        (59.94, "59.9s"),
        (59.96, "1m 00s"),
        (3599.6, "1h 00m"),
        (3840, "1h 04m"),
        (90000, "1d 01h"),
        (-5, "?"),
        (float("nan"), "?"),
    ],
)
def test_durations_are_written_as_people_read_them(seconds: float, text: str) -> None:
    assert quantities.duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (21.0, "21"), (10.5, "10.50"), (12345.6, "12,346"), (1e9, "1e+09"), (-0.5, "-0.50")],
)
def test_numbers_are_written_with_the_digits_that_matter(value: float, text: str) -> None:
    assert quantities.number(value) == text


def test_no_time_is_too_strange_to_print() -> None:
    for time_ns in (0, -(2**63), 2**63 - 1, BEGIN):
        assert quantities.moment(time_ns)
        assert quantities.ago(time_ns)
    assert quantities.clock(3723) == "1:02:03"
    assert quantities.clock(63) == "1:03"


def test_columns_align_wide_and_coloured_cells() -> None:
    lines = columns([["a", "1"], ["日本", "10"], ["\x1b[1mbold\x1b[0m", "100"]], right={1})
    assert {width_of(line) for line in lines} == {9}
    assert columns([]) == []
