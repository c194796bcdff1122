"""`lanekit stress`: sound lanes pass, each injected bug is found, nothing stays behind."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

import lanekit
from lanekit._stress import ffi, lib
from lanekit.cli import main
from lanekit.stress.plan import (
    FAULTS,
    SHAPES,
    SIZES,
    Misuse,
    Round,
    choose_cores,
    choose_modes,
    free_threaded,
    parse_size,
    plan_rounds,
)
from lanekit.stress.progress import Progress
from lanekit.stress.verdict import Counts, Result, Verdict
from patience import patience, until
from pseudo_terminal import Terminal

CORES = sorted(os.sched_getaffinity(0))
PIN = f"{CORES[0]},{CORES[-1]}"
COMMAND = [sys.executable, "-m", "lanekit", "stress"]


def stress(*arguments: str, status: int = 0) -> tuple[str, str]:
    done = subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, timeout=patience(120), check=False
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout, done.stderr


def verdict(*arguments: str, status: int = 0) -> dict[str, Any]:
    return dict(json.loads(stress(*arguments, "--json", status=status)[0]))


def segments_of(pid: int) -> list[Path]:
    return list(Path("/dev/shm").glob(f"lanekit-frame-stress-{pid}-*"))


# --- sound lanes ----------------------------------------------------------------------------------


def test_sound_lanes_are_clean_whoever_writes_and_reads_them() -> None:
    found = verdict("--frames", "300000", f"--pin={PIN}")
    modes = {c["mode"] for c in found["configurations"]}
    assert modes - {"py-threads"} == {"c-threads", "c-processes", "py-processes"}
    assert ("py-threads" in modes) is free_threaded()
    assert {c["shape"] for c in found["configurations"]} == set(SHAPES)
    assert all(c["counts"]["frames"] > 0 for c in found["configurations"])
    assert found["clean"]
    assert found["complete"]
    total = found["total"]
    assert (total["torn"], total["reordered"], total["lost"]) == (0, 0, 0)
    assert total["frames"] >= 300000
    assert total["waits"] > 0


@pytest.mark.once  # nobody here is written in Python
def test_several_readers_check_one_writer() -> None:
    cores = f"{CORES[0]},{CORES[-1]},{CORES[0]}"
    found = verdict("--frames", "30000", f"--pin={cores}", "--with", "c-processes")
    assert found["clean"]
    assert {len(c["reader_cores"]) for c in found["configurations"]} == {2}


@pytest.mark.once  # nobody here is written in Python
def test_a_reader_that_begins_when_the_others_are_through_is_waited_for() -> None:
    cores = ",".join(str(CORES[0] if n % 2 == 0 else CORES[-1]) for n in range(9))
    arguments = ["--frames", "1", f"--pin={cores}", "--with", "c-processes"]
    for _ in range(5):
        found = verdict(*arguments, "--shape", "store-buffering")
        assert [c["problem"] for c in found["configurations"]] == [None]


def test_time_can_be_the_limit_and_large_frames_are_checked() -> None:
    table, _ = stress("--minutes", "0.02", "--size", "84x84", "--with", "c-threads")
    assert re.search(r"^clean: [\d,]+ frames checked", table, re.MULTILINE)
    assert "0 torn, 0 reordered, 0 wake-ups lost" in table


# --- injected bugs --------------------------------------------------------------------------------

COUNTERS = {"early-head": "reordered", "lost-wake": "lost"}


@pytest.mark.once  # nobody here is written in Python
@pytest.mark.parametrize("mode", ["c-threads", "c-processes"])
@pytest.mark.parametrize("kind", FAULTS)
def test_each_injected_bug_is_found_by_every_shape_that_can_show_it(kind: str, mode: str) -> None:
    arguments = ["--inject", kind, "--frames", "20000", f"--pin={PIN}", "--with", mode]
    found = verdict(*arguments, status=1)
    counter = COUNTERS.get(kind, "torn")
    assert {c["shape"] for c in found["configurations"]} == set(FAULTS[kind])
    for configuration in found["configurations"]:
        assert configuration["counts"][counter] > 0, configuration
        assert configuration["problem"] is None
    assert not found["clean"]


def test_the_table_names_what_was_found() -> None:
    table, _ = stress("--inject", "torn", "--frames", "5000", f"--pin={PIN}", status=1)
    assert re.search(r"^FOUND: .* [1-9][\d,]* torn", table, re.MULTILINE)


def test_every_changed_byte_of_a_frame_is_seen() -> None:
    size, room = 64, 24

    def frame(seq: int) -> tuple[bytearray, bytearray, int, tuple[float, ...]]:
        pixels, metadata, metrics = bytearray(size), bytearray(room), ffi.new("double[3]")
        held = lib.lk_stress_fill(
            seq, ffi.from_buffer(pixels), size, ffi.from_buffer(metadata), room, metrics
        )
        return pixels, metadata, held, (metrics[0], metrics[1], metrics[2])

    def whole(seq: int, parts: tuple[bytearray, bytearray, int, tuple[float, ...]]) -> bool:
        pixels, metadata, held, metrics = parts
        buffers = ffi.from_buffer(pixels), size, ffi.from_buffer(metadata), held, room
        return lib.lk_stress_check(seq, *buffers, *metrics) == 1

    for seq in range(1, 50):
        pixels, metadata, held, metrics = frame(seq)
        assert whole(seq, (pixels, metadata, held, metrics))
        for buffer, length in ((pixels, size), (metadata, max(held, 0))):
            for place in range(length):
                buffer[place] ^= 1
                assert not whole(seq, (pixels, metadata, held, metrics))
                buffer[place] ^= 1
        later = frame(seq + 4)
        for cut in range(8, size, 8):
            mixed = later[0][:cut] + pixels[cut:]
            assert not whole(seq, (mixed, metadata, held, metrics))
            assert not whole(seq + 4, (mixed, *later[1:]))
        assert not whole(seq, (pixels, metadata, held, later[3]))
        assert not whole(seq, (pixels, metadata, held + 1, metrics))
        assert not whole(seq, (pixels, metadata, held, (metrics[0], *later[3][1:])))


# --- the end --------------------------------------------------------------------------------------


def start(*arguments: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    until(lambda: bool(segments_of(process.pid)), "a lane under stress")
    return process


@pytest.mark.parametrize("mode", choose_modes(None, None))
def test_ctrl_c_ends_it_with_the_verdict_so_far_and_leaves_nothing(mode: str) -> None:
    with start("--minutes", "10", "--with", mode, "--json") as process:
        assert process.stderr is not None
        while not re.search(r" [1-9][\d,]* frames", process.stderr.readline()):
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        output, complaints = process.communicate(timeout=patience(120))
    found = json.loads(output)
    assert process.returncode == 0, complaints
    assert found["clean"]
    assert not found["complete"]
    assert found["total"]["frames"] > 0
    assert not segments_of(process.pid)


@pytest.mark.parametrize("mode", ["c-processes", "py-processes"])
def test_workers_do_not_outlive_a_session_that_is_killed(mode: str) -> None:
    with start("--minutes", "10", "--with", mode) as process:
        family = psutil.Process(process.pid).children(recursive=True)
        assert family
        process.kill()
    until(lambda: not any(p.is_running() for p in family), "the end of the workers")
    until(lambda: not segments_of(process.pid), "an empty /dev/shm")


def test_a_party_that_dies_is_reported_and_the_other_rounds_go_on() -> None:
    arguments = ["--with", "c-processes", "--frames", "200000", f"--pin={PIN}", "--json"]
    arguments += ["--shape", "seqlock,message-passing"]
    with start(*arguments) as process:
        worker = next(iter(psutil.Process(process.pid).children()))
        until(lambda: len(worker.children()) == 2, "the parties")
        for party in worker.children():
            party.kill()
        output, _ = process.communicate(timeout=patience(120))
    # Which of the two rounds it hit is the machine's affair.
    both = json.loads(output)["configurations"]
    (sound,) = (each for each in both if each["problem"] is None)
    assert len(both) == 2
    assert process.returncode == 1
    assert sound["counts"]["frames"] >= 100000 * 0.9
    assert not segments_of(process.pid)


def test_a_worker_that_is_killed_is_replaced_for_the_next_round() -> None:
    arguments = ["--with", "c-threads", "--frames", "2000000", f"--pin={PIN}", "--json"]
    arguments += ["--shape", "frames,store-buffering"]
    with start(*arguments) as process:
        next(iter(psutil.Process(process.pid).children())).kill()
        output, _ = process.communicate(timeout=patience(120))
    broken, sound = json.loads(output)["configurations"]
    assert process.returncode == 1
    assert "ended (status -9)" in broken["problem"]
    assert sound["problem"] is None
    assert sound["counts"]["frames"] > 0
    assert not segments_of(process.pid)


# --- misuse ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--pin", "0,9999"], "core 9999 is not available"),
        (["--pin", "0"], "name the writer's core"),
        (["--pin", "a,b"], "cores are numbers"),
        (["--with", "c-fibres"], "unknown party 'c-fibres'"),
        (["--shape", "round"], "unknown shape 'round'"),
        (["--size", "huge"], "unknown size"),
        (["--size", "1x1"], "too small"),
        (["--frames", "0"], "at least 1"),
        (["--minutes", "-1"], "positive"),
        (["--inject", "gremlins"], "invalid choice"),
        (["--inject", "torn", "--with", "py-processes"], "breaks parties in C"),
        (["--shape", "seqlock", "--with", "py-processes"], "nothing to do"),
    ],
)
def test_misuse_is_explained_with_status_2(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        status: int | str | None = main(["stress", *arguments])
    except SystemExit as end:
        status = end.code
    assert status == 2
    assert complaint in capsys.readouterr().err


@pytest.mark.skipif(free_threaded(), reason="there, Python threads apply")
def test_python_threads_are_refused_where_they_take_turns() -> None:
    with pytest.raises(Misuse, match="free-threaded"):
        choose_modes(["py-threads"], None)


# --- planning and showing -------------------------------------------------------------------------


def rounds(**changes: Any) -> list[Round]:
    asked: dict[str, Any] = {
        "modes": ("c-threads", "py-processes"),
        "cores": [(0, 1), (1, 0)],
        "shapes": None,
        "size": SIZES["small"],
        "seed": 0,
        "frames": 1_000_000,
        "seconds": None,
        "fault": None,
        "name": "test",
    }
    return plan_rounds(**{**asked, **changes})


def test_all_ordered_pairs_are_visited_and_many_cores_are_sampled_by_the_seed() -> None:
    assert choose_cores(None, {0, 1, 5}, 12, 0) == (
        [(0, 1), (0, 5), (1, 0), (1, 5), (5, 0), (5, 1)],
        6,
    )
    assert choose_cores(None, {3}, 12, 0) == ([(3, 3)], 1)
    some, there_are = choose_cores(None, set(range(64)), 12, 7)
    assert (len(set(some)), there_are) == (12, 64 * 63)
    assert (some, there_are) == choose_cores(None, set(range(64)), 12, 7)
    assert some != choose_cores(None, set(range(64)), 12, 8)[0]


def test_the_shares_add_up_to_what_was_asked_for() -> None:
    planned = rounds()
    assert len(planned) == 2 * (len(SHAPES) + 1)
    assert len({r.run_id for r in planned}) == len(planned)
    both_ways = [r for r in planned if r.shape == "store-buffering"]
    checked = sum(r.frames or 0 for r in planned) + sum((r.frames or 0) - 1 for r in both_ways)
    assert 1_000_000 <= checked < 1_000_100
    timed = rounds(frames=None, seconds=20.0)
    assert sum(r.seconds or 0.0 for r in timed) == pytest.approx(20.0)


def test_sizes_have_names_or_two_sides() -> None:
    assert parse_size("84x84").payload == 84 * 84 * 3
    assert parse_size("10x20").payload == 600
    with pytest.raises(ValueError, match="unknown size"):
        parse_size("10x99999")


def test_an_unfinished_or_empty_run_never_counts_as_clean() -> None:
    (round_, *_) = rounds()
    fine = Result(round_, Counts(frames=5), 1.0)
    assert Verdict([fine], 1).status == 0
    assert Verdict([Result(round_, Counts(), 1.0)], 1).status == 1
    assert Verdict([], 1).status == 1
    assert Verdict([fine, Result(round_, Counts(), 1.0, "no core")], 2).status == 1
    for counter in ("torn", "reordered", "lost"):
        assert Verdict([fine, Result(round_, Counts(1, 1, **{counter: 1}), 1.0)], 2).status == 1
    assert "stopped after 1 of 3" in "\n".join(Verdict([fine], 3).lines())


def test_a_pipe_gets_plain_lines(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(sys.stderr, {"TERM": "xterm"}, frames=1000, seconds=None)
    (round_, *_) = rounds()
    progress.show(round_, Counts(frames=250))
    assert capsys.readouterr().err == ""
    line = progress.line(10.0)
    assert line == f" 25%  250 frames  0.0 k/s  ETA 0:30  {round_.title}"


@pytest.mark.parametrize(("term", "bar"), [("xterm", True), ("dumb", False)])
def test_a_terminal_gets_a_bar_and_a_dumb_one_does_not(term: str, bar: bool) -> None:
    command = ["sh", "-c", 'exec "$@" 2>&1', "sh", *COMMAND]
    command += ["--minutes", "0.02", "--with", "c-threads", "--shape", "frames", f"--pin={PIN}"]
    with Terminal(*command, TERM=term) as terminal:
        terminal.read_until(lambda: b"clean: " in terminal.output, "the verdict")
        output = terminal.output
    assert (b"ETA" in output and b"[#" in output) is bar
    assert (b"\x1b[K" in output) is bar


def test_only_the_parties_module_touches_the_stress_extension() -> None:
    package = Path(lanekit.__file__).parent
    importers = [
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if "lanekit._stress" in path.read_text(encoding="utf-8")
    ]
    assert importers == ["stress/parties.py"]
