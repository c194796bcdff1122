"""The way in for contributors: what CONTRIBUTING.md tells them to type and to look for is there."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from patience import patience

pytestmark = pytest.mark.once


@pytest.fixture
def page(root: Path) -> str:
    return (root / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_one_test_is_run_as_the_page_says(root: Path, page: str) -> None:
    (line,) = re.findall(r"^\$ \.venv/bin/python (.*pytest.*)$", page, re.MULTILINE)
    command = [sys.executable, *shlex.split(line), "-p", "no:cacheprovider"]
    done = subprocess.run(
        command, cwd=root, capture_output=True, text=True, timeout=patience(200), check=False
    )
    assert done.returncode == 0, done.stdout
    assert re.search(r"\d+ passed", done.stdout)


def test_every_place_on_the_map_exists(root: Path, page: str) -> None:
    (plan,) = re.findall(r"^```\n(csrc/.*?)^```", page, re.MULTILINE | re.DOTALL)
    inside = [root]
    seen = 0
    for line in plan.splitlines():
        depth = (len(line) - len(line.lstrip())) // 2
        # Places come first, what is in them after a wider gap.
        for name in re.split(r" {2,}", line.strip())[0].split():
            assert list(inside[depth].glob(name.rstrip("/"))), f"no {name} in {inside[depth]}"
            seen += 1
        inside[depth + 1 :] = [inside[depth] / name]
    assert seen > 40


def test_every_command_of_the_makefile_explains_itself(root: Path) -> None:
    makefile = (root / "Makefile").read_text(encoding="utf-8")
    (phony,) = re.findall(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    said = subprocess.run(
        ["make", "help"], cwd=root, capture_output=True, text=True, timeout=patience(), check=True
    ).stdout
    for target in phony.split():
        assert re.search(rf"^ *(make )?{target} +\w", said, re.MULTILINE), target
