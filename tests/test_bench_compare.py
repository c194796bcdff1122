"""Two runs of the benchmarks are compared: what became slower beyond the spread is a regression."""

from __future__ import annotations

import subprocess
import sys
from argparse import Namespace
from dataclasses import replace
from pathlib import Path

import pytest
from bench import compare
from bench.record import Record, load
from bench.rows import Figure, Row, peers_ahead

from patience import patience

pytestmark = pytest.mark.once

MACHINE = {"cpu": "a machine", "cores": 2, "python": "3.11"}
PUBLISH = Row(
    "fast",
    "publishing",
    "84×84",
    "publish",
    "ours",
    "µs",
    "less",
    Figure(1.0, 0.95, 1.05),
    Figure(1.2, 1.15, 1.25),
    "memcpy",
)
EVENTS = Row(
    "slow", "durable events", "", "lanekit", "ours", "events/s", "more", Figure(900, 880, 920)
)
PEER = Row(
    *("slow", "durable events", "", "tracker", "peer", "events/s", "more", Figure(100, 99, 101)),
    rival="lanekit",
)


def saved(path: Path, *rows: Row, lanes: dict[str, dict[str, object]] | None = None) -> Path:
    record = Record("quick", "2026-01-01T00:00+00:00", MACHINE, {}, lanes or {}, list(rows))
    record.save(path)
    return path


def compared(tmp_path: Path, *after: Row) -> int:
    """Compare a run of all three rows with another; return the exit status."""
    before = saved(tmp_path / "a.json", PUBLISH, EVENTS, PEER)
    return compare.main(
        Namespace(before=before, after=saved(tmp_path / "b.json", *after), tolerance=0.05)
    )


def test_a_row_comes_back_from_its_file_as_it_was(tmp_path: Path) -> None:
    failed = replace(PEER, value=None, failed="not installed")
    path = saved(tmp_path / "run.json", PUBLISH, EVENTS, PEER, failed)
    assert load(path).rows == [PUBLISH, EVENTS, PEER, failed]


def test_the_same_run_has_not_regressed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert compared(tmp_path, PUBLISH, EVENTS, PEER) == 0
    assert "2 rows compared: 0 regressed, 2 within the spread" in capsys.readouterr().out


def test_a_ratio_beyond_the_spread_is_a_regression(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    slower = replace(PUBLISH, ratio=Figure(1.5, 1.45, 1.55))
    assert compared(tmp_path, slower, EVENTS, PEER) == 1
    told = capsys.readouterr().out
    assert "| slower | fast, publishing, 84×84 | publish | 1.2 (1.15 – 1.25) × memcpy" in told
    assert "×1.25" in told
    assert "1 regressed" in told


def test_fewer_events_in_a_second_are_a_regression(tmp_path: Path) -> None:
    assert compared(tmp_path, PUBLISH, replace(EVENTS, value=Figure(700, 690, 710)), PEER) == 1


def test_a_change_within_the_spread_is_none(tmp_path: Path) -> None:
    noisy = replace(PUBLISH, ratio=Figure(1.5, 1.2, 1.8))
    assert compared(tmp_path, noisy, EVENTS, PEER) == 0


def test_a_machine_that_is_slower_altogether_is_no_regression(tmp_path: Path) -> None:
    twice = replace(PUBLISH, value=Figure(2.0, 1.9, 2.1))
    assert compared(tmp_path, twice, EVENTS, PEER) == 0


def test_a_peer_that_became_slower_is_no_regression(tmp_path: Path) -> None:
    assert compared(tmp_path, PUBLISH, EVENTS, replace(PEER, value=Figure(1, 1, 1))) == 0


def test_what_became_faster_is_told_and_no_regression(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert compared(tmp_path, PUBLISH, replace(EVENTS, value=Figure(2000, 1990, 2010)), PEER) == 0
    assert "| faster | slow, durable events | lanekit |" in capsys.readouterr().out


def test_what_was_measured_once_and_fails_now_is_a_regression(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert compared(tmp_path, PUBLISH, replace(EVENTS, value=None, failed="it died"), PEER) == 1
    assert "it died" in capsys.readouterr().out


def test_what_the_second_run_left_out_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert compared(tmp_path, PUBLISH) == 0
    assert "not in the second run" in capsys.readouterr().out


def test_a_disturbed_run_is_said_to_be_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    calm = saved(tmp_path / "a.json", PUBLISH)
    lanes: dict[str, dict[str, object]] = {"fast": {"noise": {"publish": [0.02, 0.4]}}}
    noisy = saved(tmp_path / "b.json", PUBLISH, lanes=lanes)
    assert compare.main(Namespace(before=calm, after=noisy, tolerance=0.05)) == 0
    assert "others used up to 40% of the machine during the second run" in capsys.readouterr().out


def test_the_command_ends_with_1_for_a_regression_and_2_for_a_file_it_can_not_read(
    tmp_path: Path,
) -> None:
    root = Path(__file__).resolve().parent.parent
    one = saved(tmp_path / "a.json", PUBLISH)
    two = saved(tmp_path / "b.json", replace(PUBLISH, ratio=Figure(3.0, 2.9, 3.1)))
    other = tmp_path / "other.json"
    other.write_text("[]", encoding="utf-8")
    statuses = {}
    for name, second in (("slower", two), ("other", other), ("missing", tmp_path / "no.json")):
        command = [sys.executable, "-m", "bench", "compare", str(one), str(second)]
        done = subprocess.run(
            command, cwd=root, capture_output=True, text=True, timeout=patience(120)
        )
        statuses[name] = done.returncode
        if name != "slower":
            assert "python -m bench all" in done.stderr
    assert statuses == {"slower": 1, "other": 2, "missing": 2}


def test_a_viewer_that_showed_nothing_has_no_age_in_the_file(tmp_path: Path) -> None:
    lanes: dict[str, dict[str, object]] = {"viewer": {"results": [{"age_p50_ms": float("nan")}]}}
    found = load(saved(tmp_path / "run.json", PUBLISH, lanes=lanes))
    assert found.lanes["viewer"]["results"] == [{"age_p50_ms": None}]


def test_nobody_is_ahead_where_both_have_nothing() -> None:
    torn = replace(EVENTS, question="torn frames", better="less", value=Figure(0, 0, 0))
    peer = replace(PEER, question="torn frames", better="less", value=Figure(0, 0, 0))
    assert peers_ahead([torn, peer]) == []


def test_a_peer_is_ahead_only_of_the_way_that_does_the_same_work() -> None:
    ahead = replace(PEER, name="fast tracker", value=Figure(1800, 1790, 1810))
    unlike = replace(ahead, name="another work", rival="lanekit, in place")
    close = replace(PEER, name="close tracker", value=Figure(905, 850, 950))
    found = peers_ahead([EVENTS, PEER, close, ahead, unlike])
    assert [(each.peer.name, each.times, each.clear) for each in found] == [
        ("fast tracker", 2.0, True),
        ("close tracker", pytest.approx(905 / 900), False),
    ]
