"""Put the Python files of a package that can not be built into this environment: NAME VERSION.

Its compiled parts are missing then; what does not need them works.
"""

from __future__ import annotations

import hashlib
import io
import json
import sys
import sysconfig
import tarfile
import urllib.request
from pathlib import Path


def fetch_sources(name: str, version: str) -> bytes:
    """Return the package's source distribution, checked against its published digest."""
    with urllib.request.urlopen(f"https://pypi.org/pypi/{name}/json") as answer:
        files = json.load(answer)["releases"][version]
    (sources,) = (file for file in files if file["packagetype"] == "sdist")
    with urllib.request.urlopen(sources["url"]) as answer:
        content: bytes = answer.read()
    if hashlib.sha256(content).hexdigest() != sources["digests"]["sha256"]:
        raise SystemExit(f"{sources['filename']} is not what was published")
    return content


def main() -> None:
    """Fetch and unpack."""
    name, version = sys.argv[1:]
    target = Path(sysconfig.get_path("purelib"))
    with tarfile.open(fileobj=io.BytesIO(fetch_sources(name, version))) as archive:
        for member in archive:
            path = Path(*Path(member.name).parts[1:])
            if member.isfile() and path.suffix == ".py" and path.parts[0] == name:
                content = archive.extractfile(member)
                assert content is not None
                (target / path).parent.mkdir(parents=True, exist_ok=True)
                (target / path).write_bytes(content.read())


if __name__ == "__main__":
    main()
