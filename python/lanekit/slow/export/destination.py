"""Where an export goes: a directory that appears under its name only when it is complete."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lanekit.errors import TelemetryError

MARKER = "run.json"
"""The file that says that a directory is an export, and of what."""


@contextmanager
def new_export(out: Path, about: dict[str, Any], *, force: bool) -> Iterator[Path]:
    """Lend a directory to write into; it becomes `out` when the block ends without an error.

    Until then it has another name beside it, and an error removes it. With `force` an earlier
    export is replaced, at the very end; anything else that is there already is left alone.
    """
    check_free(out, force=force)
    out.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f".{out.name}.partial-", dir=out.parent))
    try:
        partial.chmod(0o777 & ~_umask())
        yield partial
        (partial / MARKER).write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
        _put_in_place(partial, out, force=force)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def check_free(out: Path, *, force: bool) -> None:
    """Raise if an export must not be written to `out`."""
    if not os.path.lexists(out) or _is_empty_directory(out):
        return
    if not force:
        raise TelemetryError(
            f"{out} exists already; --force replaces an earlier export, --out names another place"
        )
    if out.is_symlink() or not _is_export(out):
        raise TelemetryError(
            f"{out} is not a lanekit export (it has no {MARKER} of one), so --force does not "
            "replace it; remove it yourself, or name another place with --out"
        )


def _is_empty_directory(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink() and next(path.iterdir(), None) is None


def _is_export(path: Path) -> bool:
    try:
        return "lanekit_export" in json.loads((path / MARKER).read_text(encoding="utf-8"))
    except (OSError, ValueError, TypeError):
        return False


def _put_in_place(partial: Path, out: Path, *, force: bool) -> None:
    check_free(out, force=force)  # it may have appeared while we wrote
    if not os.path.lexists(out) or _is_empty_directory(out):
        partial.rename(out)
        return
    former = Path(tempfile.mkdtemp(prefix=f".{out.name}.replaced-", dir=out.parent))
    out.rename(former / "export")
    try:
        partial.rename(out)
    except OSError:
        (former / "export").rename(out)
        former.rmdir()
        raise
    shutil.rmtree(former, ignore_errors=True)


def _umask() -> int:
    """Return the process's umask without changing it, which another thread would notice."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as status:
        for line in status:
            if line.startswith("Umask:"):
                return int(line.split()[1], 8)
    return 0o077
