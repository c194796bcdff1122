"""The release script, as docs/releasing.md has it: what it refuses before it builds anything."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from patience import patience

pytestmark = pytest.mark.once


class Checkout:
    """A repository with what the script looks at first."""

    def __init__(self, directory: Path, root: Path) -> None:
        self.directory = directory
        (directory / "tools").mkdir()
        shutil.copy(root / "tools" / "release.sh", directory / "tools")
        (directory / "pyproject.toml").write_text('[project]\nversion = "1.2.3"\n')
        (directory / "CHANGELOG.md").write_text("# Changelog\n\n## [1.2.3] - 2026-03-01\n")
        self.git("init", "--quiet")
        self.commit()

    def git(self, *words: str) -> None:
        who = {f"GIT_{role}_{part}": "x" for role in ("AUTHOR", "COMMITTER") for part in WHO}
        command = ["git", "-c", "core.hooksPath=", *words]
        subprocess.run(command, cwd=self.directory, env={**os.environ, **who}, check=True)

    def commit(self) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "as it is")

    def release(self, *options: str) -> tuple[int, str]:
        done = subprocess.run(
            ["tools/release.sh", *options],
            cwd=self.directory,
            capture_output=True,
            text=True,
            timeout=patience(),
            check=False,
        )
        return done.returncode, done.stdout + done.stderr


WHO = ("NAME", "EMAIL")


@pytest.fixture
def checkout(tmp_path: Path, root: Path) -> Checkout:
    return Checkout(tmp_path, root)


def test_a_tree_that_is_not_clean_is_refused(checkout: Checkout) -> None:
    (checkout.directory / "stray.txt").touch()
    status, said = checkout.release("--no-tag")
    assert status == 1
    assert "error: the tree is not clean" in said


def test_a_version_that_is_tagged_is_refused(checkout: Checkout) -> None:
    checkout.git("tag", "v1.2.3")
    status, said = checkout.release()
    assert status == 1
    assert "v1.2.3 is tagged already\n       raise the version in pyproject.toml" in said


def test_a_version_without_an_entry_in_the_changelog_is_refused(checkout: Checkout) -> None:
    (checkout.directory / "CHANGELOG.md").write_text("# Changelog\n\n## [Unreleased]\n")
    checkout.commit()
    status, said = checkout.release()
    assert status == 1
    assert "it needs a line: ## [1.2.3] - 20" in said


def test_what_an_earlier_try_left_is_not_mixed_in(checkout: Checkout) -> None:
    (checkout.directory / ".gitignore").write_text("dist/\n")
    checkout.commit()
    (checkout.directory / "dist" / "1.2.3").mkdir(parents=True)
    status, said = checkout.release()
    assert status == 1
    assert "rm -r dist/1.2.3" in said


@pytest.mark.parametrize("options", [["--uplod"], ["--upload", "--no-tag"]])
def test_options_that_can_not_be_meant_are_misuse(checkout: Checkout, options: list[str]) -> None:
    assert checkout.release(*options)[0] == 2
