"""``lanekit completion``: what a shell needs to complete commands, options and run ids."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from lanekit.errors import LanekitError
from lanekit.integrations.showing.lanes import state_lane_of
from lanekit.segments import SegmentInfo, scan_segments

NAME = "completion"
HELP = "print a script that completes commands and runs in your shell"
EXAMPLES = (
    ("source <(lanekit completion bash)", "in ~/.bashrc"),
    ("source <(lanekit completion zsh)", "in ~/.zshrc, below compinit"),
    ("lanekit completion fish | source", "in ~/.config/fish/config.fish"),
)

Kind = Literal["run", "file", "none"]
_FILES = {"FILE", "PATH", "DIR", "DIRECTORY", "PNG", "SPOOL"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "shell",
        choices=("bash", "zsh", "fish", "runs"),
        help="whose script; `runs` prints the run ids that the scripts complete",
    )


def run(args: argparse.Namespace) -> int:
    """Print the script."""
    if args.shell == "runs":
        for run_id in known_runs():
            print(run_id)
        return 0
    from lanekit.cli import build_parser

    commands = list(commands_of(build_parser()))
    print({"bash": bash, "zsh": zsh, "fish": fish}[args.shell](commands), end="")
    return 0


def known_runs(most: int = 200) -> list[str]:
    """Return the runs that are live or recorded, the newest first."""
    found = [
        segment.run_id
        for segment in scan_segments()
        if isinstance(segment, SegmentInfo) and not segment.orphan and segment.run_id.isprintable()
    ]
    with suppress(LanekitError, ImportError):  # without the slow lane there are live ones only
        from lanekit.slow.store.run_store import RunStore

        with RunStore.open() as store:
            found += [record.run_id for record in store.runs()[:most]]
    hidden = {state_lane_of(run_id) for run_id in found}  # those carry no pictures
    return [run_id for run_id in dict.fromkeys(found) if " " not in run_id and run_id not in hidden]


@dataclass(frozen=True)
class Option:
    """One option, or one place of a command's positional arguments."""

    flags: tuple[str, ...]
    """Empty: positional."""
    told: str
    takes_value: bool
    choices: tuple[str, ...]
    kind: Kind


@dataclass(frozen=True)
class Described:
    """A command and what can follow it."""

    words: str
    """"view", or with the action of one that has several: "worker check"."""
    told: str
    options: tuple[Option, ...]

    def flags(self) -> list[str]:
        """Return all that begins with a dash."""
        return [flag for option in self.options for flag in option.flags]

    def values(self) -> list[str]:
        """Return the words that its positional arguments can be."""
        return [word for option in self.options if not option.flags for word in option.choices]

    def wants(self, kind: Kind) -> bool:
        """Tell whether one of its positional arguments is of a kind."""
        return any(option.kind == kind for option in self.options if not option.flags)


def commands_of(parser: argparse.ArgumentParser, words: str = "") -> Iterator[Described]:
    """Walk through a parser, its sub-commands included."""
    options = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, sub in action.choices.items():
                yield from commands_of(sub, f"{words} {name}".strip())
            options.append(Option((), "", False, tuple(action.choices), "none"))
        else:
            options.append(_option(action))
    yield Described(words, " ".join((parser.description or "").split()), tuple(options))


def _option(action: argparse.Action) -> Option:
    metavar = action.metavar if isinstance(action.metavar, str) else ""
    kind: Kind = "run" if metavar == "RUN" else "file" if metavar in _FILES else "none"
    return Option(
        tuple(action.option_strings),
        argparse.HelpFormatter("")._expand_help(action) if action.help else "",
        action.nargs != 0,
        tuple(map(str, action.choices or ())),
        kind,
    )


def bash(commands: list[Described]) -> str:
    """Return the script for bash."""
    values, words = [], []
    for command in commands:
        for option in command.options:
            source = _bash_source(option)
            if option.flags and option.takes_value and source:
                patterns = "|".join(shlex.quote(f"{command.words} {f}") for f in option.flags)
                values.append(f"    {patterns}) {source}; return ;;")
        known = shlex.quote(" ".join(command.flags() + command.values()))
        more = " runs=yes" if command.wants("run") else ""
        words.append(f"    {shlex.quote(command.words)}) words={known}{more} ;;")
    return _BASH.format(
        values="\n".join(values),
        words="\n".join(words),
        nested="|".join(sorted({c.words.split()[0] for c in commands if " " in c.words})),
    )


def _bash_source(option: Option) -> str:
    if option.choices:
        return f'COMPREPLY=($(compgen -W {shlex.quote(" ".join(option.choices))} -- "$cur"))'
    if option.kind == "file":
        return 'COMPREPLY=($(compgen -f -- "$cur"))'
    if option.kind == "run":
        return 'COMPREPLY=($(compgen -W "$(lanekit completion runs 2>/dev/null)" -- "$cur"))'
    return ""


_BASH = """# bash completion for lanekit, printed by `lanekit completion bash`
_lanekit() {{
  local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD - 1]}}
  local command="" words="" runs="" i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case ${{COMP_WORDS[i]}} in
    --) return ;;
    -*) ;;
    *)
      [[ $command ]] && continue
      command=${{COMP_WORDS[i]}}
      case $command in
      {nested}) ((i + 1 < COMP_CWORD)) && command+=" ${{COMP_WORDS[i + 1]}}" ;;
      esac
      ;;
    esac
  done
  case "$command $prev" in
{values}
  esac
  case $command in
{words}
  esac
  [[ $runs && $cur != -* ]] && words+=" $(lanekit completion runs 2>/dev/null)"
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
}}
complete -o default -F _lanekit lanekit
"""


def zsh(commands: list[Described]) -> str:
    """Return the script for zsh."""
    values, words = [], []
    for command in commands:
        for option in command.options:
            source = _zsh_source(option)
            if option.flags and option.takes_value and source:
                patterns = "|".join(shlex.quote(f"{command.words} {f}") for f in option.flags)
                values.append(f"  ({patterns}) {source}; return ;;")
        told = {
            word.words.split()[-1]: word.told
            for word in commands
            if word.words and word.words.rpartition(" ")[0] == command.words
        }
        told = dict.fromkeys(command.values(), "") | told
        flags = {flag: option.told for option in command.options for flag in option.flags}
        line = f"options=({_zsh(flags)}) values=({_zsh(told)})"
        more = " runs=yes" if command.wants("run") else ""
        words.append(f"  ({shlex.quote(command.words)}) {line}{more} ;;")
    return _ZSH.format(
        values="\n".join(values),
        words="\n".join(words),
        nested="|".join(sorted({c.words.split()[0] for c in commands if " " in c.words})),
    )


def _zsh_source(option: Option) -> str:
    if option.choices:
        return f"compadd -- {shlex.join(option.choices)}"
    return {"file": "_files", "run": "_lanekit_runs", "none": ""}[option.kind]


def _zsh(told: dict[str, str]) -> str:
    return " ".join(
        shlex.quote(f"{word}:{text}" if text else word)
        for word, text in ((w.replace(":", "\\:"), t.replace(":", "\\:")) for w, t in told.items())
    )


# Put into fpath it is the function itself, called for each completion; sourced it declares one.
_ZSH = """#compdef lanekit
# zsh completion for lanekit, printed by `lanekit completion zsh`
_lanekit_runs() {{
  local -a found=(${{(f)"$(lanekit completion runs 2>/dev/null)"}})
  compadd -a found
}}
_lanekit() {{
  local cur=$words[CURRENT] prev=$words[CURRENT-1] command="" runs=""
  local -a options values
  integer i
  for ((i = 2; i < CURRENT; i++)); do
    case $words[i] in
    (--) _files; return ;;
    (-*) ;;
    (*)
      [[ -n $command ]] && continue
      command=$words[i]
      case $command in
      ({nested}) ((i + 1 < CURRENT)) && command+=" $words[i+1]" ;;
      esac
      ;;
    esac
  done
  case "$command $prev" in
{values}
  esac
  case $command in
{words}
  esac
  if [[ $cur == -* ]]; then
    _describe -o option options
  elif [[ -n $runs ]]; then
    _lanekit_runs
    (($#values)) && _describe value values
  elif (($#values)); then
    _describe command values
  else
    _files
  fi
}}
if [[ $funcstack[1] == _lanekit ]]; then _lanekit "$@"; else compdef _lanekit lanekit; fi
"""


def fish(commands: list[Described]) -> str:
    """Return the script for fish."""
    lines = ["# fish completion for lanekit, printed by `lanekit completion fish`"]
    lines.append("complete -c lanekit -f")
    for command in commands:
        condition = _fish_condition(command.words)
        if command.words:
            *before, name = command.words.split()
            where = _fish_condition(" ".join(before))
            lines.append(f"complete -c lanekit{where} -a {name} -d {_fish(command.told)}")
        if command.wants("run"):
            lines.append(
                f"complete -c lanekit{condition} -a '(lanekit completion runs 2>/dev/null)'"
            )
        for option in command.options:
            if option.flags:
                lines.append(f"complete -c lanekit{condition}{_fish_option(option)}")
            elif (
                option.choices
                and command.words
                and " " not in command.words
                and not any(other.words.startswith(command.words + " ") for other in commands)
            ):
                lines.append(f"complete -c lanekit{condition} -a {_fish(' '.join(option.choices))}")
    return "\n".join(lines) + "\n"


def _fish_condition(words: str) -> str:
    if not words:
        return " -n __fish_use_subcommand"
    tests = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in words.split())
    return f" -n {_fish(tests)}"


def _fish_option(option: Option) -> str:
    text = "".join(
        f" -l {flag[2:]}" if flag.startswith("--") else f" -s {flag[1:]}" for flag in option.flags
    )
    if option.takes_value:
        text += " -r" if option.kind == "file" else " -x"  # -x: no names of files
        if option.choices:
            text += f" -a {_fish(' '.join(option.choices))}"
        elif option.kind == "file":
            text += " -F"
        elif option.kind == "run":
            text += " -a '(lanekit completion runs 2>/dev/null)'"
    return f"{text} -d {_fish(option.told)}"


def _fish(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
