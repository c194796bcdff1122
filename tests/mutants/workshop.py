"""Build trees in which mutants are compiled and checked, apart from the checkout and the machine.

Each check runs in namespaces of its own, with its own /dev/shm, process ids and home directory: a
mutant may leave segments behind, signal the wrong process or never end.
"""

from __future__ import annotations

import filecmp
import functools
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy
from tests.patience import patience

from .plans import Check

_RUN_INSIDE = 'mount -t tmpfs -o size=2g tmpfs /dev/shm && { "$@"; exit $?; }'
_NAMESPACES = ["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
_CROSS = ["aarch64-linux-gnu-gcc", "-std=c11", "-O2", "-D_GNU_SOURCE", "-w", "-c"]
# A mutant that fills the memory must not take the machine with it; sanitizers map terabytes.
_PRIVATE_MEMORY = 8 << 30


class WorkshopError(Exception):
    """The original cannot be built, or does not pass its own checks."""


@dataclass(frozen=True)
class Outcome:
    """How one check ended."""

    passed: bool
    seconds: float
    detail: str = ""


@dataclass(frozen=True)
class Limit:
    """How long a program may take: by the clock, and by each of its processes on a processor."""

    seconds: float
    processor: int


@functools.cache
def isolation() -> list[str]:
    """Return the command that gives a program namespaces of its own."""
    for extra in ([], ["--user", "--map-root-user"]):
        command = ["unshare", *extra, *_NAMESPACES, "sh", "-c", _RUN_INSIDE, "sh"]
        if subprocess.run([*command, "true"], capture_output=True, check=False).returncode == 0:
            return command
    raise WorkshopError(
        "mutants may signal or remove anything, so they run in namespaces of their own, and "
        "`unshare --mount --pid` does not work here; run as root or allow user namespaces"
    )


def _run(
    command: Sequence[str | Path], cwd: Path, limit: float, environment: dict[str, str]
) -> tuple[int | None, str]:
    """Run a command and return its exit status, None after `limit` seconds, and its last words."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            [str(part) for part in command],
            cwd=cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        status: int | None
        try:
            status = process.wait(limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            status = None
        output.seek(max(output.seek(0, os.SEEK_END) - 4000, 0))
        return status, output.read().decode(errors="replace")


def _load() -> float:
    """Return how many times slower than alone a program may be now."""
    return min(max(1.0, os.getloadavg()[0] / len(os.sched_getaffinity(0))), 4.0)


class Tree:
    """A copy of the checkout with its own builds, in which one file may be mutated."""

    def __init__(self, root: Path, place: Path) -> None:
        self.root = root
        self.place = place
        self.changed: str | None = None  # the file that differs from the checkout
        self.presets: set[str] = set()
        self.environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("LANEKIT_", "PYTEST_", "PYTHON"))
        }
        tools = Path(sys.executable).parent
        self.environment["PATH"] = f"{tools}:{self.environment['PATH']}"
        self.environment["OPENBLAS_NUM_THREADS"] = "1"

    # --- the copy --------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Copy what has changed in the checkout; files that stay the same keep their times."""
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=self.root,
            capture_output=True,
            check=True,
        )
        names = {name for name in listed.stdout.decode().split("\0") if name}
        for name in names:
            source, copy = self.root / name, self.place / name
            if source.is_file() and not (copy.is_file() and filecmp.cmp(source, copy, False)):
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, copy)
                shutil.copymode(source, copy)
        for folder in ("csrc", "python/ext", "tests"):
            for copy in (self.place / folder).rglob("*.[chp]*"):
                name = copy.relative_to(self.place).as_posix()
                if "__pycache__" not in name and name not in names:
                    copy.unlink()
        self.changed = None

    def mutate(self, file: str, text: bytes) -> None:
        """Put a mutant in the place of the original, and the last one's original back."""
        if self.changed is not None and self.changed != file:
            original = (self.root / self.changed).read_bytes()
            (self.place / self.changed).write_bytes(original)
        (self.place / file).write_bytes(text)
        self.changed = file

    # --- building --------------------------------------------------------------------------------

    def _configure(self, preset: str) -> None:
        if preset in self.presets:
            return
        command = ["cmake", "--preset", preset, "-G", "Ninja"]
        command += ["-DCMAKE_POSITION_INDEPENDENT_CODE=ON", f"-DPython_EXECUTABLE={sys.executable}"]
        status, words = _run(command, self.place, 300, self.environment)
        if status != 0:
            raise WorkshopError(f"cmake --preset {preset}:\n{words}")
        self.presets.add(preset)

    def build(self, preset: str, targets: Sequence[str]) -> str:
        """Build targets of a preset and return nothing, or what the compiler says."""
        self._configure(preset)
        command = ["ninja", "-C", f"build/{preset}", *targets]
        status, words = _run(command, self.place, 900 * _load(), self.environment)
        return "" if status == 0 else words or "the compiler did not end"

    @property
    def _release(self) -> Path:
        return self.place / "build" / "release"

    def objects(self, file: str) -> tuple[list[str], list[Path]]:
        """Return the targets that a file's own machine code is in, and its objects."""
        if file.startswith("python/"):
            folder, target = "CMakeFiles/lanekit_python_ext.dir", "lanekit_python_ext"
        else:
            folder, target = "CMakeFiles/lanekit.dir", "lanekit"
        if file.endswith(".c"):
            name = f"{folder}/{file}.o"
            return [name], [self._release / name]
        targets = [target, "lanekit_python_ext"] if target == "lanekit" else [target]
        folders = [self._release / f"CMakeFiles/{name}.dir" for name in targets]
        return targets, sorted(path for one in folders for path in one.rglob("*.o"))

    def cross_objects(self, file: str, out: Path) -> list[bytes]:
        """Return the machine code for 64-bit ARM of a file, or of all that a header may be in."""
        if file.startswith("python/"):
            return []  # it has no orders and no assembly: this machine's code says it all
        changed = self.place / file
        sources = [changed] if file.endswith(".c") else sorted((self.place / "csrc").glob("*.c"))
        codes = []
        for source in sources:
            done = subprocess.run(
                [*_CROSS, f"-I{self.place / 'csrc'}", "-o", out, source],
                capture_output=True,
                check=False,
            )
            codes.append(out.read_bytes() if done.returncode == 0 else done.stderr)
        return codes

    # --- Python ----------------------------------------------------------------------------------

    @property
    def python(self) -> Path:
        """The interpreter whose `lanekit` is this tree's."""
        return self.place / "build" / "python" / "bin" / "python"

    def _make_python(self) -> None:
        """Give the tree an interpreter of its own: the developer's packages, but this lanekit."""
        home = self.place / "build" / "python"
        if not self.python.exists():
            subprocess.run(
                [sys.executable, "-m", "venv", "--without-pip", home],
                check=True,
                timeout=patience(120),
            )
        packages = next(home.glob("lib/python*/site-packages"))
        paths = [self.place / "python", Path(sysconfig.get_path("purelib"))]
        (packages / "tree.pth").write_text("".join(f"{path}\n" for path in paths), "utf-8")
        installed = Path(sysconfig.get_path("platlib")) / "lanekit"
        for library in installed.glob("_stress*.so"):
            shutil.copyfile(library, self.place / "python" / "lanekit" / library.name)

    def link_extension(self) -> str:
        """Link the extension out of this tree's objects and return nothing, or what failed."""
        problem = self.build("release", ["lanekit", "lanekit_python_ext"])
        if problem:
            return problem
        binding = self._release / "_native.c"
        compiled = self._release / "_native.o"
        includes = [sysconfig.get_path("include"), numpy.get_include(), self.place / "csrc"]
        newer = compiled.exists() and all(
            (self.place / name).stat().st_mtime <= compiled.stat().st_mtime
            for name in ("csrc/lanekit_api.h", "tools/emit_binding.py")
        )
        steps: list[list[str | Path]] = []
        if not newer:
            self._make_python()
            emit = self.place / "tools" / "emit_binding.py"
            declarations = self.place / "csrc" / "lanekit_api.h"
            steps.append(
                [sys.executable, emit, "lanekit._native", declarations, "lanekit.h", binding]
            )
            flags = [
                "-O1",
                "-fPIC",
                "-w",
                "-DPyInit__native=lk_cffi_module",
                "-D_CFFI_NO_LIMITED_API",
            ]
            steps.append(
                ["cc", *flags, *(f"-I{p}" for p in includes), "-c", binding, "-o", compiled]
            )
        library = self.place / "python" / "lanekit" / "_native.abi3.so"
        calls = sorted(self._release.glob("CMakeFiles/lanekit_python_ext.dir/python/ext/*.o"))
        steps.append(
            ["cc", "-shared", "-o", library, compiled, *calls, self._release / "liblanekit.a"]
        )
        for step in steps:
            status, words = _run(step, self.place, 300, self.environment)
            if status != 0:
                return words or "it did not end"
        return ""

    # --- checks ----------------------------------------------------------------------------------

    def prepare(self, check: Check) -> str:
        """Build what a check runs, and return nothing, or why that does not go."""
        if check.kind == "ctest":
            return self.build(check.preset, [f"test_{test}" for test in check.tests])
        if check.kind == "pytest":
            return self.link_extension()
        return ""

    def commands(self, check: Check) -> list[tuple[str, list[str | Path]]]:
        """Return the programs of a check, with their names."""
        if check.kind == "ctest":
            folder = self.place / "build" / check.preset / "csrc" / "tests"
            emulator = ["qemu-aarch64-static", "-L", "/usr/aarch64-linux-gnu"]
            before: list[str | Path] = [*emulator] if check.preset == "aarch64" else []
            if check.preset == "tsan":
                before = ["setarch", "-R"]
            return [(test, [*before, folder / f"test_{test}"]) for test in check.tests]
        if check.kind == "models":
            program = [sys.executable, "-m", "tests.mutants.model_check", self.place / "csrc"]
            return [("models", program)]
        options = ["-x", "-q", "-p", "no:cacheprovider"]
        return [(",".join(check.tests), [self.python, "-m", "pytest", *options, *check.tests])]

    def run(self, check: Check, command: Sequence[str | Path], limit: Limit) -> Outcome:
        """Run one program of a check."""
        environment = dict(self.environment)
        with tempfile.TemporaryDirectory(prefix="lanekit-mutant-") as home:
            environment |= {"HOME": home, "TMPDIR": home, "TSAN_OPTIONS": "exitcode=66"}
            program = list(command)
            cwd = self.root if check.kind == "models" else self.place
            limits = [f"--cpu={limit.processor}"]
            if check.preset in ("release", "aarch64"):
                limits.append(f"--data={_PRIVATE_MEMORY}")
            begun = time.monotonic()
            whole = [*isolation(), "prlimit", *limits, *program]
            status, words = _run(whole, cwd, limit.seconds, environment)
            seconds = time.monotonic() - begun
        if status is None:
            return Outcome(False, seconds, f"no end after {limit.seconds:.0f} s")
        return Outcome(status == 0, seconds, words)


class Original:
    """The unchanged core: how long each check takes, and the machine code to compare with."""

    def __init__(self, root: Path, place: Path) -> None:
        self.tree = Tree(root, place / "original")
        self.memory = place / "seconds.json"
        self.seconds: dict[str, float] = {}
        self.lock = threading.RLock()
        self.cross: dict[str, list[bytes]] = {}

    def prepare(self) -> None:
        """Build the original, as far as every mutant needs it."""
        self.tree.refresh()
        problem = self.tree.build("release", ["lanekit", "lanekit_python_ext"])
        if problem:
            raise WorkshopError(f"the core does not build:\n{problem}")
        if self.memory.exists():
            self.seconds = json.loads(self.memory.read_text("utf-8"))

    def code(self, file: str) -> list[bytes]:
        """Return this machine's code of a file."""
        return [path.read_bytes() for path in self.tree.objects(file)[1]]

    def cross_code(self, file: str) -> list[bytes]:
        """Return the code for 64-bit ARM of a file."""
        with self.lock:
            if file not in self.cross:
                out = self.tree.place / "build" / "cross.o"
                self.cross[file] = self.tree.cross_objects(file, out)
            return self.cross[file]

    def limit(self, check: Check, name: str) -> Limit:
        """Return how long a mutant may take, by how long the original takes: measured once.

        A program that spins is stopped by its processor time, which the machine's load leaves
        alone. One that sleeps is stopped by the clock, which runs slower under load.
        """
        key = f"{check.kind} {check.preset} {name}"
        with self.lock:
            if key not in self.seconds:
                self.seconds[key] = self._measure(check, name)
                self.memory.write_text(json.dumps(self.seconds, indent=1) + "\n", "utf-8")
        seconds = self.seconds[key]
        return Limit((3 * seconds + 4) * _load(), math.ceil(6 * seconds + 2))

    def _measure(self, check: Check, name: str) -> float:
        problem = self.tree.prepare(check)
        if problem:
            raise WorkshopError(f"{check.name} of the original:\n{problem}")
        command = dict(self.tree.commands(check))[name]
        outcome = self.tree.run(check, command, Limit(600 * _load(), 600))
        if not outcome.passed:
            raise WorkshopError(
                f"the original does not pass {check.name} {name}:\n{outcome.detail}"
            )
        return outcome.seconds

    def is_quick(self, check: Check, name: str, limit: Limit) -> bool:
        """Return whether the original stays far below a limit now, under the present load."""
        with self.lock:
            if self.tree.prepare(check):
                return False
            command = dict(self.tree.commands(check))[name]
            outcome = self.tree.run(check, command, limit)
            return outcome.passed and outcome.seconds < limit.seconds / 2
