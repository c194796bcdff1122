"""Plant generated faults in the C core, one at a time, and see which check catches each.

usage: python -m tests.mutants [--sample N] [--seed TEXT] [--only TEXT ...] [--workers N]
                               [--minutes N] [--quick] [--fresh] [--list] [--show NAME]
                               [--write-docs]

Exit status 1: a mutant survived that equivalent.toml does not list, or an entry of that list names
no mutant any more.
"""

from __future__ import annotations

import argparse
import difflib
import queue
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from . import equivalents
from .generation import Mutant, core_files, generate_all
from .verdicts import CAUGHT, IDENTICAL, INVALID, SURVIVED, Judge, Memory, ModelVerdicts, Verdict
from .workshop import Original, Tree, WorkshopError

ROOT = Path(__file__).resolve().parent.parent.parent
PLACE = ROOT / "build" / "mutants"
PAGE = ROOT / "docs" / "memory-model.md"
BEGIN, END = "<!-- mutants: written by `make mutants` -->", "<!-- mutants: end -->"


def sample(mutants: Sequence[Mutant], size: int, seed: str) -> list[Mutant]:
    """Choose mutants by their own text, so that a change elsewhere leaves the choice alone."""

    def order(mutant: Mutant) -> bytes:
        return sha256("\0".join((seed, *map(str, mutant.key))).encode()).digest()

    chosen = set(sorted(mutants, key=order)[:size])
    return [mutant for mutant in mutants if mutant in chosen]


class Run:
    """A run over chosen mutants by several workers, each with a tree of its own."""

    def __init__(self, mutants: Sequence[Mutant], memory: Memory, minutes: float | None) -> None:
        self.memory = memory
        self.entries = equivalents.parse(equivalents.LIST.read_text("utf-8"))
        self.until = time.monotonic() + 60 * minutes if minutes is not None else None
        self.lock = threading.Lock()
        self.problem: BaseException | None = None
        self.left = 0
        # One file after the other, so that most mutants take one compilation.
        files: dict[str, list[Mutant]] = {}
        for mutant in mutants:
            known = memory.verdicts.get(mutant.name)
            listed = equivalents.judge(mutant, self.entries) is not None
            if not listed and (known is None or known.result == SURVIVED):
                files.setdefault(mutant.file, []).append(mutant)
                self.left += 1
        self.groups: queue.SimpleQueue[list[Mutant]] = queue.SimpleQueue()
        for group in sorted(files.values(), key=len, reverse=True):
            for start in range(0, len(group), 40):
                self.groups.put(group[start : start + 40])

    def work(self, judge: Judge) -> None:
        """Judge one group after the other until none is left."""
        try:
            judge.tree.refresh()
            while self.problem is None:
                try:
                    group = self.groups.get_nowait()
                except queue.Empty:
                    return
                for mutant in group:
                    if self.problem is not None or (self.until and time.monotonic() > self.until):
                        return
                    self.finish(mutant, judge.judge(mutant))
        except BaseException as problem:
            self.problem = problem

    def finish(self, mutant: Mutant, verdict: Verdict) -> None:
        """Remember a verdict and say so."""
        with self.lock:
            self.memory.add(verdict)
            self.left -= 1
            how = f"{verdict.check}: {verdict.test}" if verdict.result == CAUGHT else ""
            print(f"{self.left:5} {verdict.result:9} {mutant.name:58} {how[:80]}", flush=True)


def report(
    mutants: Sequence[Mutant], chosen: Sequence[Mutant], memory: Memory
) -> tuple[list[str], list[Mutant], Counter[str]]:
    """Return a table of all verdicts, the survivors that nobody has judged, and the counts."""
    entries = equivalents.parse(equivalents.LIST.read_text("utf-8"))
    counts: Counter[str] = Counter()
    checks: Counter[str] = Counter()
    surviving = []
    for mutant in chosen:
        verdict = memory.verdicts.get(mutant.name)
        if equivalents.judge(mutant, entries) is not None:
            counts["equivalent"] += 1
        elif verdict is None:
            counts["not run"] += 1
        else:
            counts[verdict.result] += 1
            checks[verdict.check] += verdict.result == CAUGHT
            if verdict.result == SURVIVED:
                surviving.append(mutant)
    rows = [
        ("generated", len(mutants)),
        ("sampled", len(chosen)),
        ("does not compile, or not without a warning", counts[INVALID]),
        ("same machine code on x86-64 and on 64-bit ARM", counts[IDENTICAL]),
        ("equivalent, listed with its reason", counts["equivalent"]),
        *((f"caught by {name}", count) for name, count in checks.most_common() if count),
        ("surviving", counts[SURVIVED]),
        ("not run", counts["not run"]),
    ]
    lines = ["| mutants | |", "| --- | ---: |"]
    lines += [f"| {name} | {count:,} |" for name, count in rows if count or name == "surviving"]
    return lines, surviving, counts


def write_page(table: Sequence[str], seed: str) -> None:
    """Replace the table of the page on memory ordering."""
    text = PAGE.read_text("utf-8")
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    inside = "\n".join(("", *table, "", f"Seed `{seed}`.", ""))
    PAGE.write_text(f"{before}{BEGIN}\n{inside}\n{END}{after}", "utf-8")


def show(mutant: Mutant) -> None:
    """Print what a mutant changes."""
    text = (ROOT / mutant.file).read_bytes()
    lines = (text.decode().splitlines(), mutant.apply(text).decode().splitlines())
    print(f"{mutant.name}, line {mutant.line}")
    for line in difflib.unified_diff(*lines, lineterm="", n=3):
        print(f"    {line}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--sample", type=int, metavar="N", help="so many of them; default: all")
    parser.add_argument("--seed", default="1", metavar="TEXT", help="of the sample; default: 1")
    parser.add_argument(
        "--only", nargs="+", default=[""], metavar="TEXT", help="those whose name contains one"
    )
    parser.add_argument(
        "--workers", type=int, default=2, metavar="N", help="build trees; default: 2"
    )
    parser.add_argument(
        "--minutes", type=float, metavar="N", help="begin no further ones after that"
    )
    parser.add_argument("--fresh", action="store_true", help="forget the verdicts of earlier runs")
    parser.add_argument("--quick", action="store_true", help="only the first check of each file")
    parser.add_argument("--list", action="store_true", help="print names and changes, run nothing")
    parser.add_argument("--show", metavar="NAME", help="print what one changes, run nothing")
    parser.add_argument("--write-docs", action="store_true", help=f"put the table into {PAGE.name}")
    return parser.parse_args()


def main() -> int:
    """Run, report, and return the exit status."""
    options = _options()
    mutants = generate_all(ROOT)
    chosen = [mutant for mutant in mutants if any(text in mutant.name for text in options.only)]
    if options.sample is not None:
        chosen = sample(chosen, options.sample, options.seed)
    if options.show is not None:
        for mutant in mutants:
            if mutant.name == options.show:
                show(mutant)
        return 0
    if options.list:
        for mutant in chosen:
            print(f"{mutant.name}\t{mutant.line}\t{mutant.source}")
        return 0
    # A background job ignores Ctrl-C, one under nohup a hang-up, and so does what they start; but
    # some tests send both. Whatever has a handler here is the default again in other programs.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: None)
    PLACE.mkdir(parents=True, exist_ok=True)
    results = PLACE / "verdicts.jsonl"
    if options.fresh:
        results.unlink(missing_ok=True)
    memory = Memory(results, ROOT, core_files(ROOT))
    run = Run(chosen, memory, options.minutes)
    try:
        if run.left:
            original = Original(ROOT, PLACE)
            original.prepare()
            models = ModelVerdicts(ROOT, PLACE)
            if any(mutant.operator == "order" for mutant in chosen):
                models.ask()
            threads = []
            for number in range(options.workers):
                judge = Judge(original, models, Tree(ROOT, PLACE / f"tree-{number}"), options.quick)
                threads.append(threading.Thread(target=run.work, args=(judge,)))
                threads[-1].start()
            try:
                for thread in threads:
                    thread.join()
            except KeyboardInterrupt as interrupt:
                print("stopping after the mutants at hand; the next run goes on here", flush=True)
                run.problem = interrupt
                for thread in threads:
                    thread.join()
                return 130
        if run.problem is not None:
            raise run.problem
    except WorkshopError as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 2
    table, surviving, counts = report(mutants, chosen, memory)
    print("\n".join(("", *table)))
    for mutant in surviving:
        print(f"\nsurviving: {mutant.name}, line {mutant.line}\n  {mutant.source}")
    forgotten = equivalents.stale(run.entries, mutants)
    for entry in forgotten:
        print(f"\nequivalent.toml: no such mutant any more: {entry.file} {entry.function}")
        print(f"  {entry.operator}: {entry.source}")
    if options.write_docs and not counts["not run"]:
        write_page(table, options.seed)
    return 1 if surviving or forgotten else 0


if __name__ == "__main__":
    sys.exit(main())
