"""Every code block of the README and of the pages is run, or its page says why not."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from page_blocks import PAGES, ROOT, Block, all_blocks, blocks_of
from page_shell import PageShell

from lanekit.cli import build_parser
from patience import patience

pytestmark = pytest.mark.once

DATA = ("json", "toml")
BY_ANOTHER_TEST = ("c", "cpp", "rust", "sql")
# How many blocks may stay without being run by anything. Rather make one run than raise this.
NOT_RUN = 5


def runnable(page: Path) -> list[Block]:
    """Return the blocks that this test runs."""
    return [
        block
        for block in blocks_of(page)
        if block.run_by is None and block.not_run is None and not block.is_text
    ]


def to_run(lines: list[str]) -> list[str]:
    """Return the typed lines without those that install: those are checked by another test."""
    return [line for line in lines if not line.startswith(("pip install ", "make "))]


@pytest.fixture
def shell() -> Iterator[PageShell]:
    # A daemon's socket has a short name or none.
    directory = tempfile.mkdtemp(prefix="lk-")
    opened = PageShell(Path(directory))
    yield opened
    opened.close()
    shutil.rmtree(directory)


@pytest.mark.parametrize("page", [page for page in PAGES if runnable(page)], ids=lambda p: p.name)
def test_the_blocks_of_a_page_run_in_order_as_written(page: Path, shell: PageShell) -> None:
    for block in runnable(page):
        assert block.language not in BY_ANOTHER_TEST, f"{block}: say which test runs it"
        if block.file is not None:
            (shell.directory / block.file).write_text(block.code, encoding="utf-8")
        elif block.language == "json":
            json.loads(block.code)
        elif block.language == "toml":
            tomllib.loads(block.code)
        else:
            lines = to_run(block.typed)
            said = shell.python(block.code) if block.language == "python" else shell.bash(lines)
            assert block.promised in (None, said), block


def test_every_block_has_a_language_that_can_be_run_or_is_plain_text() -> None:
    commands = r"^(\$ )?(pip|lanekit|python|make|cmake|pytest|cargo) \w"
    for block in all_blocks():
        known = ("python", "console", *DATA, *BY_ANOTHER_TEST)
        assert block.is_text or block.language in known, block
        if block.is_text:
            assert not re.search(commands, block.code, re.MULTILINE), f"{block}: mark it as console"
        if block.language == "console":
            assert block.typed, f"{block}: typed lines begin with a dollar sign"


def test_a_mark_is_understood_and_names_what_exists() -> None:
    for block in all_blocks():
        if block.mark:
            assert block.file or block.run_by or block.not_run, f"{block}: {block.mark}"
        if block.run_by is not None:
            test = (ROOT / block.run_by).read_text(encoding="utf-8")
            commands = re.findall(r"^\$ lanekit (\w+)", block.code, re.MULTILINE)
            named = Path(block.page).name in test
            assert named or any(re.search(rf"\b{command}\b", test) for command in commands), block


def test_few_blocks_are_not_run_at_all_and_each_says_why() -> None:
    left = {str(block): block.not_run for block in all_blocks() if block.not_run is not None}
    print(*(f"{block}: {why}" for block, why in left.items()), sep="\n")
    assert all(len(why.split()) >= 4 for why in left.values())
    assert len(left) <= NOT_RUN


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_typed_line_of_lanekit_is_understood(page: Path) -> None:
    parser = build_parser()
    for block in blocks_of(page):
        for line in block.typed if block.language == "console" else []:
            words = shlex.split(line, comments=True)
            words = words[: words.index("&")] if "&" in words else words
            if words and words[0] == "lanekit" and not {"|", ">"} & set(words):
                parser.parse_args(words[1:])


def test_what_a_page_installs_or_makes_is_there_to_be_had() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = set(project["optional-dependencies"])
    targets: Counter[str] = Counter()
    for block in all_blocks():
        for line in block.typed if block.language == "console" else []:
            if line.startswith("pip install "):
                named = re.search(r"(?:lanekit|\.)\[([\w,-]+)\]", line)
                assert named is None or set(named[1].split(",")) <= extras, f"{block}: {line}"
            elif line.startswith("make "):
                targets[line.split()[1]] += 1
    assert {"demo", "test"} <= set(targets)
    subprocess.run(
        ["make", "--dry-run", "--no-print-directory", *targets],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        timeout=patience(),
        check=True,
    )
