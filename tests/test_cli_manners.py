"""How the command behaves whatever is typed: help, complaints, exit statuses, completion."""

from __future__ import annotations

import importlib.util
import os
import pty
import re
import select
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lanekit.cli import COMMANDS, GROUPS, build_parser, clean, endings, main
from lanekit.cli.endings import EXTRA_OF, in_words, run_to_its_end
from lanekit.errors import DEBUG_VARIABLE, LanekitError
from patience import patience

Capture = pytest.CaptureFixture[str]


def complaint(capsys: Capture, *arguments: str, status: int) -> str:
    """Run a command line in this process and return what it says on stderr."""
    try:
        found = main(arguments)
    except SystemExit as leaving:
        found = leaving.code
    said = capsys.readouterr()
    assert found == status, said
    assert "Traceback" not in said.err
    return said.err


def failing(error: Exception) -> Callable[[], int]:
    def fail() -> int:
        raise error

    return fail


# --- help -----------------------------------------------------------------------------------------


def test_help_shows_every_command_in_one_group(capsys: Capture) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    text = capsys.readouterr().out
    for title in GROUPS:
        assert f"\n{title}:\n" in text
    for command in COMMANDS:
        assert len(re.findall(rf"^  {command} ", text, re.MULTILINE)) == 1, command
    assert "examples:\n  lanekit demo" in text


@pytest.mark.parametrize("columns", [40, 80])
def test_help_fits_the_terminal(
    columns: int, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    for command in ("", *COMMANDS):
        with pytest.raises(SystemExit, match="0"):
            main([*([command] if command else []), "--help"])
        below_usage = capsys.readouterr().out.partition("\n\n")[2]
        for line in below_usage.splitlines():
            # A list of choices, or a command to copy, is never broken.
            whole = re.match(r"  (--.*\{|lanekit )", line)
            assert len(line) <= columns or whole, (command, line)


def test_every_example_of_the_help_is_a_command_line_that_is_understood(capsys: Capture) -> None:
    for command in COMMANDS:
        with pytest.raises(SystemExit, match="0"):
            main([command, "--help"])
        text = capsys.readouterr().out.partition("\nexamples:\n")[2]
        for line in re.findall(r"^  lanekit .*?(?=  #|$)", text, re.MULTILINE):
            _, *words = shlex.split(line.partition(" | ")[0])
            assert words[0] == command
            build_parser([command]).parse_args(words)


def test_no_command_shows_the_help_and_is_misuse(capsys: Capture) -> None:
    assert "lanekit demo" in complaint(capsys, status=2)


def test_a_mistyped_command_is_told_the_near_one(capsys: Capture) -> None:
    said = complaint(capsys, "vew", status=2)
    assert "there is no command 'vew'" in said
    assert "did you mean `lanekit view`?" in said
    assert "`lanekit --help`" in complaint(capsys, "qqqqqq", status=2)


@pytest.mark.parametrize("command", COMMANDS)
def test_an_unknown_option_names_the_commands_own_help(command: str, capsys: Capture) -> None:
    said = complaint(capsys, command, "--no-such-option", status=2)
    assert "--help` tells more" in said


def test_a_mistyped_option_is_told_the_near_one(capsys: Capture) -> None:
    said = complaint(capsys, "demo", "--evn", "Acrobot-v1", status=2)
    assert "unrecognized arguments: --evn Acrobot-v1; did you mean `--env`?" in said
    assert "`lanekit demo --help` tells more" in said


def test_the_page_on_the_command_line_lists_every_command_and_status(root: Path) -> None:
    page = (root / "docs" / "cli.md").read_text(encoding="utf-8")
    for title, group in GROUPS.items():
        section = page.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
        told = re.findall(r"^\| `lanekit ([a-z]+)", section, re.MULTILINE)
        assert told == list(group), title
    statuses = set(re.findall(r"^\| (\d+) \|", page, re.MULTILINE))
    ours = (endings.FINE, endings.NO_OR_ERROR, endings.MISUSE, endings.OUR_MISTAKE)
    assert {str(status) for status in (*ours, endings.INTERRUPTED)} <= statuses


# --- complaints -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["view", "--fps", "quick"], 2, "must be a positive number, got 'quick'"),
        (["replay", "x", "--speed", "0"], 2, "must be from 0.01 to 1000, got '0'"),
        (["control", "x", "cancel", "--grace", "soon"], 2, "0 or more seconds, got 'soon'"),
        (["control", "x", "pause", "--grace", "1"], 2, "--grace is for cancel"),
        (["clean", "nothing-of-this-name"], 1, "`lanekit ls` lists them"),
        (["clean", "--force"], 2, "--force needs the names"),
        (["run", "--worker", "nobody"], 1, "`lanekit workers` lists those that are"),
        (["worker", "check", "nobody"], 1, "`lanekit workers` lists those that are"),
        (["stress", "--pin", "0,4095"], 2, "not available to this process, which may use"),
        (["demo", "--view", "hologram"], 2, "invalid choice: 'hologram'"),
    ],
)
def test_what_a_newcomer_may_get_wrong_is_told_with_what_to_do(
    arguments: list[str], status: int, words: str, capsys: Capture
) -> None:
    assert words in complaint(capsys, *arguments, status=status)


@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        (LanekitError("so it is; do this"), 1, "lanekit: so it is; do this\n"),
        (ModuleNotFoundError("No module named 'grpc'", name="grpc"), 1, "'lanekit[slow]'"),
        (ModuleNotFoundError("No module named 'PyQt6.QtGui'", name="PyQt6.QtGui"), 1, "[viewer]"),
        (PermissionError(13, "Permission denied", "/x/y"), 1, "denied; `ls -ld /x/y` shows"),
        (OSError(28, "No space left on device", "/x"), 1, "left on device; `df -h /x` shows"),
        (TypeError("odd"), 70, "this should not have happened: TypeError: odd"),
    ],
)
def test_every_exception_ends_in_a_line_and_a_status(
    error: Exception, status: int, words: str, capsys: Capture
) -> None:
    assert run_to_its_end(failing(error)) == status
    said = capsys.readouterr().err
    assert words in said
    assert "Traceback" not in said


def test_a_mistake_of_ours_is_shown_in_full_on_request(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(DEBUG_VARIABLE, "1")
    assert run_to_its_end(failing(TypeError("odd"))) == 70
    said = capsys.readouterr().err
    assert "Traceback" in said
    assert "in fail" in said


@pytest.mark.parametrize(
    ("module", "distribution", "name"),
    [("google", "protobuf", "RunStore"), ("grpc", "grpcio", "DaemonClient")],
)
def test_a_name_of_the_slow_lane_says_what_to_install(
    module: str, distribution: str, name: str
) -> None:
    code = f"import sys; sys.modules[{module!r}] = None; from lanekit.slow import {name}"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=patience(),
        check=False,
    )
    needs = f"lanekit.slow.{name} needs {distribution}, which is not installed"
    assert f"{needs}: pip install 'lanekit[slow]'" in done.stderr


@pytest.mark.parametrize(("slow", "lister"), [(False, "lanekit ls"), (True, "lanekit runs")])
def test_without_a_window_only_commands_are_named_that_are_installed(
    slow: bool, lister: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    for variable in ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"):
        monkeypatch.delenv(variable, raising=False)
    if not slow:
        monkeypatch.setitem(sys.modules, "grpc", None)
    elif importlib.util.find_spec("grpc") is None:
        pytest.skip("needs lanekit[slow]")
    said = complaint(capsys, "gui", status=1)
    assert f"no screen: neither DISPLAY nor WAYLAND_DISPLAY is set; `{lister}` and" in said


def test_ctrl_c_is_no_traceback(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    def interrupted() -> list[object]:
        raise KeyboardInterrupt

    monkeypatch.setattr(clean, "list_segments", interrupted)
    assert complaint(capsys, "clean", status=130) == ""


@pytest.mark.parametrize("redirection", ["2>&1 | head -n 1", "| head -n 1", ">&-", "2>&-"])
def test_a_reader_that_leaves_is_no_error(redirection: str, run_id: str) -> None:
    demo = f"demo --no-record --view terminal --seconds 0.3 --run-id {run_id}"
    for typed, status in (("--help", 0), ("ls", 0), ("clean no-such-lane", 1), (demo, 0)):
        line = f"set -o pipefail; {sys.executable} -m lanekit {typed} {redirection}"
        done = subprocess.run(
            ["bash", "-c", line], capture_output=True, timeout=patience(), check=False
        )
        assert (done.returncode, b"Traceback" in done.stderr) == (status, False), (typed, done)


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("typed", ["--help", "view --help", "--version", "completion bash"])
def test_output_that_a_full_disk_does_not_take_is_an_error(typed: str, unbuffered: str) -> None:
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m lanekit {typed} >/dev/full"],
        capture_output=True,
        text=True,
        timeout=patience(),
        check=False,
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
    )
    told = "lanekit: No space left on device; `df -h .` shows how full it is\n"
    assert (done.returncode, done.stderr) == (1, told)


def test_a_complaint_that_nobody_can_be_told_leaves_the_status_as_it_is() -> None:
    for typed, status in (("clean no-such-lane", 1), ("vew", 2), ("", 2), ("run --worker x", 1)):
        line = f"PYTHONUNBUFFERED= {sys.executable} -m lanekit {typed} 2>/dev/full"
        done = subprocess.run(["bash", "-c", line], timeout=patience(), check=False)
        assert done.returncode == status, typed


def test_every_module_that_an_extra_brings_is_known_by_its_extra(root: Path) -> None:
    declared = (root / "pyproject.toml").read_text(encoding="utf-8")
    for module, extra in EXTRA_OF.items():
        assert re.search(rf"^{extra} = \[", declared, re.MULTILINE), extra
        words, _ = in_words(ModuleNotFoundError("", name=module))
        assert f"lanekit[{extra}]" in words


# --- completion -----------------------------------------------------------------------------------


def script(shell: str, capsys: Capture) -> str:
    assert main(["completion", shell]) == 0
    return capsys.readouterr().out


def bash_completes(printed: str, *words: str) -> list[str]:
    """Ask bash itself what it would offer for the last of these words."""
    line = " ".join(f"'{word}'" for word in ("lanekit", *words))
    asking = (
        f'{printed}\nlanekit() {{ {sys.executable} -m lanekit "$@"; }}\n'
        f"COMP_WORDS=({line}); COMP_CWORD={len(words)}; _lanekit\n"
        'printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    done = subprocess.run(
        ["bash", "-c", asking], capture_output=True, text=True, timeout=patience(), check=True
    )
    assert done.stderr == ""
    return done.stdout.split()


def test_bash_completes_commands_options_and_choices(capsys: Capture) -> None:
    printed = script("bash", capsys)
    assert bash_completes(printed, "de") == ["demo"]
    assert set(COMMANDS) <= set(bash_completes(printed, ""))
    assert bash_completes(printed, "export", "x", "--to", "p") == ["parquet"]
    assert bash_completes(printed, "doctor", "--j") == ["--json"]
    assert bash_completes(printed, "worker", "c") == ["check"]
    assert bash_completes(printed, "worker", "check", "--t") == ["--timeout"]
    assert bash_completes(printed, "submit", "--", "--") == []


@pytest.mark.parametrize("before", [[], ["--grace", "1"], ["--daemon", "a:1"], ["--tls-ca", "x"]])
def test_bash_completes_what_belongs_in_a_place_and_nothing_else(
    before: list[str], capsys: Capture, run_id: str
) -> None:
    from lanekit import FastLaneConfig, FastLaneWriter

    printed = script("bash", capsys)
    with FastLaneWriter.create(run_id, FastLaneConfig(8, 8)):
        offered = bash_completes(printed, "control", *before, "")
        assert run_id in offered
        assert not {"pause", "--grace"} & set(offered)
        offered = bash_completes(printed, "control", *before, run_id, "")
        assert offered == ["pause", "resume", "stop", "cancel"]


def test_bash_completes_the_values_of_options(capsys: Capture) -> None:
    printed = script("bash", capsys)
    assert "demo" in bash_completes(printed, "run", "--worker", "")
    assert bash_completes(printed, "run", "--worker", "dem") == ["demo"]
    assert bash_completes(printed, "worker", "check", "dem") == ["demo"]
    as_bash_splits_it = ("--set", "a", "=", "b")
    assert bash_completes(printed, "worker", "check", *as_bash_splits_it, "dem") == ["demo"]
    assert bash_completes(printed, "run", "--steps", "") == []
    assert bash_completes(printed, "run", "--steps", "5", "--wor") == ["--worker"]


def test_bash_completes_live_runs(capsys: Capture, run_id: str) -> None:
    from lanekit import FastLaneConfig, FastLaneWriter

    printed = script("bash", capsys)
    with FastLaneWriter.create(run_id, FastLaneConfig(8, 8)):
        assert bash_completes(printed, "view", run_id[:-3]) == [run_id]


@pytest.fixture
def typed(tmp_path: Path) -> dict[str, str]:
    """An empty home, and the command that shells find in it."""
    command = tmp_path / "bin" / "lanekit"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m lanekit "$@"\n')
    command.chmod(0o755)
    path = f"{command.parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "HOME": str(tmp_path), "PATH": path, "TERM": "dumb"}


COMPLETED = [
    ("lanekit de", "lanekit demo "),
    ("lanekit export x --to p", "lanekit export x --to parquet "),
    ("lanekit doctor --j", "lanekit doctor --json "),
    ("lanekit worker ch", "lanekit worker check "),
    ("lanekit worker check --ti", "lanekit worker check --timeout "),
    ("lanekit control x pau", "lanekit control x pause "),
    ("lanekit control --grace 1 x pau", "lanekit control --grace 1 x pause "),
    ("lanekit run --worker dem", "lanekit run --worker demo "),
    ("lanekit worker check dem", "lanekit worker check demo "),
]
READ_BY = {
    "bash": ["source <(lanekit completion bash)"],
    "zsh": ["autoload -Uz compinit && compinit -u", "source <(lanekit completion zsh)"],
    "zsh from a file": [
        "mkdir ~/.zfunc && lanekit completion zsh > ~/.zfunc/_lanekit",
        "fpath+=~/.zfunc && autoload -Uz compinit && compinit -u",
    ],
}


@pytest.mark.once
@pytest.mark.parametrize("how", READ_BY)
def test_a_shell_completes_what_is_typed(how: str, typed: dict[str, str]) -> None:
    options = {"bash": ["--norc", "--noprofile"], "zsh": ["-f"]}[how.split()[0]]
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [how.split()[0], *options, "-i"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**typed, "PS1": "ready> ", "INPUTRC": "/dev/null"},
        start_new_session=True,
    ) as shell:
        seen = b""

        def see(words: str) -> None:
            nonlocal seen
            while words.encode() not in seen:
                assert select.select([ours], [], [], patience())[0], (words, seen)
                seen += os.read(ours, 65536)
            seen = seen.partition(words.encode())[2]

        try:
            see("ready> ")
            for number, line in enumerate(READ_BY[how]):
                os.write(ours, f"{line} && echo $(({number} + 40))set\n".encode())
                see(f"{number + 40}set")
                see("ready> ")
            for begun, whole in COMPLETED:
                os.write(ours, f"{begun}\t".encode())
                see(whole)
                os.write(ours, b"\x15")  # takes the line back
        finally:
            shell.kill()
            os.close(ours)
            os.close(theirs)


@pytest.mark.once
def test_fish_completes_what_is_typed(typed: dict[str, str], run_id: str) -> None:
    from lanekit import FastLaneConfig, FastLaneWriter

    asking = ["lanekit completion fish | source"]
    asking += [f"complete -C {shlex.quote(begun)}" for begun, _ in COMPLETED]
    asking += [f"complete -C 'lanekit view {run_id[:-3]}'"]
    asking += ["complete -C 'lanekit control x '"]
    with FastLaneWriter.create(run_id, FastLaneConfig(8, 8)):
        done = subprocess.run(
            ["fish", "--no-config", "-c", "; ".join(asking)],
            cwd=Path(__file__).parents[1],  # full of files, which nobody asked for
            capture_output=True,
            text=True,
            timeout=patience(),
            check=True,
            env=typed,
        )
    offered = [line.partition("\t")[0] for line in done.stdout.splitlines()]
    actions = ["cancel", "pause", "resume", "stop"]
    assert offered == [*(whole.split()[-1] for _, whole in COMPLETED), run_id, *actions]
    assert done.stderr == ""


def test_zsh_and_fish_get_every_command(capsys: Capture) -> None:
    zsh, fish = script("zsh", capsys), script("fish", capsys)
    assert zsh.startswith("#compdef lanekit\n")
    for command in COMMANDS:
        assert f" -a {command} -d " in fish
        assert re.search(rf"^  \({command}\) options=", zsh, re.MULTILINE)
    assert fish.count("'") % 2 == fish.count("\\'") % 2
    for printed in (zsh, fish, script("bash", capsys)):
        assert "%(" not in printed


def test_colours_are_left_out_where_nobody_wants_them(root: Path) -> None:
    environment = {**os.environ, "TERM": "xterm-256color"}
    done = subprocess.run(
        [sys.executable, "-m", "lanekit", "workers"],
        capture_output=True,
        text=True,
        timeout=patience(),
        check=True,
        env=environment,
    )
    assert "\x1b" not in done.stdout + done.stderr
