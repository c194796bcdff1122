"""From findings to Markdown: the ratios, what was really seen, and whether targets were reached."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from bench.overhead.modes import (
    AGAIN,
    COMPARED,
    FRAME_HZ,
    IN_PROCESS,
    MODES,
    SHADOW,
    TURN_STEPS,
    UNWATCHED,
)
from bench.overhead.statistics import Clock, Findings, Interval, find
from bench.report import _table as table

UNWATCHED_MOST = 1.01
SHADOW_MOST = 1.03
_ENOUGH_TURNS = 10


class Target(NamedTuple):
    """What was wanted, beside what was found."""

    what: str
    found: Interval
    wanted: str
    reached: bool


def number(ratio: float) -> str:
    return f"×{ratio:.3f}" if ratio < 2 else f"×{ratio:.1f}"


def _interval(found: Interval) -> str:
    digits = 3 if found.value < 2 else 1
    return f"**{number(found.value)}** ({found.low:.{digits}f} – {found.high:.{digits}f})"


def _ratios(found: list[Findings], clock: Clock) -> str:
    header = (
        "framework",
        "bare, µs per step",
        *(mode.label for mode in COMPARED),
        *((f"{FRAME_HZ:.0f} pictures a second explain",) if clock == "wall" else ()),
    )
    rows = []
    for one in found:
        price = f"{number(one.explained.value)} ({one.picture * 1e3:.2f} ms each)"
        rows.append(
            (
                f"{one.framework} ({one.version})",
                f"{one.bare[clock] * 1e6:.0f}",
                *(_interval(one.ratios[mode, clock]) for mode in COMPARED),
                *((price,) if clock == "wall" else ()),
            )
        )
    title = {"wall": "Time of the wall", "cpu": "CPU time of the training process"}[clock]
    return f"### {title}: × bare (95 % interval)\n\n" + table(header, rows)


def _watching(found: list[Findings]) -> str:
    watched = [mode for mode in MODES if mode.watched]
    rows = []
    for one in found:
        for mode in watched:
            seen = one.watching[mode]
            rows.append(
                (
                    one.framework,
                    mode.label,
                    f"{seen.frames:,}",
                    f"{seen.hz:.0f}",
                    f"{seen.different:.0%}",
                    f"{seen.blind:.0%}",
                    "" if seen.drawing is None else f"{seen.drawing:.1%}",
                )
            )
    header = (
        "framework",
        "mode",
        "frames seen",
        "a second of training",
        "unlike the one before",
        "turns without any",
        "of its time the training process drew",
    )
    return "### What the viewer saw\n\n" + table(header, rows)


def targets(found: list[Findings]) -> Iterable[Target]:
    """Judge the findings by the clock on the wall."""
    for one in found:
        unwatched = one.ratios[UNWATCHED, "wall"]
        yield Target(
            f"{one.framework}, {UNWATCHED.label}",
            unwatched,
            f"≤ {UNWATCHED_MOST} and the interval has 1.00 in it",
            unwatched.value <= UNWATCHED_MOST and unwatched.low <= 1 <= unwatched.high,
        )
        shadow = one.ratios[SHADOW, "wall"]
        yield Target(
            f"{one.framework}, {SHADOW.label}",
            shadow,
            f"≤ {SHADOW_MOST}, with frames seen",
            shadow.value <= SHADOW_MOST and one.watching[SHADOW].frames > 0,
        )
        here = one.ratios[IN_PROCESS, "wall"]
        yield Target(
            f"{one.framework}, {IN_PROCESS.label}",
            here,
            f"≤ {one.explained.value:.3f}, which its pictures explain",
            here.value <= one.explained.value and one.watching[IN_PROCESS].frames > 0,
        )


def _targets(found: list[Findings]) -> str:
    rows = (
        (each.what, _interval(each.found), each.wanted, "yes" if each.reached else "NO")
        for each in targets(found)
    )
    return "### Targets\n\n" + table(("", "found", "target", "reached"), rows)


def _circumstances(content: dict[str, Any], found: list[Findings]) -> str:
    effort, where = content["effort"], content["machine"]
    counts = {(one.seeds, one.turns) for one in found}
    seeds = " and ".join(f"{seeds} seeds, {turns} turns" for seeds, turns in sorted(counts))
    enough = all(one.turns >= _ENOUGH_TURNS for one in found)
    least, most = min(o.others[0] for o in found), max(o.others[1] for o in found)
    return (
        f"CartPole-v1, {effort['steps']:,} steps per framework, mode and seed in turns of "
        f"{TURN_STEPS} ({seeds}); {effort['every_step_steps']:,} steps where every step is drawn. "
        f"“{AGAIN.label}” differs from bare in nothing: it shows what chance "
        f"alone makes of a ratio. {where['cores']} cores, {where['cpu']}, Python "
        f"{where['python']}; others used {least:.0%} to {most:.0%} of the machine meanwhile."
        + ("" if enough else " **Too few turns for intervals that mean something.**")
    )


def _failures(failed: dict[str, str]) -> str:
    rows = ((name, f"`{reason.splitlines()[-1]}`") for name, reason in failed.items())
    return "### Not measured\n\n" + table(("framework", "why"), rows)


def markdown(content: dict[str, Any]) -> str:
    """Return all tables of a run."""
    found = find(content)
    sections = []
    if found:
        sections += [
            _circumstances(content, found),
            _ratios(found, "wall"),
            _ratios(found, "cpu"),
            _watching(found),
            _targets(found),
        ]
    if content["failed"]:
        sections.append(_failures(content["failed"]))
    return "\n\n".join(sections)
