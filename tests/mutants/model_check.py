"""Ask the memory models about one changed core: exit status 1 when one of them no longer holds.

usage: python -m tests.mutants.model_check CSRC
"""

from __future__ import annotations

import sys
import tempfile
from functools import cached_property
from pathlib import Path

from tests.models import relacy
from tests.models.source import Mutant, Source, SourceError


class ChangedSource(Source):
    """A core whose statements may have moved: what tests.models would swap itself is left alone."""

    @cached_property
    def mutants(self) -> list[Mutant]:
        """Return none: the source is one already."""
        return []


def main() -> int:
    """Search every model once."""
    with tempfile.TemporaryDirectory(prefix="lanekit-mutant-") as directory:
        try:
            program = relacy.build(ChangedSource(Path(sys.argv[1])), Path(directory))
            for model in relacy.models(program):
                outcome = relacy.run(program, model)
                if not outcome.passed:
                    print(f"{model}: {outcome.found}")
                    return 1
        except SourceError as problem:
            # The models were written for another shape of the source: that says nothing about it.
            print(f"no answer: {str(problem).splitlines()[0]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
