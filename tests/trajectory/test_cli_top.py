"""`lanekit top` and `lanekit ls` see trajectory lanes and fast lanes."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from lanekit import FastLaneConfig, FastLaneWriter, TrajectoryReader, TrajectoryWriter
from lanekit.cli.top import cut
from patience import patience
from pseudo_terminal import Terminal

SMALL = {"tokens": "int32[:]", "score": "float32"}
TOP = [sys.executable, "-m", "lanekit", "top", "--interval", "0.05"]


@pytest.fixture
def busy_lane(lane: str) -> Iterator[str]:
    """A lane with a producer and a consumer at work, and one producer that waits."""
    stop = threading.Event()
    with (
        TrajectoryReader.create(lane, SMALL, producers=3, ring_bytes=4096) as reader,
        TrajectoryWriter.attach(lane) as writer,
    ):

        def work() -> None:
            while not stop.wait(0.001):
                writer.put({"tokens": [1] * 100, "score": 1.0}, timeout=0)
                record = reader.try_get()
                if record is not None:
                    record.release()

        thread = threading.Thread(target=work)
        thread.start()
        yield lane
        stop.set()
        thread.join()


def printed(*options: str) -> str:
    done = subprocess.run(
        [*TOP, *options], capture_output=True, text=True, timeout=patience(120), check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def lane_in(lanes: list[dict[str, Any]], lane: str) -> dict[str, Any]:
    (found,) = [entry for entry in lanes if entry["run"] == lane]
    return found


def test_json_has_rates_and_every_producer(busy_lane: str) -> None:
    found = lane_in(json.loads(printed("--json")), busy_lane)
    while not found["per_second"]:  # on a crowded machine nothing may be put between two looks
        found = lane_in(json.loads(printed("--json")), busy_lane)
    assert (found["kind"], found["unit"], found["places"]) == ("traj", "records", 3)
    assert found["owner_pid"] == os.getpid()
    assert found["bytes_per_second"] > found["per_second"] * 400
    assert [producer["pid"] for producer in found["producers"]] == [os.getpid()]
    assert found["peers"] == 1


def test_the_table_shows_frames_and_records(busy_lane: str, run_id: str) -> None:
    with FastLaneWriter.create(run_id, FastLaneConfig(8, 8, capacity=2)) as writer:
        writer.publish(np.zeros((8, 8, 3), np.uint8))
        lines = printed("--once").splitlines()
        assert lines[0].split()[:4] == ["RUN", "KIND", "RATE", "MB/S"]
        (row,) = [line for line in lines if line.startswith(busy_lane[:30])]
        assert " traj " in row
        assert "1/3" in row
        assert " records " in row
        (row,) = [line for line in lines if line.startswith(run_id[:30])]
        assert "1 frames" in row


def test_what_is_no_terminal_gets_plain_tables_until_it_leaves(busy_lane: str) -> None:
    with subprocess.Popen(TOP, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        rows: list[str] = []
        while sum(busy_lane[:30] in row for row in rows) < 2:  # among however many other lanes
            rows.append(process.stdout.readline())
            assert rows[-1], "it has ended"
        assert not any("\x1b" in row for row in rows)
        process.stdout.close()
        assert process.wait(timeout=patience()) == 0


def test_a_terminal_is_drawn_on_and_given_back(busy_lane: str) -> None:
    main, side = pty.openpty()
    with subprocess.Popen(
        TOP, stdout=side, stderr=side, env={**os.environ, "TERM": "xterm", "COLUMNS": "200"}
    ) as process:
        os.close(side)
        seen = b""
        while busy_lane[:30].encode() not in seen:
            seen += os.read(main, 65536)
        process.send_signal(signal.SIGINT)
        while select.select([main], [], [], patience())[0]:
            try:
                more = os.read(main, 65536)
            except OSError:
                break
            seen += more
            if not more:
                break
        assert process.wait(timeout=patience()) == 130
        os.close(main)
    assert seen.startswith(b"\x1b[?1049h")
    assert seen.endswith(b"\x1b[?25h\x1b[?1049l")


def test_a_dumb_terminal_gets_plain_tables_and_no_escape_codes(busy_lane: str) -> None:
    with Terminal(*TOP, columns=200, TERM="dumb") as terminal:
        row = busy_lane[:30].encode()
        terminal.read_until(lambda: terminal.output.count(row) > 1, "two tables")
        terminal.press("\x03")
        assert terminal.finish() == ""
        assert terminal.process.returncode == 130
        assert b"\x1b" not in terminal.output


def test_a_line_is_cut_at_the_edge_and_its_colour_closed() -> None:
    assert cut("abcdef", 3) == "abc"
    assert cut("\x1b[1mabcdef\x1b[0m", 3) == "\x1b[1mabc\x1b[0m"


def test_an_impossible_interval_is_misuse() -> None:
    done = subprocess.run(
        [*TOP[:4], "--interval", "0"],
        capture_output=True,
        text=True,
        timeout=patience(120),
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "--interval" in done.stderr


def test_ls_lists_trajectory_lanes(busy_lane: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "lanekit", "ls", "--json"],
        capture_output=True,
        text=True,
        timeout=patience(120),
        check=True,
    )
    found = lane_in([e for e in json.loads(done.stdout) if "run" in e], busy_lane)
    assert found["problem"] is None
    assert found["schema"] == {"tokens": "int32[:]", "score": "float32"}
    assert (found["rings"], found["producers"]) == (3, 1)
