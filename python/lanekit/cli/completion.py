"""``lanekit completion``: what a shell needs to complete commands, options, runs and workers."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from lanekit.errors import LanekitError
from lanekit.integrations.showing.lanes import state_lane_of
from lanekit.segments import SegmentInfo, scan_segments
from lanekit.worker.discovery import announced

NAME = "completion"
HELP = "print a script that completes commands and runs in your shell"
EXAMPLES = (
    ("source <(lanekit completion bash)", "in ~/.bashrc"),
    ("source <(lanekit completion zsh)", "in ~/.zshrc, below compinit"),
    ("lanekit completion fish | source", "in ~/.config/fish/config.fish"),
)

Kind = Literal["run", "worker", "file", "none"]
_WORKER = "as `lanekit workers` lists it"
"""How the help tells an argument that is an installed worker."""
_FILES = {"FILE", "PATH", "DIR", "DIRECTORY", "PNG", "SPOOL"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "shell",
        choices=("bash", "zsh", "fish", *LISTS),
        help="whose script; `runs` and `workers` print the names that the scripts complete",
    )


def run(args: argparse.Namespace) -> int:
    """Print the script."""
    if args.shell in LISTS:
        for name in LISTS[args.shell]():
            print(name)
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


def known_workers() -> list[str]:
    """Return the workers that are installed, whether or not they can be used."""
    names = sorted(point.name for point in announced())
    return [name for name in names if name.isprintable() and " " not in name]


LISTS: dict[str, Callable[[], list[str]]] = {"runs": known_runs, "workers": known_workers}
"""What the scripts ask for when a name is to be completed."""


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

    def places(self) -> list[Option]:
        """Return its positional arguments, in their order."""
        return [option for option in self.options if not option.flags]

    def valued(self) -> list[Option]:
        """Return its options that take a value."""
        return [option for option in self.options if option.flags and option.takes_value]


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
    if action.help == _WORKER:
        kind = "worker"
    return Option(
        tuple(action.option_strings),
        argparse.HelpFormatter("")._expand_help(action) if action.help else "",
        action.nargs != 0,
        tuple(map(str, action.choices or ())),
        kind,
    )


def _nested(commands: list[Described]) -> list[str]:
    """Return the commands that have several actions."""
    return sorted({command.words.split()[0] for command in commands if " " in command.words})


def _patterns(command: Described, option: Option) -> str:
    return "|".join(shlex.quote(f"{command.words} {flag}") for flag in option.flags)


def _all_valued(commands: list[Described]) -> str:
    """Return a pattern of everything that the next word belongs to."""
    found = [_patterns(command, option) for command in commands for option in command.valued()]
    return "|".join(found)


def bash(commands: list[Described]) -> str:
    """Return the script for bash."""
    values, places, words = [], [], []
    for command in commands:
        for option in command.valued():
            values.append(f"    {_patterns(command, option)}) {_bash_source(option)}; return ;;")
        for number, place in enumerate(command.places()):
            if place.choices or place.kind != "none":
                pattern = shlex.quote(f"{command.words} {number}")
                places.append(f"    {pattern}) {_bash_source(place)}; return ;;")
        known = shlex.quote(" ".join(command.flags()))
        words.append(f"    {shlex.quote(command.words)}) words={known} ;;")
    return _BASH.format(
        valued=_all_valued(commands),
        values="\n".join(values),
        places="\n".join(places),
        words="\n".join(words),
        nested="|".join(_nested(commands)),
    )


def _bash_source(option: Option) -> str:
    if option.choices:
        return f"_lanekit_words {shlex.quote(' '.join(option.choices))}"
    return {
        "file": 'COMPREPLY=($(compgen -f -- "$cur"))',
        "run": '_lanekit_words "$(lanekit completion runs 2>/dev/null)"',
        "worker": '_lanekit_words "$(lanekit completion workers 2>/dev/null)"',
        "none": '_lanekit_words ""',
    }[option.kind]


# Where it is known what belongs, names of files do not; bash would offer them if nothing else fits.
_BASH = """# bash completion for lanekit, printed by `lanekit completion bash`
_lanekit_words() {{
  compopt +o default 2>/dev/null
  COMPREPLY=($(compgen -W "$1" -- "$cur"))
}}
_lanekit() {{
  local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD - 1]}}
  local command="" words="" place=0 i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case ${{COMP_WORDS[i]}} in
    --) return ;;
    =) ((i++)) ;; # bash takes K=V for three words
    -*)
      case "$command ${{COMP_WORDS[i]}}" in
      {valued})
        ((i++))
        [[ ${{COMP_WORDS[i]}} == = ]] && ((i++))
        ;;
      esac
      ;;
    *)
      if [[ $command ]]; then
        ((place++))
        continue
      fi
      command=${{COMP_WORDS[i]}}
      case $command in
      {nested}) ((i + 1 < COMP_CWORD)) && command+=" ${{COMP_WORDS[++i]}}" ;;
      esac
      ;;
    esac
  done
  case "$command $prev" in
{values}
  esac
  if [[ $cur != -* ]]; then
    case "$command $place" in
{places}
    esac
  fi
  case $command in
{words}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
}}
complete -o default -F _lanekit lanekit
"""


def zsh(commands: list[Described]) -> str:
    """Return the script for zsh."""
    values, places, words = [], [], []
    for command in commands:
        for option in command.valued():
            values.append(f"  ({_patterns(command, option)}) {_zsh_source(option)}; return ;;")
        for number, place in enumerate(command.places()):
            pattern = shlex.quote(f"{command.words} {number}")
            told = {
                other.words.split()[-1]: other.told
                for other in commands
                if other.words and other.words.rpartition(" ")[0] == command.words
            }
            if place.choices:
                known = _zsh({word: told.get(word, "") for word in place.choices})
                places.append(f"  ({pattern}) values=({known}); _describe value values; return ;;")
            elif place.kind != "none":
                places.append(f"  ({pattern}) {_zsh_source(place)}; return ;;")
        flags = {flag: option.told for option in command.options for flag in option.flags}
        words.append(f"  ({shlex.quote(command.words)}) options=({_zsh(flags)}) ;;")
    return _ZSH.format(
        valued=_all_valued(commands),
        values="\n".join(values),
        places="\n".join(places),
        words="\n".join(words),
        nested="|".join(_nested(commands)),
    )


def _zsh_source(option: Option) -> str:
    if option.choices:
        return f"compadd -- {shlex.join(option.choices)}"
    return {
        "file": "_files",
        "run": "_lanekit_names runs",
        "worker": "_lanekit_names workers",
        "none": "true",
    }[option.kind]


def _zsh(told: dict[str, str]) -> str:
    return " ".join(
        shlex.quote(f"{word}:{text}" if text else word)
        for word, text in ((w.replace(":", "\\:"), t.replace(":", "\\:")) for w, t in told.items())
    )


# Put into fpath it is the function itself, called for each completion; sourced it declares one.
_ZSH = """#compdef lanekit
# zsh completion for lanekit, printed by `lanekit completion zsh`
_lanekit_names() {{
  local -a found=(${{(f)"$(lanekit completion $1 2>/dev/null)"}})
  compadd -a found
}}
_lanekit() {{
  local cur=$words[CURRENT] prev=$words[CURRENT-1] command=""
  local -a options values
  integer i place=0
  for ((i = 2; i < CURRENT; i++)); do
    case $words[i] in
    (--) _files; return ;;
    (-*)
      case "$command $words[i]" in
      ({valued}) ((i++)) ;;
      esac
      ;;
    (*)
      if [[ -n $command ]]; then
        ((place++))
        continue
      fi
      command=$words[i]
      case $command in
      ({nested}) ((i + 1 < CURRENT)) && command+=" $words[++i]" ;;
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
    return
  fi
  case "$command $place" in
{places}
  esac
  _files
}}
if [[ $funcstack[1] == _lanekit ]]; then _lanekit "$@"; else compdef _lanekit lanekit; fi
"""


def fish(commands: list[Described]) -> str:
    """Return the script for fish."""
    lines = ["# fish completion for lanekit, printed by `lanekit completion fish`"]
    cases = [
        _fish(f"{command.words} {flag}")
        for command in commands
        for option in command.valued()
        for flag in option.flags
    ]
    lines.append(_FISH.format(valued=" ".join(cases), nested=" ".join(_nested(commands))))
    for command in commands:
        condition = _fish_condition(command.words)
        if command.words:
            *before, name = command.words.split()
            where = _fish_condition(" ".join(before))
            lines.append(f"complete -c lanekit{where} -a {name} -d {_fish(command.told)}")
        for option in command.options:
            if option.flags:
                lines.append(f"complete -c lanekit{condition}{_fish_option(option)}")
        for number, place in enumerate(command.places()):
            is_action = any(other.words.startswith(f"{command.words} ") for other in commands)
            if command.words and not is_action and (source := _fish_source(place)):
                here = _fish(f'test (__lanekit_place) = "{command.words} {number}"')
                lines.append(f"complete -c lanekit -n {here}{source}")
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
        text += _fish_source(option)
    return f"{text} -d {_fish(option.told)}"


def _fish_source(option: Option) -> str:
    if option.choices:
        return f" -a {_fish(' '.join(option.choices))}"
    return {
        "file": " -F",
        "run": " -a '(lanekit completion runs 2>/dev/null)'",
        "worker": " -a '(lanekit completion workers 2>/dev/null)'",
        "none": "",
    }[option.kind]


def _fish(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


_FISH = """complete -c lanekit -f
function __lanekit_place -d 'the command, and how many of its arguments stand before the cursor'
    set -l command ''
    set -l place 0
    set -l is_value no
    set -l words (commandline -opc)
    set -e words[1]
    for word in $words
        if test $is_value = yes
            set is_value no
        else if string match -q -- '-*' $word
            switch "$command $word"
                case {valued}
                    set is_value yes
            end
        else if test -z $command
            set command $word
        else if contains -- $command {nested}
            set command "$command $word"
        else
            set place (math $place + 1)
        end
    end
    echo "$command $place"
end"""
