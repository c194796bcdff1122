"""``lanekit demo`` with the slow lane: a daemon comes and goes with it, and the run stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from training_desk import Desk, finish

from lanekit.cli import main
from lanekit.slow.replay.reel import Reel

DEMO = ("demo", "--view", "terminal", "--run-id", "first-look")


@pytest.fixture
def desk(short_directory: Path) -> Iterator[Desk]:
    opened = Desk(short_directory)
    yield opened
    opened.close()


def lanes() -> list[str]:
    return [name for name in os.listdir("/dev/shm") if "first-look" in name]


def watch_until(demo: subprocess.Popen[str], words: str) -> None:
    assert demo.stdout is not None
    for line in demo.stdout:
        if words in line:
            return
    pytest.fail(f"never said {words!r}: {demo.stderr.read() if demo.stderr else ''}")


def test_ctrl_c_ends_everything_but_the_run_that_can_be_replayed(desk: Desk) -> None:
    demo = desk.start(*DEMO)
    watch_until(demo, "first-look: live | reward 1.00")
    (daemon,) = desk.daemons()
    demo.send_signal(signal.SIGINT)
    said, complained = finish(demo, 0)
    assert f"started a daemon, process {daemon.pid}; it stops with the demo" in complained
    assert "no window: " in complained or "shown in     the terminal" in complained
    assert not desk.daemons()
    assert lanes() == []
    assert "lanekit replay first-look" in said
    with desk.store() as store:
        record = store.run("first-look")
        assert (str(record.state), record.exit_status) == ("completed", 0)
        assert set(store.agents("first-look")) >= {"stage"}
        reel = Reel.load(store, "first-look")
        assert len(reel) > 0
        assert store.frames("first-look")[0].pixels.shape == (120, 240, 3)


def test_a_daemon_that_was_there_before_stays(desk: Desk) -> None:
    desk.lanekit("run", "--worker", "stepping", "--steps", "1", "--detach")
    (daemon,) = desk.daemons()
    demo = desk.start(*DEMO)
    watch_until(demo, "first-look: live | reward 1.00")
    demo.send_signal(signal.SIGTERM)
    _, complained = finish(demo, 0)
    assert "started a daemon" not in complained
    assert desk.daemons() == [daemon]
    complained = finish(desk.start(*DEMO), 1)[1]
    assert "first-look" in complained  # a run's id is taken once and for all
    assert "exists" in complained


def test_an_environment_that_is_not_there_starts_nothing(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", "--env", "NoSuchPole-v1"]) == 1
    complained = capsys.readouterr().err
    assert complained.startswith("lanekit: there is no environment 'NoSuchPole-v1' here")
    assert "pprint_registry" in complained
    assert not desk.daemons()


@pytest.mark.parametrize(
    ("missing", "arguments", "remedy"),
    [
        (
            "grpc",
            ["--seconds", "0.2", "--run-id", "first-look-plain"],
            "pip install 'lanekit[slow]'",
        ),
        ("gymnasium", ["--env", "Acrobot-v1"], "pip install 'lanekit[rl]'"),
    ],
)
def test_what_is_not_installed_is_named_with_its_remedy(
    desk: Desk, missing: str, arguments: list[str], remedy: str
) -> None:
    code = (
        f"import sys; sys.modules[{missing!r}] = None; from lanekit.cli import main;"
        f"sys.exit(main(['demo', '--view', 'terminal', *{arguments!r}]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, **desk.environment},
    )
    assert remedy in done.stderr
    assert "Traceback" not in done.stderr
    assert done.returncode == (0 if missing == "grpc" else 1), done.stderr
    assert not desk.daemons()
