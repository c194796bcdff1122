"""Relacy: the core's own functions, compiled as C++ against a checker's atomics.

The text of csrc is changed in three ways only. Types: `_Atomic` fields become Relacy's atomics,
plain fields that threads share become race-checked ones. Sizes: tables and retry counts shrink, so
that the search ends. Mutants: each order stronger than relaxed, and each pair that may be swapped,
becomes a switch, so that one program holds the correct version and all the mutants.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.patience import patience

from .source import FUNCTION, Mutant, Source, SourceError, blank_comments

HERE = Path(__file__).resolve().parent

# In the order in which each needs the ones before it. Private functions that two files name alike
# get the prefix.
UNITS = (
    ("lanekit_api.h", ""),
    ("lk_layout.h", ""),
    ("lk_platform.h", ""),
    ("lk_copy.c", ""),
    ("lk_seqlock.h", ""),
    ("lk_spin.h", ""),
    ("lk_wait.h", ""),
    ("lk_wait.c", ""),
    ("lk_ring.h", ""),
    ("lk_ring.c", ""),
    ("lk_guard.h", ""),
    ("lk_traj_ring.h", ""),
    ("lk_lock.h", ""),
    ("lk_segment.h", ""),
    ("lk_segment_file.h", ""),
    ("lk_segment_file.c", ""),
    ("lk_segment_header.h", ""),
    ("lk_segment_header.c", ""),
    ("lk_segment_map.h", ""),
    ("lk_segment_map.c", ""),
    ("lk_segment.c", ""),
    ("lk_frame.h", ""),
    ("lk_frame_writer.c", "writer_"),
    ("lk_frame_reader.h", ""),
    ("lk_frame_attach.c", "reader_"),
    ("lk_frame_reader.c", "reader_"),
    ("lk_cmd.h", ""),
    ("lk_step.h", ""),
    ("lk_step_server.c", "server_"),
    ("lk_step_client.c", "client_"),
)

# Sizes that only repeat what one or two of them show already.
SHRUNK = (
    ("lk_layout.h", "LK_RUN_ID_MAX 376u", "LK_RUN_ID_MAX 2u"),
    ("lk_layout.h", "LK_FRAME_VIEWERS 32u", "LK_FRAME_VIEWERS 1u"),
    ("lk_segment_map.c", "SEGMENTS_MAX 1024", "SEGMENTS_MAX model_segments"),
    ("lk_frame_reader.c", "READ_ATTEMPTS 64", "READ_ATTEMPTS 1"),
    ("lk_frame_reader.c", "READ_ATTEMPTS * 16", "READ_ATTEMPTS * 2"),
    ("lk_wait.c", "i < 16", "i < 1"),
    # Spinning lets the others go on.
    ("lk_platform.h", "lk_cpu_relax(void) {", "lk_cpu_relax(void) { model_yield();"),
    # A slot of one word of pixels and one of metadata.
    ("lk_layout.h", "_Atomic uint64_t pixels[];", "_Atomic uint64_t pixels[2];"),
    # A ring's bytes are shared plain memory: four of them at a time, race-checked.
    ("lk_ring.h", "uint8_t *data;", "model_bytes data;"),
    # The pool is a new object in each execution that Relacy explores.
    (
        "lk_segment_map.c",
        "static struct lk_segment pool[SEGMENTS_MAX];",
        "static lk_segment *pool;",
    ),
)

# Structs whose plain fields are shared between threads.
RACE_CHECKED = {
    "lk_layout.h": ("lk_segment_header", "lk_frame_geometry", "lk_step_geometry"),
    "lk_segment.h": ("lk_segment_id",),
    "lk_segment_map.h": ("lk_segment",),
    "lk_frame_writer.c": ("lk_frame_writer",),
}
PLAIN_FIELD = re.compile(r"^(    )(u?int(?:16|32|64)?(?:_t)?|pid_t|dev_t|ino_t) (\w+);", re.M)


def _race_checked(text: str, struct: str) -> str:
    found = re.search(rf"^struct {struct} \{{\n(.*?)^\}};", text, re.M | re.S)
    if found is None:
        raise SourceError(f"no struct {struct} any more")
    names = [m.group(3) for m in PLAIN_FIELD.finditer(found.group(1))]
    body = PLAIN_FIELD.sub(r"\1plain<\2> \3;", found.group(1))
    arrays = re.findall(r"^    (?:char|uint8_t) (\w+)\[", body, re.M)
    copies = "".join(f"        {name} = from.{name};\n" for name in names)
    copies += "".join(
        f"        model_copy((void *){a}, (const void *)from.{a}, sizeof {a});\n" for a in arrays
    )
    method = f"    void copy_plain_fields(const {struct} &from) {{\n{copies}    }}\n"
    return text[: found.start(1)] + body + method + text[found.end(1) :]


def _switchable(file: str, source: Source) -> str:
    """Turn each order of a file into a switch, and give functions with a swap their variants."""
    text = source.files[file]
    for site in reversed([s for s in source.sites if s.file == file]):
        order = text[site.start : site.end]
        text = text[: site.start] + f"LK_ORDER({site.number}, {order})" + text[site.end :]
    # A function that may be swapped begins with its variants; each returns by itself.
    swaps = [m.swap for m in source.mutants if m.swap is not None and m.swap.file == file]
    numbers = {m.swap: m.number for m in source.mutants if m.swap is not None}
    for name in {swap.function for swap in swaps}:
        found = next(m for m in FUNCTION.finditer(text) if m.group(1) == name)
        start, end = text.index("{\n", found.start()) + 2, found.end() - 1
        leave = "return;" if re.match(r"(static |inline )*void \w", found.group()) else ""
        variants = ""
        for swap in swaps:
            if swap.function == name:
                a, b, c, d = swap.region(text)
                body = text[start:a] + text[c:d] + text[b:c] + text[a:b] + text[d:end]
                variants += f"if (LK_SWAPPED({numbers[swap]})) {{\n{body}{leave}\n}}\n"
        text = text[:start] + variants + text[start:]
    return text


def _static_functions(text: str) -> set[str]:
    return {m.group(1) for m in FUNCTION.finditer(text) if m.group().startswith("static ")}


def transform(source: Source) -> str:
    """Return the C++ program: what the core needs, the core, the models."""
    private = [_static_functions(source.files[file]) for file, prefix in UNITS if prefix]
    alike = {
        name for i, names in enumerate(private) for other in private[:i] for name in names & other
    }
    parts = [f'#include "{HERE / "relacy_core.hpp"}"\n']
    for file, prefix in UNITS:
        text = blank_comments(_switchable(file, source))
        for shrunk_file, old, new in SHRUNK:
            if shrunk_file == file:
                if source.files[file].count(old) != 1:
                    raise SourceError(f"{file}: {source.files[file].count(old)} times {old!r}")
                text = text.replace(old, new)
        for struct in RACE_CHECKED.get(file, ()):
            text = _race_checked(text, struct)
        # The assembly copies are for the machine; the checker gets the words, as TSan does.
        text = re.sub(r"defined\(__(x86_64|aarch64)__\)", "0", text)
        text = re.sub(r"^#include .*$", "", text, flags=re.M)
        text = re.sub(r"^static_assert\(.*?;$", "", text, flags=re.M | re.S)
        text = re.sub(r"_Atomic (\w+)", r"lk_atomic<\1>", text)
        if prefix:
            text = re.sub(rf"(?<![.>\w])({'|'.join(sorted(alike))})(?=\()", rf"{prefix}\1", text)
        parts.append(f'#line 1 "{file}"\n{text}\n')
    parts.append(f'#include "{HERE / "relacy_models.hpp"}"\n')
    return "\n".join(parts)


@dataclass(frozen=True)
class Outcome:
    """What one search found."""

    passed: bool
    found: str
    iterations: int
    complete: bool
    preemptions: int  # the most per execution; -1: all schedules
    sites: frozenset[int]
    swaps: frozenset[int]


def build(source: Source, directory: Path) -> Path:
    """Compile the program and return its path."""
    program = directory / "relacy_models"
    text = directory / "relacy_models.cpp"
    text.write_text(transform(source), encoding="utf-8")
    command = ["g++", "-std=gnu++20", "-O1", "-fpermissive", "-w", "-o", str(program), str(text)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=patience(300), check=False
    )
    if done.returncode != 0:
        raise SourceError(f"the core does not compile against Relacy:\n{done.stderr[:4000]}")
    return program


def models(program: Path) -> list[str]:
    """Return the names of the program's models."""
    done = subprocess.run([program], capture_output=True, text=True, timeout=patience(), check=True)
    return done.stdout.split()


def run(program: Path, model: str, mutant: Mutant | None = None, more: int = 0) -> Outcome:
    """Search one model, of the correct source or of a mutant, with `more` preemptions."""
    site, order, swap = "-1", "relaxed", "-1"
    if mutant is not None and mutant.site is not None:
        site, order = str(mutant.site.number), mutant.weaker
    elif mutant is not None:
        swap = str(mutant.number)
    command = [str(program), model, site, order, swap, str(more)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=patience(600), check=False
    )
    last = done.stdout.strip().split("\n")[-1]
    if done.returncode != 0 or not last.startswith("result|"):
        raise SourceError(f"{' '.join(command)} broke off:\n{done.stdout[-2000:]}{done.stderr}")
    _, found, iterations, complete, preemptions, sites, swaps = last.split("|")
    return Outcome(
        passed=found == "SUCCESS",
        found=found,
        iterations=int(iterations),
        complete=complete == "1",
        preemptions=int(preemptions),
        sites=frozenset(map(int, sites.split())),
        swaps=frozenset(map(int, swaps.split())),
    )
