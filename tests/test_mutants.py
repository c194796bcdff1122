"""The tool behind `make mutants`: what it generates, and how it remembers what was judged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.core

SNIPPET = b"""
/* A writer. */
int lk_snippet(struct lk_thing *header, uint64_t count) {
    if (count > 8 && header->open) {
        return LK_E_INVALID;
    }
    header->request = count;
    header->length = count + 1;
    lk_streaming_fence(); /* sfence */
    atomic_store_explicit(&header->seq, count, memory_order_release);
    return LK_OK;
}
"""

LISTED = """
[[equivalent]]
file = "lk_snippet.c"
function = "lk_snippet"
operator = "constant"
source = "if (count > «8 → 9» && header->open)"
reason = "nobody counts that far"
"""


@pytest.fixture(scope="module")
def tool() -> Any:
    """The package, where its parser is installed: the developer's environment."""
    pytest.importorskip("tree_sitter_c")
    from tests.mutants import __main__ as main
    from tests.mutants import equivalents, generation, plans

    class Tool:
        """Its modules under one name."""

        def __init__(self) -> None:
            self.main, self.equivalents = main, equivalents
            self.generation, self.plans = generation, plans

        def changes(self, text: bytes = SNIPPET) -> dict[str, str]:
            """Return each mutant's name and marked statement."""
            mutants = generation.generate("csrc/lk_snippet.c", text)
            return {m.name.removeprefix("lk_snippet.c:lk_snippet:"): m.source for m in mutants}

        def only(self, name: str, text: bytes = SNIPPET) -> Any:
            """Return one mutant."""
            mutants = generation.generate("csrc/lk_snippet.c", text)
            (found,) = [m for m in mutants if m.name == f"lk_snippet.c:lk_snippet:{name}"]
            return found

    return Tool()


def test_every_kind_of_fault_is_generated(tool: Any) -> None:
    changes = tool.changes()
    assert changes["order:1"].endswith("«memory_order_release → memory_order_relaxed» );")
    assert changes["boundary:1"] == "if (count «> → >=» 8 && header->open)"
    assert changes["logical:1"] == "if (count > 8 «&& → ||» header->open)"
    assert changes["operand:1"] == "if (count > 8 && «header->open → removed» )"
    assert changes["operand:2"] == "if ( «count > 8 → removed» && header->open)"
    assert changes["negate:1"].startswith("if ( «count > 8 && header->open → !(")
    assert changes["constant:1"] == "if (count > «8 → 9» && header->open)"
    assert changes["constant:2"] == "if (count > «8 → 7» && header->open)"
    assert changes["arithmetic:1"] == "header->length = count «+ → -» 1;"
    assert changes["return:1"] == "return «LK_E_INVALID → LK_OK» ;"
    assert changes["return:2"] == "return «LK_OK → LK_E_SYSTEM» ;"
    removed = [source for name, source in changes.items() if name.startswith("remove:")]
    assert "«lk_streaming_fence(); → removed»" in removed
    assert any(source.startswith("«if (count > 8") for source in removed)
    delayed = [source for name, source in changes.items() if name.startswith("delay:")]
    assert any(
        source.startswith("«header->request = count; → after atomic_st") for source in delayed
    )
    swapped = [source for name, source in changes.items() if name.startswith("swap:")]
    assert any(source.startswith("«lk_streaming_fence(); → after atomic_st") for source in swapped)


def test_a_mutant_changes_its_place_and_nothing_else(tool: Any) -> None:
    logical = tool.only("logical:1").apply(SNIPPET)
    assert b"if (((count > 8 ) || ( header->open)))" in logical
    assert logical.count(b"\n") == SNIPPET.count(b"\n")
    delay = next(
        n for n, source in tool.changes().items() if "«header->request = count; → a" in source
    )
    moved = tool.only(delay).apply(SNIPPET)
    assert moved.index(b"memory_order_release") < moved.index(b"header->request = count;")


def test_names_and_keys_survive_changes_elsewhere(tool: Any) -> None:
    before = tool.only("constant:1")
    longer = b"\n\n\nstatic int lk_other(void) {\n    return 3;\n}\n" + SNIPPET
    after = tool.only("constant:1", longer)
    assert before.line != after.line
    assert (before.name, before.key) == (after.name, after.key)
    in_all = tool.generation.generate("csrc/lk_snippet.c", longer)
    assert len({m.name for m in in_all}) == len({m.key for m in in_all}) == len(in_all)


def test_a_sample_is_the_same_again_and_other_with_another_seed(tool: Any) -> None:
    mutants = tool.generation.generate("csrc/lk_snippet.c", SNIPPET)
    first = tool.main.sample(mutants, 8, "1")
    assert first == tool.main.sample(list(reversed(mutants)), 8, "1")[::-1]
    assert len(first) == 8
    assert first != tool.main.sample(mutants, 8, "2")
    # One that is no longer generated makes room for one, and the others stay.
    without = [m for m in mutants if m != first[0]]
    assert set(first[1:]) < set(tool.main.sample(without, 8, "1"))


def test_a_listed_mutant_is_found_by_its_text(tool: Any) -> None:
    entries = tool.equivalents.parse(LISTED)
    assert tool.equivalents.judge(tool.only("constant:1"), entries).reason.startswith("nobody")
    assert tool.equivalents.judge(tool.only("constant:2"), entries) is None
    starred = tool.equivalents.parse(LISTED.replace("8 → 9", "*"))
    assert tool.equivalents.judge(tool.only("constant:2"), starred) is not None


def test_an_entry_that_names_no_mutant_is_reported(tool: Any) -> None:
    mutants = tool.generation.generate("csrc/lk_snippet.c", SNIPPET)
    gone = LISTED.replace("count > «8", "size > «8")
    entries = tool.equivalents.parse(LISTED + gone)
    assert tool.equivalents.stale(entries, mutants) == entries[1:]


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        (LISTED.replace("reason", "because"), "because"),
        (LISTED.replace('"nobody counts that far"', '" "'), "reason"),
        ('[[equivalent]]\nfile = "a.c"\n', "function"),
    ],
)
def test_an_entry_without_a_reason_or_with_a_slip_is_refused(
    tool: Any, wrong: str, word: str
) -> None:
    with pytest.raises(tool.equivalents.ListError, match=word):
        tool.equivalents.parse(wrong)


def test_the_whole_core_has_mutants_and_a_plan_for_each_file(tool: Any, root: Path) -> None:
    mutants = tool.generation.generate_all(root)
    assert len({m.name for m in mutants}) == len({m.key for m in mutants}) == len(mutants)
    assert len(mutants) > 3000
    for file in {m.file for m in mutants}:
        for check in tool.plans.plan(file, compiled_here=True):
            for test in check.tests:
                c_test = root / "csrc" / "tests" / f"test_{test}.c"
                vectors = root / "csrc" / "tests" / f"test_{test.split('_vectors')[0]}.c"
                assert (root / test).exists() or c_test.exists() or vectors.exists(), test
    tool.equivalents.parse(tool.equivalents.LIST.read_text("utf-8"))
