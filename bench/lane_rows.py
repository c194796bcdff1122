"""From what each lane's benchmark found to rows of one shape."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from bench.fast_sizes import SMALL
from bench.program_rows import engine, remote, viewer
from bench.rows import Figure, Found, Row, point
from bench.samples import quartiles


def _call(found: Found, ratio: str = "ratio") -> tuple[Figure, Figure | None]:
    """Take a row of :func:`bench.samples.summary`: the p50, and how many times a limit's."""
    value = Figure(found["p50_us"], found["p50_low"], found["p50_high"])
    if ratio not in found:
        return value, None
    return value, Figure(found[ratio], found[f"{ratio}_low"], found[f"{ratio}_high"])


def _about(found: Found) -> str:
    """Version and calls."""
    return f"{found.get('version', '')} {found.get('calls', '')}".strip()


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
    for each in results.get("throughput", ()):
        yield from _beside_readers(each)
    if "latency" in results:
        found = results["latency"]
        made = partial(Row, "fast", "one way, each way of waiting", found["frame"])
        line = point(found["cache_line_one_way"]["p50_us"])
        yield made("a cache line", "limit", "µs", "less", line)
        for mode, each in found["modes"].items():
            role: Any = "limit" if mode.startswith("memcpy") else "ours"
            yield made(mode, role, "µs", "less", Figure.of(each["p50_spread"]))
    for each in results.get("torn_frames", ()):
        ours = each["lane"] == "lanekit"
        yield Row(
            "fast",
            "torn frames, or with another frame's numbers, in a ring of two slots",
            SMALL.label,
            each["lane"],
            "ours" if ours else "peer",
            f"of {each['published']:,} published",
            "less",
            point(each["torn"] + each["mixed"]),
            rival="" if ours else "lanekit",
        )


def _beside_readers(found: Found) -> Iterable[Row]:
    for label, sides in found["readers"].items():
        made = partial(Row, "fast", f"frames a writer publishes, {found['frame']}", label)
        memcpy, ours = sides["memcpy"], sides["publish"]
        yield made("memcpy", "limit", "frames/s", "more", Figure.of(memcpy["spread"]))
        ratio = Figure.of(ours["of_memcpy"])
        value = Figure.of(ours["spread"])
        yield made("publish", "ours", "frames/s", "more", value, ratio, "memcpy")


# --- beside other ways to have the newest frame ---------------------------------------------------

PUBLISH, THROUGHPUT = "publishing a frame", "frames that reach a reader"
READERS, ONE_WAY = "frames a writer publishes", "one way"


def _peers(results: Found) -> Iterable[Row]:
    found = results["newest_frame"]
    abouts = found["about"]

    def note(name: str, question: str) -> str:
        told = [abouts[name]["note"]] if question in (PUBLISH, READERS) else []
        torn = sum(size["ways"].get(name, {}).get("torn", 0) for size in found["sizes"])
        return "; ".join(filter(None, [*told, f"{torn:,} of its frames came torn" * bool(torn)]))

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
            about=_about(about),
            note=note(name, question),
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
    line = point(latency["cache_line_one_way"]["p50_us"])
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
_BUSY = "a round trip of 4096 environments on cores that others use, one number written"
_SPINS = (
    "it spins however long a step takes; our default sleeps after 0.4 ms and pays for waking up, "
    'with wait="spin" it does not'
)
_OWN_WORK = "its own simulation, in the trainer's own process"


def _step(results: Found) -> Iterable[Row]:
    if "round_trip" in results:
        yield from _round_trip(results["round_trip"])
    if "growth" in results:
        yield from _growth(results["growth"])
    if "crowded" in results:
        yield from _crowded(results["crowded"])
    if "paced" in results:
        found = results["paced"]
        made = partial(
            Row, "step", f"a round trip of 4096 environments, {found['hz']:g} times a second"
        )
        for name, call in found["calls"].items():
            yield made(
                "", f"lanekit, full write, {name}", "ours", "µs", "less", point(call["p50_us"])
            )


def _round_trip(found: Found) -> Iterable[Row]:
    from bench.step_lane import MEMCPY, PEERS

    made = partial(Row, "step", ROUND_TRIP, "")
    for name, call in found["calls"].items():
        value, ratio = _call(call)
        peer = found["about"].get(name)
        role: Any = "peer" if peer else "ours" if name.startswith("lanekit") else "limit"
        yield made(
            PEERS.get(name, name),
            role,
            "µs",
            "less",
            value,
            ratio,
            MEMCPY if ratio else "",
            ("lanekit, touch" if name == "puffer_native" else "lanekit, full write") * bool(peer),
            _about(peer) if peer else "",
            _OWN_WORK if name == "envpool_cartpole" else "",
        )
    for name, about in found["about"].items():
        if "failed" in about:
            label, failed = PEERS.get(name, name), about["failed"]
            yield made(label, "peer", "µs", "less", None, failed=failed)


def _growth(found: Found) -> Iterable[Row]:
    from bench.step_lane import MEMCPY

    for name, failed in found["failed"].items():
        yield Row("step", GROWTH, "", name, "peer", "µs", "less", None, failed=failed)
    for name, sizes in found["spread_us"].items():
        ours, limit = name.startswith("lanekit"), name == MEMCPY
        note = _SPINS if name.startswith("PufferLib") else _OWN_WORK * name.startswith("EnvPool")
        for size, us in sizes.items():
            yield Row(
                "step",
                GROWTH,
                f"{int(size):,}",
                name,
                "ours" if ours else "limit" if limit else "peer",
                "µs",
                "less",
                Figure.of(us),
                rival="" if ours or limit else "lanekit, full write",
                note=note,
            )


def _crowded(found: Found) -> Iterable[Row]:
    cores = found["cores"]
    cases = {
        "pairs": f"{cores} pairs at once",
        "beside": f"one pair beside {cores} that never rest",
    }
    for part, case in cases.items():
        for name, call in found[part].items():
            ours = name.startswith("lanekit")
            p50, _ = _call(call)
            for which, value in (("p50", p50), ("p99", point(call["p99_us"]))):
                yield Row(
                    "step",
                    f"{_BUSY}, {which}",
                    case,
                    name,
                    "ours" if ours else "peer",
                    "µs",
                    "less",
                    value,
                    rival="" if ours else "lanekit, hybrid",
                )


# --- the trajectory lane --------------------------------------------------------------------------


def _trajectory(results: Found) -> Iterable[Row]:
    for each in (row for found in results.values() for row in found if row is not None):
        question = f"records received, {each['producers']} producer" + "s" * (each["producers"] > 1)
        case = f"{each['tokens']:,} tokens"
        made = partial(Row, "trajectory", question, case)
        memcpy = Figure.of(each["memcpy_spread"])
        yield made("memcpy", "limit", "records/s", "more", memcpy)
        if each["producers"] > 1:
            as_much = Figure.of(each["memcpy_into_all_rings_spread"])
            yield made("memcpy into all rings", "limit", "records/s", "more", as_much)
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
                _about(each["about"][name]),
                f"{wrong:,} of its records were lost, repeated or mixed" if wrong else "",
            )
        for name, failed in each["failed"].items():
            role: Any = "ours" if name.startswith("lanekit") else "peer"
            yield made(name, role, "records/s", "more", None, failed=failed)


# --- the slow lane --------------------------------------------------------------------------------

EVENTS = "durable events"
_FROM_PYTHON = "lanekit, Python worker, normal"
_TRACKERS = {
    "trackio": "Trackio",
    "tensorboard": "TensorBoard",
    "wandb": "W&B, offline",
    "mlflow": "MLflow",
    "aim": "Aim",
    "jsonl": "a file of JSON lines",
    "duckdb": "DuckDB",
}
_NOT_THE_SAME = {
    "jsonl": "one process writes one file for itself: nobody else is told, nothing is indexed",
    "duckdb": "one process writes a file that no other can open meanwhile",
}


def _slow(results: Found) -> Iterable[Row]:
    found = results.get("throughput", {"results": {}, "trackers": {}})
    made = partial(Row, "slow", EVENTS, "")
    for name, each in found["results"].items():
        rates = Figure.of(quartiles(each["rounds"]))
        if "lanekit" not in name:
            yield made(name, "limit", "events/s", "more", rates)
            continue
        limit = f"sqlite3, {name.rpartition(', ')[2]}"
        pairs = zip(each["rounds"], found["results"][limit]["rounds"], strict=True)
        ratio = Figure.of(quartiles([rate / bare for rate, bare in pairs]))
        label = name.replace("cat", "ready-made lines")
        yield made(label, "ours", "events/s", "more", rates, ratio, limit)
    for name, each in found["trackers"].items():
        label = _TRACKERS.get(name, name)
        if "rounds" not in each:
            yield made(label, "peer", "events/s", "more", None, failed=each["failed"])
            continue
        yield made(
            label,
            "peer",
            "events/s",
            "more",
            Figure.of(quartiles(each["rounds"])),
            rival=_FROM_PYTHON,
            about=_about(each),
            note=_NOT_THE_SAME.get(name, ""),
        )
    for each in results.get("acknowledgement", ()):
        p50 = point(each["p50_ms"])
        question = "from emission to acknowledgement, 1,000 events a second"
        name = f"lanekit, {each['durability']}"
        yield Row("slow", question, "", name, "ours", "ms", "less", p50)


_LANES: dict[str, Callable[[Found], Iterable[Row]]] = {
    "fast": _fast,
    "peers": _peers,
    "step": _step,
    "trajectory": _trajectory,
    "slow": _slow,
    "engine": engine,
    "viewer": viewer,
    "remote": remote,
}


def rows_of(lane: str, results: Found) -> list[Row]:
    """Return the rows of what a lane's benchmark found."""
    return list(_LANES[lane](results))
