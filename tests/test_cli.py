"""The `lanekit` command, run as a user runs it."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from lanekit import FastLaneConfig, FastLaneReader, FastLaneWriter, __version__, segment_name
from lanekit.cli import COMMANDS, load
from lanekit.cli.doctor import check_state, missing_of_extras
from lanekit.cli.ls import printable
from lanekit.segments import inspect_segment, segment_path
from patience import patience

CONFIG = FastLaneConfig(width=8, height=4, capacity=4, metadata_size=3)


def lanekit(*arguments: str, status: int = 0, **kwargs: Any) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "lanekit", *arguments],
        capture_output=True,
        text=True,
        timeout=patience(),
        check=False,
        **{"stdin": subprocess.DEVNULL, **kwargs},
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


def row_of(run_id: str) -> dict[str, Any]:
    rows = json.loads(lanekit("ls", "--json"))
    return next(row for row in rows if row.get("run") == run_id)


@pytest.fixture
def orphan(run_id: str) -> str:
    """A segment whose writer was killed."""
    code = (
        "import os, signal, sys; from lanekit import *;"
        "w = FastLaneWriter.create(sys.argv[1], FastLaneConfig(width=8, height=4));"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code, run_id], timeout=patience(), check=False)
    assert done.returncode == -signal.SIGKILL
    return segment_name("frame", run_id)


def test_ls_shows_what_a_run_is_doing(run_id: str) -> None:
    with FastLaneWriter.create(run_id, CONFIG) as writer, FastLaneReader.attach(run_id) as reader:
        for _ in range(5):
            writer.publish(bytes(96))
        reader.latest_frame()
        row = row_of(run_id)
        assert row["name"] == writer.name
        assert row["size"] == CONFIG.segment_size
        assert (row["kind"], row["frames"], row["viewers"]) == ("frame", 5, 1)
        assert (row["owner_pid"], row["owner"]) == (os.getpid(), "alive")
        assert row["geometry"]["pixel_format"] == "RGB"
        assert row["geometry"]["metadata_size"] == 3
        assert row["age_seconds"] >= 0
        text = lanekit("ls")
        line = next(line for line in text.splitlines() if run_id in line)
        assert "8x4 RGB x4" in line
        assert f"{os.getpid()} alive" in line


def test_ls_does_not_count_as_a_viewer(run_id: str) -> None:
    with FastLaneWriter.create(run_id, CONFIG) as writer:
        assert row_of(run_id)["viewers"] == 0
        assert not writer.watched


def test_a_run_id_can_not_disturb_the_terminal() -> None:
    with FastLaneWriter.create("bad\x1b[2Jrun", CONFIG):
        assert "\x1b" not in lanekit("ls")


def test_ls_lists_a_damaged_segment_with_its_problem(run_id: str) -> None:
    path = segment_path(segment_name("frame", run_id))
    path.write_bytes(b"x" * 5000)
    rows = json.loads(lanekit("ls", "--json"))
    row = next(row for row in rows if row["name"] == path.name)
    assert "not a lanekit segment" in row["problem"]
    assert f"? segment {path.name}: exists, but is not a lanekit segment" in lanekit("ls")
    assert "kept" in lanekit("clean")
    assert "removed" in lanekit("clean", "--force", "--yes", path.name)
    assert not path.exists()


@pytest.mark.parametrize(
    ("offset", "word"), [(128, 0), (4096 + 40, 0x40000000), (4096 + 40, 2**63)]
)
def test_ls_and_top_get_over_a_lane_whose_header_or_frame_was_overwritten(
    run_id: str, offset: int, word: int
) -> None:
    with FastLaneWriter.create(run_id, CONFIG) as writer:
        writer.publish(bytes(96))
        with open(segment_path(writer.name), "r+b", buffering=0) as file:
            os.pwrite(file.fileno(), word.to_bytes(8, "little"), offset)
        assert writer.name in lanekit("ls")
        assert json.loads(lanekit("top", "--json", "--interval", "0.01")) is not None
        lanekit("top", "--once", "--interval", "0.01")


def test_clean_removes_what_a_creator_left_half_made(run_id: str) -> None:
    path = segment_path(segment_name("frame", run_id))
    path.write_bytes(bytes(4096))
    assert path.name in lanekit("clean", "--dry-run")
    assert path.exists()
    assert f"removed {path.name}" in lanekit("clean")
    assert not path.exists()


def test_clean_removes_orphans_and_nothing_else(orphan: str) -> None:
    other = f"{orphan}-other"
    with FastLaneWriter.create(other, CONFIG) as writer:
        assert orphan in lanekit("clean", "--dry-run")
        fates = {fate["name"]: fate for fate in json.loads(lanekit("clean", "--dry-run", "--json"))}
        assert fates[orphan]["outcome"] == "would remove"
        assert fates[writer.name]["outcome"] == "kept"
        assert "owned by a live process" in fates[writer.name]["reason"]
        assert segment_path(orphan).exists()
        text = lanekit("clean")
        assert f"removed {orphan}" in text
        assert writer.name not in text
        assert not segment_path(orphan).exists()
        assert segment_path(writer.name).exists()
        assert writer.publish(bytes(96)) == 1


def test_clean_keeps_a_live_owners_segment_unless_forced_and_confirmed(run_id: str) -> None:
    with FastLaneWriter.create(run_id, CONFIG) as writer:
        assert "owned by a live process" in lanekit("clean", writer.name, status=1)
        assert "--force needs the names" in lanekit("clean", "--force", status=2)
        assert "add --yes" in lanekit("clean", "--force", writer.name)
        assert segment_path(writer.name).exists()
        assert answer_on_a_terminal("n", "clean", "--force", writer.name) == 0
        assert segment_path(writer.name).exists()
        assert answer_on_a_terminal("y", "clean", "--force", writer.name) == 0
        assert not segment_path(writer.name).exists()


def answer_on_a_terminal(answer: str, *arguments: str) -> int:
    """Run a command on a pseudo-terminal and answer its question."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-m", "lanekit", *arguments])
    asked = b""
    while b"[y/N]" not in asked:
        asked += os.read(terminal, 1000)
    os.write(terminal, answer.encode() + b"\n")
    try:
        while os.read(terminal, 1000):
            pass
    except OSError:
        pass  # the child closed its end
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    return os.waitstatus_to_exitcode(status)


def test_clean_removes_a_pipe_under_a_segments_name_by_force(run_id: str) -> None:
    path = segment_path(segment_name("frame", run_id))
    os.mkfifo(path)
    lanekit("ls")
    assert "kept" in lanekit("clean", path.name, status=1)
    assert "removed" in lanekit("clean", "--force", "--yes", path.name)
    assert not path.exists()


def test_clean_of_an_unknown_name_says_so() -> None:
    assert "no such segment or run" in lanekit("clean", "lanekit-frame-none-0", status=1)


def test_clean_takes_a_run_as_ls_shows_it(orphan: str) -> None:
    run_of_it = inspect_segment(orphan).run_id
    assert f"would remove {orphan}" in lanekit("clean", "--dry-run", run_of_it)
    refused = lanekit("clean", "--force", "--yes", run_of_it, status=1)
    assert f"`lanekit clean --force {orphan}`" in refused
    assert segment_path(orphan).exists()
    assert f"removed {orphan}" in lanekit("clean", run_of_it)
    assert not segment_path(orphan).exists()


def test_clean_of_a_run_leaves_a_live_owners_segment(run_id: str) -> None:
    with FastLaneWriter.create(run_id, CONFIG) as writer:
        assert f"kept    {writer.name}" in lanekit("clean", run_id, status=1)
        assert segment_path(writer.name).exists()


def test_clean_of_what_several_runs_are_shown_as_removes_none(run_id: str) -> None:
    runs = [run_id + "x" * 40 + end for end in "ab"]
    with (
        FastLaneWriter.create(runs[0], CONFIG) as one,
        FastLaneWriter.create(runs[1], CONFIG) as other,
    ):
        answer = lanekit("clean", printable(runs[0]), status=1)
        assert "several runs are shown so" in answer
        assert one.name in answer
        assert other.name in answer


def test_doctor_finds_this_machine_fit() -> None:
    findings = {f["topic"]: f for f in json.loads(lanekit("doctor", "--json"))}
    for topic in ("python", "core", "atomics", "futex", "/dev/shm", "fast lane"):
        assert findings[topic]["state"] == "ok", findings[topic]
    assert {"extras", "qt platform", "cores", "leftovers"} <= set(findings)
    for finding in findings.values():
        assert finding["state"] == "ok" or finding["remedy"]
    assert "fast lane" in lanekit("doctor")


def test_doctor_says_where_no_run_can_be_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANEKIT_STATE", str(tmp_path / "state"))
    assert "free for recorded runs" in check_state().found
    (tmp_path / "state").write_text("a file")
    finding = check_state()
    assert (finding.state, "can not be written to" in finding.found) == ("note", True)
    assert "LANEKIT_STATE" in finding.remedy


def test_doctor_counts_what_an_extra_takes_of_others() -> None:
    declared = ["none-such; extra == 'a'", "lanekit[a,c]; extra == 'b'", 'numpy>=1; extra == "c"']
    found = missing_of_extras(declared)
    assert found == {"a": ["none-such"], "b": ["none-such"], "c": []}


def test_doctor_offers_no_extras_of_developers() -> None:
    (extras,) = [f for f in json.loads(lanekit("doctor", "--json")) if f["topic"] == "extras"]
    for name in ("slow", "viewer", "web", "all"):
        assert re.search(rf"\b{name}\b", extras["found"])
    for name in ("lint", "docs", "bench", "protocol", "test"):
        assert not re.search(rf"\b{name}\b", extras["found"])


def test_doctor_notices_leftovers(orphan: str) -> None:
    text = lanekit("doctor")
    assert re.search(r"\b1 segment of a dead owner|\d segments of dead owners", text)
    assert "lanekit clean" in text
    lanekit("clean", orphan)


def test_help_and_version_and_misuse() -> None:
    text = lanekit("--help")
    for command in ("demo", "view", "ls", "clean", "doctor"):
        assert command in text
    assert lanekit("--version").strip() == f"lanekit {__version__}"
    assert "invalid choice" in lanekit("frobnicate", status=2)
    lanekit(status=2)


def test_every_command_is_told_in_one_small_phrase() -> None:
    listed = lanekit("--help", env={**os.environ, "COLUMNS": "80"}).splitlines()
    for command in map(load, COMMANDS):
        assert command.HELP[0].islower(), command.NAME
        assert not command.HELP.endswith("."), command.NAME
        row = next(line for line in listed if line.split()[:1] == [command.NAME])
        assert row.endswith(command.HELP), f"{command.NAME}: takes more than one line"


def test_a_commands_own_help_begins_with_a_sentence() -> None:
    assert "\n\nShow a run in a window, in this terminal, or as a picture.\n\n" in lanekit(
        "view", "--help"
    )


def test_output_into_a_closed_pipe_is_no_error(run_id: str) -> None:
    with FastLaneWriter.create(run_id, CONFIG):
        command = f"{sys.executable} -m lanekit ls --json | (exec <&-; sleep 1)"
        done = subprocess.run(
            ["bash", "-c", f"set -o pipefail; {command}"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")


def test_age_grows(run_id: str) -> None:
    with FastLaneWriter.create(run_id, CONFIG):
        first = row_of(run_id)["age_seconds"]
        time.sleep(0.01)
        assert row_of(run_id)["age_seconds"] > first
