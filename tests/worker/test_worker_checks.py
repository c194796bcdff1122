"""The standardization checks: a sound worker passes each, and each is failed by a bad one."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from made_distributions import CLI, CONFIG, METADATA, RUNTIME, Site

pytest.importorskip("msgspec")

from lanekit.worker import find_worker
from lanekit.worker.checks import Finding, Subject, about_runs, check_worker
from lanekit.worker.checks.about_it import (
    check_config_class,
    check_metadata,
    check_round_trip,
)
from lanekit.worker.checks.about_runs import (
    check_command_line,
    check_control,
    check_failure,
    check_refusals,
    check_run,
    check_sigterm,
    why_not_under_way,
)
from lanekit.worker.checks.watched_run import WatchedRun
from patience import patience

PRINTS = """\
import argparse, json, signal, subprocess, sys, time
parser = argparse.ArgumentParser()
for option in ("--config", "--grpc-target"):
    parser.add_argument(option)
parser.add_argument("--grpc", action="store_true")
config = json.load(open(parser.parse_args().config))
def tell(name, **payload):
    print(json.dumps({"event": name, "payload": payload}), flush=True)
"""
"""A worker that does everything by hand, and something wrong."""


@pytest.fixture
def subject(site: Site, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Subject]:
    """Installs a worker, with some of its modules changed, for this process and its children."""
    site.directory.mkdir()
    monkeypatch.syspath_prepend(str(site.directory))
    monkeypatch.setenv("PYTHONPATH", str(site.directory))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")

    def install(timeout: float | None = None, **changed: str) -> Subject:
        name = f"w{abs(hash(str(site.directory)))}"
        site.install_worker(name, **changed)
        return Subject(find_worker(name), timeout=patience() if timeout is None else timeout)

    return install


def failed(finding: Finding, words: str) -> None:
    assert finding.state == "failed", finding
    assert words in finding.found
    assert finding.remedy


def test_a_sound_worker_passes_every_check(subject: Callable[..., Subject]) -> None:
    findings = list(check_worker(subject()))
    assert [finding.state for finding in findings] == ["ok"] * 9, findings
    (run,) = [finding for finding in findings if finding.check == "run"]
    assert "run_started heartbeat run_completed, exit status 0; 2000 steps" in run.found


def test_metadata_must_be_complete(subject: Callable[..., Subject]) -> None:
    bare = METADATA.replace('description="trains nothing", author="a test"', "")
    finding = check_metadata(subject(__init__=bare.replace('"{name}"', '"other"')))
    failed(finding, "description is empty; author is empty; worker_type is 'other'")


def test_a_config_class_must_be_found(subject: Callable[..., Subject]) -> None:
    failed(check_config_class(subject(config="x = 1")), "has 0 classes")


def test_every_setting_needs_a_default_or_a_value(subject: Callable[..., Subject]) -> None:
    checked = subject(config=CONFIG.replace('env_id: str = "some"', "env_id: str"))
    failed(check_config_class(checked), "missing: env_id")
    given = Subject(checked.worker, {"env_id": "x"})
    assert check_config_class(given).state == "ok"


BY_HAND = """\
class Config:
    seed = None
    def __init__(self, run_id, layers=(1, 2)): self.run_id, self.layers = run_id, layers
    def to_dict(self): return {"run_id": self.run_id, "layers": self.layers}
    @classmethod
    def from_dict(cls, data): return cls(data["run_id"], data.get("layers", (1, 2)))
    def __eq__(self, other): return vars(self) == vars(other)
"""


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("", "", "after JSON it differs: layers was (1, 2), is [1, 2]"),
        ('"layers": self', '"layers": [*self', "layers was tuple (1, 2), is list [1, 2]"),
        ('data.get("layers"', "(7, *data.get('layers'", "layers was (7, 1, 2), is (7, 7, 1, 2)"),
        ("def __eq__", "def unused", "has no __eq__"),
        ("(1, 2)", "object()", "not JSON serializable"),
        ("(1, 2)", "float('nan')", "not JSON compliant"),
    ],
)
def test_a_configuration_must_come_back_as_it_was(
    subject: Callable[..., Subject], old: str, new: str, words: str
) -> None:
    config = BY_HAND.replace(old, new)
    if "[*self" in new:
        config = config.replace("self.layers}", "self.layers]}")
    if "(7," in new:
        config = config.replace("(1, 2)))", "(1, 2))))")
    failed(check_round_trip(subject(config=config)), words)


def test_the_command_line_must_have_its_options(subject: Callable[..., Subject]) -> None:
    lacking = "import argparse\nargparse.ArgumentParser().parse_args()"
    failed(check_command_line(subject(cli=lacking)), "does not mention --config, --grpc")


def test_a_command_that_answers_nothing_is_not_waited_for(subject: Callable[..., Subject]) -> None:
    silent = subject(cli="import time\ntime.sleep(600)", timeout=0.5)
    failed(check_command_line(silent), "--help does not answer in time")


def test_a_command_that_can_not_start_is_told(subject: Callable[..., Subject]) -> None:
    failed(check_command_line(subject(cli="import no_such_library")), "No module named")


@pytest.mark.parametrize(
    ("cli", "words"),
    [
        (PRINTS, "a file that is not JSON: exit status 1, not exit status 2"),
        ("raise SystemExit(2)", "a file that is not JSON: it says nothing on stderr"),
        (
            "import traceback\ntry: 1 / 0\nexcept Exception: traceback.print_exc()\n"
            "raise SystemExit(2)",
            "it shows a traceback instead of a message",
        ),
        (
            'print(\'{"event": "run_started"}\', flush=True)\nraise SystemExit(2)',
            "it told run_started first",
        ),
        (
            CLI.replace("from {package}.config", "from {package}.lenient"),
            "an unknown setting: exit status 0, not exit status 2",
        ),
    ],
)
def test_a_bad_configuration_must_be_refused(
    subject: Callable[..., Subject], cli: str, words: str
) -> None:
    lenient = CONFIG.replace("from lanekit.worker", "import dataclasses\nfrom lanekit.worker")
    lenient += """
    @classmethod
    def from_dict(cls, data):
        known = [field.name for field in dataclasses.fields(cls)]
        return cls(**{key: value for key, value in data.items() if key in known})
"""
    failed(check_refusals(subject(cli=cli, lenient=lenient)), words)


COMPLETE = PRINTS + "tell('run_started'); tell('heartbeat'); "
LEAVES_A_LANE = """
import os
from lanekit import FastLaneConfig, FastLaneWriter
writer = FastLaneWriter.create(config["run_id"], FastLaneConfig(width=2, height=2, capacity=1))
tell("run_started"); tell("heartbeat"); tell("run_completed")
os._exit(0)
"""
LEAVES_A_PROCESS = """
tell("run_started"); tell("heartbeat"); tell("run_completed")
subprocess.Popen(["sleep", "600"], stdout=subprocess.DEVNULL)
"""


@pytest.mark.parametrize(
    ("cli", "words"),
    [
        (PRINTS + "tell('heartbeat'); tell('run_completed')", "tells heartbeat first"),
        (PRINTS, "it tells nothing first, not run_started; exit status 0"),
        (PRINTS + "tell('run_started'); tell('run_completed')", "no heartbeat"),
        (COMPLETE, "tells heartbeat last, not how it ended"),
        (COMPLETE + "tell('run_failed')", "it ends with run_failed, not run_completed"),
        (COMPLETE + "tell('run_completed'); tell('step_taken')", "tells step_taken last"),
        (COMPLETE + "tell('run_started'); tell('run_completed')", "it begins or ends twice"),
        (COMPLETE + "tell('run_completed'); sys.exit(3)", "exit status 3"),
        (COMPLETE + "print('{\"event\": 5}'); tell('run_completed')", "1 lines are no telemetry"),
        (PRINTS + LEAVES_A_LANE, "it left behind /dev/shm/lanekit-frame-check-"),
        (PRINTS + LEAVES_A_PROCESS, "it left behind process"),
    ],
)
def test_a_run_must_be_told_in_order_and_leave_nothing(
    subject: Callable[..., Subject], monkeypatch: pytest.MonkeyPatch, cli: str, words: str
) -> None:
    monkeypatch.setattr("lanekit.worker.checks.watched_run._GOODBYE_SECONDS", 0.2)
    failed(check_run(subject(cli=cli)), words)


def test_a_run_must_end_in_time(subject: Callable[..., Subject]) -> None:
    checked = subject(cli=COMPLETE + "time.sleep(600)", timeout=1.5)
    failed(check_run(checked), "it does not end in time")


@pytest.mark.parametrize(
    ("instead", "words"),
    [("return", "exit status 0"), ("import os; os._exit(3)", "tells run_started last")],
)
def test_a_failure_must_be_told(subject: Callable[..., Subject], instead: str, words: str) -> None:
    runtime = RUNTIME.replace('raise ValueError("no such environment")', instead)
    failed(check_failure(subject(runtime=runtime)), words)


def test_a_worker_that_nobody_knows_how_to_fail_is_passed_over(
    subject: Callable[..., Subject],
) -> None:
    checked = subject(config=CONFIG.replace("env_id", "somewhere"))
    finding = check_failure(checked)
    assert finding.state == "skipped"
    assert "--fail-with" in finding.remedy


LONG = "\nwhile True: tell('heartbeat'); time.sleep(0.01)"


@pytest.mark.parametrize(
    ("cli", "words"),
    [
        (PRINTS + "tell('run_started')" + LONG, "SIGTERM killed it (signal SIGTERM)"),
        (
            PRINTS
            + "signal.signal(signal.SIGTERM, lambda *_: sys.exit(0)); tell('run_started')"
            + LONG,
            "tells heartbeat last, not how it ended; exit status 0",
        ),
        (
            PRINTS + "asked = []\n"
            "signal.signal(signal.SIGTERM, lambda *_: asked.append(1)); tell('run_started')\n"
            "while not asked: tell('heartbeat'); time.sleep(0.01)\n"
            "tell('run_completed')",
            "run_completed has the status None, not 'stopped'",
        ),
        (
            PRINTS + "tell('run_started'); tell('run_completed')",
            "it ended before it could be interrupted",
        ),
    ],
)
def test_sigterm_must_be_obeyed_in_good_order(
    subject: Callable[..., Subject], cli: str, words: str
) -> None:
    failed(check_sigterm(subject(cli=cli)), words)


@pytest.fixture
def _patient_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give up soon on what never comes, but not on a start."""

    def patient(run: WatchedRun, timeout: float) -> str | None:
        return why_not_under_way(run, max(timeout, 120))

    monkeypatch.setattr(about_runs, "why_not_under_way", patient)


@pytest.mark.usefixtures("_patient_start")
def test_a_worker_that_ignores_sigterm_fails_and_is_ended(subject: Callable[..., Subject]) -> None:
    ignoring = PRINTS + "signal.signal(signal.SIGTERM, signal.SIG_IGN); tell('run_started')" + LONG
    failed(check_sigterm(subject(cli=ignoring, timeout=2.0)), "it does not end after SIGTERM")


@pytest.mark.usefixtures("_patient_start")
def test_commands_must_be_answered(subject: Callable[..., Subject]) -> None:
    deaf = subject(cli=PRINTS + "tell('run_started')" + LONG, timeout=1.5)
    failed(check_control(deaf), "pause is not answered by control_applied")


def test_a_worker_that_does_not_pause_is_not_asked_to(subject: Callable[..., Subject]) -> None:
    honest = METADATA.replace('"{name}")', '"{name}", supports_pause=False)')
    assert check_control(subject(__init__=honest)).state == "skipped"


# --- the command ----------------------------------------------------------------------------------


def test_the_command_reports_each_check_and_fails_with_any(site: Site) -> None:
    site.install_worker("half-done", __init__=METADATA.replace(', author="a test"', ""), config="")
    said = site.lanekit("worker", "check", "half-done", status=1)
    assert "FAILED   metadata             author is empty" in said
    assert "-> complete what get_worker_metadata() returns" in said
    findings = json.loads(site.lanekit("worker", "check", "half-done", "--json", status=1))
    assert [(found["check"], found["state"]) for found in findings] == [
        ("metadata", "failed"),
        ("config class", "failed"),
        ("config round trip", "failed"),
    ]


def test_the_command_takes_settings_and_knows_misuse(site: Site) -> None:
    site.install_worker("set-up")
    said = site.lanekit("worker", "check", "set-up", "--set", "total_stpes=7", status=1)
    assert "did you mean total_steps?" in said
    assert "did you mean set-up" in site.lanekit("worker", "check", "setup", status=1)
    assert "NAME=VALUE" in site.lanekit("worker", "check", "set-up", "--set", "x", status=2)
    said = site.lanekit("worker", "check", "set-up", "--timeout", "0", status=2)
    assert "--timeout: must be a positive number, got '0'" in said


def test_a_setting_changes_the_run_that_is_checked(subject: Callable[..., Subject]) -> None:
    finding = check_run(Subject(subject().worker, {"total_steps": 7}))
    assert "; 7 steps, 0 episodes" in finding.found
