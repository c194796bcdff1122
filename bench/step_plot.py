"""How the cost of a step grows with the environments: ``python -m bench.step_plot JSON PNG``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

# Colours that people tell apart who see few.
_COLOURS = {
    "memcpy of the batch": "#9a9a9a",
    "lanekit, touch": "#009e73",
    "lanekit, full write": "#0072b2",
    "PufferLib, native, full write": "#cc79a7",
    "Gymnasium AsyncVectorEnv": "#e69f00",
    "gRPC unary, bytes": "#d55e00",
}


def draw(growth: dict[str, Any], path: Path) -> None:
    """Write the plot. Needs matplotlib, which is in the extra `bench`."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 5), layout="constrained")
    for name, values in growth["p50_us"].items():
        if values:
            sizes = [int(size) for size in values]
            style = "--" if name.startswith("memcpy") else "-"
            axes.plot(sizes, values.values(), style, marker="o", color=_COLOURS[name], label=name)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(growth["sizes"], [f"{size:,}" for size in growth["sizes"]])
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g} µs")
    axes.set_xlabel("environments × 100 float32 observations, 12 float32 actions")
    axes.set_title("A round trip between two Python processes, median")
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.legend(frameon=False)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def main() -> None:
    source, target = (Path(argument) for argument in sys.argv[1:3])
    draw(json.loads(source.read_text(encoding="utf-8"))["results"]["growth"], target)


if __name__ == "__main__":
    main()
