"""What these tests share with those of the slow lane."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "slow"))


@pytest.fixture
def short_directory() -> Iterator[Path]:
    """A directory whose paths are short enough for Unix sockets."""
    directory = Path(tempfile.mkdtemp(prefix="lk-"))
    yield directory
    shutil.rmtree(directory)
