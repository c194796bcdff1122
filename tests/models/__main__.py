"""Check the core's memory ordering, and that each mistake in it would be caught.

usage: python -m tests.models [--fast] [--json FILE] [--markdown] [--only TEXT] [--source DIRECTORY]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from .checks import Report, Row, Runner
from .source import Source

ROOT = Path(__file__).resolve().parent.parent.parent


def _order(row: Row) -> str:
    site = row.mutant.site
    return "program order" if site is None else f"{site.order} {site.kind}"


def _caught_by(row: Row) -> str:
    if not row.caught:
        return "NOBODY" if row.missed else "NOBODY: no model that holds reaches it"
    first: dict[str, str] = {}
    for verdict in row.caught:
        first.setdefault(verdict.checker, str(verdict))
    return "; ".join(first.values())


def _summary(report: Report) -> list[str]:
    sites = len(report.source.sites)
    caught = len(report.rows) - len(report.uncaught)
    several = sum(len({c.split()[0] for c in row.checkers}) > 1 for row in report.rows)
    return [
        f"{sites} ordered accesses, {len(report.rows)} mutants: {caught} caught, "
        f"{several} of them by two independent checkers, {len(report.uncaught)} not caught",
        f"correct version: {len(report.correct) - len(report.wrong)} of {len(report.correct)} "
        "models hold",
        f"{report.states:,} executions explored in {report.seconds:.0f} s",
    ]


def _print_text(report: Report) -> None:
    print("Correct version")
    for verdict in report.correct:
        mark = "ok  " if verdict not in report.wrong else "FAIL"
        print(f"  {mark} {verdict}{'' if verdict.complete else ', search not complete'}")
    print("\nMutants")
    table = [
        (row.mutant.name, _order(row), row.mutant.change, _caught_by(row)) for row in report.rows
    ]
    widths = [max(len(line[i]) for line in table) for i in range(3)]
    for line in table:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=False))
        print(f"  {'  '.join(cells)}  {line[3]}")
    print()
    print("\n".join(_summary(report)))


def _print_markdown(report: Report) -> None:
    print("| access | order | why | mutant | caught by |\n| --- | --- | --- | --- | --- |")
    for row in report.rows:
        site = row.mutant.site
        why = site.why if site is not None else ""
        where = f"`{row.mutant.name}`" if site is None else f"[{site.label}] `{site.function}`"
        cells = (where, _order(row), why, row.mutant.change, _caught_by(row))
        print("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    print()
    print("  \n".join(_summary(report)))


def _as_json(report: Report) -> dict[str, object]:
    return {
        "passed": report.passed,
        "seconds": round(report.seconds, 1),
        "states": report.states,
        "correct": [vars(verdict) for verdict in report.correct],
        "mutants": [
            {
                "access": row.mutant.name,
                "order": _order(row),
                "mutation": row.mutant.change,
                "caught": [vars(verdict) for verdict in row.caught],
                "missed": [vars(verdict) for verdict in row.missed],
            }
            for row in report.rows
        ],
    }


def main() -> int:
    """Run, report, and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.models", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--fast", action="store_true", help="stop at each checker's first catch")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all verdicts there")
    parser.add_argument("--markdown", action="store_true", help="print a table for the docs")
    parser.add_argument("--only", default="", metavar="TEXT", help="mutants whose access has it")
    parser.add_argument("--source", type=Path, default=ROOT / "csrc", help="the core to check")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lanekit-models-") as directory:
        report = Runner(Source(options.source), Path(directory), options.fast, options.only).run()
    (_print_markdown if options.markdown else _print_text)(report)
    if options.json is not None:
        options.json.write_text(json.dumps(_as_json(report), indent=1) + "\n", encoding="utf-8")
    return 0 if report.passed else 1


if __name__ == "__main__":
    sys.exit(main())
