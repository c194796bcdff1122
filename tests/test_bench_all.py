"""A run of everything ends in one file, a page and pictures; here with very few frames."""

from __future__ import annotations

import os
import subprocess
import sys
from argparse import Namespace
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from bench import page
from bench.record import Record, load
from bench.rows import Figure, Row, point

from patience import patience

pytestmark = pytest.mark.once
ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path, Record]:
    """What a tiny run said, where it wrote, and its record."""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("writer and reader both spin: needs two cores")
    out = tmp_path_factory.mktemp("bench")
    command = [sys.executable, "-m", "bench", "all", "--tiny", "--only", "peers", "--out", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=patience(280))
    assert done.returncode == 0, done.stderr
    return done.stdout, out, load(out / "bench.json")


def test_the_record_has_machine_versions_method_and_rows(run: tuple[str, Path, Record]) -> None:
    _, _, record = run
    assert record.mode == "tiny"
    assert record.machine["cores"] >= 2
    assert record.versions["lanekit"]
    assert "alternate" in record.lanes["peers"]["method"]
    ours = [row for row in record.rows if row.name == "lanekit"]
    assert {row.question for row in ours} >= {"publishing a frame", "one way"}
    for row in ours:
        assert row.value is not None
        assert 0 < row.value.low <= row.value.median <= row.value.high
    (limit,) = {row.base for row in ours if row.ratio is not None}
    assert limit == "memcpy"


def test_whole_frames_came_through_every_way(run: tuple[str, Path, Record]) -> None:
    found = run[2].lanes["peers"]["results"]["newest_frame"]
    for name in ("lanekit", "multiprocessing.Pipe"):
        assert "failed" not in found["about"][name]
        assert all(size["ways"][name]["torn"] == 0 for size in found["sizes"])
        assert found["latency"]["sleeping"][name]["frames"] > 0


def test_a_way_that_is_not_there_is_listed_with_its_reason(run: tuple[str, Path, Record]) -> None:
    printed, out, _ = run
    reason = "| peers | no such way | LookupError: no way is called no such way |"
    assert reason in printed
    assert reason in (out / "bench.md").read_text(encoding="utf-8")


def test_the_pictures_that_there_are_figures_for_are_drawn(run: tuple[str, Path, Record]) -> None:
    pytest.importorskip("matplotlib")
    _, out, _ = run
    text = (out / "bench.md").read_text(encoding="utf-8")
    for name in ("overview", "throughput", "readers", "publish", "latency"):
        assert (out / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert f"]({name}.png)" in text
    assert not (out / "slow.png").exists()
    assert "slow.png" not in text


def test_nothing_is_left_in_shared_memory(run: tuple[str, Path, Record]) -> None:
    """Whatever has a living process behind it is somebody else's run."""
    left = [
        name
        for name in os.listdir("/dev/shm")
        if "bench-peer-" in name and not Path("/proc", _pid(name)).exists()
    ]
    assert not left


def _pid(name: str) -> str:
    return name.split("bench-peer-")[1].split("-")[0]


def test_the_page_of_the_docs_is_written_from_a_saved_run(
    run: tuple[str, Path, Record], tmp_path: Path
) -> None:
    readme = tmp_path / "README.md"
    table = "<!-- written by `python -m bench page` -->\nold\n<!-- until here -->"
    readme.write_text(f"before\n{table}\nafter\n", encoding="utf-8")
    arguments = Namespace(record=run[1] / "bench.json", docs=tmp_path, readme=readme)
    assert page.main(arguments) == 0
    first, *middle, last = readme.read_text(encoding="utf-8").splitlines()
    assert (first, last) == ("before", "after")
    assert "old" not in middle
    assert any(line.startswith("| publish an 84×84 frame from Python") for line in middle)
    text = (tmp_path / "benchmarks.md").read_text(encoding="utf-8")
    assert text.startswith("# Benchmarks\n")
    assert "](../bench/README.md)" in text
    for target in (line.split("](")[1].rstrip(")") for line in text.split("\n") if "![" in line):
        assert (tmp_path / target).exists()


def test_the_page_says_where_a_peer_is_ahead() -> None:
    ours = Row(*("step", "one step", "64", "lanekit", "ours", "µs", "less", Figure(9.0, 8.9, 9.1)))
    peer = Row(
        *("step", "one step", "64", "quicker", "peer", "µs", "less", Figure(6.0, 5.9, 6.1)),
        rival="lanekit",
        note="it does less",
    )
    text = page_of(ours, peer)
    assert "In 1 of 1 rows that compare a peer with lanekit, in 1 of them beyond" in text
    assert "| one step, 64 | quicker | 6 µs | 9 µs | ×1.5 | yes |" in text
    assert "- **quicker**, one step: it does less.\n" in text
    assert "| quicker | 6 | 5.9 – 6.1 | **×0.667** |" in text
    assert "- **quicker**, one step: not known yet." in page_of(ours, replace(peer, note=""))
    assert "In none of the 0 rows" in page_of(ours)


def page_of(*rows: Row) -> str:
    machine = {"cpu": "a machine", "cores": 2, "kernel": "6", "python": "3.11"}
    lanes = {"step": {"method": "by turns", "noise": {}}}
    return page.markdown(Record("full", "today", machine, {}, lanes, list(rows)), [])


def test_a_question_with_several_cases_has_a_table_of_figures_and_one_of_ratios() -> None:
    rows = []
    for case, ours, theirs in (("64", 9.0, 18.0), ("4,096", 90.0, 45.0)):
        made = partial(Row, "step", "one step", case, unit="µs", better="less")
        rows += [
            made("memcpy", "limit", value=point(ours / 3)),
            made("lanekit", "ours", value=point(ours), ratio=point(3.0), base="memcpy"),
            made("peer", "peer", value=point(theirs), rival="lanekit"),
        ]
    text = page_of(*rows)
    assert "|  | 64 | 4,096 |" in text
    assert "| **lanekit** | 9 | 90 |" in text
    assert "|  | 64 ÷ memcpy | lanekit is | 4,096 ÷ memcpy | lanekit is |" in text
    assert "| **lanekit** | ×3 |  | ×3 |  |" in text
    assert "| peer |  | ×2 |  | **×0.5** |" in text


def test_a_reason_that_names_a_file_shows_no_directory() -> None:
    failed = Row(
        *("step", "one step", "", "peer", "peer", "µs", "less", None),
        failed="ImportError: /home/somebody/venv/lib/peer.so: cannot open /x/y.so, see http://a/b",
    )
    assert "ImportError: …/peer.so: cannot open …/y.so, see http://a/b" in page_of(failed)
