"""A disk that is soon full, for root and for everybody else who may have a user namespace."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

_MOUNT_AND_WAIT = 'mount -t tmpfs -o "size=$1" tmpfs "$2" && echo mounted && exec cat'


@contextlib.contextmanager
def small_disk_at(place: Path, size: str) -> Iterator[Path]:
    """A file system of `size` at `place`; skips the test where nobody may mount one."""
    if os.geteuid() == 0:
        place.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)]
        mounted = subprocess.run(command, capture_output=True, text=True, check=False)
        if mounted.returncode:
            pytest.skip(f"may not mount a tmpfs here: {mounted.stderr.strip()}")
        try:
            yield place
        finally:
            subprocess.run(["umount", "--lazy", str(place)], check=True)
        return
    # The mount is seen only by the process that made it; /proc leads there, as long as it lives.
    there = place.with_name(f"{place.name}-mounted")
    there.mkdir()
    namespace = ["unshare", "--map-root-user", "--mount", "sh", "-c", _MOUNT_AND_WAIT, "sh"]
    with subprocess.Popen(
        [*namespace, size, str(there)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stderr is not None
        if holder.stdout.readline() != "mounted\n":
            pytest.skip(
                "needs root, or unprivileged user namespaces, to mount a tmpfs: "
                f"{holder.stderr.read().strip()}"
            )
        place.symlink_to(f"/proc/{holder.pid}/root{there.resolve()}")
        try:
            yield place
        finally:
            holder.kill()


def fill(path: Path) -> None:
    """Fill the disk to the last byte."""
    with path.open("wb", buffering=0) as file:
        for size in (2**20, 4096):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue
