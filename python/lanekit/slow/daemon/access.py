"""Who calls, and which runs are theirs.

The daemon's own token (``--token-file``) is its owner's: every run, and the right to start
processes. A named token (``--tokens``) is for the runs of that name, which are those whose ids
begin with the name and a full stop: ``alice.ppo-1`` is alice's. Nothing has to be looked up to
tell, so the rule is the same for a run's events, its lanes in shared memory, a run that does not
exist yet, and on every daemon that shares a store.
"""

from __future__ import annotations

import hmac
import os
import re
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lanekit.errors import TelemetryError
from lanekit.slow.endpoint import check_token

METADATA_KEY = "authorization"
MAX_FILE_BYTES = 2**20
# No full stop: it ends the name in a run's id.
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9])?")


@dataclass(frozen=True, slots=True)
class Caller:
    """Whose token a call brought."""

    name: str = ""
    """Empty: the daemon's owner."""

    @property
    def is_owner(self) -> bool:
        """Whether every run is theirs, and the machine too."""
        return not self.name

    def may_touch(self, run_id: str) -> bool:
        """Tell whether a run is theirs, by its id."""
        return self.is_owner or run_id.startswith(f"{self.name}.")

    def refusal(self, run_id: str) -> str:
        """Say why a run is not theirs."""
        return (
            f"run {run_id!r} is not {self.name}'s: this token is for runs whose id begins with "
            f"'{self.name}.'"
        )


OWNER = Caller()

_PATH = re.compile(r"(?<![\w.])/[^\s'\"`,;)]+")


def words_for(caller: Caller, text: str) -> str:
    """Return what a caller may read of a text: paths of the daemon's machine are its owner's."""
    return text if caller.is_owner else _PATH.sub("(a path on the daemon's machine)", text)


class Tokens:
    """The tokens that a daemon knows. Without any, whoever can connect is its owner."""

    def __init__(self, owner: str | None = None, named: Mapping[str, str] | None = None) -> None:
        self._callers = [
            (f"Bearer {token}".encode(), Caller(name)) for name, token in (named or {}).items()
        ]
        if owner is not None:
            self._callers.append((f"Bearer {owner}".encode(), OWNER))

    @property
    def needed(self) -> bool:
        """Whether a call must bring a token."""
        return bool(self._callers)

    def caller(self, authorization: Iterable[str | bytes]) -> Caller | None:
        """Return who brings these ``authorization`` headers; None for nobody that is known."""
        if not self._callers:
            return OWNER
        given = [each if isinstance(each, bytes) else each.encode() for each in authorization]
        if len(given) != 1:
            return None
        found = None
        # Every token is compared, and each in constant time: how long it takes tells nothing.
        for expected, caller in self._callers:
            if hmac.compare_digest(given[0], expected):
                found = caller
        return found

    def sign(self, caller: Caller, text: str) -> str | None:
        """Return what only the caller's own token makes of a text; None for one not known."""
        for expected, known in self._callers:
            if known == caller:
                return hmac.digest(expected, text.encode(), "sha256").hex()
        return None


def token_of(metadata: Any) -> str | bytes | None:
    """Return what a call's metadata brings as its token; None for nothing."""
    return next((value for key, value in metadata or () if key == METADATA_KEY), None)


def caller_of(tokens: Tokens, metadata: Any) -> Caller | None:
    """Return whose token a call's metadata brings; None for nobody that is known."""
    return tokens.caller(value for key, value in metadata or () if key == METADATA_KEY)


def read_tokens(path: str | os.PathLike[str]) -> dict[str, str]:
    """Return a file's tokens by name. A line for each: ``NAME TOKEN``; ``#`` begins a remark."""
    try:
        with open(path, "rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise TelemetryError(f"tokens file {path} can not be read: {error.strerror}") from None
    if mode & 0o077:
        raise TelemetryError(
            f"tokens file {path} can be read by others (mode {mode:03o}): chmod 600 {path}"
        )
    if len(content) > MAX_FILE_BYTES:
        raise TelemetryError(f"tokens file {path} is larger than {MAX_FILE_BYTES} bytes")
    tokens: dict[str, str] = {}
    for number, line in enumerate(content.decode("utf-8", "replace").splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        _add(tokens, words, f"tokens file {path}, line {number}")
    if not tokens:
        raise TelemetryError(f"tokens file {path} holds no token; a line for each: NAME TOKEN")
    return tokens


def _add(tokens: dict[str, str], words: list[str], where: str) -> None:
    if len(words) != 2:
        raise TelemetryError(f"{where}: expected NAME TOKEN, found {len(words)} words")
    name, token = words
    if _NAME.fullmatch(name) is None:
        raise TelemetryError(
            f"{where}: {name!r} can not name an owner of runs; a name has 1 to 63 letters, digits, "
            "- and _, the two last not at its ends"
        )
    if name in tokens or token in tokens.values():
        raise TelemetryError(f"{where}: {name}, or its token, is there a second time")
    check_token(token.encode(), where)
    tokens[name] = token


def known_tokens(owner: str | None, tokens_file: Path | None) -> Tokens:
    """Return the tokens of a daemon: its owner's, and those in a file."""
    if tokens_file is None:
        return Tokens(owner)
    if owner is None:
        raise ValueError("--tokens needs --token-file: the daemon's own workers bring that token")
    named = read_tokens(tokens_file)
    if owner in named.values():
        raise TelemetryError(f"tokens file {tokens_file} gives the owner's own token away")
    return Tokens(owner, named)
