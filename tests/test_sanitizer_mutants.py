"""ThreadSanitizer is only worth running if it notices a lost order: show that it does."""

from __future__ import annotations

import shutil
import subprocess
from hashlib import sha256
from pathlib import Path

import pytest

from patience import patience

pytestmark = pytest.mark.core

# (file, what stands there, what a mutant has instead, the C test that must then fail)
MUTANTS = {
    "[W1] release lost": (
        "lk_wait.h",
        "atomic_store_explicit(sequence, value, memory_order_release)",
        "atomic_store_explicit(sequence, value, memory_order_relaxed)",
        "test_order",
    ),
    "[W1] acquire lost": (
        "lk_wait.c",
        "atomic_load_explicit(sequence, memory_order_acquire)",
        "atomic_load_explicit(sequence, memory_order_relaxed)",
        "test_order",
    ),
    "[Q1] release lost": (
        "lk_seqlock.h",
        "atomic_store_explicit(seq, even, memory_order_release)",
        "atomic_store_explicit(seq, even, memory_order_relaxed)",
        "test_order",
    ),
    "[Q1] acquire lost": (
        "lk_seqlock.h",
        "atomic_load_explicit(seq, memory_order_acquire)",
        "atomic_load_explicit(seq, memory_order_relaxed)",
        "test_order",
    ),
    "[G1] release lost": (
        "lk_guard.h",
        "atomic_store_explicit(&guard->state, LK_GUARD_IDLE, memory_order_release)",
        "atomic_store_explicit(&guard->state, LK_GUARD_IDLE, memory_order_relaxed)",
        "test_misuse",
    ),
    "[G1] acquire lost": (
        "lk_guard.h",
        "memory_order_acquire, memory_order_relaxed",
        "memory_order_relaxed, memory_order_relaxed",
        "test_misuse",
    ),
    "[G2] release lost": (
        "lk_guard.h",
        "atomic_fetch_sub_explicit(&guard->visitors, 1, memory_order_release)",
        "atomic_fetch_sub_explicit(&guard->visitors, 1, memory_order_relaxed)",
        "test_misuse",
    ),
    "[G2] acquire lost": (
        "lk_guard.h",
        "atomic_load_explicit(&guard->visitors, memory_order_acquire)",
        "atomic_load_explicit(&guard->visitors, memory_order_relaxed)",
        "test_misuse",
    ),
    "[R1] release lost": (
        "lk_ring.c",
        "atomic_store_explicit(&writer->header->write_pos, writer->position, memory_order_release)",
        "atomic_store_explicit(&writer->header->write_pos, writer->position, memory_order_relaxed)",
        "test_cmd_threads",
    ),
    "[R1] acquire lost": (
        "lk_ring.c",
        "atomic_load_explicit(&reader->header->write_pos, memory_order_acquire)",
        "atomic_load_explicit(&reader->header->write_pos, memory_order_relaxed)",
        "test_cmd_threads",
    ),
    "[R2] release lost": (
        "lk_ring.c",
        "atomic_store_explicit(&reader->header->read_pos, reader->position, memory_order_release)",
        "atomic_store_explicit(&reader->header->read_pos, reader->position, memory_order_relaxed)",
        "test_cmd_threads",
    ),
    "[R2] acquire lost": (
        "lk_ring.c",
        "atomic_load_explicit(&writer->header->read_pos, memory_order_acquire)",
        "atomic_load_explicit(&writer->header->read_pos, memory_order_relaxed)",
        "test_cmd_threads",
    ),
    "[J1] release lost": (
        "lk_traj_ring.h",
        "atomic_store_explicit(&ring->head, head, memory_order_release)",
        "atomic_store_explicit(&ring->head, head, memory_order_relaxed)",
        "test_traj_threads",
    ),
    "[J1] acquire lost": (
        "lk_traj_ring.h",
        "atomic_load_explicit(&ring->head, memory_order_acquire)",
        "atomic_load_explicit(&ring->head, memory_order_relaxed)",
        "test_traj_threads",
    ),
    "[J2] release lost": (
        "lk_traj_ring.h",
        "atomic_store_explicit(&ring->tail, tail, memory_order_release)",
        "atomic_store_explicit(&ring->tail, tail, memory_order_relaxed)",
        "test_traj_threads",
    ),
    "[J2] acquire lost": (
        "lk_traj_ring.h",
        "atomic_load_explicit(&ring->tail, memory_order_acquire)",
        "atomic_load_explicit(&ring->tail, memory_order_relaxed)",
        "test_traj_threads",
    ),
}


# Which lanes' sources each test needs beside the common ones: compiling the rest takes longer than
# all that is tested here.
NEEDS = {
    "test_order": {"frame"},
    "test_misuse": {"frame"},
    "test_cmd_threads": {"cmd", "ring"},
    "test_traj_threads": {"traj"},
}
LANES = {"frame", "pixels", "step", "cmd", "ring", "traj"}


def sources(source: Path, test: str) -> list[Path]:
    left_out = LANES - NEEDS[test]
    return [file for file in source.glob("lk_*.c") if file.stem.split("_")[1] not in left_out]


FLAGS = ("-std=c11", "-O1", "-g", "-fsanitize=thread", "-Wno-tsan", "-D_GNU_SOURCE", "-pthread")


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where what was compiled once is kept: a mutant changes what a few files say, not all."""
    return tmp_path_factory.mktemp("objects")


def compiled(file: Path, include: Path, objects: Path) -> Path:
    """Compile a file, unless the compiler was given the very same text before."""
    preprocess = ["cc", *FLAGS, f"-I{include}", "-E", "-P", str(file)]
    text = subprocess.run(preprocess, check=True, capture_output=True, timeout=patience()).stdout
    made = objects / f"{file.stem}-{sha256(text).hexdigest()}.o"
    if not made.exists():
        command = ["cc", *FLAGS, f"-I{include}", "-c", str(file), "-o", str(made)]
        subprocess.run(command, check=True, capture_output=True, timeout=patience(120))
    return made


def build_and_run(source: Path, test: str, objects: Path) -> subprocess.CompletedProcess[str]:
    program = source / test
    files = [*sources(source, test), source / "tests" / f"{test}.c"]
    linked = [str(compiled(file, source, objects)) for file in files]
    command = ["cc", *FLAGS, *linked, "-o", str(program), "-lrt"]
    subprocess.run(command, check=True, capture_output=True, timeout=patience(120))
    # One address layout for all runs: ThreadSanitizer needs its shadow regions free.
    return subprocess.run(
        ["setarch", "-R", str(program)],
        capture_output=True,
        text=True,
        timeout=patience(120),
        check=False,
    )


@pytest.mark.parametrize("test", NEEDS)
def test_the_core_as_it_is_has_no_race(
    root: Path, objects: Path, tmp_path: Path, test: str
) -> None:
    copy = shutil.copytree(root / "csrc", tmp_path / "csrc")
    done = build_and_run(copy, test, objects)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", MUTANTS)
def test_a_lost_order_is_reported(root: Path, objects: Path, tmp_path: Path, name: str) -> None:
    file, original, mutated, test = MUTANTS[name]
    copy = shutil.copytree(root / "csrc", tmp_path / "csrc")
    text = (copy / file).read_text(encoding="utf-8")
    assert original in text
    (copy / file).write_text(text.replace(original, mutated), encoding="utf-8")
    done = build_and_run(copy, test, objects)
    assert done.returncode == 66, done.stderr
    assert "ThreadSanitizer: data race" in done.stderr
