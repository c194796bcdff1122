"""What herd7 checks: small C programs that call the core's functions, and what must never be seen.

The same program becomes a C11 litmus test (its calls inlined, see litmus_c11.py) and an AArch64 one
(compiled, see litmus_aarch64.py). Results go to `out*`, so that both are asked the same question.
A sleeper in the futex is a thread that stops there: `parked` is set if the kernel's own comparison
agreed. An announcer that makes the wake call sets `woke`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Program:
    """Two threads, P0 and P1, and the outcome that the protocol rules out."""

    name: str
    files: tuple[str, ...]  # of csrc that it calls into; the last one includes the others
    text: str
    never: str
    futex_sleeps: bool = True  # else the futex call returns at once, as it may


SEQLOCK = Program(
    "seqlock",
    ("lk_seqlock.h",),
    """
void P0(_Atomic uint64_t *seq, _Atomic uint64_t *a, _Atomic uint64_t *b) {
    lk_seqlock_begin_write(seq, 1);
    atomic_store_explicit(a, 1, memory_order_relaxed);
    atomic_store_explicit(b, 1, memory_order_relaxed);
    lk_seqlock_end_write(seq, 2);
}
void P1(_Atomic uint64_t *seq, _Atomic uint64_t *a, _Atomic uint64_t *b, uint64_t *out0,
        uint64_t *out1, uint64_t *out2, uint64_t *out3) {
    uint64_t begun = lk_seqlock_begin_read(seq);
    uint64_t first = atomic_load_explicit(a, memory_order_relaxed);
    uint64_t second = atomic_load_explicit(b, memory_order_relaxed);
    bool same = lk_seqlock_unchanged(seq, begun);
    *out0 = begun;
    *out1 = first;
    *out2 = second;
    *out3 = same;
}
""",
    r"out3=1 /\ (out0=0 /\ (out1=1 \/ out2=1) \/ out0=2 /\ (out1=0 \/ out2=0))",
)

_WAIT = """
void P0(_Atomic uint64_t *head, _Atomic uint64_t *wake_at, uint64_t *work) {
    *work = 1;
    lk_announce(head, wake_at, 1);
}
void P1(_Atomic uint64_t *head, _Atomic uint64_t *wake_at, uint64_t *work, uint64_t *out0,
        uint64_t *out1) {
    uint64_t now = lk_wait_beyond(head, wake_at, 0, 1, 0, STRATEGY);
    if (now != 0) {
        *out1 = *work;
        *out0 = 1;
    }
}
"""

# A position, which moves by more than 1.
_WAIT_POSITION = _WAIT.replace(
    "lk_announce(head, wake_at, 1);",
    "atomic_store_explicit(head, 8, memory_order_release);\n    lk_wake_beyond(head, wake_at, 0);",
)

WAIT_FILES = ("lk_wait.h", "lk_wait.c")
WAIT_SLEEP = Program(
    "wait_sleep", WAIT_FILES, _WAIT.replace("STRATEGY", "LK_WAIT_BLOCK"), r"parked=1 /\ woke=0"
)
WAIT_WORK = Program(
    "wait_work",
    WAIT_FILES,
    _WAIT.replace("STRATEGY", "LK_WAIT_BLOCK"),
    r"out0=1 /\ out1=0",
    futex_sleeps=False,
)
WAIT_SPIN = Program(
    "wait_spin", WAIT_FILES, _WAIT.replace("STRATEGY", "LK_WAIT_SPIN"), r"out0=1 /\ out1=0"
)

POSITION_SLEEP = Program(
    "position_sleep",
    WAIT_FILES,
    _WAIT_POSITION.replace("STRATEGY", "LK_WAIT_BLOCK"),
    r"parked=1 /\ woke=0",
)

PROGRAMS = (SEQLOCK, WAIT_SLEEP, WAIT_WORK, WAIT_SPIN, POSITION_SLEEP)

# One look per turn shows what sixteen would.
SHRUNK = (("lk_wait.c", "i < 16", "i < 1"),)
