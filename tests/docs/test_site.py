"""The documentation's site: every page is read without a warning, and its links lead somewhere."""

from __future__ import annotations

import importlib
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from page_blocks import ROOT
from public_names import PUBLIC

from patience import patience

pytestmark = pytest.mark.once


def build(source: Path, place: Path) -> subprocess.CompletedProcess[str]:
    """Read and check a tree's pages as `make docs` does, without writing them as HTML."""
    (line,) = [line for line in (ROOT / "Makefile").read_text().splitlines() if "-m sphinx" in line]
    options = line.split("-m sphinx")[1].replace("-b html", "-b dummy").split()[:-2]
    return subprocess.run(
        [sys.executable, "-m", "sphinx", *options, str(source), str(place)],
        cwd=source,
        capture_output=True,
        text=True,
        timeout=patience(280),
        check=False,
    )


def test_every_page_is_built_without_a_warning(tmp_path: Path) -> None:
    done = build(ROOT, tmp_path)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr


MISTAKES = {
    "[a page](nowhere.md)": "cross-reference target not found: 'nowhere.md'",
    "[a place](#no-such-place)": "cross-reference target not found: 'no-such-place'",
    "![a picture](images/none.png)": "image file not readable",
    "```{eval-rst}\n.. autoclass:: lanekit.Nothing\n```": "failed to import 'Nothing'",
}


def test_a_page_with_mistakes_is_refused_and_each_is_named(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    (docs / "_root").mkdir(parents=True)
    shutil.copy(ROOT / "docs" / "conf.py", docs)
    (docs / "index.md").write_text("\n\n".join(["# A page", *MISTAKES]))
    done = build(tmp_path, tmp_path / "out")
    assert done.returncode != 0
    for complaint in MISTAKES.values():
        assert complaint in done.stderr


@pytest.mark.parametrize(
    ("page", "complaint"),
    [
        ('<a href="other.html">', "other.html leads nowhere"),
        ('<p id="here"><a href="#there">', "#there: there is no such place"),
        ('<script src="https://cdn.example/x.js">', "fetches https://cdn.example/x.js"),
        ('<p id="here"><a href="#here"><a href="https://example.org">', None),
    ],
)
def test_a_dead_link_in_the_built_site_is_found(
    tmp_path: Path, page: str, complaint: str | None
) -> None:
    problems = runpy.run_path(str(ROOT / "tools" / "check_site.py"))["problems"]
    (tmp_path / "page.html").write_text(page)
    found = problems(tmp_path)
    assert len(found) == (complaint is not None)
    assert complaint is None or complaint in found[0]


@pytest.mark.parametrize("package", PUBLIC)
def test_the_reference_has_every_public_name(package: str) -> None:
    text = "".join(page.read_text() for page in (ROOT / "docs" / "reference").glob("*.md"))
    listed = set(re.findall(r"^\.\. (?:auto\w+|py:\w+):: lanekit\.(?:\w+\.)*(\w+)$", text, re.M))
    for module in re.findall(r"^\.\. automodule:: ([\w.]+)$", text, re.MULTILINE):
        listed |= set(vars(importlib.import_module(module)))
    missing = set(importlib.import_module(package).__all__) - listed - {"__version__"}
    assert not missing, f"name them in docs/reference: {missing}"
