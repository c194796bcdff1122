"""Step lanes overwritten, cut, or with garbage under their name: an error or a right result.

What can not be told from a correct peer's bytes is not expected to be noticed: numbers in the
arrays carry no checksum, and a sequence that moves as a peer would move it is believed. What must
hold is that no corruption makes a process crash or hang, or reach outside the lane's memory.

The roles at the end of this file run in processes of their own; see spoilt_lanes.py.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import struct
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import lanekit
from lanekit import StepClient, StepLaneConfig, StepServer, segment_name
from lanekit.segments import segment_path
from lanekit.step import inspect_steps
from patience import patience
from spoilt_lanes import DAMAGES, Notebook, damaged, run

pytestmark = pytest.mark.once  # the core does the work, whatever the Python

CONFIG = StepLaneConfig(
    *(6, 5, 3),
    image=(4, 4, 3),
    final_obs=True,
    infos=("speed", "height"),
    description="a lane to be spoiled",
    command_ring=4096,
)

Refusals = tuple[type[lanekit.LanekitError], ...]
GEOMETRY: Refusals = (lanekit.BadSegmentGeometry,)
# (first byte, one past the last, what attaching must answer if the byte changed; none: it works)
FIELDS: list[tuple[int, int, Refusals]] = [
    (0, 4, (lanekit.WrongSegmentKind,)),
    (4, 6, (lanekit.WrongSegmentVersion,)),
    (8, 12, GEOMETRY),
    (16, 24, (lanekit.BadSegmentGeometry, lanekit.SegmentTruncated)),
    (64, 68, (lanekit.WrongSegmentKind, lanekit.SegmentNotReady)),
    (128, 132, (lanekit.SegmentNotFound, lanekit.BadSegmentGeometry)),
    (516, 528, GEOMETRY),
    (544, 572, GEOMETRY),
    (640, 764, GEOMETRY),
]
# Bytes that may change without a contradiction: mode, halves, GPU fields, type strings (which may
# name another type of the same size), who owns the lane, its flags, its clients, its sequences.
FREE = [(12, 16), (24, 64), (68, 80), (512, 516), (528, 544), (572, 640), (1024, 1168)]
# Sizes whose low byte may change within the padding of its region: obs, actions, text, rewards.
FREE += [(520, 521), (524, 525), (556, 557), (760, 761)]


@pytest.fixture
def lane() -> Iterator[str]:
    name = f"step-corruption-{uuid.uuid4().hex}"
    yield name
    path_of(name).unlink(missing_ok=True)


def path_of(lane: str) -> Path:
    return segment_path(segment_name("step", lane))


# --- overwritten bytes ----------------------------------------------------------------------------


@pytest.mark.parametrize("damage", DAMAGES)
def test_attaching_meets_any_overwritten_byte_with_an_error_or_a_right_step(
    lane: str, damage: str, seed: int, note: Path
) -> None:
    found = run(attach_over_overwritten_bytes, lane, damage, seed, note=note)
    assert found["cases"] == 4096
    assert found["steps"] > 2000  # most bytes are reserved: stepping goes on


@pytest.mark.parametrize("damage", DAMAGES)
def test_both_ends_meet_any_overwritten_byte_with_an_error_or_a_right_step(
    lane: str, damage: str, seed: int, note: Path
) -> None:
    found = run(step_over_overwritten_bytes, lane, damage, seed, note=note)
    assert found["cases"] == 4096
    assert found["steps"] > 3000


def test_many_overwritten_words_at_once_crash_nobody(lane: str, seed: int, note: Path) -> None:
    assert run(use_random_headers, lane, seed, note=note)["cases"] == 1000


def test_names_and_texts_that_are_no_text_are_refused(lane: str) -> None:
    with StepServer.create(lane, CONFIG), open(path_of(lane), "r+b", buffering=0) as file:
        for field in (712, 720):  # info_names_offset, description_offset
            (offset,) = struct.unpack("<Q", os.pread(file.fileno(), 8, field))
            good = os.pread(file.fileno(), 2, offset)
            os.pwrite(file.fileno(), b"\xff\xfe", offset)
            with pytest.raises(lanekit.BadSegmentGeometry, match="makes no sense") as refusal:
                StepClient.attach(lane)
            assert refusal.value is not None
            os.pwrite(file.fileno(), good, offset)
            with StepClient.attach(lane):  # the refused one did not keep the place
                pass


@pytest.mark.parametrize(
    "text",
    ["O", "<M8", "f4,f4", "(2,2)f4", "<f8", ">f4", "<U1", "|V4", "<f3", "\xff", "", "<f444444"],
)
def test_a_type_that_is_none_is_refused(lane: str, text: str) -> None:
    with StepServer.create(lane, CONFIG), open(path_of(lane), "r+b", buffering=0) as file:
        os.pwrite(file.fileno(), text.encode("latin-1").ljust(8, b"\0"), 528)
        with pytest.raises(lanekit.BadSegmentGeometry, match="makes no sense"):
            StepClient.attach(lane)
        os.pwrite(file.fileno(), b"<i4\0\0\0\0\0", 528)  # another type of the same size is one
        with StepClient.attach(lane) as client:
            assert client.obs.dtype == np.int32


def test_a_sequence_that_no_peer_can_have_moved_so_is_corrupt(lane: str) -> None:
    with StepServer.create(lane, CONFIG) as server, StepClient.attach(lane) as client:
        with open(path_of(lane), "r+b", buffering=0) as file:

            def put(offset: int, value: int) -> None:
                os.pwrite(file.fileno(), struct.pack("<Q", value), offset)

            put(1088, 2**63)
            with pytest.raises(lanekit.SegmentCorrupt):
                server.wait_actions(0)
            put(1088, 0)
            client.send()
            put(1152, 7)
            with pytest.raises(lanekit.SegmentCorrupt):
                client.recv(0)
            put(1152, 0)
            assert server.wait_actions(patience()) is not None  # and goes on when it is put right
            server.commit()
            client.recv(patience())


# --- files cut short ------------------------------------------------------------------------------

CUTS: dict[str, Callable[[int], int]] = {
    "to nothing": lambda size: 0,
    "inside the header": lambda size: 2048,
    "to the header": lambda size: 4096,
    "to half": lambda size: size // 2 // 4096 * 4096,
}


@pytest.mark.parametrize("cut", CUTS)
def test_both_ends_survive_their_segment_being_cut_and_can_start_anew(
    lane: str, cut: str, note: Path
) -> None:
    found = run(step_a_cut_segment, lane, cut, note=note)
    assert set(found["answers"]) == {"SegmentTruncated"}
    assert found["anew"] == 3


@pytest.mark.parametrize("cut", CUTS)
def test_a_cut_segment_is_refused_to_whoever_comes(lane: str, cut: str) -> None:
    with StepServer.create(lane, CONFIG):
        os.truncate(path_of(lane), CUTS[cut](CONFIG.size))
        with pytest.raises((lanekit.SegmentTruncated, lanekit.SegmentNotReady)):
            StepClient.attach(lane)


# --- roles ----------------------------------------------------------------------------------------


def step_once(server: StepServer, client: StepClient, number: int) -> None:
    """Exchange once and check what came; every call may raise a LanekitError instead."""
    client.actions[:] = number
    client.send()
    asked = server.wait_actions(0)
    assert asked is not None, "what was sent is not there"
    assert (server.actions == number).all()
    server.obs[:] = 2 * number
    server.commit()
    assert (client.recv(0).obs == 2 * number).all()


def use(end: StepServer | StepClient) -> None:
    """Ask everything that can be asked without waiting."""
    for ask in (
        lambda: end.state,
        lambda: end.under_way if isinstance(end, StepClient) else end.wait_actions(0),
        lambda: repr(end),
    ):
        try:
            ask()
        except lanekit.LanekitError:
            continue


def expect_refusal(
    error: lanekit.LanekitError | None, offset: int, lane: str, changed: bool
) -> None:
    if any(first <= offset < end for first, end in FREE):
        return
    expected: Refusals = ()
    for first, end, refusals in FIELDS:
        if first <= offset < end:
            expected = refusals
    if 136 <= offset < 136 + len(lane):
        expected = (lanekit.SegmentNotFound,)
    if expected and changed:
        assert type(error) in expected, f"byte {offset}: {error!r}, not one of {expected}"
    else:
        assert error is None, f"byte {offset}: {error!r}"


def attach_over_overwritten_bytes(lane: str, damage: str, seed: str, note: str) -> None:
    notebook, chance = Notebook(note), random.Random(int(seed))
    steps = 0
    with (
        StepServer.create(lane, CONFIG) as server,
        open(path_of(lane), "r+b", buffering=0) as file,
    ):
        whole = os.pread(file.fileno(), 4096, 0)
        for offset in range(4096):
            bad = damaged(whole[offset], damage, chance)
            notebook.write(f"byte {offset}: {whole[offset]:#04x} -> {bad:#04x}")
            os.pwrite(file.fileno(), bytes([bad]), offset)
            refusal = None
            try:
                with StepClient.attach(lane) as client:
                    use(client)
                    use(server)
                    assert client.config.size == CONFIG.size
                    client.actions[:] = 1
                    client.obs.sum()
                    steps += client.state.client_pid == os.getpid()
            except lanekit.LanekitError as error:
                refusal = error
            with contextlib.suppress(lanekit.LanekitError):
                inspect_steps(server.segment)
            expect_refusal(refusal, offset, lane, bad != whole[offset])
            os.pwrite(file.fileno(), whole, 0)
    print(json.dumps({"cases": 4096, "steps": steps}))


def step_over_overwritten_bytes(lane: str, damage: str, seed: str, note: str) -> None:
    """Spoil a byte under two ends that are attached; both go on as if nothing were, or say so."""
    notebook, chance = Notebook(note), random.Random(int(seed))
    steps = 0
    server = StepServer.create(lane, CONFIG)
    client = StepClient.attach(lane)
    with open(path_of(lane), "r+b", buffering=0) as file:
        for offset in range(4096):
            whole = os.pread(file.fileno(), 4096, 0)
            bad = damaged(whole[offset], damage, chance)
            notebook.write(f"byte {offset}: {whole[offset]:#04x} -> {bad:#04x}")
            os.pwrite(file.fileno(), bytes([bad]), offset)
            try:
                step_once(server, client, offset % 1000)
                steps += 1
            except lanekit.LanekitError:
                # Begin anew: what the two know of each other's sequences may differ now.
                os.pwrite(file.fileno(), whole, 0)
                for end in (client, server):
                    use(end)
                    end.close()
                path_of(lane).unlink(missing_ok=True)
                server = StepServer.create(lane, CONFIG)
                client = StepClient.attach(lane)
                file.close()
                file = open(path_of(lane), "r+b", buffering=0)  # noqa: SIM115
                continue
            if os.pread(file.fileno(), 1, offset) == bytes([bad]):
                os.pwrite(file.fileno(), whole[offset : offset + 1], offset)
    client.close()
    server.close()
    print(json.dumps({"cases": 4096, "steps": steps}))


def use_random_headers(lane: str, seed: str, note: str) -> None:
    """Spoil many words at once; they are random, but never far from believable."""
    notebook, chance = Notebook(note), random.Random(int(seed))
    words = [0, 1, 2, 3, 64, 4096, 2**31, 2**32 - 1, 2**62, 2**63, 2**64 - 1]
    for case in range(1000):
        notebook.write(f"case {case} of seed {seed}")
        server = StepServer.create(lane, CONFIG)
        client = StepClient.attach(lane)
        with open(path_of(lane), "r+b", buffering=0) as file:
            for offset in chance.sample(range(0, 4096, 8), chance.randrange(2, 100)):
                word = struct.pack("<Q", chance.choice([*words, chance.getrandbits(64)]))
                os.pwrite(file.fileno(), word, offset)
        for attempt in (
            lambda: step_once(server, client, 1),  # noqa: B023
            lambda: client.reset(timeout=0),  # noqa: B023
            lambda: server.fail("spoiled"),  # noqa: B023
            lambda: StepClient.attach(lane).close(),
            lambda: inspect_steps(segment_name("step", lane)),
        ):
            try:
                attempt()
            except (lanekit.LanekitError, AssertionError):
                continue
        client.close()
        server.close()
        path_of(lane).unlink(missing_ok=True)
    print(json.dumps({"cases": 1000}))


def step_a_cut_segment(lane: str, cut: str, note: str) -> None:
    notebook = Notebook(note)
    server = StepServer.create(lane, CONFIG)
    client = StepClient.attach(lane)
    step_once(server, client, 1)
    client.send()
    os.truncate(path_of(lane), CUTS[cut](CONFIG.size))
    notebook.write("views")
    for end in (client, server):
        for array in (end.obs, end.actions, end.images, end.final_obs, end.resets):
            assert array is not None
            array.sum()
            array[:] = 1
    notebook.write("calls")
    answers = []
    for call in (lambda: client.recv(0), lambda: server.wait_actions(0), lambda: client.send()):
        try:
            call()
            answers.append("worked")
        except lanekit.LanekitError as error:
            answers.append(type(error).__name__)
    notebook.write("the end")
    client.close()
    server.close()
    notebook.write("anew")
    anew = 0
    with StepServer.create(lane, CONFIG) as server, StepClient.attach(lane) as client:
        for number in (1, 2, 3):
            step_once(server, client, number)
            anew += 1
    print(json.dumps({"answers": answers, "anew": anew}))


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
