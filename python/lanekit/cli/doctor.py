"""`lanekit doctor`: what works on this machine, and what to do about what does not."""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import sys
import sysconfig
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from typing import Literal

import numpy as np

from lanekit import FastLaneConfig, FastLaneReader, FastLaneWriter, LanekitError
from lanekit._core import REMEDY_OF_READ_ONLY, platform_info
from lanekit.cli.connection import missing_slow, usual_daemons_store_problem
from lanekit.cli.ls import list_segments
from lanekit.errors import StoreError
from lanekit.segments import human_size, shared_memory_space
from lanekit.slow.endpoint import default_store, state_directory
from lanekit.viewer.qt_platform import candidates, obstacle_to_windows

NAME = "doctor"
HELP = "check this machine: core, shared memory, disk, Python, extras, Qt"

State = Literal["ok", "note", "fail"]


@dataclass(frozen=True)
class Finding:
    """One line of the report."""

    topic: str
    state: State
    found: str
    remedy: str = ""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument(
        "--store",
        metavar="PATH",
        nargs="?",
        const="",
        help="check every page of this store, or of the usual one, and nothing else",
    )


def run(args: argparse.Namespace) -> int:
    """Print the findings; status 1 if something that the lanes need fails."""
    if args.store is None:
        findings = [check() for check in CHECKS]
    else:
        findings = [check_store_file(args.store)]
    if args.json:
        print(json.dumps([asdict(finding) for finding in findings], indent=2))
    else:
        marks = {"ok": "ok  ", "note": "note", "fail": "FAIL"}
        width = max(len(finding.topic) for finding in findings)
        for finding in findings:
            print(f"{marks[finding.state]}  {finding.topic.ljust(width)}  {finding.found}")
            if finding.remedy:
                print(f"      {' ' * width}  -> {finding.remedy}")
    return 1 if any(finding.state == "fail" for finding in findings) else 0


def check_python() -> Finding:
    """Interpreter and GIL."""
    build = "free-threaded" if sysconfig.get_config_var("Py_GIL_DISABLED") else "with GIL"
    is_gil_enabled: Callable[[], bool] = getattr(sys, "_is_gil_enabled", lambda: True)
    found = f"{platform.python_implementation()} {platform.python_version()}, {build}"
    if build == "free-threaded" and is_gil_enabled():
        return Finding(
            "python",
            "note",
            f"{found}, but the GIL is on now",
            "an imported extension switched it on; PYTHON_GIL=0 keeps it off",
        )
    return Finding("python", "ok", found)


def check_core() -> Finding:
    """The compiled core."""
    info = platform_info()
    found = (
        f"layout {info.layout_major}.{info.layout_minor}, copies by {info.copy_method}, "
        f"compiler {info.compiler}"
    )
    return Finding("core", "ok", found)


def check_atomics() -> Finding:
    """Lock-free atomics: without them shared memory can not work."""
    if platform_info().atomics_lock_free:
        return Finding("atomics", "ok", "32- and 64-bit atomics are lock-free")
    return Finding(
        "atomics", "fail", "64-bit atomics take locks", "use a 64-bit Python on a 64-bit system"
    )


def check_futex() -> Finding:
    """Cross-process wake-ups."""
    if platform_info().futex_works:
        return Finding("futex", "ok", "readers sleep until they are woken")
    return Finding(
        "futex",
        "note",
        "not available: waits poll every 0.2 ms",
        "allow the futex system call in the sandbox's seccomp profile",
    )


def check_shared_memory() -> Finding:
    """Size and free space of /dev/shm."""
    try:
        space = shared_memory_space()
    except OSError as error:
        return Finding("/dev/shm", "fail", f"not usable: {error}", "mount -t tmpfs tmpfs /dev/shm")
    found = str(space)
    if space.read_only:  # first: no permission would help
        return Finding("/dev/shm", "fail", f"{found}, mounted read-only", REMEDY_OF_READ_ONLY)
    if not os.access("/dev/shm", os.W_OK):
        return Finding("/dev/shm", "fail", f"{found}, not writable", "chmod 1777 /dev/shm")
    if space.free < 256 << 20:
        return Finding(
            "/dev/shm",
            "note",
            f"{found}: a 640x480 run with 128 slots takes 113 MiB",
            "`lanekit clean` removes leftovers; in a container use --shm-size=2g",
        )
    return Finding("/dev/shm", "ok", found)


def check_leftovers() -> Finding:
    """Segments of dead owners."""
    orphans = [row for row in list_segments() if row.info is not None and row.info.orphan]
    if not orphans:
        return Finding("leftovers", "ok", "none")
    size = human_size(sum(row.size for row in orphans))
    found = f"{len(orphans)} segments of dead owners"
    if len(orphans) == 1:
        found = "1 segment of a dead owner"
    return Finding("leftovers", "note", f"{found}, {size}", "lanekit clean")


def check_state() -> Finding:
    """Where runs are recorded."""
    place = state_directory()
    there = next(path for path in (place, *place.parents) if path.exists())
    remedy = "LANEKIT_STATE=DIR names another place"
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        found = f"no run can be recorded in {place}: {there} can not be written to"
        return Finding("state", "note", found, remedy)
    free = shutil.disk_usage(there).free
    found = f"{human_size(free)} free for recorded runs in {place}"
    if free < 256 << 20:
        return Finding("state", "note", found, f"make room there, or {remedy}")
    return Finding("state", "ok", found)


def check_store() -> Finding:
    """Whether the daemon can write what it is sent."""
    problem = usual_daemons_store_problem()
    if problem is None:
        return Finding("store", "ok", "no daemon runs; `lanekit doctor --store` checks its file")
    if not problem:
        return Finding("store", "ok", "the daemon can write it; `lanekit doctor --store` checks it")
    return Finding(
        "store",
        "fail",
        f"the daemon cannot store events now: {problem}",
        "nothing is lost meanwhile, and the daemon goes on by itself once the cause is removed",
    )


def check_store_file(named: str) -> Finding:
    """Whether a store is sound, page by page."""
    try:
        from lanekit.slow.store.address import PostgresAddress, parse_store
        from lanekit.slow.store.store_check import StoreCheck
    except ModuleNotFoundError as error:
        raise missing_slow(error) from error
    place = parse_store(named) if named else default_store()
    if isinstance(place, PostgresAddress):
        found = f"{place} is a PostgreSQL database, which has its own means"
        return Finding("store", "note", found, "pg_amcheck checks it, on the server")
    check = StoreCheck(place)
    try:
        damage = check.run()
    except StoreError as error:
        return Finding("store", "fail", str(error))
    if damage:
        found = "; ".join(damage)
        return Finding("store", "fail", f"{place} is damaged: {found}", check.remedy)
    return Finding("store", "ok", f"{place} is sound ({human_size(place.stat().st_size)})")


def check_fast_lane() -> Finding:
    """One frame through real shared memory."""
    run_id = f"lanekit-doctor-{uuid.uuid4()}"
    frame = np.arange(16 * 16 * 3, dtype=np.uint8).reshape(16, 16, 3)
    try:
        with (
            FastLaneWriter.create(run_id, FastLaneConfig(width=16, height=16)) as writer,
            FastLaneReader.attach(run_id) as reader,
        ):
            writer.publish(frame)
            seen = reader.latest_frame()
    except LanekitError as error:
        return Finding("fast lane", "fail", str(error), "see the lines above")
    if seen is None or not np.array_equal(seen.array, frame):
        return Finding("fast lane", "fail", "a frame came back changed", "please report this")
    return Finding("fast lane", "ok", "a frame went through shared memory and came back whole")


def check_cores() -> Finding:
    """Cores this process may use."""
    cores = len(os.sched_getaffinity(0))
    if cores == 1:
        return Finding(
            "cores",
            "note",
            "1: writer and viewers take turns",
            "give the run two cores or more to watch it at no cost",
        )
    return Finding("cores", "ok", str(cores))


def check_extras() -> Finding:
    """Optional parts, as the installed package declares them."""
    missing = missing_of_extras(requires("lanekit") or [])
    offered = {extra: names for extra, names in missing.items() if not _DEVELOPERS.match(extra)}
    present = [extra for extra, names in offered.items() if not names]
    absent = [extra for extra, names in offered.items() if names]
    found = f"installed: {', '.join(present) or 'none'}"
    if not absent:
        return Finding("extras", "ok", found)
    return Finding(
        "extras",
        "note",
        f"{found}; not installed: {', '.join(absent)}",
        f"what you need of them, such as: pip install 'lanekit[{absent[0]}]'",
    )


# What only work on lanekit itself takes.
_DEVELOPERS = re.compile(r"(bench|test)(-|$)|(docs|lint|protocol)$")


def missing_of_extras(requirements: list[str]) -> dict[str, list[str]]:
    """Return the distributions that each extra asks for and this environment lacks."""
    missing: dict[str, list[str]] = {}
    others: dict[str, list[str]] = {}
    for requirement in requirements:
        extra = re.search(r"extra == ['\"]([^'\"]+)", requirement)
        name = re.match(r"([A-Za-z0-9._-]+)(?:\[(.*?)\])?", requirement)
        if extra is None or name is None:
            continue
        names = missing.setdefault(extra.group(1), [])
        if name.group(1) == "lanekit":  # an extra that brings others
            others.setdefault(extra.group(1), []).extend(re.split(r"\s*,\s*", name.group(2) or ""))
        # A requirement for other Pythons only does not count against this one.
        elif "python_version" not in requirement and not is_installed(name.group(1)):
            names.append(name.group(1))

    def all_of(extra: str) -> list[str]:
        found = [*missing.get(extra, ())]
        for other in others.get(extra, ()):
            found += all_of(other)
        return list(dict.fromkeys(found))

    return {extra: all_of(extra) for extra in missing}


def is_installed(distribution: str) -> bool:
    """Whether a distribution is in this environment."""
    try:
        version(distribution)
    except PackageNotFoundError:
        return False
    return True


def check_qt() -> Finding:
    """Where a window would open."""
    obstacle = obstacle_to_windows(os.environ)
    if obstacle is None:
        chosen = candidates(os.environ)[0]
        return Finding("qt platform", "ok", f"PyQt6 {version('PyQt6')}, {chosen}")
    instead = "`lanekit view RUN` shows runs in the terminal"
    remedy = f"{obstacle.remedy}; until then {instead}" if obstacle.remedy else instead
    return Finding("qt platform", "note", obstacle.found, remedy)


CHECKS: tuple[Callable[[], Finding], ...] = (
    check_python,
    check_core,
    check_atomics,
    check_futex,
    check_cores,
    check_shared_memory,
    check_leftovers,
    check_state,
    check_store,
    check_fast_lane,
    check_extras,
    check_qt,
)
