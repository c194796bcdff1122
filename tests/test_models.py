"""The core's memory ordering under checkers that know weak memory; see tests/models."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.core


@pytest.fixture(scope="module")
def checkers() -> None:
    """The checkers, installed if this machine lets us."""
    root = Path(__file__).resolve().parent.parent
    done = subprocess.run(
        [root / "tools" / "install_checkers.sh"],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    if done.returncode != 0:
        pytest.skip(f"no memory-model checkers here: {done.stderr.strip()}")


def run_models(root: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.models", "--fast", *options],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )


@pytest.mark.usefixtures("checkers")
def test_the_protocols_hold_and_every_weakened_or_swapped_access_is_caught(root: Path) -> None:
    done = run_models(root)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.usefixtures("checkers")
def test_an_ordered_access_that_no_model_reaches_fails_the_run(root: Path, tmp_path: Path) -> None:
    source = tmp_path / "csrc"
    shutil.copytree(root / "csrc", source, ignore=shutil.ignore_patterns("tests"))
    with (source / "lk_wait.c").open("a") as file:
        file.write(
            "\nuint64_t lk_look(const _Atomic uint64_t *word) {\n"
            "    /* [W1] acquire: pairs with the release in lk_announce. */\n"
            "    return atomic_load_explicit(word, memory_order_acquire);\n"
            "}\n"
        )
    done = run_models(root, "--source", str(source), "--only", "lk_look")
    assert done.returncode == 1
    assert "lk_wait.c:lk_look:[W1]" in done.stdout
    assert "NOBODY: no model that holds reaches it" in done.stdout
