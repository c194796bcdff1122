"""The one JSON file of a run of everything: machine, versions, method, and every row."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.rows import Row

FORMAT = 1


class RecordError(Exception):
    """A file is not what `python -m bench all` writes."""


@dataclass
class Record:
    """A run."""

    mode: str
    when: str
    machine: dict[str, Any]
    versions: dict[str, str]
    lanes: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Of each lane: method, effort, noise, seconds, results; or why it failed."""
    rows: list[Row] = field(default_factory=list)

    @property
    def noise(self) -> float:
        """The largest share of the machine that others used during a part."""
        shares = [
            share
            for lane in self.lanes.values()
            for part in lane.get("noise", {}).values()
            for share in part
        ]
        return max(shares, default=0.0)

    @property
    def seconds(self) -> float:
        """How long it took."""
        return float(sum(lane.get("seconds", 0.0) for lane in self.lanes.values()))

    def save(self, path: Path) -> None:
        """Write it."""
        content = {
            "format": FORMAT,
            "mode": self.mode,
            "when": self.when,
            "seconds": round(self.seconds, 1),
            "machine": self.machine,
            "versions": self.versions,
            "lanes": self.lanes,
            "rows": [row.to_json() for row in self.rows],
        }
        text = json.dumps(_finite(content), indent=1, ensure_ascii=False, allow_nan=False)
        path.write_text(text + "\n", encoding="utf-8")


def _finite(found: Any) -> Any:
    """Put null where there is no number: a viewer that showed nothing has no age."""
    if isinstance(found, dict):
        return {key: _finite(value) for key, value in found.items()}
    if isinstance(found, list | tuple):
        return [_finite(value) for value in found]
    return None if isinstance(found, float) and not math.isfinite(found) else found


def load(path: Path) -> Record:
    """Read a run; raises RecordError with what is wrong."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RecordError(f"{path}: {error.strerror}; `python -m bench all` writes one") from None
    except ValueError as error:
        raise RecordError(f"{path} is not JSON: {error}") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise RecordError(f"{path} was not written by this version's `python -m bench all`")
    try:
        rows = [Row.from_json(row) for row in content["rows"]]
        return Record(
            content["mode"],
            content["when"],
            content["machine"],
            content["versions"],
            content["lanes"],
            rows,
        )
    except (KeyError, TypeError) as error:
        raise RecordError(f"{path} lacks what a run has: {error}") from None
