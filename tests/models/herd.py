"""Running herd7 on a litmus test."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.patience import patience


class HerdError(Exception):
    """herd7 did not understand a test."""


@dataclass(frozen=True)
class Answer:
    """What herd7 says: whether the outcome was seen, and how many executions it looked at."""

    seen: bool
    racy: bool
    executions: int


def herd7() -> Path:
    """Return where tools/install_checkers.sh puts the program."""
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "lanekit" / "checkers" / "herd7"


def ask(litmus: Path, model: str, settle: bool = False) -> Answer:
    """Ask whether the test's condition can hold; to settle just that, stop where it does.

    Then only executions that could show it are looked at, and races in others are not reported.
    """
    # One more turn of a loop at most: what a retry does, its first turn did.
    command = [str(herd7()), "-unroll", "1", "-model", model]
    command += ["-speedcheck", "fast", str(litmus)] if settle else [str(litmus)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=patience(300), check=False
    )
    observed = re.search(
        r"^Observation \S+ (Never|Sometimes|Always) (\d+) (\d+)", done.stdout, re.M
    )
    if done.returncode != 0 or observed is None:
        raise HerdError(f"{litmus}: {done.stdout[-500:]}{done.stderr[-1500:]}")
    return Answer(
        seen=observed.group(1) != "Never",
        racy=re.search(r"^Flag .*rac", done.stdout, re.M) is not None,
        executions=int(observed.group(2)) + int(observed.group(3)),
    )
