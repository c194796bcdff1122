"""Foreign users, taken names, exhausted limits: a clear error, nothing left behind."""

from __future__ import annotations

import errno
import json
import os
import random
import resource
import signal
import socket
import sys
from pathlib import Path

import numpy as np
import pytest

import lanekit
from limit_roles import (
    SHM,
    SMALL,
    attempt,
    config_of,
    create,
    path_of,
    reply,
    run,
    try_everything,
)

MIB = 1 << 20
TOO_MANY = 1024  # segments one process can have open
NOBODY = 65534


# --- other users ----------------------------------------------------------------------------------


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_another_users_segment_is_refused(run_id: str) -> None:
    with lanekit.FastLaneWriter.create(run_id, SMALL) as writer:
        found = run(try_everything_as_nobody, run_id)
        for action in ("create", "attach", "inspect", "reclaim", "reclaim by force"):
            kind, message = found[action]
            assert kind == "SegmentPermissionDenied", f"{action}: {message}"
            assert writer.name in message
            assert "user root" in message
        assert writer.publish(np.zeros(SMALL.shape, np.uint8)) == 1
        assert path_of(run_id).exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_what_another_user_left_is_refused_too(run_id: str) -> None:
    """The sticky bit of /dev/shm: even a dead user's segment can not be replaced."""
    run(leave_a_segment, run_id)
    found = run(try_everything_as_nobody, run_id)
    assert found["create"][0] == "SegmentPermissionDenied"
    assert path_of(run_id).exists()
    path_of(run_id).unlink()


# --- names ----------------------------------------------------------------------------------------


def test_a_second_live_writer_is_told_the_pid_of_the_first(run_id: str) -> None:
    with lanekit.FastLaneWriter.create(run_id, SMALL) as writer:
        with pytest.raises(lanekit.SegmentExists, match=f"process {os.getpid()} ") as here:
            lanekit.FastLaneWriter.create(run_id, SMALL)
        assert here.value.owner_pid == os.getpid()
        kind, message = run(create, run_id)
        assert kind == "SegmentExists"
        assert f"process {os.getpid()} " in message
        assert writer.publish(np.zeros(SMALL.shape, np.uint8)) == 1


def test_of_many_that_race_for_a_name_exactly_one_wins(run_id: str) -> None:
    rounds = 2000
    assert run(race_to_create, run_id, 8, rounds)["rounds"] == rounds
    assert not path_of(run_id).exists()


# --- the limits of a process ----------------------------------------------------------------------


def test_a_file_size_limit_is_not_blamed_on_shared_memory(run_id: str) -> None:
    found = run(create_under, run_id, resource.RLIMIT_FSIZE, 2 * MIB)
    assert found["large"][0] in ("SegmentError", "OutOfSharedMemory")
    assert "file size" in found["large"][1].lower() or "ulimit" in found["large"][1].lower()
    assert found["left"] == []
    assert found["small"] == "worked"


def test_an_address_space_limit_is_a_clear_error_that_leaves_nothing_behind(run_id: str) -> None:
    found = run(create_under, run_id, resource.RLIMIT_AS, "as it is")
    assert found["large"][0] == "SegmentError"
    assert os.strerror(errno.ENOMEM) in found["large"][1]
    assert found["left"] == []
    assert found["small"] == "worked"


@pytest.mark.parametrize("leftover", ["nothing", "a dead writer's segment"])
def test_too_many_open_files_is_a_clear_error_until_some_are_closed(
    run_id: str, leftover: str
) -> None:
    if leftover != "nothing":
        run(leave_a_segment, run_id)
    found = run(create_with_few_descriptors, run_id)
    for free, (kind, message) in found["by_free_descriptors"]:
        assert kind in ("SegmentError", "worked"), f"with {free} free: {kind}: {message}"
        assert kind == "worked" or os.strerror(errno.EMFILE) in message
    assert found["by_free_descriptors"][0][1][0] == "SegmentError"
    assert found["by_free_descriptors"][-1][1][0] == "worked"
    assert not path_of(run_id).exists()


def test_an_attached_reader_reads_on_without_free_descriptors(run_id: str) -> None:
    with lanekit.FastLaneWriter.create(run_id, SMALL) as writer:
        writer.publish(np.zeros(SMALL.shape, np.uint8))
        assert run(read_without_descriptors, run_id)["frames"] == 10


def test_the_limit_of_segments_per_process_is_a_clear_error(run_id: str) -> None:
    found = run(open_too_many, run_id)
    assert found["opened"] == TOO_MANY
    for action in ("attach", "create"):
        kind, message = found[action]
        assert kind == "SegmentError"
        assert str(TOO_MANY) in message
        assert "close" in message
    assert found["other_left"] is False
    assert found["still_reading"] is True
    assert found["after_closing_two"] == "worked"


# --- roles ----------------------------------------------------------------------------------------


def ours() -> list[str]:
    return [name for name in os.listdir(SHM) if name.startswith("lanekit-")]


def try_everything_as_nobody(run_id: str) -> None:
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    try_everything(run_id)


def die_as_a_writer(run_id: str) -> None:
    """Leave the segment of a writer that died without a word."""
    child = os.fork()
    if child == 0:
        writer = lanekit.FastLaneWriter.create(run_id, SMALL)
        writer.publish(np.zeros(SMALL.shape, np.uint8))
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)


def leave_a_segment(run_id: str) -> None:
    die_as_a_writer(run_id)
    reply(path_of(run_id).exists())


def create_under(run_id: str, limit: str, value: str) -> None:
    large = config_of(256)
    if value == "as it is":  # what the process has now, and room for the small segment
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        value = str(pages * resource.getpagesize() + 16 * MIB)
    _, hard = resource.getrlimit(int(limit))
    resource.setrlimit(int(limit), (int(value), hard))
    before = set(ours())
    error = attempt(lambda: lanekit.FastLaneWriter.create(run_id, large))
    left = [name for name in ours() if name not in before and run_id in name]
    small = attempt(lambda: lanekit.FastLaneWriter.create(run_id, SMALL))[0]
    reply({"large": error, "left": left, "small": small})


def use_up_descriptors() -> list[int]:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
    fds = []
    try:
        while True:
            fds.append(os.open("/dev/null", os.O_RDONLY))
    except OSError as error:
        if error.errno != errno.EMFILE:
            raise
    return fds


def create_with_few_descriptors(run_id: str) -> None:
    lanekit.FastLaneWriter.create(f"{run_id}-other", SMALL).__exit__(None, None, None)
    image = path_of(run_id).read_bytes() if path_of(run_id).exists() else None
    fds = use_up_descriptors()
    answers = []
    for free in range(8):
        answers.append((free, attempt(lambda: lanekit.FastLaneWriter.create(run_id, SMALL))))
        os.close(fds.pop())
        if answers[-1][1][0] != "worked":
            assert path_of(run_id).exists() == (image is not None)
        elif image is not None:
            path_of(run_id).write_bytes(image)
    path_of(run_id).unlink(missing_ok=True)
    reply({"by_free_descriptors": answers})


def read_without_descriptors(run_id: str) -> None:
    with lanekit.FastLaneReader.attach(run_id) as reader:
        fds = use_up_descriptors()
        frames = sum(reader.latest_frame() is not None for _ in range(10))
        reader.wait(0.3)  # long enough to look whether the writer lives
        assert reader.connected
        for fd in fds:
            os.close(fd)
    reply({"frames": frames})


def open_too_many(run_id: str) -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # a handle has a descriptor, too
    with lanekit.FastLaneWriter.create(run_id, SMALL) as writer:
        writer.publish(np.zeros(SMALL.shape, np.uint8))
        readers = []
        failure: tuple[str, str] = ("", "")
        while not failure[0]:
            try:
                readers.append(lanekit.FastLaneReader.attach(run_id, lease=0))
            except lanekit.LanekitError as error:
                failure = type(error).__name__, str(error)
        other = f"{run_id}-other"
        created = attempt(lambda: lanekit.FastLaneWriter.create(other, SMALL))
        answer = {
            "opened": len(readers) + 1,
            "attach": failure,
            "create": created,
            "other_left": path_of(other).exists(),
            "still_reading": all(reader.latest_frame() is not None for reader in readers),
        }
        readers.pop().close()
        readers.pop().close()
        answer["after_closing_two"] = attempt(
            lambda: lanekit.FastLaneWriter.create(other, SMALL),
        )[0]
        for reader in readers:
            reader.close()
    reply(answer)


def race(channel: socket.socket, run_id: str) -> None:
    """At each byte received try to create, answer who won, and let go at the next byte."""
    while channel.recv(1):
        try:
            writer = lanekit.FastLaneWriter.create(run_id, SMALL)
            writer.publish(np.full(SMALL.shape, os.getpid() % 256, np.uint8))
        except lanekit.LanekitError as error:
            rival = getattr(error, "owner_pid", 0)
            channel.send(json.dumps([type(error).__name__, rival]).encode())
            channel.recv(1)
        else:
            channel.send(json.dumps(["won", os.getpid()]).encode())
            channel.recv(1)
            writer.__exit__(None, None, None)
        channel.send(b"done")


def race_to_create(run_id: str, racers: str, rounds: str) -> None:
    die_as_a_writer(run_id)
    path, scratch = path_of(run_id), path_of(f"{run_id}-scratch")
    orphan = path.read_bytes()
    path.unlink()
    unready = orphan[:64] + bytes(4) + orphan[68:]
    leftovers = [orphan, orphan, b"", unready, orphan[:5000], orphan[:100], None]

    channels: dict[int, socket.socket] = {}
    for _ in range(int(racers)):
        here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        pid = os.fork()
        if pid == 0:
            here.close()
            for channel in channels.values():
                channel.close()
            try:
                race(there, run_id)
            finally:
                os._exit(0)
        there.close()
        channels[pid] = here

    for number in range(int(rounds)):
        leftover = leftovers[number % len(leftovers)]
        if leftover is not None:
            scratch.write_bytes(leftover)
            scratch.rename(path)  # appears whole
        order = random.sample(list(channels.values()), len(channels))
        for channel in order:
            channel.send(b"!")
        answers = {pid: json.loads(channel.recv(4096)) for pid, channel in channels.items()}
        winners = [pid for pid, (result, _) in answers.items() if result == "won"]
        assert len(winners) == 1, f"round {number}: {answers}"
        for result, pid in answers.values():
            assert result in ("won", "SegmentExists"), f"round {number}: {answers}"
            assert pid == winners[0], f"round {number}: {answers}, but {winners[0]} won"
        with lanekit.FastLaneReader.attach(run_id, lease=0) as reader:
            frame = reader.latest_frame()
            assert frame is not None
            assert frame.data[0] == winners[0] % 256
        for channel in channels.values():
            channel.send(b"!")
        for channel in channels.values():
            assert channel.recv(4) == b"done"
        assert not path.exists(), f"round {number} left its segment behind"
    for pid, channel in channels.items():
        channel.close()
        os.waitpid(pid, 0)
    reply({"rounds": int(rounds)})


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
