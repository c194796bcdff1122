"""Judge mutants one by one: what catches each, or that nothing does."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from tests.patience import patience

from .generation import Mutant
from .plans import Check, plan
from .workshop import Limit, Original, Outcome, Tree, WorkshopError

# What pytest prints about each test that did not pass.
FAILED = re.compile(r"^(?:FAILED|ERROR) (tests/\S+\.py\S*)", re.M)
# What a compiler or a linker says about the source.
COMPLAINT = re.compile(r":\d+:\d+: (fatal )?error: |undefined reference")

CAUGHT, INVALID, IDENTICAL, SURVIVED = "caught", "invalid", "identical", "survived"


@dataclass(frozen=True)
class Verdict:
    """What became of a mutant."""

    name: str
    result: str  # caught, invalid, identical or survived
    check: str = ""  # what caught it
    test: str = ""
    detail: str = ""
    seconds: float = 0


class ModelVerdicts:
    """What tests.models says about weakened orders: it tries every one of them in one run."""

    def __init__(self, root: Path, place: Path) -> None:
        self.root = root
        self.answer = place / "models.json"
        self.caught: dict[tuple[str, int, str], str] = {}

    def ask(self) -> None:
        """Run the models over the core and all its weakened orders."""
        command = [sys.executable, "-m", "tests.models", "--fast", "--json", str(self.answer)]
        self.answer.unlink(missing_ok=True)
        done = subprocess.run(
            command,
            cwd=self.root,
            capture_output=True,
            text=True,
            timeout=patience(1800),
            check=False,
        )
        if not self.answer.exists():
            raise RuntimeError(f"the memory models gave no answer:\n{done.stdout}{done.stderr}")
        report: dict[str, Any] = json.loads(self.answer.read_text("utf-8"))
        for row in report["mutants"]:
            if row["caught"]:
                file, _, _, line = (row["access"].split(":") + [""] * 4)[:4]
                weaker = row["mutation"].removeprefix("→ ").replace("removed", "relaxed")
                first = row["caught"][0]
                words = f"{first['checker']} {first['model']}"
                self.caught[file, int(line or 0), weaker] = words

    def find(self, mutant: Mutant) -> str:
        """Return the model that catches a weakened order, or nothing."""
        weaker = mutant.edits[0][2].decode().removeprefix("memory_order_")
        return self.caught.get((Path(mutant.file).name, mutant.line, weaker), "")


class Judge:
    """Compiles and checks mutants in one tree."""

    def __init__(
        self, original: Original, models: ModelVerdicts, tree: Tree, quick: bool = False
    ) -> None:
        self.original = original
        self.quick = quick
        self.models = models
        self.tree = tree

    def judge(self, mutant: Mutant) -> Verdict:
        """Apply a mutant and run its file's checks until one fails."""
        if mutant.operator == "order":
            model = self.models.find(mutant)
            if model:
                return Verdict(mutant.name, CAUGHT, "memory models", model)
        text = (self.tree.root / mutant.file).read_bytes()
        self.tree.mutate(mutant.file, mutant.apply(text))
        targets, _ = self.tree.objects(mutant.file)
        problem = self.tree.build("release", targets)
        if problem:
            return Verdict(mutant.name, INVALID, detail=_first_error(problem))
        code = [path.read_bytes() for path in self.tree.objects(mutant.file)[1]]
        compiled_here = code != self.original.code(mutant.file)
        if not compiled_here and self._cross_code(mutant) == self.original.cross_code(mutant.file):
            return Verdict(mutant.name, IDENTICAL)
        checks = plan(mutant.file, compiled_here)
        for check in checks[:1] if self.quick else checks:
            verdict = self._check(mutant, check)
            if verdict is not None:
                return verdict
        return Verdict(mutant.name, SURVIVED)

    def _cross_code(self, mutant: Mutant) -> list[bytes]:
        return self.tree.cross_objects(mutant.file, self.tree.place / "build" / "cross.o")

    def _check(self, mutant: Mutant, check: Check) -> Verdict | None:
        limits = [self.original.limit(check, name) for name, _ in self.tree.commands(check)]
        problem = self.tree.prepare(check)
        if problem:
            return Verdict(mutant.name, INVALID, check.name, detail=_first_error(problem))
        for (name, command), limit in zip(self.tree.commands(check), limits, strict=True):
            outcome = self.tree.run(check, command, limit)
            ended = not outcome.detail.startswith("no end")
            if not ended and not self.original.is_quick(check, name, limit):
                # The machine is busy: the mutant gets another chance, and more time.
                longer = Limit(3 * limit.seconds, limit.processor)
                outcome = self.tree.run(check, command, longer)
            if not outcome.passed and self._is_chance(check, outcome, limit):
                # The mutant is innocent of that failure; the tests after it have not run yet.
                outcome = self.tree.run(check, command, limit)
                if self._is_chance(check, outcome, limit):
                    continue
            if not outcome.passed:
                detail = outcome.detail[-400:]
                return Verdict(mutant.name, CAUGHT, check.name, name, detail, outcome.seconds)
        return None

    def _is_chance(self, check: Check, outcome: Outcome, limit: Limit) -> bool:
        """Return whether the Python test that failed passes when it is run again by itself."""
        failed = FAILED.findall(outcome.detail)
        if outcome.passed or check.kind != "pytest" or not failed:
            return False
        again = Check("pytest", tuple(failed))
        return self.tree.run(again, self.tree.commands(again)[0][1], limit).passed


def _first_error(words: str) -> str:
    """Return what the compiler or the linker has against a mutant."""
    for line in words.splitlines():
        if COMPLAINT.search(line):
            return line[:300]
    # Not the mutant's fault: no memory, no compiler any more, a broken build tree.
    raise WorkshopError(f"a build failed, and not because of the source:\n{words[-2000:]}")


class Memory:
    """Verdicts of earlier runs on the same source, so that an interrupted run goes on."""

    def __init__(self, path: Path, root: Path, files: list[str]) -> None:
        digest = sha256()
        for file in files:
            digest.update(file.encode() + (root / file).read_bytes())
        self.source = digest.hexdigest()
        self.path = path
        self.verdicts: dict[str, Verdict] = {}
        if path.exists():
            for line in path.read_text("utf-8").splitlines():
                raw = json.loads(line)
                if raw.pop("source") == self.source:
                    self.verdicts[raw["name"]] = Verdict(**raw)

    def add(self, verdict: Verdict) -> None:
        """Remember a verdict."""
        self.verdicts[verdict.name] = verdict
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"source": self.source, **asdict(verdict)}) + "\n")
