"""The house rules that a reader relies on: who imports whom, what is typed, what is labelled."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import lanekit
from patience import patience

PACKAGE = Path(lanekit.__file__).parent

# Each part may import from the parts before it, and from its own. A part in braces shares a level.
LEVELS: list[set[str]] = [
    {"errors", "_native", "_stress"},
    {"_core"},
    {"segments"},
    {"fast", "command", "trajectory"},
    {"step"},  # its segment carries the command lane
    {"", "engine", "slow"},  # "": the package's own __init__
    {"worker"},
    {"integrations"},
    {"viewer"},
    {"demo", "stress"},
    {"cli"},
    {"__main__"},
]


def level(part: str) -> int:
    return next(i for i, parts in enumerate(LEVELS) if part in parts)


def part_of(module: str) -> str:
    pieces = module.split(".")
    return pieces[1] if len(pieces) > 1 else ""


@cache
def imports_at_run_time(path: Path) -> set[str]:
    """Modules that a file imports, those under `if TYPE_CHECKING` left out."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            node.body = []
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            # `from lanekit import errors` imports a module, `from lanekit import X` the package.
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                is_module = (PACKAGE.parent / name.replace(".", "/")).with_suffix(".py").exists()
                found.add(name if is_module else node.module)
    return found


def sources() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def test_imports_go_one_way() -> None:
    assert len(sources()) > 10
    for path in sources():
        relative = path.relative_to(PACKAGE).with_suffix("")
        importer = "" if relative.parts == ("__init__",) else relative.parts[0]
        for module in imports_at_run_time(path):
            if module.split(".")[0] != "lanekit":
                continue
            imported = part_of(module)
            assert imported == importer or level(imported) < level(importer), (
                f"{relative} imports {module}"
            )


def test_only_the_core_module_touches_the_extension() -> None:
    importers = [p.name for p in sources() if "lanekit._native" in imports_at_run_time(p)]
    assert importers == ["_core.py"]


def test_the_core_knows_nothing_of_python(root: Path) -> None:
    sources = [path for path in (root / "csrc").rglob("*") if path.suffix in (".c", ".h", ".cpp")]
    assert len(sources) > 10
    for path in sources:
        assert "Python.h" not in path.read_text(encoding="utf-8"), path


# What a part may import beyond the standard library, numpy and lanekit: its extra.
EXTRAS: dict[str, set[str]] = {
    "slow": {"apsw", "google", "grpc", "grpc_health", "grpc_reflection", "msgspec"}
    | {"pyarrow", "tensorboard", "wandb"}
    | {"PIL", "cryptography", "psycopg"}
    | {"starlette", "uvicorn", "h11"},  # the browser's page
    "integrations": {"gymnasium", "pettingzoo", "pygame"}
    | {"envpool", "jax", "ray", "sbx", "stable_baselines3"}
    | {"tensordict", "tianshou", "torch", "torchrl", "xuance"},
    "engine": {"mujoco"},
    "demo": {"gymnasium"},
    "viewer": {"PyQt6", "av"},
}


def test_each_part_imports_what_its_extra_brings_and_no_more() -> None:
    for path in sources():
        relative = path.relative_to(PACKAGE)
        allowed = set(sys.stdlib_module_names) | {"numpy", "lanekit"}
        allowed |= EXTRAS.get(relative.parts[0], set())
        roots = {module.split(".")[0] for module in imports_at_run_time(path)}
        assert roots <= allowed, f"{relative} imports {roots - allowed}"


@pytest.mark.parametrize(
    "module",
    [
        *("lanekit", "lanekit.cli", "lanekit.slow.emit", "lanekit.slow.control"),
        *("lanekit.worker", "lanekit.integrations", "lanekit.command"),
    ],
)
def test_what_needs_no_extra_imports_none(module: str) -> None:
    heavy = set().union(*EXTRAS.values()) | {"PyQt6", "torch"}
    code = f"import sys, {module}; print(*({heavy!r} & set(sys.modules)))"
    command = [sys.executable, "-c", code]
    answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=patience())
    assert answer.stdout.split() == []


@pytest.mark.parametrize(
    "module",
    [
        *("lanekit", "lanekit.cli", "lanekit.slow.emit", "lanekit.slow.control"),
        "lanekit.worker",
    ],
)
def test_what_a_process_without_lanes_needs_loads_neither_numpy_nor_the_core(module: str) -> None:
    code = f"import sys, {module}; print(*({{'numpy', 'lanekit._native'}} & set(sys.modules)))"
    command = [sys.executable, "-c", code]
    answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=patience())
    assert answer.stdout.split() == []


def test_a_name_that_is_not_there_is_said_so() -> None:
    with pytest.raises(AttributeError, match="no attribute 'FastLanWriter'"):
        lanekit.FastLanWriter  # type: ignore[attr-defined]  # noqa: B018
    assert {"FastLaneWriter", "__version__", "errors"} <= set(dir(lanekit))
    assert lanekit.segments.segment_name is lanekit.segment_name


def test_every_public_name_is_there_and_documented() -> None:
    for name in lanekit.__all__:
        thing = getattr(lanekit, name)
        assert name == "__version__" or thing.__doc__, name
    assert (PACKAGE / "py.typed").exists()


def test_all_exceptions_have_one_root() -> None:
    from lanekit import errors

    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    assert len(kinds) > 10
    assert all(issubclass(kind, lanekit.LanekitError) for kind in kinds)


def check_atomics(root: Path, directory: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(root / "tools" / "check_atomics.py"), str(directory)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_label_checker_catches_each_kind_of_omission(root: Path, tmp_path: Path) -> None:
    def verdict(name: str, old: str, new: str) -> str:
        for source in (root / "csrc").glob("lk_*.[ch]"):
            text = source.read_text(encoding="utf-8")
            if source.name == name:
                assert old in text
                text = text.replace(old, new)
            (tmp_path / source.name).write_text(text, encoding="utf-8")
        return check_atomics(root, tmp_path).stdout

    assert verdict("lk_seqlock.h", "[Q1]", "[Q1]") == ""
    assert "without a label" in verdict("lk_wait.h", "    /* [W2] full", "    /* a full")
    release = "atomic_store_explicit(seq, even, memory_order_release)"
    weakened = verdict("lk_seqlock.h", release, release.replace("release", "relaxed"))
    assert "[Q1]: only acquire; its other side is missing" in weakened
    assert "explained, but no access" in verdict("lk_guard.h", "*   [G1] state", "*   [G9] state")
