"""Count the instructions of the C hot paths: ``python -m bench.instructions [--record]``.

Compares with what is recorded beside this file, and fails when a path has grown by more than 2 %.
``--record`` writes the new counts down: say why in the change that does so.
"""

from __future__ import annotations

import argparse
import sys

from bench.instructions.counting import PATHS, RECORD, compiler, count_all, grown, load, record


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.instructions", description=__doc__)
    parser.add_argument("--record", action="store_true", help="write the counts down")
    arguments = parser.parse_args()
    found = count_all()
    if arguments.record:
        record(found)
        print(f"written to {RECORD}")
    recorded = load()
    print(f"{'path':<10} {'recorded':>10} {'now':>10}   with {compiler()}")
    for path in PATHS:
        print(f"{path:<10} {recorded.counts[path]:>10.1f} {found[path]:>10.1f}")
    if recorded.compiler != compiler():
        print(f"not compared: recorded with {recorded.compiler}; record anew with this one")
        return 0
    for line in grown(recorded.counts, found):
        print(line)
    return 1 if grown(recorded.counts, found) else 0


if __name__ == "__main__":
    sys.exit(main())
