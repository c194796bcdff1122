"""SIGKILL, at any instant: nothing but the dying producer's unfinished record is missing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import lanekit
from lanekit import TrajectoryReader, inspect_trajectory_lane
from patience import patience

pytestmark = pytest.mark.once  # the core does the work, whatever the Python

SMALL = {"tokens": "int32[:]", "score": "float32"}


def run_campaign(root: Path, *options: str) -> tuple[int, int]:
    """Run a campaign in a process that has one thread, so that it may fork."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.trajectory.trajectory_campaign", *options],
        cwd=root,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "CAMPAIGN_SECONDS": "250"},
        capture_output=True,
        text=True,
        timeout=patience(280),
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    compared, kills = re.findall(r"(\d+) (?:records compared|kills)", done.stdout)
    return int(compared), int(kills)


def test_four_producers_at_full_speed_lose_and_repeat_nothing(root: Path) -> None:
    compared, _ = run_campaign(root, "--records", "10000")
    assert compared == 40_000


def test_killed_producers_lose_only_what_they_had_not_finished(root: Path) -> None:
    compared, kills = run_campaign(root, "--kills", "60", "--records", "3000", "--seed", "1")
    assert kills == 60
    assert compared > 0


def test_killed_consumers_are_followed_and_nothing_comes_twice(root: Path) -> None:
    compared, kills = run_campaign(
        root, "--kills", "20", "--consumer-kills", "30", "--records", "3000", "--seed", "2"
    )
    assert kills == 50
    assert compared > 0


@pytest.mark.parametrize("end", ["kill", "terminate"])
def test_a_killed_consumer_leaves_its_lane_and_a_terminated_one_ends_it(
    lane: str, end: str
) -> None:
    code = f"""
import lanekit, time
reader = lanekit.TrajectoryReader.create({lane!r}, {SMALL!r}, producers=1)
record = reader.get()
print("got", flush=True)
time.sleep(1000)
"""
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        with lanekit.TrajectoryWriter.attach(lane, timeout=patience(120)) as writer:
            assert writer.put({"tokens": [1, 2], "score": 1.0}) == 1
            assert process.stdout.readline() == "got\n"
            getattr(process, end)()
            process.wait(timeout=patience())
            if end == "terminate":
                with pytest.raises(lanekit.PeerLost):
                    writer.put({"tokens": [1], "score": 1.0})
                with pytest.raises(lanekit.SegmentNotFound):
                    inspect_trajectory_lane(lane)
                return
            assert inspect_trajectory_lane(lane).consumer == "dead"
            assert writer.put({"tokens": [3], "score": 1.0}) == 2
            with TrajectoryReader.create(lane, SMALL) as reader:
                assert reader.taken_over
                batch = reader.get_batch(2, timeout=patience())
                assert [record["tokens"].tolist() for record in batch] == [[1, 2], [3]]


def test_a_lane_without_consumer_is_said_after_its_absence(lane: str) -> None:
    reader = TrajectoryReader.create(lane, SMALL, producers=1, ring_bytes=4096)
    record = {"tokens": [1] * 100, "score": 1.0}
    with lanekit.TrajectoryWriter.attach(lane, absence=3600) as patient:
        reader.leave()
        while patient.put(record, timeout=0):
            pass
        assert patient.put(record, timeout=0.2) == 0  # no room, and not yet an absence
    with lanekit.TrajectoryWriter.attach(lane, absence=0.05) as writer:
        with pytest.raises(lanekit.PeerLost):
            while True:
                writer.put(record)
    TrajectoryReader.create(lane, SMALL).close()
