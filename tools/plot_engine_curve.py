"""Draw the learning curves that examples/engine_ppo.py has logged.

Usage: plot_engine_curve.py PICTURE CSV...
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt


def main() -> None:
    """Draw all curves into one picture."""
    picture, *logs = (Path(argument) for argument in sys.argv[1:])
    figure, axes = plt.subplots(figsize=(7, 3.6), dpi=110)
    for log in logs:
        with log.open(newline="") as file:
            rows = list(csv.DictReader(file))
        steps = [float(row["steps"]) / 1e6 for row in rows]
        label = f"{log.stem}, {float(rows[-1]['seconds']):.0f} s"
        axes.plot(steps, [float(row["mean_return"]) for row in rows], label=label)
    axes.set_xlabel("steps of all environments, in millions")
    axes.set_ylabel("mean return of the last 100 episodes")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    figure.tight_layout()
    figure.savefig(picture)


if __name__ == "__main__":
    main()
