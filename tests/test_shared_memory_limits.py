"""A /dev/shm that is full, tiny, read-only or not there: a clear error, nothing left behind."""

from __future__ import annotations

import errno
import os
import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import lanekit
from lanekit.cli import main
from limit_roles import (
    SHM,
    SMALL,
    attempt,
    config_of,
    private_mounts,
    reply,
    run,
    tmpfs,
    try_everything,
)

MIB = 1 << 20


def test_a_full_tmpfs_is_a_clear_error_that_leaves_nothing_behind(run_id: str) -> None:
    found = run(create_what_does_not_fit, run_id, within=tmpfs("size=8m"))
    needed = f"{config_of(16).segment_size / MIB:.1f} MiB"
    assert found["error"] == "OutOfSharedMemory"
    assert needed in found["message"]
    assert "8.0 MiB free" in found["message"]
    for remedy in ("capacity", "lanekit clean", "--shm-size"):
        assert remedy in found["message"]
    assert found["left"] == []
    assert found["free_before"] == found["free_after"]
    assert found["smaller"] == "worked"


@pytest.mark.parametrize("lane", ["frame", "step", "traj"])
def test_a_tiny_tmpfs_is_told_in_units_that_fit(run_id: str, lane: str) -> None:
    error, message = run(create_lane, lane, run_id, within=tmpfs("size=64k"))
    assert error == "OutOfSharedMemory"
    assert re.search(r"needs [1-9]\d*\.\d [KM]iB of shared memory", message)
    assert "/dev/shm has 64.0 KiB free of 64.0 KiB" in message
    assert "--shm-size" in message


def test_a_writer_keeps_its_memory_when_others_fill_the_tmpfs(run_id: str) -> None:
    found = run(publish_into_a_full_tmpfs, run_id, within=tmpfs("size=8m"))
    assert found["free"] == 0
    assert found["true_frames"] == found["frames"]


def test_a_tmpfs_without_free_inodes_is_a_clear_error(run_id: str) -> None:
    found = run(create_without_inodes, run_id, within=tmpfs("size=8m,nr_inodes=4"))
    assert found["error"] == "OutOfSharedMemory"
    assert found["then"] == "worked"


def test_a_read_only_shared_memory_is_a_clear_error(run_id: str) -> None:
    readonly = private_mounts("mount -t tmpfs tmpfs /dev/shm && mount -o remount,ro tmpfs /dev/shm")
    found = run(try_everything, run_id, within=readonly)
    assert found["create"][0] == "SegmentError"
    assert os.strerror(errno.EROFS) in found["create"][1]
    for remedy in ("mount -o remount,rw /dev/shm", "--tmpfs /dev/shm"):
        assert remedy in found["create"][1]
    assert found["attach"][0] == "SegmentNotFound"


def test_the_doctor_advises_what_helps_a_read_only_shared_memory() -> None:
    readonly = private_mounts("mount -t tmpfs tmpfs /dev/shm && mount -o remount,ro tmpfs /dev/shm")
    findings = {finding["topic"]: finding for finding in run(consult_the_doctor, within=readonly)}
    assert findings["/dev/shm"]["state"] == "fail"
    assert "read-only" in findings["/dev/shm"]["found"]
    assert "mount -o remount,rw /dev/shm" in findings["/dev/shm"]["remedy"]


def test_a_machine_without_shared_memory_is_told_so(run_id: str) -> None:
    """As in some minimal containers; a writer must not be told to start its writer first."""
    found = run(try_everything, run_id, within=private_mounts("mount -t tmpfs tmpfs /dev"))
    assert found["create"][0] == "SegmentError"
    assert "/dev/shm" in found["create"][1]


# --- roles ----------------------------------------------------------------------------------------


def create_what_does_not_fit(run_id: str) -> None:
    before = shutil.disk_usage(SHM).free
    error, message = attempt(lambda: lanekit.FastLaneWriter.create(run_id, config_of(16)))
    answer = {
        "error": error,
        "message": message,
        "left": os.listdir(SHM),
        "free_before": before,
        "free_after": shutil.disk_usage(SHM).free,
        "smaller": attempt(lambda: lanekit.FastLaneWriter.create(run_id, config_of(4)))[0],
    }
    reply(answer)


def publish_into_a_full_tmpfs(run_id: str) -> None:
    true_frames = 0
    geometry = config_of(4)
    with lanekit.FastLaneWriter.create(run_id, geometry) as writer:
        with open(SHM / "filler", "wb", buffering=0) as filler:
            try:
                while True:
                    filler.write(bytes(4096))
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
        free = shutil.disk_usage(SHM).free
        with lanekit.FastLaneReader.attach(run_id) as reader:
            for seq in range(1, 2 * geometry.capacity + 1):
                pixels = np.full(geometry.shape, seq, np.uint8)
                writer.publish(pixels)
                frame = reader.latest_frame()
                true_frames += frame is not None and frame.data == pixels.tobytes()
    reply({"free": free, "frames": 2 * geometry.capacity, "true_frames": true_frames})


def create_without_inodes(run_id: str) -> None:
    fillers = []
    try:
        while True:
            path = SHM / f"filler{len(fillers)}"
            path.touch()
            fillers.append(path)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
    error, message = attempt(lambda: lanekit.FastLaneWriter.create(run_id, SMALL))
    fillers[0].unlink()
    then = attempt(lambda: lanekit.FastLaneWriter.create(run_id, SMALL))[0]
    reply({"error": error, "message": message, "then": then})


def create_lane(lane: str, run_id: str) -> None:
    creations: dict[str, Callable[[], Any]] = {
        "frame": lambda: lanekit.FastLaneWriter.create(run_id, replace(SMALL, capacity=16)),
        "step": lambda: lanekit.StepServer.create(run_id, 100, 100, 10),
        "traj": lambda: lanekit.TrajectoryReader.create(run_id, {"x": "int8"}, producers=4),
    }
    reply(attempt(creations[lane]))


def consult_the_doctor() -> None:
    main(["doctor", "--json"])


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
