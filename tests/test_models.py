"""The core's memory ordering under checkers that know weak memory; see tests/models."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from patience import patience

pytestmark = pytest.mark.core

# An ordered access that no model reaches.
PLANTED = """
uint64_t lk_look(const _Atomic uint64_t *word) {
    /* [W1] acquire: pairs with the release in lk_announce. */
    return atomic_load_explicit(word, memory_order_acquire);
}
"""


@dataclass
class Run:
    """What `python -m tests.models` answered, and all of its verdicts."""

    returncode: int
    printed: str
    verdicts: dict[str, Any]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The core with one access more than the models know: one search answers both questions."""
    root = Path(__file__).resolve().parent.parent
    done = subprocess.run(
        [root / "tools" / "install_checkers.sh"],
        capture_output=True,
        text=True,
        timeout=patience(240),
        check=False,
    )
    if done.returncode != 0:
        pytest.skip(f"no memory-model checkers here: {done.stderr.strip()}")
    place = tmp_path_factory.mktemp("models")
    source, answer = place / "csrc", place / "verdicts.json"
    shutil.copytree(root / "csrc", source, ignore=shutil.ignore_patterns("tests"))
    with (source / "lk_wait.c").open("a", encoding="utf-8") as file:
        file.write(PLANTED)
    command = [sys.executable, "-m", "tests.models", "--fast"]
    done = subprocess.run(
        [*command, "--source", str(source), "--json", str(answer)],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=patience(280),
        check=False,
    )
    assert answer.exists(), done.stdout + done.stderr
    return Run(done.returncode, done.stdout, json.loads(answer.read_text(encoding="utf-8")))


def is_planted(mutant: dict[str, Any]) -> bool:
    return mutant["access"].startswith("lk_wait.c:lk_look:")


def test_the_protocols_hold_and_every_weakened_or_swapped_access_is_caught(run: Run) -> None:
    broken = [v for v in run.verdicts["correct"] if v["found"] or not v["complete"]]
    missed = [m for m in run.verdicts["mutants"] if not m["caught"] and not is_planted(m)]
    assert (broken, missed) == ([], []), run.printed
    assert len(run.verdicts["correct"]) > 20
    assert len(run.verdicts["mutants"]) > 70


def test_an_ordered_access_that_no_model_reaches_fails_the_run(run: Run) -> None:
    (planted,) = [m for m in run.verdicts["mutants"] if is_planted(m)]
    assert planted["caught"] == []
    assert run.returncode == 1
    assert "lk_wait.c:lk_look:[W1]" in run.printed
    assert run.printed.count("NOBODY: no model that holds reaches it") == 1
