"""Which checks a file's mutants have to pass, the cheapest first."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.models.relacy import UNITS


@dataclass(frozen=True)
class Check:
    """One step of a plan: C tests of a preset, Python tests, or the memory models."""

    kind: str  # ctest, pytest or models
    tests: tuple[str, ...]
    preset: str = "release"

    @property
    def name(self) -> str:
        """Return what the report calls it."""
        if self.kind == "ctest":
            return f"C tests, {self.preset}"
        return {"pytest": "Python tests", "models": "memory models"}[self.kind]


FRAME = ("frame", "frame_edges", "misuse", "geometry", "places", "goodbye", "order", "processes")
FRAME += ("frame_threads", "idle")
STEP = ("step", "step_edges", "geometry", "places", "goodbye", "step_processes", "cmd", "idle")
RINGS = ("ring", "cmd", "goodbye", "cmd_threads", "cmd_kills", "idle")
TRAJECTORY = ("traj", "traj_edges", "geometry", "places", "goodbye", "traj_threads")
TRAJECTORY += ("traj_processes", "idle")
SEGMENT = (
    "lock",
    "places",
    "file_races",
    "frame",
    "step",
    "traj",
    "misuse",
    "processes",
    "step_processes",
    "traj_processes",
)

FAST_LANE = ("fast_lane", "fast_lane_calls", "fast_lane_lifecycle", "fast_lane_garbage")
FAST_LANE_SLOW = ("fast_lane_threads", "fast_lane_corruption", "fast_lane_cuts", "fast_lane_limits")
STEPS = ("step_lane", "step_arguments", "step_endings", "step_layout", "step_pages", "step_regions")
STEPS += ("step_values", "step_faults")
STEPS_SLOW = ("step_deaths", "step_corruption")
COMMANDS = ("command/test_command_calls", "command/test_command_damage")
COMMANDS += ("command/test_command_errors",)
COMMANDS_SLOW = ("command/test_command_processes", "command/test_command_streams")
RECORDS = ("trajectory/test_trajectory_lane", "trajectory/test_trajectory_records")
RECORDS += ("trajectory/test_trajectory_batches", "trajectory/test_trajectory_layout")
RECORDS_SLOW = ("trajectory/test_trajectory_kills", "trajectory/test_landing")
EXTENSION = ("extension_cases", "extension_memory")
SEGMENTS = ("segments", "segment_trust", "fast_lane_lifecycle", "fast_lane_garbage")
SEGMENTS_SLOW = ("process_lifecycle", "step_deaths", "fast_lane_corruption", "fast_lane_limits")
SEGMENTS_SLOW += ("trajectory/test_trajectory_kills",)

# The C tests that ThreadSanitizer can judge: they share one mapping between threads.
UNDER_TSAN = ("order", "misuse", "cmd_threads", "traj_threads", "copy", "wait")


@dataclass(frozen=True)
class Area:
    """The tests that know a group of files."""

    c_tests: tuple[str, ...]
    python_tests: tuple[str, ...]
    slow_python_tests: tuple[str, ...] = ()
    slow_c_tests: tuple[str, ...] = ()


# By the beginning of a file's name; the longest that fits counts.
AREAS = {
    "lk_frame": Area(FRAME, FAST_LANE, FAST_LANE_SLOW),
    "lk_step": Area(STEP, STEPS, STEPS_SLOW),
    "lk_ring": Area(RINGS, COMMANDS, COMMANDS_SLOW),
    "lk_cmd": Area(RINGS, COMMANDS, COMMANDS_SLOW),
    "lk_traj": Area(TRAJECTORY, RECORDS, RECORDS_SLOW, ("traj_steps",)),
    "lk_segment": Area(SEGMENT, SEGMENTS, SEGMENTS_SLOW),
    "lk_lock": Area(SEGMENT, SEGMENTS, SEGMENTS_SLOW),
    "lk_platform": Area((*SEGMENT, "name", "copy", "wait"), SEGMENTS, SEGMENTS_SLOW),
    "lk_signals": Area(("signals", *SEGMENT), SEGMENTS, SEGMENTS_SLOW),
    "lk_layout": Area(SEGMENT, SEGMENTS, SEGMENTS_SLOW),
    "lk_guard": Area(
        ("misuse", "frame_edges", "step_edges", "traj_edges", "cmd", "goodbye", "idle"),
        ("fast_lane_threads", "fast_lane_lifecycle"),
    ),
    "lk_wait": Area(("wait", "order", "frame", "step", "cmd", "goodbye"), FAST_LANE, STEPS),
    "lk_spin": Area(("spin", "wait", "step", "traj"), STEPS),
    "lk_seqlock": Area(("order", "frame", "frame_threads"), FAST_LANE),
    "lk_copy": Area(
        ("copy", "copy_vectors_0", "copy_vectors_1", "frame", "traj"), ("machine_code", *FAST_LANE)
    ),
    "lk_cpu": Area(("copy", "frame"), ("pixels", *FAST_LANE)),
    "lk_name": Area(("name",), ("segments",)),
    "lk_pixels": Area(("pixels",), ("pixels",)),
    "frame": Area((), (*FAST_LANE, *EXTENSION), FAST_LANE_SLOW),
    "trajectory": Area((), (*RECORDS, *EXTENSION), RECORDS_SLOW),
    "calls": Area((), (*FAST_LANE, *RECORDS, *EXTENSION), RECORDS_SLOW),
}
# Files with code that only another processor, or another build, compiles.
FOR_OTHER_MACHINES = ("lk_copy.c", "lk_platform.h", "lk_cpu.h", "lk_cpu.c")


def area_of(file: str) -> Area:
    """Return the tests that know a file."""
    name = Path(file).name
    fitting = [prefix for prefix in AREAS if name.startswith(prefix)]
    if not fitting:
        raise KeyError(f"{file}: no tests are named for it; add it to AREAS in {__name__}")
    return AREAS[max(fitting, key=len)]


def _paths(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"tests/{n}.py" if "/" in n else f"tests/test_{n}.py" for n in names)


def plan(file: str, compiled_here: bool) -> list[Check]:
    """Return the checks for mutants of a file, in the order in which they are run.

    compiled_here: whether the mutant changes this machine's code at all. One that does not, such as
    a weaker order that x86 never needs, is left to checks that see other machines, or the source.
    """
    area = area_of(file)
    checks = []
    if compiled_here:
        if area.c_tests:
            checks.append(Check("ctest", area.c_tests))
        checks.append(Check("pytest", _paths(area.python_tests)))
    elif Path(file).name in FOR_OTHER_MACHINES:
        emulated = tuple(test for test in area.c_tests if "vectors" not in test)
        checks.append(Check("ctest", emulated, "aarch64"))
    if file.startswith("csrc/"):
        checks.append(Check("pytest", ("tests/test_machine_code.py",)))
        threaded = tuple(test for test in area.c_tests if test in UNDER_TSAN)
        if threaded:
            checks.append(Check("ctest", threaded, "tsan"))
        if Path(file).name in {name for name, _ in UNITS}:
            checks.append(Check("models", ()))
    if compiled_here:
        if area.c_tests:
            checks.append(Check("ctest", area.c_tests, "asan"))
        if area.slow_c_tests:
            checks.append(Check("ctest", area.slow_c_tests))
        if area.slow_python_tests:
            checks.append(Check("pytest", _paths(area.slow_python_tests)))
    return checks
