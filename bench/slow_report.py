"""From the slow lane's results to Markdown: ratios first, and whether the targets were reached."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from bench.report import Target
from bench.report import _table as table
from bench.slow_lane import MODES
from bench.slow_trackers import NOT_A_TRACKER

_OF_LIMIT, _OF_TRACKER, _ACKNOWLEDGED_MS, _STALL_MIB = 0.7, 5.0, 60.0, 16.0


def _rate(found: dict[str, Any]) -> str:
    return f"{found['rate']:,.0f}"


def _spread(found: dict[str, Any]) -> str:
    return f"{found['rate_min']:,.0f} – {found['rate_max']:,.0f}"


def _mb(size: float) -> str:
    return f"{size / 2**20:,.1f}"


def _throughput(found: dict[str, Any]) -> str:
    results, ratios = found["results"], found["ratios"]
    limits = next(iter(ratios.values()))
    cpu = ("proxy CPU µs", "daemon CPU µs")
    header = ("", "events/s", "rounds", *(f"÷ {limit}" for limit in limits), *cpu)
    rows = []
    for name, row in results.items():
        compared = ratios.get(name.removeprefix("lanekit, "), {}) if "lanekit" in name else {}
        cells = [f"**{ratio:.2f}**" for ratio in compared.values()]
        if compared:
            cells += [f"{row[key]:.2f}" for key in ("cpu_us_proxy", "cpu_us_daemon")]
        rows.append((name, _rate(row), _spread(row), *(cells or [""] * (len(header) - 3))))
    return (
        f"### Durable events per second: {found['events']:,} steps of "
        f"{found['bytes_per_line']:.0f} bytes, one worker\n\n" + table(header, rows)
    )


def _trackers(found: dict[str, Any]) -> str:
    ours = found["results"]
    rows = []
    ranked = sorted(
        found["trackers"].items(),
        key=lambda item: (item[0] in NOT_A_TRACKER, -item[1].get("rate", 0)),
    )
    for name, row in ranked:
        label = f"{name} {row.get('version', '')}".strip()
        if "rate" not in row:
            rows.append((label, "", "", "", "", row["failed"]))
            continue
        times = (
            f"**×{ours[f'lanekit, cat, {mode}']['rate'] / row['rate']:.1f}**" for mode in MODES
        )
        cells = (_rate(row), *times, f"{row['bytes_per_event']:.0f}", row["calls"])
        rows.append((label, *cells))
    header = ("", "events/s", "lanekit normal", "lanekit full", "bytes/event", "calls")
    return "### The same events in trackers, and in plain files\n\n" + table(header, rows)


def _both_throughput(found: dict[str, Any]) -> str:
    return "\n\n".join([_throughput(found), *([_trackers(found)] if found["trackers"] else [])])


def _acknowledgement(found: list[dict[str, Any]]) -> str:
    rows = (
        (
            row["durability"],
            f"{row['events_per_second']:,.0f}",
            *(f"{row[key]:.1f}" for key in ("p50_ms", "p99_ms", "max_ms")),
        )
        for row in found
    )
    header = ("durability", "events/s", "p50 ms", "p99 ms", "longest ms")
    return "### From emission to acknowledgement under light load\n\n" + table(header, rows)


def _memory(found: list[dict[str, Any]]) -> str:
    rows = []
    for row in found:
        for process, memory in row["processes"].items():
            rows.append(
                (
                    row["stalled"],
                    process,
                    _mb(memory["baseline"]),
                    _mb(memory["peak"]),
                    f"**{_mb(memory['peak'] - memory['baseline'])}**",
                    _mb(memory["peak_second_half"] - memory["peak_first_half"]),
                    f"{row['stored']:,}",
                )
            )
    header = (
        "stalled",
        "process",
        "before MiB",
        "peak MiB",
        "growth MiB",
        "second half − first half",
        "stored",
    )
    return f"### Memory over {found[0]['events']:,} events\n\n" + table(header, rows)


def _stages(found: dict[str, dict[str, list[float]]]) -> str:
    stages = list(next(iter(found.values())))
    rows = []
    for name in (*stages, "proxy: all of it", "daemon: all of it"):
        process = name.removesuffix(" all of it") if name not in stages else name
        cells = []
        for mode in MODES:
            spent = [us for stage, us in found[mode].items() if stage.startswith(process)]
            cells += [f"{sum(us[i] for us in spent):.2f}" for i in range(2)]
        rows.append((name, *cells))
    header = ("stage", *(f"{mode}{what}" for mode in MODES for what in ("", ", CPU alone")))
    return "### Where an event's time goes: µs for each stage alone\n\n" + table(header, rows)


def _queries(found: dict[str, Any]) -> str:
    rows = (
        (
            row["question"],
            f"{row['rows']:,}",
            f"{row['first_ms']:.1f}",
            f"{row['again_ms']:.1f}",
            "<br>".join(row["plan"]),
        )
        for row in found["questions"]
    )
    header = ("question", "rows", "first ms", "again ms", "query plan")
    return (
        f"### A store of {found['steps']:,} steps, {found['agents']} agents, "
        f"{_mb(found['bytes'])} MiB\n\n" + table(header, rows)
    )


_SECTIONS: dict[str, Callable[[Any], str]] = {
    "throughput": _both_throughput,
    "acknowledgement": _acknowledgement,
    "memory": _memory,
    "stages": _stages,
    "queries": _queries,
}


# --- targets --------------------------------------------------------------------------------------


def _throughput_targets(found: dict[str, Any]) -> Iterable[Target]:
    for mode in MODES:
        for limit in ("sqlite3", "sqlite3, without the NULLs"):
            ratio = found["ratios"][f"cat, {mode}"][limit]
            what = f"durable end to end, {mode} ÷ bare {limit}"
            yield what, ratio, f"≥ {_OF_LIMIT} ×", ratio >= _OF_LIMIT
    for mode, times in found["times_best_tracker"].items():
        what = f"durable end to end, {mode} ÷ {found['best_tracker']}"
        yield what, times, f"≥ {_OF_TRACKER:g} ×", times >= _OF_TRACKER


def _acknowledgement_targets(found: list[dict[str, Any]]) -> Iterable[Target]:
    for row in found:
        what = f"acknowledgement p50, {row['durability']}"
        yield what, row["p50_ms"], f"< {_ACKNOWLEDGED_MS:g} ms", row["p50_ms"] < _ACKNOWLEDGED_MS


def _memory_targets(found: list[dict[str, Any]]) -> Iterable[Target]:
    usual = found[0]["processes"]
    for row in found[1:]:
        for process, memory in row["processes"].items():
            more = (memory["peak"] - usual[process]["peak"]) / 2**20
            what = f"{process}, {row['stalled']} stalled: peak − peak without a stall"
            yield what, more, f"≤ {_STALL_MIB:g} MiB", more <= _STALL_MIB
    for row in found:
        complete = row["stored"] == row["events"]
        yield (
            f"{row['stalled']} stalled: stored ÷ emitted",
            row["stored"] / row["events"],
            ("= 1"),
            complete,
        )


def _queries_targets(found: dict[str, Any]) -> Iterable[Target]:
    for row in found["questions"]:
        scans = sum(step.startswith("SCAN") for step in row["plan"])
        yield f"whole-table scans: {row['question']}", float(scans), "= 0", scans == 0


def targets(results: dict[str, Any]) -> list[Target]:
    """Judge the results: what, the value found, the target, whether it was reached."""
    judges: dict[str, Callable[[Any], Iterable[Target]]] = {
        "throughput": _throughput_targets,
        "acknowledgement": _acknowledgement_targets,
        "memory": _memory_targets,
        "queries": _queries_targets,
    }
    return [target for name in judges if name in results for target in judges[name](results[name])]


def markdown(results: dict[str, Any]) -> str:
    """Return all tables of a run."""
    sections = [_SECTIONS[name](found) for name, found in results.items()]
    rows = [
        (what, f"{value:.2f}", target, "yes" if reached else "NO")
        for what, value, target, reached in targets(results)
    ]
    if rows:
        sections.append("### Targets\n\n" + table(("", "found", "target", "reached"), rows))
    return "\n\n".join(sections)
