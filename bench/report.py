"""From results to Markdown: one table per question, and whether the targets were reached."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from bench.fast_sizes import SMALL

Rows = Iterable[Iterable[str]]


def _table(header: Iterable[str], rows: Rows) -> str:
    header = list(header)
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _us(value: float) -> str:
    return f"{value:.2f}" if value < 100 else f"{value:.0f}"


def _both(call: dict[str, float]) -> str:
    return f"{_us(call['p50_us'])} / {_us(call['p99_us'])}"


def _with_ratio(call: dict[str, float]) -> str:
    return f"{_both(call)} **×{call['ratio']:.2f}**"


def _rate(hz: float | None) -> str:
    return "none" if hz is None else "flat out" if hz == 0 else f"{hz:.0f} Hz"


def _clocks(found: dict[str, Any]) -> str:
    rows = ((name, _us(c["p50_us"]), _us(c["p99_us"])) for name, c in found.items())
    return "### What timing costs (inside every sample)\n\n" + _table(
        ("", "p50 µs", "p99 µs"), rows
    )


_PUBLISH_COLUMNS = (
    "publish, same array",
    "publish, new array",
    "publish, fresh array",
    "publish called from C",
    "memcpy called from Python",
)


def _publish(found: list[dict[str, Any]]) -> str:
    header = ("frame", "reader", "memcpy in C", *_PUBLISH_COLUMNS, "reserve + commit")
    rows = (
        (
            row["frame"],
            _rate(row["reader_hz"]),
            _both(row["calls"]["memcpy"]),
            *(_with_ratio(row["calls"][name]) for name in _PUBLISH_COLUMNS),
            _both(row["calls"]["reserve + commit"]),
        )
        for row in found
    )
    return "### Publishing: p50 / p99 µs, **× memcpy** of the same arrays\n\n" + _table(
        header, rows
    )


def _publish_loop(found: list[dict[str, Any]]) -> str:
    rows = (
        (
            row["frame"],
            _us(row["mean"]["memcpy"]["us"]),
            _us(row["mean"]["publish, same array"]["us"]),
            f"×{row['mean']['publish, same array']['ratio']:.2f}",
        )
        for row in found
    )
    return "### Publishing in a loop without a clock: mean µs\n\n" + _table(
        ("frame", "memcpy in C", "publish, same array", "ratio"), rows
    )


_READ_COLUMNS = ("find newest + memcpy", "read called from C", "read_into", "latest_frame")


def _read(found: list[dict[str, Any]]) -> str:
    rows = (
        (
            row["frame"],
            _rate(row["writer_hz"]),
            _both(row["calls"]["memcpy"]),
            *(_with_ratio(row["calls"][name]) for name in _READ_COLUMNS),
        )
        for row in found
    )
    return "### Reading the newest frame: p50 / p99 µs, **× memcpy** out of the ring\n\n" + _table(
        ("frame", "writer", "memcpy in C", *_READ_COLUMNS), rows
    )


def _throughput(found: list[dict[str, Any]]) -> str:
    rows = []
    for each in found:
        before, after = each["cache_line_one_way_us"]
        for label, sides in each["readers"].items():
            cells = (
                cell
                for side in ("publish", "memcpy")
                for cell in (
                    f"{sides[side]['frames_per_second']:,.0f}",
                    f"{sides[side]['ratio']:.3f}",
                )
            )
            rows.append((each["frame"], f"{before:.2f} / {after:.2f}", label, *cells))
    head = (
        "frame",
        "a cache line's way, before / after: µs",
        "beside",
        "publish: frames/s",
        "÷ no reader",
        "memcpy in C: frames/s",
        "÷ no reader",
    )
    return "### Writer throughput\n\n" + _table(head, rows)


def _latency(found: dict[str, Any]) -> str:
    line = found["cache_line_one_way"]
    rows = [("cache line, half a round trip", "", _both(line))]
    for mode, row in found["modes"].items():
        stamped = _both(row["from_timestamp"]) if "from_timestamp" in row else ""
        rows.append((mode, stamped, _both(row["from_before_publish"])))
    return (
        f"### One way, {found['frame']}: p50 / p99 µs until the frame has been read\n\n"
        + _table(("reader", "from the frame's timestamp", "from before publish()"), rows)
    )


def _memory(found: dict[str, Any]) -> str:
    rows = (
        (label, f"{row['bytes']:,}", "yes" if row["exact"] else "NO")
        for label, row in found["segments"].items()
    )
    growth = found["growth"]
    return (
        "### Memory\n\n"
        + _table(("frame", "segment bytes", "= 4096 + capacity × stride"), rows)
        + f"\n\nGrowth over {growth['publishes']:,} publishes: shared file "
        f"{growth['shared_file_growth_bytes']:,} bytes, resident shared "
        f"{growth['RssShmem_growth_bytes']:,}, resident private "
        f"{growth['RssAnon_growth_bytes']:,}."
    )


def _peer(found: dict[str, Any]) -> str:
    calls = found["calls"]
    ours = calls["lanekit publish(array)"]["p50_us"]
    rows = (
        (
            name,
            _both(call),
            f"×{call['ratio']:.2f}" if "ratio" in call else "",
            f"×{call['p50_us'] / ours:.2f}",
        )
        for name, call in calls.items()
    )
    return f"### Beside a plain-Python ring, {found['frame']}\n\n" + _table(
        ("", "p50 / p99 µs", "÷ memcpy", "÷ lanekit publish(array)"), rows
    )


def _torn_frames(found: list[dict[str, Any]]) -> str:
    keys = ("published", "whole", "torn", "mixed")
    rows = ((row["lane"], *(f"{row[key]:,}" for key in keys)) for row in found)
    header = ("lane", "published", "read whole", "torn", "with another frame's numbers")
    return "### Torn-frame hunt, 84×84, a ring of two slots, both sides flat out\n\n" + _table(
        header, rows
    )


_SECTIONS: dict[str, Callable[[Any], str]] = {
    "clocks": _clocks,
    "publish": _publish,
    "publish_loop": _publish_loop,
    "read": _read,
    "throughput": _throughput,
    "latency": _latency,
    "memory": _memory,
    "peer": _peer,
    "torn_frames": _torn_frames,
}


# --- targets --------------------------------------------------------------------------------------

_SAME = {"84×84": 1.25, "160×210": 1.15, "640×480": 1.03, "1920×1080": 1.03}
Target = tuple[str, float, str, bool]


def _at_most(what: str, found: float, most: float, unit: str = "×") -> Target:
    return what, found, f"≤ {most:g} {unit}", found <= most


def _publish_targets(found: list[dict[str, Any]]) -> Iterable[Target]:
    for row in found:
        where = f"{row['frame']}, reader {_rate(row['reader_hz'])}"
        calls = row["calls"]
        if row["frame"] in _SAME:
            same = calls["publish, same array"]["ratio"]
            yield _at_most(f"publish, same array, {where}", same, _SAME[row["frame"]])
        if row["frame"] == SMALL.label:
            for kind in ("new", "fresh"):
                new = calls[f"publish, {kind} array"]["ratio"]
                yield _at_most(f"publish, {kind} array, {where}", new, 1.45)
        reserve = calls["reserve + commit"]["p50_us"]
        yield _at_most(f"reserve + commit, {where}", reserve, 1.0, "µs")


def _read_targets(found: list[dict[str, Any]]) -> Iterable[Target]:
    for row in found:
        if row["frame"] in _SAME:
            what = f"read_into, {row['frame']}, writer {_rate(row['writer_hz'])}"
            yield _at_most(what, row["calls"]["read_into"]["ratio"], _SAME[row["frame"]])


def _latency_targets(found: dict[str, Any]) -> Iterable[Target]:
    for mode in ("wait spin", "read_into poll"):
        for since in ("from_timestamp", "from_before_publish"):
            value = found["modes"][mode][since]["p50_us"]
            yield _at_most(f"latency, {mode}, {since.replace('_', ' ')}", value, 8.0, "µs")


def _peer_targets(found: dict[str, Any]) -> Iterable[Target]:
    calls = found["calls"]
    pairs = (
        ("plain Python publish(array.tobytes(), metrics=…)", "lanekit publish(array)"),
        ("plain Python publish(array.tobytes(), metrics=…)", "lanekit publish(array, metrics=…)"),
    )
    for theirs, ours in pairs:
        times = calls[theirs]["p50_us"] / calls[ours]["p50_us"]
        yield f"{theirs} ÷ {ours}", times, "≥ 3 ×", times >= 3


def _other_targets(results: dict[str, Any]) -> Iterable[Target]:
    for row in results.get("torn_frames", []):
        if row["lane"] == "lanekit":
            bad = row["torn"] + row["mixed"]
            yield _at_most("torn or mixed frames", bad, 0, "")
    if "memory" in results:
        exact = all(row["exact"] for row in results["memory"]["segments"].values())
        yield "segment size is exact", float(exact), "= 1", exact


def targets(results: dict[str, Any]) -> list[Target]:
    """Judge the results: what, the value found, the target, whether it was reached."""
    judges: dict[str, Callable[[Any], Iterable[Target]]] = {
        "publish": _publish_targets,
        "read": _read_targets,
        "latency": _latency_targets,
        "peer": _peer_targets,
    }
    judged = [t for name, judge in judges.items() if name in results for t in judge(results[name])]
    return [*judged, *_other_targets(results)]


def markdown(results: dict[str, Any]) -> str:
    """Return all tables of a run."""
    sections = [_SECTIONS[name](found) for name, found in results.items()]
    rows = (
        (what, f"{value:.2f}", target, "yes" if reached else "NO")
        for what, value, target, reached in targets(results)
    )
    sections.append("### Targets\n\n" + _table(("", "found", "target", "reached"), rows))
    return "\n\n".join(sections)
