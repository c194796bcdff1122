"""How the command behaves whatever is typed: help, complaints, exit statuses, completion."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lanekit.cli import COMMANDS, GROUPS, clean, endings, main
from lanekit.cli.endings import DEBUG_VARIABLE, EXTRA_OF, in_words, run_to_its_end
from lanekit.errors import LanekitError

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
        (PermissionError(13, "Permission denied", "/x/y"), 1, "/x/y: Permission denied"),
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


def test_ctrl_c_is_no_traceback(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    def interrupted() -> list[object]:
        raise KeyboardInterrupt

    monkeypatch.setattr(clean, "list_segments", interrupted)
    assert complaint(capsys, "clean", status=130) == ""


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
        ["bash", "-c", asking], capture_output=True, text=True, timeout=60, check=True
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


def test_bash_completes_live_runs(capsys: Capture, run_id: str) -> None:
    from lanekit import FastLaneConfig, FastLaneWriter

    printed = script("bash", capsys)
    with FastLaneWriter.create(run_id, FastLaneConfig(8, 8)):
        assert bash_completes(printed, "view", run_id[:-3]) == [run_id]


def test_zsh_and_fish_get_every_command(capsys: Capture) -> None:
    zsh, fish = script("zsh", capsys), script("fish", capsys)
    assert zsh.startswith("#compdef lanekit\n")
    for command in COMMANDS:
        assert f" -a {command} -d " in fish
        assert re.search(rf"^    '?{command}'?\) words=", zsh, re.MULTILINE)
    assert fish.count("'") % 2 == fish.count("\\'") % 2


def test_colours_are_left_out_where_nobody_wants_them(root: Path) -> None:
    environment = {**os.environ, "TERM": "xterm-256color"}
    done = subprocess.run(
        [sys.executable, "-m", "lanekit", "workers"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env=environment,
    )
    assert "\x1b" not in done.stdout + done.stderr
