"""The slow lane's examples, run as written: their own shell lines, a real daemon, a real worker."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from patience import patience, until

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
                timeout=patience(),
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


# Under two names: whoever reads one after the other submits both to the same daemon.
@pytest.mark.parametrize(("page", "run"), [("README.md", "hello"), ("docs/slow-lane.md", "first")])
def test_the_quick_start_runs_as_written(root: Path, shell: Shell, page: str, run: str) -> None:
    worker = the_one_with(root / page, "python", "emit.run_started")
    (shell.directory / "worker.py").write_text(worker, encoding="utf-8")
    shell.run(typed(the_one_with(root / page, "console", "lanekit daemon &")))
    until(lambda: "exit" in shell.run(f"lanekit show {run}"))
    shown = shell.run(f"lanekit show {run}")
    assert "completed" in shown
    assert re.search(r"steps +200\n", shown)
    assert run in shell.run("lanekit runs")
    example = the_one_with(root / "docs" / "slow-lane.md", "python", "RunStore.open()")
    example = example.replace('"first"', f'"{run}"')
    (shell.directory / "read.py").write_text(example, encoding="utf-8")
    assert shell.run("python -W error read.py") == "200 1.0 [0.0, 0.1]\n"


def test_a_worker_is_submitted_over_tls_as_written(root: Path, shell: Shell) -> None:
    page = root / "docs" / "slow-lane.md"
    (shell.directory / "worker.py").write_text(the_one_with(page, "python", "emit.run_started"))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    # The one who follows the page has a machine of that name, and nobody on that port.
    changes = {"0.0.0.0": "127.0.0.1", "50777": port, "trainer": "localhost"}
    lines = typed(the_one_with(page, "console", "openssl"))
    for old, new in changes.items():
        assert old in lines
        lines = lines.replace(old, new)
    *prepared, submit = lines.splitlines()
    shell.run("\n".join(prepared))
    until(lambda: (shell.directory / "state" / "daemon.sock").exists())
    shell.run(submit.replace(" -- ", " --run over-tls -- "))
    store = the_one_with(page, "python", "RunStore.open()").replace('"first"', '"over-tls"')
    (shell.directory / "read.py").write_text(store, encoding="utf-8")
    until(lambda: "exit" in shell.run("lanekit show over-tls"))
    assert shell.run("python -W error read.py") == "200 1.0 [0.0, 0.1]\n"


def test_a_worker_that_listens_stops_when_it_is_asked_to(root: Path, shell: Shell) -> None:
    page = root / "docs" / "slow-lane.md"
    listening = the_one_with(page, "python", "ControlInbox.from_environment()")
    (shell.directory / "worker.py").write_text(listening, encoding="utf-8")
    shell.run("lanekit daemon &\nlanekit submit --run asked -- python worker.py")
    for action, state in {"pause": "paused", "resume": "running"}.items():
        shell.run(f"lanekit control asked {action}")
        until(lambda state=state: state in shell.run("lanekit show asked"))
    shell.run("lanekit control asked stop")
    until(lambda: "exit" in shell.run("lanekit show asked"))
