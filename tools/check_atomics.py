"""Fail on an ordered atomic access without a label, and on a label without its other side.

The core's rule: every access stronger than relaxed carries a comment that opens with a label such
as ``[Q1]`` and names what it pairs with. A label is paired when the tree holds both a releasing and
an acquiring access under it, or two full fences. Each label must be explained in some file's list
headed "Labels".

Usage: check_atomics.py [DIRECTORY]     (default: csrc)
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from pathlib import Path

ORDER = re.compile(r"memory_order_(consume|acquire|release|acq_rel|seq_cst)")
LABEL = re.compile(r"\[([A-Z]\d+)\]")
OPENING_LABEL = re.compile(r"/\*\s*\[([A-Z]\d+)\]")
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)


def statement_start(lines: list[str], index: int) -> int:
    """Return the first line of the statement that line `index` is part of."""
    while index > 0 and not re.search(r"([;{}:]|\*/)\s*$", lines[index - 1]) and lines[index - 1]:
        index -= 1
    return index


def comment_before(lines: list[str], index: int) -> str:
    """Return the comment that ends right above line `index`, or nothing."""
    end = index
    if end == 0 or not lines[end - 1].rstrip().endswith("*/"):
        return ""
    start = end - 1
    while start > 0 and "/*" not in lines[start]:
        start -= 1
    return "\n".join(lines[start:end])


def code_lines(text: str) -> list[str]:
    """Return the lines with comments blanked out, so that orders in prose do not count."""
    return COMMENT.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text).split("\n")


def declared_labels(text: str) -> set[str]:
    """Return the labels that a file's head explains."""
    head = re.search(r"\*\s*Labels\n(.*?)(\*/|\n \*\n)", text, re.DOTALL)
    return set(LABEL.findall(head.group(1))) if head else set()


def check(directory: Path) -> list[str]:
    """Return what is wrong, one line each."""
    problems: list[str] = []
    declared: set[str] = set()
    orders: dict[str, set[str]] = defaultdict(set)
    fences: dict[str, int] = defaultdict(int)
    for path in sorted(directory.glob("lk_*.[ch]")):
        text = path.read_text(encoding="utf-8")
        lines = text.split("\n")
        declared |= declared_labels(text)
        for index, line in enumerate(code_lines(text)):
            found = ORDER.findall(line)
            if not found:
                continue
            comment = comment_before(lines, statement_start(lines, index))
            opening = OPENING_LABEL.match(comment.lstrip())
            if opening is None:
                problems.append(f"{path}:{index + 1}: {found[0]} access without a label")
                continue
            orders[opening.group(1)] |= set(found)
            fences[opening.group(1)] += "seq_cst" in found
    for label, used in sorted(orders.items()):
        releases = used & {"release", "acq_rel", "seq_cst"}
        acquires = used & {"acquire", "consume", "acq_rel", "seq_cst"}
        if not (releases and acquires) or (used == {"seq_cst"} and fences[label] < 2):
            problems.append(f"[{label}]: only {', '.join(sorted(used))}; its other side is missing")
        if label not in declared:
            problems.append(f"[{label}]: no file explains it under 'Labels'")
    for label in sorted(declared - set(orders)):
        problems.append(f"[{label}]: explained, but no access carries it")
    return problems


def main() -> int:
    """Report and return the exit status."""
    problems = check(Path(sys.argv[1] if len(sys.argv) > 1 else "csrc"))
    print("\n".join(problems), end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
