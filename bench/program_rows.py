"""From what the benchmarks of whole programs found to rows: the engine, the viewer, the daemon."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from bench.rows import Figure, Found, Row, point
from bench.samples import quartiles

_ENGINE = {
    "lanes": "lanekit, lanes",
    "in_process": "in process",
    "physics": "MuJoCo's physics alone",
    "rollout": "MuJoCo's rollout",
    "grpc": "gRPC, bytes",
    "async": "Gymnasium AsyncVectorEnv",
}
_ENGINE_CALLS = {
    "lanes": "lanekit engine; EngineClient.step(actions)",
    "grpc": "unary call of raw bytes over a Unix socket",
    "async": "AsyncVectorEnv, a process for each environment; step(actions)",
}


def engine(results: Found) -> Iterable[Row]:
    """Environment steps per second, beside the same simulation called in process."""
    rows = [*results.get("steps", ()), *filter(None, [results.get("processes")])]
    for each in rows:
        for name, spread in each["rate_spread"].items():
            peer = name in ("grpc", "async")
            compared = name != "in_process" and "of_in_process" in each
            yield Row(
                "engine",
                "environment steps",
                f"{each['model']}, {each['num_envs']:,}",
                _ENGINE[name],
                "ours" if name == "lanes" else "peer" if peer else "limit",
                "steps/s",
                "more",
                Figure.of(spread),
                Figure.of(each["of_in_process"][name]) if compared else None,
                "in process" if compared else "",
                _ENGINE["lanes"] if peer else "",
                _ENGINE_CALLS.get(name, ""),
            )


_VIEWERS = {"tab": "lanekit's tab", "label": "a naive label", "rerun": "Rerun's viewer"}
_VIEWER_CALLS = {
    "tab": "lanekit view",
    "label": "a timer of 16 ms, latest_frame(), QImage, QPixmap.scaled, QLabel.setPixmap",
    "rerun": "log(Image, static=True), LOW_LATENCY batches; its native viewer, all panels hidden",
}
_VIEWER_NOTES = {
    "label": (
        "Qt lets a QML scene wait some milliseconds for further changes; a label is drawn at once"
    )
}


def _per_frame(found: Found) -> float:
    frames: float = found["frames_per_second"]
    return 1000 * found["cpu_share"] / frames if frames else math.nan


def _age(found: Found) -> float:
    age: float = found["age_p50_ms"]
    return age


_SHOWN: dict[str, tuple[str, Any, Callable[[Found], float]]] = {
    "processor time of a frame shown": ("ms", "less", _per_frame),
    "how old a frame is when shown": ("ms", "less", _age),
    "frames shown of 60 a second": ("frames/s", "more", lambda found: found["frames_per_second"]),
}


def viewer(results: Found) -> Iterable[Row]:
    """What showing a frame costs, beside a viewer as one writes it first, and beside Rerun's."""
    for part, where in (("watching", "off screen"), ("screen", "on a virtual screen")):
        for question, (unit, better, figure) in _SHOWN.items():
            for each in results.get(part, ()):
                case = f"{each['width']}×{each['height']}"
                made = partial(Row, "viewer", f"{question}, {where}", case)
                for kind in (kind for kind in _VIEWERS if kind in each):
                    yield _shown(made, kind, each[kind], unit, better, figure)


def _shown(
    made: Callable[..., Row],
    kind: str,
    found: Found,
    unit: str,
    better: Any,
    figure: Callable[[Found], float],
) -> Row:
    role, name = ("ours" if kind == "tab" else "peer"), _VIEWERS[kind]
    if "failed" in found:
        return made(name, role, unit, better, None, failed=found["failed"])
    values = [figure(each) for each in found.get("rounds", [found])]
    if not all(map(math.isfinite, values)):
        return made(name, role, unit, better, None, failed="it showed no new frame in a round")
    note = _VIEWER_NOTES.get(kind, "") if figure is _age else ""
    rival = "" if kind == "tab" else _VIEWERS["tab"]
    value = Figure.of(quartiles(values))
    about = _VIEWER_CALLS[kind]
    return made(name, role, unit, better, value, rival=rival, about=about, note=note)


def remote(results: Found) -> Iterable[Row]:
    """What the network adds beside plain TCP, and what a watched worker pays."""
    for each in filter(None, results.get("ways", ())):
        for name, found in each["ways"].items():
            made = partial(Row, "remote", "a frame's way to a watcher over loopback, p50")
            case = f"{each['frame']}, {name}"
            rounds = found.get("rounds", [found])
            tcp = [one["tcp_p50_ms"] for one in rounds]
            ours = [one["p50_ms"] for one in rounds]
            ratio = quartiles([one / other for one, other in zip(ours, tcp, strict=True)])
            yield made(case, "plain TCP", "limit", "ms", "less", Figure.of(quartiles(tcp)))
            value = Figure.of(quartiles(ours))
            yield made(
                case, "WatchFrames", "ours", "ms", "less", value, Figure.of(ratio), "plain TCP"
            )
    if "worker" in results:
        found = results["worker"]
        made = partial(Row, "remote", f"publishing a frame, {found['frame']}", "")
        for mode, each in found["modes"].items():
            alone = mode == "no daemon"
            value = (
                Figure.of(quartiles(each["rounds"])) if "rounds" in each else point(each["p50_us"])
            )
            yield made(
                mode,
                "limit" if alone else "ours",
                "µs",
                "less",
                value,
                None if alone else point(each["ratio"]),
                "" if alone else "no daemon",
            )
