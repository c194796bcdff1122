"""``lanekit worker new``: what it refuses, and that what it writes installs, trains and passes.

The newcomer does what docs/workers.md says, in an environment of its own.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest
from made_distributions import Site

from lanekit.errors import WorkerError
from lanekit.worker.scaffold import check_name, write_package
from patience import patience

FILES = {
    *("README.md", "pyproject.toml", "config.json", ".gitignore", "tests/test_worker.py"),
    *(f"src/my_walker/{name}.py" for name in ("__init__", "config", "runtime", "learner", "cli")),
    "src/my_walker/py.typed",
}


def test_a_package_is_written_whole_with_its_names_put_in(tmp_path: Path) -> None:
    written = write_package("my-walker", tmp_path / "here")
    assert {str(path.relative_to(tmp_path / "here")) for path in written} == FILES
    for path in written:
        text = path.read_text()
        for mark in ("@name@", "@package@", "@title@", "@class@", "@lanekit@"):
            assert mark not in text, path
        if path.suffix == ".py":
            compile(text, str(path), "exec")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("My Walker", r"small letters, digits and hyphens.*such as my-walker"),
        ("9lives", r"such as lives"),
        ("a-", "is no worker's name"),
        ("", "is no worker's name"),
        ("../evil", "is no worker's name"),
        ("ünïcode", "is no worker's name"),
        ("x" * 41, "at most 40"),
        ("class", "Python itself uses it"),
        ("json", "Python itself uses it"),
        ("numpy", r"a module numpy is installed"),
        ("lanekit", r"a module lanekit is installed"),
    ],
)
def test_a_bad_or_taken_name_is_refused(name: str, words: str) -> None:
    with pytest.raises(WorkerError, match=words):
        check_name(name)


def test_the_name_of_an_installed_worker_is_taken(site: Site) -> None:
    site.install("some-dist", {"taken-one": "nowhere:get"})
    said = site.lanekit("worker", "new", "taken-one", status=1)
    assert "a worker of that name is installed, see `lanekit workers`" in said


def test_nothing_is_written_over(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("precious")
    with pytest.raises(WorkerError, match=r"is not empty; choose another place with --directory"):
        write_package("my-walker", tmp_path / "full")
    with pytest.raises(WorkerError, match="is not empty"):
        write_package("my-walker", tmp_path / "full" / "thesis.tex")
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["thesis.tex"]
    (tmp_path / "empty").mkdir()
    assert write_package("my-walker", tmp_path / "empty")


def test_a_place_that_can_not_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(WorkerError, match=r"/proc/.*: "):
        write_package("my-walker", Path("/proc/nowhere"))


class Newcomer:
    """An environment of its own with lanekit in it, and a new worker's package."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.package = directory / "my-walker"
        venv.create(directory / "venv")
        # What this environment has, pip included, the new one has too.
        (place,) = (directory / "venv" / "lib").glob("python*/site-packages")
        ours = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
        lines = [f"import site; site.addsitedir({path!r})\n" for path in sorted(ours)]
        (place / "ours.pth").write_text("".join(lines))
        self.bin = directory / "venv" / "bin"

    def run(self, *command: str | Path, cwd: Path | None = None) -> str:
        done = subprocess.run(
            [str(part) for part in command],
            cwd=cwd or self.directory,
            capture_output=True,
            text=True,
            timeout=patience(200),
            env={**os.environ, "PATH": f"{self.bin}:{os.environ['PATH']}"},
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def newcomer(tmp_path_factory: pytest.TempPathFactory) -> Newcomer:
    pytest.importorskip("gymnasium")
    pytest.importorskip("msgspec")
    person = Newcomer(tmp_path_factory.mktemp("newcomer"))
    person.run(person.bin / "python", "-m", "lanekit", "worker", "new", "my-walker")
    install = (person.bin / "python", "-m", "pip", "install", "--quiet", "--no-deps")
    person.run(*install, "--editable", person.package)
    return person


@pytest.mark.once
def test_a_new_worker_is_listed_and_trains_on_the_first_try(newcomer: Newcomer) -> None:
    python = newcomer.bin / "python"
    workers = json.loads(newcomer.run(python, "-m", "lanekit", "workers", "--json"))
    assert "my-walker" in [worker["name"] for worker in workers if worker["usable"]]
    config = json.loads((newcomer.package / "config.json").read_text())
    short = newcomer.package / "short.json"
    short.write_text(json.dumps({**config, "total_steps": 30_000}))
    output = newcomer.run("my-walker", "--config", short)
    short.unlink()
    result = json.loads(output.splitlines()[-1])["payload"]
    assert (result["status"], result["steps"]) == ("completed", 30_000)
    assert result["last"] > 2 * result["first"]


@pytest.mark.once
def test_a_new_worker_passes_its_own_tests_and_the_checks_in_them(newcomer: Newcomer) -> None:
    output = newcomer.run(
        newcomer.bin / "python",
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        cwd=newcomer.package,
    )
    assert "7 passed" in output


@pytest.mark.once
def test_a_new_worker_is_clean(newcomer: Newcomer) -> None:
    pytest.importorskip("mypy")
    ruff = shutil.which("ruff", path=str(Path(sys.executable).parent))
    if ruff is None:
        pytest.skip("ruff is not installed here")
    newcomer.run(ruff, "check", "--no-cache", ".", cwd=newcomer.package)
    newcomer.run(ruff, "format", "--no-cache", "--check", ".", cwd=newcomer.package)
    mypy = (newcomer.bin / "python", "-m", "mypy", "--cache-dir", os.devnull)
    newcomer.run(*mypy, "--python-executable", sys.executable, cwd=newcomer.package)
