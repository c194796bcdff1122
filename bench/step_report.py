"""From the step lane's results to Markdown: ratios first, and whether the targets were reached."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from bench.report import Target
from bench.report import _both as both
from bench.report import _table as table
from bench.report import _us as us
from bench.step_lane import LINE, PEERS

_TOUCH, _WRITE = "lanekit, touch", "lanekit, full write"
_VECTOR_ENVS = ("gymnasium_async", "tianshou_shmem", "torchrl_parallel", "sb3_subproc")
_VECTOR_TIMES, _GRPC_TIMES, _SPREAD, _PACED_US = 5.0, 20.0, 3.0, 1000.0


def _round_trip(found: dict[str, Any]) -> str:
    task, calls = found["task"], found["calls"]
    rows = []
    for name, call in calls.items():
        if name in found["about"]:
            continue
        compared = f"×{call['ratio']:.2f}" if "ratio" in call and name != LINE else ""
        rows.append((name, both(call), compared))
    header = ("", "p50 / p99 µs", "÷ memcpy of the batch")
    ours = (
        f"### A round trip: {task['envs']} environments × {task['obs']} float32, "
        f"{task['act']} float32 actions ({found['bytes']:,} bytes), the engine does nothing\n\n"
        + table(header, rows)
    )
    return f"{ours}\n\n{_peers(found)}"


def _peers(found: dict[str, Any]) -> str:
    rows = []
    for name, about in found["about"].items():
        label = f"{PEERS.get(name, name)} {about.get('version', '')}".strip()
        if name not in found["calls"]:
            rows.append((label, "", "", "", about["failed"]))
            continue
        times = (f"**×{found['times'][base][name]:.1f}**" for base in (_TOUCH, _WRITE))
        rows.append((label, both(found["calls"][name]), *times, about["calls"]))
    header = ("peer", "p50 / p99 µs", f"÷ {_TOUCH}", f"÷ {_WRITE}", "calls")
    return "### The same toy through other ways, in the same run\n\n" + table(header, rows)


def _crowded(found: dict[str, Any]) -> str:
    parts = []
    titles = {
        "pairs": f"{found['cores']} pairs stepping at once",
        "beside": f"one pair beside {found['cores']} processes that never rest",
    }
    for part, title in titles.items():
        rows = (
            (name, both(call), f"×{call['spread']:.1f}", us(call["mean_us"]))
            for name, call in found[part].items()
        )
        parts.append(f"{title}:\n\n" + table(("", "p50 / p99 µs", "p99 ÷ p50", "mean µs"), rows))
    title = f"### {found['processes']} busy processes on {found['cores']} cores, touch"
    return "\n\n".join([title, *parts])


def _paced(found: dict[str, Any]) -> str:
    rows = (
        (name, both(call), us(call["max_us"]), f"{call['p50_us'] * found['hz'] / 1e4:.2f} %")
        for name, call in found["calls"].items()
    )
    header = ("wait", "p50 / p99 µs", "longest µs", "of the time between two steps")
    return f"### 4096 environments at {found['hz']:.0f} Hz, full write\n\n" + table(header, rows)


def _growth(found: dict[str, Any]) -> str:
    rows = (
        (name, *(us(values[str(size)]) if str(size) in values else "" for size in found["sizes"]))
        for name, values in found["p50_us"].items()
        if values
    )
    header = ("p50 µs, environments:", *(f"{size:,}" for size in found["sizes"]))
    return "### From one environment to many\n\n" + table(header, rows)


_SECTIONS: dict[str, Callable[[Any], str]] = {
    "round_trip": _round_trip,
    "crowded": _crowded,
    "paced": _paced,
    "growth": _growth,
}


# --- targets --------------------------------------------------------------------------------------


def _at_least(what: str, value: float, least: float) -> Target:
    return what, value, f"≥ {least:g} ×", value >= least


def _round_trip_targets(found: dict[str, Any]) -> Iterable[Target]:
    times = found["times"]
    for name, base in (("puffer_native", _TOUCH), ("puffer_write", _WRITE)):
        if name in times[base]:
            yield _at_least(f"{PEERS[name]} ÷ {base}", times[base][name], 1.0)
    for name in _VECTOR_ENVS:
        if name in times[_WRITE]:
            yield _at_least(f"{PEERS[name]} ÷ {_WRITE}", times[_WRITE][name], _VECTOR_TIMES)
    for name in ("grpc_bytes", "grpc_stream"):
        if name in times[_WRITE]:
            yield _at_least(f"{PEERS[name]} ÷ {_WRITE}", times[_WRITE][name], _GRPC_TIMES)


def _crowded_targets(found: dict[str, Any]) -> Iterable[Target]:
    for part in ("pairs", "beside"):
        spread = found[part]["lanekit, hybrid"]["spread"]
        yield f"crowded, {part}: p99 ÷ p50", spread, f"≤ {_SPREAD:g} ×", spread <= _SPREAD


def _paced_targets(found: dict[str, Any]) -> Iterable[Target]:
    for name, call in found["calls"].items():
        p50 = call["p50_us"]
        yield f"4096 environments at 50 Hz, {name}: p50 µs", p50, "≤ 1000 µs", p50 <= _PACED_US


def targets(results: dict[str, Any]) -> list[Target]:
    """Judge the results: what, the value found, the target, whether it was reached."""
    judges: dict[str, Callable[[Any], Iterable[Target]]] = {
        "round_trip": _round_trip_targets,
        "crowded": _crowded_targets,
        "paced": _paced_targets,
    }
    return [t for name, judge in judges.items() if name in results for t in judge(results[name])]


def markdown(results: dict[str, Any]) -> str:
    """Return all tables of a run."""
    sections = [_SECTIONS[name](found) for name, found in results.items()]
    rows = (
        (what, f"{value:.2f}", target, "yes" if reached else "NO")
        for what, value, target, reached in targets(results)
    )
    sections.append("### Targets\n\n" + table(("", "found", "target", "reached"), rows))
    return "\n\n".join(sections)
