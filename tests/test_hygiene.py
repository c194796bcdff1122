"""The tests themselves: none times anything, and every limit grows with the machine's load."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import patience
from working_programs import working

TESTS = Path(__file__).parent
SHORTEST = 5.0
"""A limit of fewer seconds is what a test is about, or how long it looks away from a loop."""
MUST_COME = {"run", "check_call", "check_output", "communicate", "join", "waitUntil", "waitSignal"}
"""Waits of tests, never of what is tested: for these no number is right."""
FIRST_IS_LIMIT = {"communicate", "join", "wait", "wait_actions", "recv", "get", "poll", "result"}
FIRST_IS_LIMIT |= {"exception", "settimeout"}
MILLISECONDS = {"qtbot.wait"}
CLOCKS = {"monotonic", "perf_counter", "process_time", "thread_time", "time"}
CLOCKS |= {f"{name}_ns" for name in CLOCKS}

Finding = tuple[int, str]


def calls(tree: ast.AST) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func).rpartition(".")[2], node


def number(node: ast.expr, constants: dict[str, float]) -> float | None:
    """The value of a number that is written out, here or as a constant of some test's module."""
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return float(node.value)
    return constants.get(node.id) if isinstance(node, ast.Name) else None


def constants_of(tree: ast.Module) -> dict[str, float]:
    found = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            value = number(node.value, {})
            if value is not None:
                found[node.targets[0].id] = value
    return found


def fixed_limits(tree: ast.Module, constants: dict[str, float]) -> Iterator[Finding]:
    """Find waits whose limit no load stretches, also in programs that are written as texts."""
    for name, call in calls(tree):
        limits = [k.value for k in call.keywords if k.arg and k.arg.endswith("timeout")]
        if name in FIRST_IS_LIMIT and ast.unparse(call.func) not in MILLISECONDS:
            limits += call.args[:1]
        for limit in limits:
            value = number(limit, constants)
            if value is not None and (name in MUST_COME or SHORTEST <= value <= 1000):
                yield limit.lineno, f"{name}() waits for {value:g} s: use patience({value:g})"
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            for found in re.findall(r"\btimeout=([0-9.]+)", node.value):
                if float(found) >= SHORTEST:
                    yield node.lineno, f"a program waits for {found} s: let its parent do that"


def example_deadlines(tree: ast.Module, _: dict[str, float]) -> Iterator[Finding]:
    """Find limits to how long an example of hypothesis may take."""
    for name, call in calls(tree):
        for keyword in call.keywords:
            given = name in ("settings", "register_profile") and keyword.arg == "deadline"
            if given and ast.unparse(keyword.value) != "None":
                yield call.lineno, "an example has a deadline: leave it out"


def asserted_times(tree: ast.Module, _: dict[str, float]) -> Iterator[Finding]:
    """Find asserts about how much time has passed; that one moment is after another is fine."""

    def is_clock(call: ast.Call) -> bool:
        return not call.args and ast.unparse(call.func).rpartition(".")[2] in CLOCKS

    def reads_clock(node: ast.AST) -> bool:
        return any(is_clock(call) for _, call in calls(node))

    def reckons(node: ast.AST, moments: set[str], spans: set[str]) -> bool:
        """Whether this is a moment plus or minus something, or a name for that."""
        for part in ast.walk(node):
            if isinstance(part, ast.Name) and part.id in spans:
                return True
            if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Add | ast.Sub):
                names = {each.id for each in ast.walk(part) if isinstance(each, ast.Name)}
                if reads_clock(part) or names & moments:
                    return True
        return False

    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        moments: set[str] = set()
        spans: set[str] = set()
        for node in ast.walk(function):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                if reckons(node.value, moments, spans):
                    spans.add(node.targets[0].id)
                elif isinstance(node.value, ast.Call) and is_clock(node.value):
                    moments.add(node.targets[0].id)
        for node in ast.walk(function):
            if isinstance(node, ast.Assert) and reckons(node.test, moments, spans):
                yield node.lineno, "an assert about elapsed time: assert the order of events"


RULES: list[Callable[[ast.Module, dict[str, float]], Iterator[Finding]]]
RULES = [fixed_limits, example_deadlines, asserted_times]


@pytest.fixture(scope="module")
def trees() -> dict[Path, ast.Module]:
    """All modules of the tests."""
    return {path: ast.parse(path.read_text("utf-8")) for path in sorted(TESTS.rglob("*.py"))}


@pytest.mark.once
@pytest.mark.parametrize("rule", RULES)
def test_no_test_depends_on_how_fast_the_machine_is(
    rule: Callable[..., Iterator[Finding]], trees: dict[Path, ast.Module]
) -> None:
    constants: dict[str, float] = {}
    for tree in trees.values():
        constants |= constants_of(tree)
    bad = [
        f"{path.relative_to(TESTS)}:{line}: {what}"
        for path, tree in trees.items()
        for line, what in rule(tree, constants)
        if path != Path(__file__)  # which has examples of all this
    ]
    assert bad == []


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        (fixed_limits, "subprocess.run(command, timeout=60)"),
        (fixed_limits, "subprocess.run(command, timeout=0.5)"),
        (fixed_limits, "process.communicate(timeout=1)"),
        (fixed_limits, "process.wait(30)"),
        (fixed_limits, "thread.join(2)"),
        (fixed_limits, "thread.join(LONG)"),
        (fixed_limits, "lane.recv(60.0)"),
        (fixed_limits, "client.call(method, timeout=LONG)"),
        (fixed_limits, "program = 'client.step(timeout=60)'"),
        (example_deadlines, "settings(deadline=200)"),
        (example_deadlines, "settings(deadline=timedelta(seconds=1))"),
        (asserted_times, "assert time.monotonic() - begun < 1"),
        (asserted_times, "assert time.monotonic() - begun >= 0.05"),
        (asserted_times, "begun = perf_counter(); assert 1 <= n <= 2 + (perf_counter() - begun)"),
        (asserted_times, "end = time.monotonic() + 9; assert time.monotonic() < end"),
        (asserted_times, "a = time.time(); act(); b = time.time(); assert b - a < 3"),
        (asserted_times, "a = time.time(); act(); took = time.time() - a; assert took < 3"),
    ],
)
def test_what_depends_on_the_machine_is_found(
    rule: Callable[..., Iterator[Finding]], code: str
) -> None:
    assert list(rule(ast.parse(f"def test():\n    {code}"), {"LONG": 60.0}))


@pytest.mark.parametrize(
    "code",
    [
        "subprocess.run(command, timeout=patience(60))",
        "thread.join()",
        "assert not reader.wait(0.02)",
        "qtbot.wait(150)",
        "client.call(method, timeout=1e300)",
        "settings(max_examples=20, deadline=None)",
        "before = time.monotonic_ns(); act(); assert before <= stamp <= time.monotonic_ns()",
        "while time.monotonic() < begun + 1: act()",
    ],
)
def test_what_is_the_same_on_any_machine_is_let_alone(code: str) -> None:
    tree = ast.parse(f"def test():\n    {code}")
    assert [found for rule in RULES for found in rule(tree, {"LONG": 60.0})] == []


# --- what tests wait with, and look for -----------------------------------------------------------


def test_patience_grows_with_the_load(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("LANEKIT_TEST_PATIENCE", raising=False)
    limits = []
    for line in ("0.00 0.0 0.0 1/99 7", "0.00 0.0 0.0 50/99 7", "80.00 0.0 0.0 1/99 7"):
        (tmp_path / "loadavg").write_text(line)
        monkeypatch.setattr(patience, "_LOAD", tmp_path / "loadavg")
        limits.append(patience.patience(10))
    assert 10 < limits[0] < limits[1] < limits[2]
    monkeypatch.setenv("LANEKIT_TEST_PATIENCE", "3")
    assert patience.patience(10) == 30
    assert patience.patience_ms(10) == 30_000


def test_what_never_comes_is_not_waited_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANEKIT_TEST_PATIENCE", "1")
    with pytest.raises(AssertionError, match="the moon"):
        patience.until(lambda: False, "the moon", seconds=0.01)
    assert patience.until(lambda: "it", seconds=0) == "it"


def test_a_program_that_is_found_but_does_not_run_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for directory, status in (("shim", 1), ("real", 0)):
        program = tmp_path / directory / "lanekit-test-compiler"
        program.parent.mkdir()
        program.write_text(f"#!/bin/sh\nexit {status}\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'shim'}{os.pathsep}{os.environ['PATH']}")
    working.cache_clear()
    assert working("lanekit-test-compiler") is None
    monkeypatch.setenv("PATH", f"{tmp_path / 'shim'}{os.pathsep}{tmp_path / 'real'}")
    working.cache_clear()
    assert working("lanekit-test-compiler") == str(tmp_path / "real" / "lanekit-test-compiler")
    working.cache_clear()
