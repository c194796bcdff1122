"""The slow lane's examples, run as written: their own shell lines, a real daemon, a real worker."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from daemon_process import until

pytestmark = pytest.mark.once


class Shell:
    """A place to type the documents' lines in."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        own = str(Path(sys.executable).parent)
        self._environment = {
            **os.environ,
            "LANEKIT_STATE": str(directory / "state"),
            "PATH": f"{own}:{os.environ['PATH']}",
        }

    def run(self, script: str) -> str:
        """Run lines in bash; what they put into the background goes on."""
        output = self.directory / "output"
        with output.open("wb") as file:
            done = subprocess.run(
                ["bash", "-e", "-c", script],
                stdout=file,
                stderr=file,
                cwd=self.directory,
                env=self._environment,
                timeout=60,
                check=False,
            )
        said = output.read_text()
        assert done.returncode == 0, said
        return said

    def close(self) -> None:
        """End the daemon."""
        lock = self.directory / "state" / "daemon.sock.lock"
        if lock.exists():
            os.kill(int(lock.read_text()), signal.SIGTERM)


@pytest.fixture
def shell(short_directory: Path) -> Iterator[Shell]:
    opened = Shell(short_directory)
    yield opened
    opened.close()
    until(lambda: not (short_directory / "state" / "daemon.sock").exists())


def blocks(page: Path, language: str) -> list[str]:
    text = page.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def the_one_with(page: Path, language: str, word: str) -> str:
    (found,) = [block for block in blocks(page, language) if word in block]
    return found


def typed(console: str) -> str:
    """Return a console block's lines without their prompts, and without installing anything."""
    lines = [line.removeprefix("$ ") for line in console.splitlines() if line.startswith("$ ")]
    return "\n".join(line for line in lines if not line.startswith("pip "))


@pytest.mark.parametrize("page", ["README.md", "docs/slow-lane.md"])
def test_the_quick_start_runs_as_written(root: Path, shell: Shell, page: str) -> None:
    worker = the_one_with(root / page, "python", "emit.run_started")
    (shell.directory / "worker.py").write_text(worker, encoding="utf-8")
    shell.run(typed(the_one_with(root / page, "console", "lanekit daemon &")))
    until(lambda: "exit" in shell.run("lanekit show first"))
    shown = shell.run("lanekit show first")
    assert "completed" in shown
    assert re.search(r"steps +200\n", shown)
    assert "first" in shell.run("lanekit runs")
    example = the_one_with(root / "docs" / "slow-lane.md", "python", "RunStore.open()")
    (shell.directory / "read.py").write_text(example, encoding="utf-8")
    assert shell.run("python -W error read.py") == "200 1.0 [0.0, 0.1]\n"
