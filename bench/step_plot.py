"""How the cost of a step grows with the environments: ``python -m bench.step_plot JSON PNG``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from bench import plots
from bench.lane_rows import rows_of
from bench.record import Record


def main() -> None:
    source, target = (Path(argument) for argument in sys.argv[1:3])
    results = json.loads(source.read_text(encoding="utf-8"))["results"]
    rows = rows_of("step", {"growth": results["growth"]})
    plots.growth(Record("", "", {}, {}, rows=rows), target)


if __name__ == "__main__":
    main()
