"""The instructions that the memory orders rely on are really in the machine code."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from patience import patience
from working_programs import working

pytestmark = pytest.mark.core

WRAPPERS = """
#include "lk_seqlock.h"
#include "lk_wait.h"
typedef _Atomic uint64_t word;
void begin_write(word *w, uint64_t v, uint64_t *p) { lk_seqlock_begin_write(w, v); *p = 7; }
void end_write(word *w, uint64_t v, uint64_t *p) { *p = 7; lk_seqlock_end_write(w, v); }
uint64_t begin_read(word *w) { return lk_seqlock_begin_read(w); }
bool unchanged(word *w, uint64_t v) { return lk_seqlock_unchanged(w, v); }
void announce(word *s, word *a, uint64_t v) { lk_announce(s, a, v); }
"""


def assembly(
    root: Path, tmp_path: Path, compiler: str, source: str | Path, *options: str
) -> dict[str, list[str]]:
    """Compile to assembly and return the instructions of each function."""
    if isinstance(source, str):
        (tmp_path / "wrappers.c").write_text(source, encoding="utf-8")
        source = tmp_path / "wrappers.c"
    out = tmp_path / "out.s"
    flags = ["-std=c11", "-O2", "-D_GNU_SOURCE", f"-I{root / 'csrc'}", "-S", "-o", str(out)]
    flags += options
    subprocess.run(
        [compiler, *flags, str(source)], check=True, capture_output=True, timeout=patience()
    )
    functions: dict[str, list[str]] = {}
    current: list[str] = []
    for line in out.read_text(encoding="utf-8").splitlines():
        if label := re.match(r"^([A-Za-z_]\w*):", line):
            current = functions.setdefault(label.group(1), [])
        elif instruction := re.match(r"^\t([a-z]\S*)\s*([^/#]*)", line):
            current.append(" ".join(instruction.groups()).strip())
    return functions


def order(instructions: list[str], *patterns: str) -> bool:
    """Whether instructions matching the patterns appear in this order."""
    rest = iter(instructions)
    return all(any(re.match(pattern, line) for line in rest) for pattern in patterns)


@pytest.fixture
def arm(root: Path, tmp_path: Path) -> dict[str, list[str]]:
    compiler = "aarch64-linux-gnu-gcc"
    if working(compiler) is None:
        done = subprocess.run([root / "tools" / "system_packages.sh", "--cross"], check=False)
        if done.returncode != 0:
            pytest.skip("needs gcc-aarch64-linux-gnu, and may not install it here")
    return assembly(root, tmp_path, compiler, WRAPPERS)


def test_on_arm_each_order_has_its_instruction(arm: dict[str, list[str]]) -> None:
    # gcc has no store-only barrier for a release fence: the full dmb is what C11 gets.
    assert order(arm["begin_write"], r"str\b", r"dmb ish", r"str\b"), arm["begin_write"]
    assert order(arm["end_write"], r"str\b", r"stlr\b"), arm["end_write"]
    assert order(arm["begin_read"], r"ldap?r\b"), arm["begin_read"]
    assert order(arm["unchanged"], r"dmb ishld", r"ldr\b"), arm["unchanged"]
    assert order(arm["announce"], r"stlr\b", r"dmb ish$", r"ldr\b"), arm["announce"]


def x86_compiler(root: Path) -> str:
    host = subprocess.run(["cc", "-dumpmachine"], capture_output=True, text=True, check=True).stdout
    if not host.startswith("x86_64"):
        pytest.skip(f"this machine is {host.strip()}, not x86-64")
    return "cc"


def is_full_fence(instruction: str) -> bool:
    return bool(re.match(r"(mfence|lock|xchg\S* .*\()", instruction))


def test_on_x86_only_the_hand_shake_needs_a_full_fence(root: Path, tmp_path: Path) -> None:
    functions = assembly(root, tmp_path, x86_compiler(root), WRAPPERS)
    fences = {name: sum(map(is_full_fence, code)) for name, code in functions.items()}
    assert fences["announce"] == 1
    for name in ("begin_write", "end_write", "begin_read", "unchanged"):
        assert fences[name] == 0, functions[name]


def test_on_x86_publishing_has_the_guard_and_one_fence_and_nothing_more(
    root: Path, tmp_path: Path
) -> None:
    source = root / "csrc" / "lk_frame_writer.c"
    functions = assembly(root, tmp_path, x86_compiler(root), source)
    # The compiler may split `publish` and inline its parts: count over all of them.
    publish = [
        code
        for name, code in functions.items()
        if re.match(r"(publish|enter|finish_frame|begin_frame)\b", name)
        or name == "lk_frame_publish"
    ]
    assert publish
    fences = sum(is_full_fence(line) for code in publish for line in code)
    assert fences == 2, "one compare-and-swap on entry, one fence of the hand-shake"


# --- stores past the caches ----------------------------------------------------------------------

# What must follow each other in a function, as regular expressions of instructions. Nothing is
# inlined, so that each callee is one call and not a stretch of code.
STORES_REQUEST = r"movl %\w+, 1104\(|addq \$276, "  # what lk_layout.h asserts; 276 words
CALL_FENCE = r"call lk_streaming_fence\b"
ORDERS_AROUND_FENCES = {
    ("lk_step_client.c", "send"): (STORES_REQUEST, CALL_FENCE, r"call lk_announce\b"),
    ("lk_step_server.c", "lk_step_commit"): (
        r"call mem(set|cpy)\b",
        r"call beat\b",
        CALL_FENCE,
        r"call lk_announce\b",
    ),
    ("lk_frame_writer.c", "lk_frame_reserve"): (r"call begin_frame\b", CALL_FENCE),
    ("lk_frame_writer.c", "lk_frame_commit_metadata"): (CALL_FENCE, r"call finish_frame\b"),
    ("lk_traj_writer.c", "lk_traj_commit"): (CALL_FENCE, r"call finish\b"),
}


def test_on_x86_the_streaming_copy_is_fenced_on_both_sides(root: Path, tmp_path: Path) -> None:
    functions = assembly(root, tmp_path, x86_compiler(root), root / "csrc" / "lk_copy.c")
    code = functions["lk_copy_to_shared_streaming"]
    # Behind the odd word, and before the even one: both with nothing of the copy outside.
    assert order(code, r"sfence", r"movntdq\b", r"rep movsb", r"sfence", r"ret"), code
    assert sum(line == "sfence" for line in code) == 2, code
    moves = [i for i, line in enumerate(code) if re.match(r"movntdq\b|rep movsb", line)]
    fences = [i for i, line in enumerate(code) if line == "sfence"]
    assert fences[0] < min(moves), code
    assert max(moves) < fences[1], code


@pytest.mark.parametrize(("file", "function"), ORDERS_AROUND_FENCES)
def test_on_x86_what_may_be_written_past_the_caches_is_fenced_before_it_is_announced(
    root: Path, tmp_path: Path, file: str, function: str
) -> None:
    options = ("-O1", "-fno-inline", "-fno-ipa-cp", "-fno-ipa-sra")
    functions = assembly(root, tmp_path, x86_compiler(root), root / "csrc" / file, *options)
    assert functions["lk_streaming_fence"].count("sfence") == 1, functions["lk_streaming_fence"]
    code = functions[function]
    assert order(code, *ORDERS_AROUND_FENCES[file, function]), code
    assert sum(bool(re.match(CALL_FENCE, line)) for line in code) == 1, code
