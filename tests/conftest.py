"""What the tests share: run ids of their own, and a look at what they leave behind."""

from __future__ import annotations

import os
import random
import signal
import sysconfig
import uuid
from collections.abc import Iterator
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import hypothesis
import pytest

from lanekit import segment_name
from lanekit.segments import segment_path
from patience import patience
from role_processes import Processes
from step_peers import Peers
from working_programs import working

ROOT = Path(__file__).resolve().parent.parent

# In the background of a script SIGINT is ignored, and would be in all processes that tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes, or takes to be made up, says something about the machine only.
hypothesis.settings.register_profile(
    "lanekit", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("lanekit")

FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
HAS_PYGAME = find_spec("pygame") is not None
HAS_GYMNASIUM = find_spec("gymnasium") is not None
HAS_FRAMEWORKS = find_spec("stable_baselines3") is not None
HAS_RAY = find_spec("ray") is not None
HAS_QT = find_spec("PyQt6") is not None and find_spec("pytestqt") is not None
HAS_SPHINX = find_spec("sphinx") is not None and find_spec("myst_parser") is not None
HAS_MUJOCO = find_spec("mujoco") is not None and version("mujoco") >= "4"
HAS_BROWSER = find_spec("playwright") is not None and working("chromium") is not None
collect_ignore = ["slow"] if FREE_THREADED else []
collect_ignore += [] if HAS_MUJOCO else ["engine"]
collect_ignore += [] if HAS_GYMNASIUM else ["integrations"]
collect_ignore += [] if HAS_QT else ["viewer"]
collect_ignore += [] if HAS_FRAMEWORKS else ["frameworks"]
collect_ignore += [] if HAS_BROWSER else ["web"]
collect_ignore += [] if HAS_SPHINX else ["docs/test_site.py"]
collect_ignore += [] if HAS_RAY else ["cluster"]
WANTS_POSTGRES = "LANEKIT_TEST_POSTGRES" in os.environ
collect_ignore += [] if WANTS_POSTGRES else ["postgres"]


def pytest_report_header() -> list[str]:
    """Say what is left out, and why."""
    left_out = []
    if FREE_THREADED:
        left_out.append("slow lane: left out, grpcio has no wheel for free-threaded CPython")
    if not HAS_GYMNASIUM:
        left_out.append("wrappers of environments: left out, gymnasium is not installed here")
    elif not HAS_PYGAME:
        left_out.append("environments that draw with pygame: left out, it is not installed here")
    if not HAS_MUJOCO:
        left_out.append("engine: left out, MuJoCo 4 or newer is not installed here")
    if not HAS_QT:
        left_out.append("windows: left out, PyQt6 or pytest-qt is not installed here")
    if not HAS_SPHINX:
        left_out.append("the documentation's site: left out, Sphinx is not installed here")
    if not HAS_FRAMEWORKS:
        left_out.append("RL frameworks: left out, not installed here; see `make test-frameworks`")
    if not HAS_BROWSER:
        left_out.append("the page in a browser: left out, not installed here; see `make test-web`")
    if not HAS_RAY:
        left_out.append("cluster: left out, Ray is not installed here; see `make test-cluster`")
    if not WANTS_POSTGRES:
        left_out.append("PostgreSQL under fire: left out for its time; see `make test-postgres`")
    return left_out


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out what is drawn with pygame where there is none: it has no free-threaded wheel."""
    if not HAS_PYGAME:
        for item in items:
            if item.get_closest_marker("pygame") is not None:
                item.add_marker(pytest.mark.skip(reason="needs pygame"))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Stretch pytest-timeout's limit, too: it is there for what hangs, on whatever machine."""
    if item.config.getoption("timeout") is None:  # else somebody wants another one, or none
        marker = item.get_closest_marker("timeout")
        seconds = marker.args[0] if marker else float(item.config.getini("timeout"))
        item.add_marker(pytest.mark.timeout(patience(seconds)), append=False)
    return (yield)


@pytest.fixture
def root() -> Path:
    """The checkout."""
    return ROOT


@pytest.fixture
def run_id() -> Iterator[str]:
    """A run id nobody else uses. The test must not leave its segment behind."""
    run = f"test-{os.getpid()}-{uuid.uuid4().hex[:12]}"
    yield run
    path = segment_path(segment_name("frame", run))
    left = path.exists()
    path.unlink(missing_ok=True)
    assert not left, f"the test left {path} behind"


@pytest.fixture
def spoilt_run_id() -> Iterator[str]:
    """A run id under whose name a test may leave anything."""
    name = f"corruption-{uuid.uuid4().hex}"
    yield name
    path = segment_path(segment_name("frame", name))
    if path.is_symlink() or path.exists():
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()


@pytest.fixture
def lane() -> Iterator[str]:
    """A step lane's name that nobody else uses. The test must not leave its segment behind."""
    name = f"step-{os.getpid()}-{uuid.uuid4().hex[:12]}"
    yield name
    path = segment_path(segment_name("step", name))
    left = path.exists()
    path.unlink(missing_ok=True)
    assert not left, f"the test left {path} behind"


@pytest.fixture
def note(tmp_path: Path) -> Path:
    """Where a role in another process writes what it is at."""
    return tmp_path / "note"


@pytest.fixture
def seed() -> int:
    """Differs from run to run; pytest shows it when a test fails."""
    return random.SystemRandom().getrandbits(32)


@pytest.fixture
def processes() -> Iterator[Processes]:
    """Starts roles in processes of their own."""
    running = Processes()
    yield running
    running.end()


@pytest.fixture
def peers() -> Iterator[Peers]:
    """Starts ends of a step lane in processes of their own."""
    running = Peers()
    yield running
    running.end()
