"""Start this machine's daemon if there is none, and end: ``python -m lanekit.slow.start_daemon``.

For those whose children do not outlive them, such as Ray's processes: the daemon started here is
nobody's child. Arguments: its socket, and a JSON list with more of its options. Prints one JSON
object: how it was started, ``null`` if nobody knows, or an ``error``.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from lanekit.errors import LanekitError
from lanekit.slow.endpoint import state_directory
from lanekit.slow.local_daemon import start_if_absent


def main() -> None:
    """Do it, and say what came of it."""
    socket, options = sys.argv[1], json.loads(sys.argv[2])
    note = state_directory() / "daemon.started.json"
    try:
        started = start_if_absent(socket, None, options)
        if started is not None:
            _write_private(note, json.dumps({"pid": started.pid, "options": options}))
        answer: dict[str, Any] = {"started": _how_started(note), "here_now": started is not None}
    except (LanekitError, OSError) as error:
        answer = {"error": str(error)}
    print(json.dumps(answer), flush=True)


def _write_private(path: Path, text: str) -> None:
    """Write what only its owner may read: a store's URL may hold a password."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)


def _how_started(note: Path) -> Any:
    """Return what was noted, if the daemon of that note is still there."""
    try:
        found = json.loads(note.read_text())
        command = Path(f"/proc/{found['pid']}/cmdline").read_bytes().split(b"\0")
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found if b"daemon" in command else None


if __name__ == "__main__":
    main()
