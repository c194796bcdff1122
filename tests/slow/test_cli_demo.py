"""``lanekit demo`` with the slow lane: a daemon comes and goes with it, and the run stays."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qsl

import pytest
from training_desk import Desk, finish
from web_client import WebClient

from lanekit.cli import main
from lanekit.cli.demo_faces import choose_face
from lanekit.errors import LanekitError
from lanekit.slow.replay.reel import Reel
from patience import patience

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


def test_the_browsers_page_is_served_until_the_demo_ends(desk: Desk) -> None:
    demo = desk.start("demo", "--view", "browser", "--run-id", "first-look")
    assert demo.stderr is not None
    said = iter(demo.stderr)
    address = next(next(said).strip() for line in said if "when you open this page" in line)
    place, _, told = address.partition("#")
    given = dict(parse_qsl(told))
    assert given["run"] == "first-look"
    page = WebClient(place, given["token"])
    assert page.ask("/").status == 200
    with page.socket("/api/runs/first-look/pictures") as pictures:
        assert pictures.read() is not None  # somebody looks, so the training begins
        watch_until(demo, "running")
    demo.send_signal(signal.SIGINT)
    demo.communicate(timeout=patience())
    assert demo.returncode == 0
    assert not desk.daemons()
    assert lanes() == []
    with pytest.raises(OSError, match="refused"):
        page.ask("/")


def test_a_page_of_what_is_not_recorded_is_misuse(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", "--view", "browser", "--no-record"]) == 2
    assert "leave --no-record out" in capsys.readouterr().err
    assert not desk.daemons()


def test_a_run_id_that_can_not_be_recorded_is_misuse(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", "--view", "terminal", "--run-id", "a b"]) == 2
    assert "a run id is 1 to 128 letters, digits" in capsys.readouterr().err
    assert not desk.daemons()


PLAIN = ("demo", "--view", "terminal", "--seconds", "0.2", "--run-id", "first-look-plain")


def test_who_has_all_that_recording_takes_is_told_to_install_nothing(desk: Desk) -> None:
    said, _ = desk.lanekit(*PLAIN, "--no-record", "--env", "Acrobot-v1")
    assert "pip install" not in said
    assert re.search("lanekit demo --env Acrobot-v1 +# the same, kept to be replayed\n", said)


def test_a_recording_that_fails_is_told_with_its_reason_and_no_packages(desk: Desk) -> None:
    desk.state.write_text("where a directory should be")
    said, complained = desk.lanekit(*PLAIN)
    assert "nothing is recorded: no daemon runs, and none can be started" in complained
    assert "try next:" in said
    assert "pip install" not in said
    desk.state.unlink()


@pytest.mark.parametrize(
    ("missing", "idea"),
    [
        ({"grpc"}, "pip install 'lanekit[slow]'  # records runs\n"),
        (
            {"grpc", "PyQt6", "gymnasium"},
            "pip install 'lanekit[slow,rl,viewer]'  # records runs, shows them in a window\n",
        ),
    ],
)
def test_only_packages_that_are_missing_are_suggested(
    desk: Desk, missing: set[str], idea: str
) -> None:
    if "PyQt6" not in missing:
        pytest.importorskip("PyQt6")  # or it would be suggested, too
    done = without(desk, missing, *PLAIN)
    assert done.returncode == 0, done.stderr
    assert re.sub(" {2,}", "  ", done.stdout).count(f"  {idea}") == 1


def without(desk: Desk, missing: set[str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Type a command where these modules are not installed."""
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({missing!r}));"
        f"from lanekit.cli import main; sys.exit(main({list(arguments)!r}))"
    )
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=patience(120),
        check=False,
        env={**os.environ, **desk.environment},
    )


@pytest.mark.parametrize(
    ("face", "missing", "words"),
    [
        (
            "browser",
            "starlette",
            "starlette, which is not installed: pip install 'lanekit[web]'",
        ),
        ("window", "PyQt6", "no window: there is no screen"),
    ],
)
def test_a_face_that_can_not_be_had_is_told_with_one_that_can(
    face: str, missing: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"):
        monkeypatch.delenv(variable, raising=False)
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == missing else found(name)
    )
    with pytest.raises(LanekitError, match="--view terminal` works everywhere") as refusal:
        choose_face(face)
    assert words in str(refusal.value)
    chosen, remarks = choose_face(None)
    assert chosen.name == "terminal"
    assert [remark.partition(":")[0] for remark in remarks] == ["no window", "no browser"]


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
    done = without(desk, {missing}, "demo", "--view", "terminal", *arguments)
    assert remedy in done.stderr
    assert "Traceback" not in done.stderr
    assert done.returncode == (0 if missing == "grpc" else 1), done.stderr
    assert not desk.daemons()
