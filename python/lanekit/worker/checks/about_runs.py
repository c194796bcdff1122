"""Checks that run a worker's command: what it refuses, how it ends, what it tells on the way."""

from __future__ import annotations

import contextlib
import functools
import json
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from lanekit.worker.checks.finding import LONG_STEPS, SHORT_STEPS, Finding, Subject
from lanekit.worker.checks.watched_run import WatchedRun
from lanekit.worker.config import WorkerConfig

_OPTIONS = ("--config", "--grpc", "--grpc-target")
_ENVIRONMENT_SETTINGS = ("env_id", "env", "environment")
_NO_ENVIRONMENT = "lanekit-check/NoSuchEnvironment-v0"
_RUNTIME = "derive the runtime from WorkerRuntime, and ask keep_going() every few steps"


def check_command_line(subject: Subject) -> Finding:
    """``--help`` shows the options that launchers give."""
    remedy = "end its cli module with: raise SystemExit(worker_main(Runtime, Config))"
    try:
        done = subprocess.run(
            [*subject.worker.command(), "--help"],
            capture_output=True,
            text=True,
            timeout=subject.timeout,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Finding("command line", "failed", "--help does not answer in time", remedy)
    lacking = [option for option in _OPTIONS if option not in done.stdout]
    if done.returncode or lacking:
        found = f"exit status {done.returncode}: {last_line(done.stderr)}"
        if not done.returncode:
            found = f"--help does not mention {', '.join(lacking)}"
        return Finding("command line", "failed", found, remedy)
    return Finding("command line", "ok", ", ".join(_OPTIONS))


def check_refusals(subject: Subject) -> Finding:
    """A configuration that is none, or has an unknown setting, is refused before anything runs."""
    sound = subject.config().to_dict()
    for what, text in (
        ("a file that is not JSON", "{"),
        ("an unknown setting", json.dumps({**sound, "no_such_setting": 1})),
    ):
        with started(subject, text, str(sound["run_id"])) as run:
            status = run.wait(subject.timeout)
            problem = None
            if status != 2:
                problem = f"{ending(status)}, not exit status 2"
            elif run.names:
                problem = f"it told {run.names[0]} first"
            elif not run.stderr().strip():
                problem = "it says nothing on stderr"
            elif "Traceback" in run.stderr():
                problem = "it shows a traceback instead of a message"
            if problem:
                remedy = "use worker_main() with a DataclassConfig, or exit with 2 and a message"
                return Finding("refuses bad config", "failed", f"{what}: {problem}", remedy)
            said = last_line(run.stderr())
    return Finding("refuses bad config", "ok", said)


def check_run(subject: Subject) -> Finding:
    """A short run from start to end."""
    with started(subject, subject.config_of_length(SHORT_STEPS)) as run:
        status = run.wait(subject.timeout)
        problem = why_not_sound(run, status)
        if problem is None and run.names[-1:] != ["run_completed"]:
            problem = f"it ends with {', '.join(run.names[-1:]) or 'nothing'}, not run_completed"
        if problem is None and "heartbeat" not in run.names:
            problem = "no heartbeat: a run that is silent for 30 s is taken for lost"
        if problem is None and status != 0:
            problem = ending(status)
        if problem is None and (left := run.left_behind()):
            problem = f"it left behind {', '.join(left)}"
        if problem:
            return Finding("run", "failed", f"{problem}{run_log(run)}", run_remedy(problem))
        steps = sum(told.name == "step" for told in run.told)
        episodes = sum(told.name == "episode" for told in run.told)
        found = (
            f"{' '.join(unrepeated(run.names))}, exit status 0; {steps} steps, {episodes} "
            f"episodes; {lanes_words(len(run.lanes_seen))}"
        )
        return Finding("run", "ok", found)


def check_failure(subject: Subject) -> Finding:
    """A run that can not work says so, and its exit status too."""
    known = subject.config().to_dict()
    failing = subject.failing
    if failing is None:
        failing = {n: _NO_ENVIRONMENT for n in _ENVIRONMENT_SETTINGS if n in known}
    if not failing:
        remedy = "name a setting with which it fails: --fail-with NAME=VALUE"
        return Finding("failing run", "skipped", "no way known to make it fail", remedy)
    with started(subject, json.dumps({**known, **failing}), known["run_id"]) as run:
        status = run.wait(subject.timeout)
        remedy = "let errors out of train(): WorkerRuntime tells them, worker_main exits with 1"
        if status == 2 and not run.names:
            return Finding("failing run", "ok", f"refused: {last_line(run.stderr())}")
        problem = why_not_sound(run, status)
        if problem is None and status == 0:
            problem = "exit status 0"
        if problem is None and run.names[-1:] != ["run_failed"]:
            problem = f"it ends with {', '.join(run.names[-1:]) or 'nothing'}, not run_failed"
        if problem is None and (left := run.left_behind()):
            problem = f"it left behind {', '.join(left)}"
        if problem:
            return Finding("failing run", "failed", f"with {failing}: {problem}", remedy)
        return Finding("failing run", "ok", f"run_failed, {ending(status)}")


def check_sigterm(subject: Subject) -> Finding:
    """SIGTERM in the midst of a run ends it in good order."""
    with started(subject, subject.config_of_length(LONG_STEPS)) as run:
        problem = why_not_under_way(run, subject.timeout)
        if problem is None:
            run.terminate()
            problem = why_not_stopped(run, run.wait(subject.timeout), "SIGTERM")
        if problem:
            return Finding("SIGTERM", "failed", f"{problem}{run_log(run)}", _RUNTIME)
        return Finding("SIGTERM", "ok", f"{run.names[-1]}, nothing left behind")


def check_control(subject: Subject) -> Finding:
    """Pause, resume and stop reach a worker that says it can pause."""
    if not subject.worker.capabilities.supports_pause:
        return Finding("pause, resume, stop", "skipped", "it says that it does not pause")
    with started(subject, subject.config_of_length(LONG_STEPS)) as run:
        problem = why_not_under_way(run, subject.timeout)
        for action in ("pause", "resume", "stop"):
            if problem is None:
                run.ask(action)
                answered = functools.partial(run.has_told, "control_applied", action=action)
                if not run.read_until(answered, subject.timeout):
                    problem = f"{action} is not answered by control_applied"
        if problem is None:
            problem = why_not_stopped(run, run.wait(subject.timeout), "stop")
        if problem:
            remedy = f"{_RUNTIME}; or say supports_pause=False"
            return Finding("pause, resume, stop", "failed", problem + run_log(run), remedy)
        return Finding("pause, resume, stop", "ok", "each obeyed and answered")


# --- how a run is started, and judged -------------------------------------------------------------


@contextlib.contextmanager
def started(subject: Subject, config: WorkerConfig | str, run_id: str = "") -> Iterator[WatchedRun]:
    """Start the worker's command with a configuration, or with a text in place of one."""
    if not isinstance(config, str):
        run_id, config = config.run_id, json.dumps(config.to_dict())
    with tempfile.TemporaryDirectory(prefix="lanekit-check-") as directory:
        file = Path(directory) / "config.json"
        file.write_text(config, encoding="utf-8")
        with WatchedRun(subject.worker.command(file), run_id) as run:
            yield run


def why_not_sound(run: WatchedRun, status: int | None) -> str | None:
    """Return what is wrong with how a run began and ended, and with what it told."""
    if status is None:
        return "it does not end in time (--timeout)"
    if run.rejected:
        first = run.rejected[0]
        return f"{len(run.rejected)} lines are no telemetry: {first.reason}: {first.line[:80]!r}"
    if not run.told or run.told[0].name != "run_started":
        first_name = run.told[0].name if run.told else "nothing"
        return f"it tells {first_name} first, not run_started; {ending(status)}"
    if run.told[-1].name not in ("run_completed", "run_failed"):
        return f"it tells {run.told[-1].name} last, not how it ended; {ending(status)}"
    ends = [name for name in run.names if name in ("run_started", "run_completed", "run_failed")]
    return None if len(ends) == 2 else f"it begins or ends twice: {', '.join(ends)}"


def why_not_under_way(run: WatchedRun, timeout: float) -> str | None:
    """Wait until a run has told more than its start; return why that does not come."""
    if run.read_until(lambda: len(run.told) > 1 and run.has_told("run_started"), timeout):
        if not run.has_told("run_completed"):
            return None
        return "it ended before it could be interrupted; make it longer with --set NAME=VALUE"
    return "it tells nothing of itself after its start"


def why_not_stopped(run: WatchedRun, status: int | None, by: str) -> str | None:
    """Return what is wrong with how a run ended that was asked to."""
    if status is None:
        return f"it does not end after {by}"
    if status < 0:
        return f"{by} killed it ({ending(status)}): it told nothing of its end"
    problem = why_not_sound(run, status)
    if problem:
        return problem
    last = run.told[-1]
    if last.name == "run_completed" and last.payload.get("status") != "stopped":
        return f"run_completed has the status {last.payload.get('status')!r}, not 'stopped'"
    if (last.name == "run_completed") != (status == 0):
        return f"it told {last.name}, but its {ending(status)}"
    left = run.left_behind()
    return f"it left behind {', '.join(left)}" if left else None


def ending(status: int | None) -> str:
    """Say how a process ended."""
    if status is None:
        return "no end"
    if status < 0:
        return f"signal {signal.Signals(-status).name}"
    return f"exit status {status}"


def run_remedy(problem: str) -> str:
    """Say what to do about a run that is not sound."""
    if "left behind" in problem:
        return "close environments and writers in a finally block, and join child processes"
    if "no telemetry" in problem:
        return "print telemetry with lanekit.slow.emit, or self.telemetry of a WorkerRuntime"
    return "derive the runtime from WorkerRuntime: it tells its start, heartbeats and end"


def run_log(run: WatchedRun) -> str:
    """Return the last thing that a run said on stderr."""
    said = last_line(run.stderr())
    return f" (stderr: {said})" if said else ""


def last_line(text: str) -> str:
    """Return a text's last line that is not blank."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else ""


def unrepeated(names: list[str]) -> list[str]:
    """Return names without what only repeats the one before."""
    return [name for i, name in enumerate(names) if i == 0 or names[i - 1] != name]


def lanes_words(seen: int) -> str:
    """Say how many lanes a run had and left."""
    return f"{seen} lanes opened, none left behind" if seen else "no lane seen, none left behind"


ABOUT_RUNS = (
    check_command_line,
    check_refusals,
    check_run,
    check_failure,
    check_sigterm,
    check_control,
)
