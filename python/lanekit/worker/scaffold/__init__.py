"""``lanekit worker new``: the files in ``template``, with a worker's names put in.

A file's name there ends with ``.in``, so that nobody takes it for a part of lanekit. ``@name@``,
``@package@``, ``@title@``, ``@class@`` and ``@lanekit@`` are replaced in it.
"""

from __future__ import annotations

import keyword
import re
import sys
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from importlib.util import find_spec
from pathlib import Path, PurePosixPath

from lanekit import __version__
from lanekit.errors import WorkerError
from lanekit.worker.discovery import announced

_NAME = re.compile(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*")
_LONGEST = 40


def write_package(name: str, directory: Path) -> list[Path]:
    """Write a worker's package; return its files. Refuses a name or place that is taken."""
    check_name(name)
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise WorkerError(
            f"{directory} exists and is not empty; choose another place with --directory"
        )
    words = re.split(r"[-_]", name)
    names = {
        "@name@": name,
        "@package@": package_of(name),
        "@title@": " ".join(word.capitalize() for word in words),
        "@class@": "".join(word.capitalize() for word in words),
        "@lanekit@": __version__,
    }
    written = []
    try:
        for place, content in _template(files(__name__) / "template"):
            path = directory.joinpath(*(names.get(part, part) for part in place.parts))
            path.parent.mkdir(parents=True, exist_ok=True)
            for mark, value in names.items():
                content = content.replace(mark, value)
            path.write_text(content, encoding="utf-8")
            written.append(path)
    except OSError as error:
        raise WorkerError(f"{error.filename}: {error.strerror}") from error
    return written


def check_name(name: str) -> None:
    """Refuse a name that can not be a worker's, or is somebody's already."""
    if not _NAME.fullmatch(name) or len(name) > _LONGEST:
        better = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-0123456789")[:_LONGEST]
        hint = f", such as {better.rstrip('-')}" if _NAME.match(better) else ""
        raise WorkerError(
            f"{name!r} is no worker's name: small letters, digits and hyphens, a letter first, at "
            f"most {_LONGEST}{hint}"
        )
    package = package_of(name)
    taken = None
    if keyword.iskeyword(package) or package in sys.stdlib_module_names:
        taken = "Python itself uses it"
    elif any(point.name == name for point in announced()):
        taken = "a worker of that name is installed, see `lanekit workers`"
    elif (spec := find_spec(package)) is not None and spec.origin is not None:
        taken = f"a module {package} is installed: {spec.origin}"
    if taken:
        raise WorkerError(f"the name {name!r} is taken: {taken}; choose another")


def package_of(name: str) -> str:
    """Return what a worker's package is imported as."""
    return name.replace("-", "_")


def _template(
    place: Traversable, under: PurePosixPath | None = None
) -> Iterator[tuple[PurePosixPath, str]]:
    """Find the template's files: where each goes, and what is in it."""
    here = under or PurePosixPath()
    for entry in sorted(place.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from _template(entry, here / entry.name.replace("package", "@package@"))
        elif entry.name.endswith(".in"):
            name = entry.name.removesuffix(".in")
            yield here / name.replace("dot-", "."), entry.read_text(encoding="utf-8")
