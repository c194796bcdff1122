"""Which workers are installed, and why one can not be used: real dist-infos on the path."""

from __future__ import annotations

import importlib
import json
import sys

import pytest
from made_distributions import CONFIG, METADATA, Site

from lanekit.errors import WorkerError
from lanekit.worker import (
    BrokenWorker,
    InstalledWorker,
    WorkerCapabilities,
    WorkerMetadata,
    discover_workers,
    find_worker,
)

FOREIGN = """\
from dataclasses import dataclass, field

@dataclass
class TheirMetadata:
    name: str = "Theirs"
    version: str = "3"
    upstream_library: str = "theirlib"
    rating: int = 5

@dataclass
class TheirCapabilities:
    worker_type: str = "foreign"
    env_families: list[str] = field(default_factory=lambda: ["gymnasium", "procgen"])

def get():
    return TheirMetadata(), TheirCapabilities()
"""


@pytest.fixture
def found(site: Site, monkeypatch: pytest.MonkeyPatch) -> Site:
    """The place for distributions, on this process's own path."""
    site.directory.mkdir()
    monkeypatch.syspath_prepend(str(site.directory))
    return site


def only(name: str) -> InstalledWorker | BrokenWorker:
    importlib.invalidate_caches()
    (worker,) = [worker for worker in discover_workers() if worker.name == name]
    return worker


def test_an_installed_worker_says_who_it_is_and_how_it_is_started(found: Site) -> None:
    found.install_worker("tidy-one")
    worker = find_worker("tidy-one")
    assert (worker.distribution, worker.metadata.version) == ("tidy-one", "1.2")
    assert worker.capabilities.worker_type == "tidy-one"
    file = found.directory / "c.json"
    assert worker.command(file) == [sys.executable, "-m", "tidy_one.cli", "--config", str(file)]
    config = worker.config_class().from_dict({"run_id": "a"})
    assert config.to_dict()["layers"] == [64, 64]


def test_another_librarys_records_are_understood(found: Site) -> None:
    found.install("foreign-dist", {"foreign": "foreign_worker:get"}, {"foreign_worker.py": FOREIGN})
    worker = only("foreign")
    assert isinstance(worker, InstalledWorker)
    assert (worker.metadata.name, worker.metadata.upstream_library) == ("Theirs", "theirlib")
    assert worker.capabilities.env_families == ("gymnasium", "procgen")
    assert not worker.capabilities.supports_pause, "nobody said that it does"


@pytest.mark.parametrize(
    ("code", "reason", "remedy"),
    [
        ("import no_such_library", "no module named no_such_library", "brings no_such_library"),
        (
            "from importlib.metadata import version\ndef get(): version('absent-rl')",
            "absent-rl is not installed",
            "pip install absent-rl",
        ),
        ("def get(): return None", "returned None, not (metadata, capabilities)", "report it"),
        ("def get(): return 1, 2", "int is no WorkerMetadata: it has no name", "report it"),
        ("def get(): 1 / 0", "ZeroDivisionError", "--force-reinstall broken-dist"),
        ("raise SystemExit('needs a licence')", "SystemExit: needs a licence", "report it"),
        ("other = 1", "has no attribute 'get'", "report it"),
    ],
)
def test_a_worker_that_fails_says_why_and_what_to_do(
    found: Site, request: pytest.FixtureRequest, code: str, reason: str, remedy: str
) -> None:
    module = f"broken_{abs(hash(request.node.name))}"
    found.install("broken-dist", {"broken": f"{module}:get"}, {f"{module}.py": code})
    worker = only("broken")
    assert isinstance(worker, BrokenWorker)
    assert reason in worker.reason
    assert remedy in worker.remedy
    with pytest.raises(WorkerError, match="worker 'broken' can not be used"):
        find_worker("broken")


def test_a_worker_whose_files_are_gone_is_to_be_installed_again(found: Site) -> None:
    found.install("hollow-dist", {"hollow": "hollow_worker:get"})
    worker = only("hollow")
    assert isinstance(worker, BrokenWorker)
    assert worker.reason == "its own module hollow_worker is missing"
    assert worker.remedy == "pip install --force-reinstall hollow-dist"


def test_a_name_that_is_almost_right_is_guessed(found: Site) -> None:
    found.install_worker("neat-one")
    with pytest.raises(WorkerError, match="did you mean neat-one"):
        find_worker("neet-one")
    with pytest.raises(WorkerError, match="`lanekit workers` lists"):
        find_worker("quite-another-thing")


def test_of_two_distributions_the_first_on_the_path_counts(
    found: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    found.install_worker("twin")
    second = Site(found.directory.parent / "second")
    second.install("twin-b", {"twin": "twin_b:get_worker_metadata"}, {"twin_b.py": METADATA})
    monkeypatch.syspath_prepend(str(second.directory))
    worker = only("twin")
    assert worker.distribution == "twin-b"


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ("import no_such_library", "can not be loaded: ModuleNotFoundError"),
        ("x = 1", "has 0 classes with from_dict"),
        (CONFIG + "class Other(Config): pass\n", "has 2 classes with from_dict"),
        ("raise SystemExit(3)", "can not be loaded: SystemExit"),
    ],
)
def test_a_configuration_that_can_not_be_found_is_explained(
    found: Site, request: pytest.FixtureRequest, config: str, words: str
) -> None:
    name = f"lost{abs(hash(request.node.name))}"
    found.install_worker(name, config=config)
    with pytest.raises(WorkerError, match=words):
        find_worker(name).config_class()


def test_the_list_shows_what_works_and_explains_what_does_not(site: Site) -> None:
    site.install_worker("good-one")
    site.install(
        "noisy-dist",
        {"noisy": "noisy_worker:get"},
        {"noisy_worker.py": "print('hello from the import')\nimport no_such_library"},
    )
    table = site.lanekit("workers")
    good = next(line for line in table.splitlines() if line.startswith("good-one"))
    assert good.split() == [
        *("good-one", "A", "test's", "worker", "1.2", "-", "sequential", "gymnasium", "good-one")
    ]
    assert "no module named no_such_library" in table
    workers = {worker["name"]: worker for worker in json.loads(site.lanekit("workers", "--json"))}
    assert workers["good-one"]["usable"] is True
    assert workers["good-one"]["metadata"]["description"] == "trains nothing"
    assert workers["good-one"]["command"][1:] == ["-m", "good_one.cli"]
    assert workers["noisy"]["usable"] is False
    assert "no_such_library" in workers["noisy"]["remedy"]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: WorkerMetadata(name="", version="1"), "needs a name and a version"),
        (lambda: WorkerMetadata(name="a", version=1), "version is a text, not 1"),  # type: ignore[arg-type]
        (lambda: WorkerCapabilities(worker_type=""), "need a worker_type"),
        (lambda: WorkerCapabilities(worker_type="a", max_agents=0), "at least 1, not 0"),
        (lambda: WorkerCapabilities(worker_type="a", max_agents=True), "a whole number, not True"),
        (
            lambda: WorkerCapabilities(worker_type="a", env_families="gymnasium"),  # type: ignore[arg-type]
            "env_families is a tuple of texts",
        ),
        (
            lambda: WorkerCapabilities(worker_type="a", supports_pause="yes"),  # type: ignore[arg-type]
            "supports_pause is True or False, not 'yes'",
        ),
    ],
)
def test_what_a_worker_says_about_itself_is_checked(make: object, words: str) -> None:
    assert callable(make)
    with pytest.raises((ValueError, TypeError), match=words):
        make()
