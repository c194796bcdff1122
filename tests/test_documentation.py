"""What the documents say is run, not believed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import lanekit
from lanekit import errors
from lanekit._core import _MEANINGS, lib
from lanekit.cli import COMMANDS


def blocks(page: Path, language: str) -> list[str]:
    text = page.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def test_the_readme_has_a_short_example_of_each_lane(root: Path) -> None:
    # tests/docs runs them.
    programs = blocks(root / "README.md", "python")
    for word in ("FastLane", "StepServer", "CommandServer", "TrajectoryReader", "emit"):
        (program,) = [code for code in programs if re.search(rf"import .*\b{word}", code)][-1:]
        assert len([line for line in program.splitlines() if line]) <= 15, word


def test_the_readme_lists_every_command(root: Path) -> None:
    readme = (root / "README.md").read_text(encoding="utf-8")
    for command in COMMANDS:
        assert f"`lanekit {command}" in readme


def test_every_link_and_path_in_the_documents_leads_somewhere(root: Path) -> None:
    for page in [*root.glob("*.md"), *(root / "docs").glob("*.md"), *(root / "bench").glob("*.md")]:
        text = page.read_text(encoding="utf-8")
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", text):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
        for target in re.findall(r"`((?:csrc|python|tests|bench|tools|docs)/[\w./]+\w)`", text):
            assert (root / target).exists(), f"{page.name} names {target}"


def test_docstring_examples_run() -> None:
    import doctest

    import numpy as np

    import lanekit.fast.writer

    result = doctest.testmod(lanekit.fast.writer, extraglobs={"np": np})
    assert result.attempted > 0
    assert result.failed == 0


def test_every_status_of_the_core_has_a_meaning_in_python() -> None:
    # These never reach the general table: callers answer them with more detail, or act on them.
    special = {"LK_E_SYSTEM", "LK_E_SIZE", "LK_E_METADATA_SIZE", "LK_E_MOVED"}
    special |= {"LK_E_PERMISSION", "LK_E_UNTRUSTED"}
    statuses = {name for name in dir(lib) if name.startswith("LK_E_")}
    assert len(statuses) > 20
    covered = {name for name in statuses if getattr(lib, name) in _MEANINGS}
    assert statuses - covered == special


@pytest.mark.parametrize("status", sorted(_MEANINGS))
def test_every_message_names_its_subject(status: int) -> None:
    kind, meaning = _MEANINGS[status]
    assert "{what}" in meaning
    assert issubclass(kind, errors.LanekitError | ValueError)


def test_the_version_is_kept_in_one_place(root: Path) -> None:
    project = (root / "pyproject.toml").read_text(encoding="utf-8")
    assert f'version = "{lanekit.__version__}"' in project
