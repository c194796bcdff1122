"""From what each lane's benchmark found to rows of one shape."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from bench.rows import Figure, Row

Found = Mapping[str, Any]


def _call(found: Found, ratio: str = "ratio") -> tuple[Figure, Figure | None]:
    """Take a row of :func:`bench.samples.summary`: the p50, and how many times a limit's."""
    value = Figure(found["p50_us"], found["p50_low"], found["p50_high"])
    if ratio not in found:
        return value, None
    return value, Figure(found[ratio], found[f"{ratio}_low"], found[f"{ratio}_high"])


def _point(value: float) -> Figure:
    """A figure of one round, or whose rounds were not kept."""
    return Figure(value, value, value)


# --- the fast lane --------------------------------------------------------------------------------

_LIMITS = ("memcpy", "find newest")


def _calls(question: str, pace: str, found: Iterable[Found]) -> Iterable[Row]:
    for each in found:
        hz = each[f"{pace}_hz"]
        paced = (
            f"no {pace}" if hz is None else f"{pace} flat out" if not hz else f"{pace} {hz:g} Hz"
        )
        for name, call in each["calls"].items():
            value, ratio = _call(call)
            limit = name.startswith(_LIMITS)
            yield Row(
                "fast",
                f"{question}, {paced}",
                each["frame"],
                name,
                "limit" if limit else "ours",
                "µs",
                "less",
                value,
                ratio,
                "memcpy" if ratio else "",
            )


def _fast(results: Found) -> Iterable[Row]:
    yield from _calls("publishing", "reader", results.get("publish", ()))
    yield from _calls("reading", "writer", results.get("read", ()))
    if "latency" in results:
        found = results["latency"]
        for mode, each in found["modes"].items():
            role = "limit" if mode.startswith("memcpy") else "ours"
            us = _point(each["from_before_publish"]["p50_us"])
            question = "one way, each way of waiting"
            yield Row("fast", question, found["frame"], mode, role, "µs", "less", us)  # type: ignore[arg-type]


# --- beside other ways to have the newest frame ---------------------------------------------------

PUBLISH, THROUGHPUT = "publishing a frame", "frames that reach a reader"
READERS, ONE_WAY = "frames a writer publishes", "one way"


def _peers(results: Found) -> Iterable[Row]:
    found = results["newest_frame"]
    abouts = found["about"]

    def row(name: str, question: str, case: str, unit: str, better: Any, value: Figure) -> Row:
        about = abouts[name]
        ours = name.startswith("lanekit")
        return Row(
            "peers",
            question,
            case,
            name,
            "ours" if ours else "peer",
            unit,
            better,
            value,
            rival="" if ours else "lanekit, in place" if about["in_place"] else "lanekit",
            about=f"{about['version']} {about['calls']}".strip(),
            note=about["note"] if question == PUBLISH else "",
        )

    for size in found["sizes"]:
        case, memcpy = size["frame"], Figure.of(size["memcpy_us"])
        yield Row("peers", PUBLISH, case, "memcpy", "limit", "µs", "less", memcpy)
        for name, way in size["ways"].items():
            made = row(name, PUBLISH, case, "µs", "less", Figure.of(way["p50_us"]))
            ratio = Figure.of(way["of_memcpy"])
            yield Row(**{**vars(made), "ratio": ratio, "base": "memcpy"})
            if way["received_per_second"]["median"]:
                rate = Figure.of(way["received_per_second"])
                yield row(name, THROUGHPUT, case, "frames/s", "more", rate)
    for name, way in found["readers"]["ways"].items():
        for label, rate in way.items():
            yield row(name, READERS, label, "frames/s", "more", Figure.of(rate))
    latency = found["latency"]
    line = _point(latency["cache_line_one_way"]["p50_us"])
    yield Row("peers", ONE_WAY, "reader spins", "a cache line", "limit", "µs", "less", line)
    for mode, case in (("spinning", "reader spins"), ("sleeping", "reader sleeps")):
        for name, way in latency[mode].items():
            yield row(name, ONE_WAY, case, "µs", "less", Figure.of(way["p50_us"]))
    for name, about in abouts.items():
        if "failed" in about:
            role: Any = "ours" if name.startswith("lanekit") else "peer"
            failed = about["failed"]
            yield Row("peers", PUBLISH, "", name, role, "µs", "less", None, failed=failed)


# --- the step lane --------------------------------------------------------------------------------

ROUND_TRIP, GROWTH = "a round trip of 4096 environments", "a round trip, by environments"


def _step(results: Found) -> Iterable[Row]:
    from bench.step_lane import MEMCPY, PEERS

    made = partial(Row, "step")
    found = results.get("round_trip", {"calls": {}, "about": {}})
    for name, call in found["calls"].items():
        value, ratio = _call(call)
        peer = found["about"].get(name)
        role: Any = "peer" if peer else "ours" if name.startswith("lanekit") else "limit"
        yield made(
            ROUND_TRIP,
            "",
            PEERS.get(name, name),
            role,
            "µs",
            "less",
            value,
            ratio,
            MEMCPY if ratio else "",
            ("lanekit, touch" if name == "puffer_native" else "lanekit, full write") * bool(peer),
            f"{peer['version']} {peer['calls']}" if peer else "",
            "its own simulation, in the trainer's own process" * (name == "envpool_cartpole"),
        )
    for name, about in found["about"].items():
        if "failed" in about:
            label, failed = PEERS.get(name, name), about["failed"]
            yield made(ROUND_TRIP, "", label, "peer", "µs", "less", None, failed=failed)
    grown = results.get("growth", {"spread_us": {}, "failed": {}})
    for name, failed in grown["failed"].items():
        yield made(GROWTH, "", name, "peer", "µs", "less", None, failed=failed)
    for name, sizes in grown["spread_us"].items():
        ours, limit = name.startswith("lanekit"), name == MEMCPY
        for size, us in sizes.items():
            yield made(
                GROWTH,
                f"{int(size):,}",
                name,
                "ours" if ours else "limit" if limit else "peer",
                "µs",
                "less",
                Figure.of(us),
                rival="" if ours or limit else "lanekit, full write",
            )


# --- the trajectory lane --------------------------------------------------------------------------


def _trajectory(results: Found) -> Iterable[Row]:
    for each in (row for found in results.values() for row in found if row is not None):
        question = f"records received, {each['producers']} producer" + "s" * (each["producers"] > 1)
        case = f"{each['tokens']:,} tokens"
        made = partial(Row, "trajectory", question, case)
        memcpy = Figure.of(each["memcpy_spread"])
        yield made("memcpy", "limit", "records/s", "more", memcpy)
        for name, found in each["transports"].items():
            wrong = sum(found[key] for key in ("lost", "repeated", "mixed"))
            ours = name.startswith("lanekit")
            yield made(
                name,
                "ours" if ours else "peer",
                "records/s",
                "more",
                Figure.of(found["rate_spread"]),
                Figure.of(found["of_memcpy_spread"]),
                "memcpy",
                "" if ours else "lanekit",
                note=f"{wrong:,} of its records were lost, repeated or mixed" if wrong else "",
            )
        for name, packages in each["missing"].items():
            failed = f"not installed: {', '.join(packages)}"
            yield made(name, "peer", "records/s", "more", None, failed=failed)


# --- the slow lane --------------------------------------------------------------------------------

EVENTS = "durable events"


def _slow(results: Found) -> Iterable[Row]:
    from bench.samples import quartiles
    from bench.slow_trackers import NOT_A_TRACKER

    found = results.get("throughput", {"results": {}, "trackers": {}})
    made = partial(Row, "slow", EVENTS, "")
    for name, each in found["results"].items():
        rates = Figure.of(quartiles(each["rounds"]))
        yield made(name, "ours" if "lanekit" in name else "limit", "events/s", "more", rates)
    for name, each in found["trackers"].items():
        if "rounds" not in each:
            yield made(name, "peer", "events/s", "more", None, failed=each["failed"])
            continue
        yield made(
            name,
            "peer",
            "events/s",
            "more",
            Figure.of(quartiles(each["rounds"])),
            rival="lanekit, cat, normal",
            about=f"{each.get('version', '')} {each.get('calls', '')}".strip(),
            note="no tracker: a file that one process writes for itself" * (name in NOT_A_TRACKER),
        )
    for each in results.get("acknowledgement", ()):
        p50 = _point(each["p50_ms"])
        question = "from emission to acknowledgement"
        yield Row("slow", question, "", each["durability"], "ours", "ms", "less", p50)


# --- the engine and the viewer --------------------------------------------------------------------

_ENGINE = {
    "lanes": "lanekit, lanes",
    "in_process": "in process",
    "physics": "MuJoCo's physics alone",
    "rollout": "MuJoCo's rollout",
    "grpc": "gRPC, bytes",
    "async": "Gymnasium AsyncVectorEnv",
}


def _engine(results: Found) -> Iterable[Row]:
    rows = [*results.get("steps", ()), *filter(None, [results.get("processes")])]
    for each in rows:
        for name, spread in each["rate_spread"].items():
            peer = name in ("grpc", "async")
            yield Row(
                "engine",
                "environment steps",
                f"{each['model']}, {each['num_envs']}",
                _ENGINE[name],
                "ours" if name == "lanes" else "peer" if peer else "limit",
                "steps/s",
                "more",
                Figure.of(spread),
                rival=_ENGINE["lanes"] if peer else "",
            )


_VIEWERS = {"tab": "lanekit's tab", "label": "a naive label", "rerun": "Rerun's viewer"}


def _viewer(results: Found) -> Iterable[Row]:
    for part, question in (
        ("watching", "a viewer's CPU at 60 Hz, off screen"),
        ("screen", "a viewer's CPU at 60 Hz, on a virtual screen"),
    ):
        for each in results.get(part, ()):
            case = f"{each['width']}×{each['height']}"
            for kind, name in _VIEWERS.items():
                if kind not in each:
                    continue
                found, ours = each[kind], kind == "tab"
                failed = found.get("failed", "")
                yield Row(
                    "viewer",
                    question,
                    case,
                    name,
                    "ours" if ours else "peer",
                    "% of a core",
                    "less",
                    None if failed else _point(100 * found["cpu_share"]),
                    rival="" if ours else _VIEWERS["tab"],
                    failed=failed,
                )


def _remote(results: Found) -> Iterable[Row]:
    for each in results.get("ways", ()):
        if each is None:
            continue
        for name, found in each["ways"].items():
            made = partial(Row, "remote", "a frame's way to a watcher over loopback, p50")
            case = f"{each['frame']}, {name}"
            ratio = _point(found["p50_ms"] / found["tcp_p50_ms"])
            yield made(case, "plain TCP", "limit", "ms", "less", _point(found["tcp_p50_ms"]))
            yield made(
                case, "WatchFrames", "ours", "ms", "less", _point(found["p50_ms"]), ratio, "TCP"
            )


_LANES: dict[str, Callable[[Found], Iterable[Row]]] = {
    "fast": _fast,
    "peers": _peers,
    "step": _step,
    "trajectory": _trajectory,
    "slow": _slow,
    "engine": _engine,
    "viewer": _viewer,
    "remote": _remote,
}


def rows_of(lane: str, results: Found) -> list[Row]:
    """Return the rows of what a lane's benchmark found."""
    return list(_LANES[lane](results))
