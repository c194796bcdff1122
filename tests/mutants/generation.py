"""Generate mutants of C source: where each stands, what it changes, and an id that lasts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import tree_sitter_c
from tree_sitter import Language, Node, Parser

_PARSER = Parser(Language(tree_sitter_c.language()))

WEAKER_ORDERS = {
    "consume": ("relaxed",),
    "acquire": ("relaxed",),
    "release": ("relaxed",),
    "acq_rel": ("acquire", "release"),
    "seq_cst": ("acq_rel", "relaxed"),
}
OTHER_OPERATOR = {
    "<": ("boundary", "<="),
    "<=": ("boundary", "<"),
    ">": ("boundary", ">="),
    ">=": ("boundary", ">"),
    "==": ("equality", "!="),
    "!=": ("equality", "=="),
    "&&": ("logical", "||"),
    "||": ("logical", "&&"),
    "+": ("arithmetic", "-"),
    "-": ("arithmetic", "+"),
    "*": ("arithmetic", "/"),
    "/": ("arithmetic", "*"),
    "%": ("arithmetic", "/"),
    "&": ("arithmetic", "|"),
    "|": ("arithmetic", "&"),
    "<<": ("arithmetic", ">>"),
    ">>": ("arithmetic", "<<"),
    "+=": ("arithmetic", "-="),
    "-=": ("arithmetic", "+="),
    "++": ("arithmetic", "--"),
    "--": ("arithmetic", "++"),
}
# What makes earlier stores visible to another process. What is moved behind it may be missed there.
PUBLICATION = re.compile(
    rb"\b(lk_announce\w*|announce|lk_seqlock_(begin|end)_write|lk_traj_ring_(publish|free)"
    rb"|lk_segment_(make_ready|invalidate)|say_goodbye)\(|memory_order_(release|acq_rel|seq_cst)"
)
# Memory that other processes map; the fields of a handle are private.
SHARED = re.compile(rb"\b(header|record|slot|padding|ring)->")
# Stores that no reader tells apart from their neighbours until something publishes them.
PLAIN_STORE = re.compile(
    rb"(atomic_(store|init)\w*|mem(cpy|set)|copy_(in|out)|\w*_copy_\w+)\((?!.*memory_order_release)",
    re.S,
)
INTEGER = re.compile(r"(0[xX][0-9a-fA-F]+|\d+)([uUlL]*)")
# The status that a function would answer if a check were not there, or if it always failed.
ANSWERS = {"LK_OK": "LK_E_SYSTEM", "true": "false", "false": "true"}

_LOOPS_AND_BRANCHES = {
    "if_statement": "consequence",
    "while_statement": "body",
    "for_statement": "body",
    "switch_statement": "body",
}


@dataclass(frozen=True)
class Mutant:
    """One deliberate fault in one file."""

    file: str  # relative to the checkout
    function: str
    operator: str
    number: int  # of this operator in this function, from 1
    line: int
    source: str  # the statement, with the change marked in it; what the list of equivalents names
    nth: int  # among mutants of this function with the same `source`, from 1
    edits: tuple[tuple[int, int, bytes], ...]  # start, end and new text, in ascending order

    @property
    def name(self) -> str:
        """Return the id: file, function, operator and number."""
        return f"{Path(self.file).name}:{self.function}:{self.operator}:{self.number}"

    @property
    def key(self) -> tuple[str, str, str, str, int]:
        """Return what identifies the mutant when lines above it have changed."""
        return (Path(self.file).name, self.function, self.operator, self.source, self.nth)

    def apply(self, text: bytes) -> bytes:
        """Return the file's text with the fault in it."""
        for start, end, new in reversed(self.edits):
            text = text[:start] + new + text[end:]
        return text


@dataclass(frozen=True)
class _Draft:
    operator: str
    node: Node  # that is marked in the statement
    becomes: str
    edits: tuple[tuple[int, int, bytes], ...]


def _walk(node: Node) -> Iterator[Node]:
    yield node
    for child in node.children:
        yield from _walk(child)


def _text(node: Node | None) -> str:
    return node.text.decode() if node is not None and node.text is not None else ""


def _bytes(node: Node) -> bytes:
    return node.text or b""


def _words(text: str) -> str:
    """Return code on one line, without comments."""
    return " ".join(re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.S).split())


def _replace(operator: str, node: Node, becomes: str) -> _Draft:
    return _Draft(operator, node, becomes, ((node.start_byte, node.end_byte, becomes.encode()),))


# --- operators -----------------------------------------------------------------------------------


def _orders(node: Node) -> Iterator[_Draft]:
    if node.type == "identifier" and _text(node).startswith("memory_order_"):
        for weaker in WEAKER_ORDERS.get(_text(node).removeprefix("memory_order_"), ()):
            yield _replace("order", node, f"memory_order_{weaker}")


def _operators(node: Node) -> Iterator[_Draft]:
    if node.type in ("binary_expression", "update_expression", "assignment_expression"):
        sign = node.child_by_field_name("operator")
        if sign is not None and _text(sign) in OTHER_OPERATOR:
            operator, other = OTHER_OPERATOR[_text(sign)]
            edits: tuple[tuple[int, int, bytes], ...]
            edits = ((sign.start_byte, sign.end_byte, other.encode()),)
            if node.type == "binary_expression":
                # In parentheses: the other operator may bind otherwise, or make the compiler warn.
                edits = (
                    (node.start_byte, node.start_byte, b"(("),
                    (sign.start_byte, sign.end_byte, f") {other} (".encode()),
                    (node.end_byte, node.end_byte, b"))"),
                )
            yield _Draft(operator, sign, other, edits)


def _operands(node: Node) -> Iterator[_Draft]:
    """Leave one part of a condition out: a check that is not made."""
    if node.type != "binary_expression":
        return
    sign = _text(node.child_by_field_name("operator"))
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    if sign not in ("&&", "||") or left is None or right is None:
        return
    yield _Draft("operand", right, "", ((left.end_byte, right.end_byte, b""),))
    if _text(_inner(left).child_by_field_name("operator")) != sign:
        yield _Draft("operand", left, "", ((left.start_byte, right.start_byte, b""),))


def _constants(node: Node) -> Iterator[_Draft]:
    if node.type != "number_literal":
        return
    found = INTEGER.fullmatch(_text(node))
    if found is not None:
        digits = found.group(1).lower()
        octal = len(digits) > 1 and digits[0] == "0" and digits[1] != "x"
        value = int(digits, 8 if octal else 0)
        form = "0{:o}".format if octal else hex if digits.startswith("0x") else str
        yield _replace("constant", node, form(value + 1) + found.group(2))
        if value > 0:
            yield _replace("constant", node, form(value - 1) + found.group(2))


def _inner(condition: Node) -> Node:
    """Return a condition without its parentheses."""
    while condition.type == "parenthesized_expression" and condition.named_child_count == 1:
        condition = condition.named_children[0]
    return condition


def _negations(node: Node) -> Iterator[_Draft]:
    if node.type in (
        "if_statement",
        "while_statement",
        "do_statement",
        "for_statement",
        "conditional_expression",
    ):
        condition = node.child_by_field_name("condition")
        if condition is None:
            return
        inner = _inner(condition)
        sign = inner.child_by_field_name("operator")
        # `a == b` negated is what the equality operator makes of it.
        if not (inner.type == "binary_expression" and _text(sign) in ("==", "!=")):
            yield _replace("negate", inner, f"!({_text(inner)})")
    elif node.type == "unary_expression" and _text(node).startswith("!"):
        parent = node.parent
        while parent is not None and parent.type == "parenthesized_expression":
            parent = parent.parent
        is_condition = parent is not None and parent.type in _LOOPS_AND_BRANCHES
        if not is_condition:
            yield _replace("negate", node, f"!{_text(node)}")


def _removals(node: Node) -> Iterator[_Draft]:
    if node.parent is None or node.parent.type not in ("compound_statement", "case_statement"):
        return
    removable = node.type in ("break_statement", "continue_statement")
    if node.type == "expression_statement" and node.named_child_count > 0:
        kind = node.named_children[0].type
        removable = kind in (
            "call_expression",
            "assignment_expression",
            "update_expression",
            "gnu_asm_expression",
        )
    if node.type == "if_statement" and node.child_by_field_name("alternative") is None:
        consequence = node.child_by_field_name("consequence")
        inside = [] if consequence is None else consequence.named_children
        removable = any(
            child.type in ("return_statement", "continue_statement") for child in inside
        )
    if removable:
        lines = b"\n" * _bytes(node).count(b"\n")
        yield _Draft("remove", node, "", ((node.start_byte, node.end_byte, b";" + lines),))


def _returns(node: Node) -> Iterator[_Draft]:
    if node.type != "return_statement" or node.named_child_count == 0:
        return
    value = node.named_children[0]
    text = _text(value)
    if text in ANSWERS:
        yield _replace("return", value, ANSWERS[text])
    elif text.startswith("LK_E_"):
        yield _replace("return", value, "LK_OK")
    elif value.type not in ("number_literal", "null", "initializer_list"):
        pointer, plain = _return_kind(node)
        if plain and text != "NULL":
            yield _replace("return", value, "NULL" if pointer else "0")


def _return_kind(node: Node) -> tuple[bool, bool]:
    """Say whether the function around a node returns a pointer, and whether 0 would do."""
    function = _function_of(node)
    if function is None:
        return False, False
    declarator = function.child_by_field_name("declarator")
    pointer = declarator is not None and declarator.type == "pointer_declarator"
    kind = function.child_by_field_name("type")
    return pointer, pointer or (kind is not None and kind.type != "struct_specifier")


def _moves(node: Node) -> Iterator[_Draft]:
    """Swap neighbours that others may see, and move stores behind what publishes them."""
    if node.type not in ("compound_statement", "case_statement"):
        return
    statements = [child for child in node.named_children if child.type != "comment"]
    for first, second in pairwise(statements):
        if not (_is_shared_write(first) and _is_shared_write(second)):
            continue
        if not all(_is_plain_store(statement) for statement in (first, second)):
            edits = (
                (first.start_byte, first.end_byte, _bytes(second)),
                (second.start_byte, second.end_byte, _bytes(first)),
            )
            yield _Draft("swap", first, f"after {_words(_text(second))}", edits)
    for index, publication in enumerate(statements):
        if not (_is_shared_write(publication) and PUBLICATION.search(_bytes(publication))):
            continue
        for store in statements[: max(index - 1, 0)]:
            if _is_shared_write(store):
                edits = (
                    (store.start_byte, store.end_byte, b";"),
                    (publication.end_byte, publication.end_byte, b" " + _bytes(store)),
                )
                yield _Draft("delay", store, f"after {_words(_text(publication))}", edits)


def _is_shared_write(statement: Node) -> bool:
    """Whether a statement writes what others may see, or calls what may do so."""
    if statement.type != "expression_statement" or statement.named_child_count == 0:
        return False
    expression = statement.named_children[0]
    if expression.type != "assignment_expression":
        return expression.type in ("call_expression", "gnu_asm_expression")
    left = expression.child_by_field_name("left")
    return bool(
        (left is not None and SHARED.search(_bytes(left))) or PUBLICATION.search(_bytes(statement))
    )


def _is_plain_store(statement: Node) -> bool:
    text = _bytes(statement)
    return bool(PLAIN_STORE.match(text)) or (b"(" not in text and b"=" in text)


OPERATORS: tuple[Callable[[Node], Iterator[_Draft]], ...] = (
    _orders,
    _operators,
    _operands,
    _constants,
    _negations,
    _removals,
    _returns,
    _moves,
)

# --- where a mutant stands -----------------------------------------------------------------------


def _function_of(node: Node) -> Node | None:
    found: Node | None = node
    while found is not None and found.type != "function_definition":
        found = found.parent
    return found


def _function_name(function: Node) -> str:
    declarator = function.child_by_field_name("declarator")
    while declarator is not None and declarator.type != "identifier":
        declarator = declarator.child_by_field_name("declarator")
    return _text(declarator)


def _statement(node: Node, text: bytes) -> tuple[int, int]:
    """Return where the statement around a node begins and ends, without the body of a loop."""
    home = node
    while home.parent is not None and not home.type.endswith(("_statement", "declaration")):
        home = home.parent
    if home.type in _LOOPS_AND_BRANCHES and home != node:
        body = home.child_by_field_name(_LOOPS_AND_BRANCHES[home.type])
        if body is not None:
            return home.start_byte, body.start_byte
    if home.type == "do_statement" and home != node:
        condition = home.child_by_field_name("condition")
        if condition is not None:
            return condition.start_byte, condition.end_byte
    return home.start_byte, home.end_byte


def _described(draft: _Draft, text: bytes) -> str:
    start, end = _statement(draft.node, text)
    before = _words(text[start : draft.node.start_byte].decode())
    after = _words(text[draft.node.end_byte : end].decode())
    change = f"«{_words(_text(draft.node))} → {draft.becomes or 'removed'}»"
    return " ".join(part for part in (before, _words(change), after) if part)


def _in_function(node: Node) -> Iterator[Node]:
    """Walk a function's body; what the compiler only asserts or sizes is left out."""
    for child in node.children:
        if child.type not in ("static_assert_declaration", "sizeof_expression"):
            yield child
            yield from _in_function(child)


def generate(file: str, text: bytes) -> list[Mutant]:
    """Return all mutants of a file's functions, in the order of the source."""
    mutants: list[Mutant] = []
    # By function's name: one may stand there twice, for two kinds of machine.
    numbers: Counter[tuple[str, str]] = Counter()
    sources: Counter[tuple[str, str, str]] = Counter()
    for function in _walk(_PARSER.parse(text).root_node):
        if function.type != "function_definition":
            continue
        name = _function_name(function)
        body = function.child_by_field_name("body")
        if body is None:
            continue
        for node in (body, *_in_function(body)):
            for operator in OPERATORS:
                for draft in operator(node):
                    source = _described(draft, text)
                    numbers[name, draft.operator] += 1
                    sources[name, draft.operator, source] += 1
                    mutants.append(
                        Mutant(
                            file=file,
                            function=name,
                            operator=draft.operator,
                            number=numbers[name, draft.operator],
                            line=draft.node.start_point[0] + 1,
                            source=source,
                            nth=sources[name, draft.operator, source],
                            edits=draft.edits,
                        )
                    )
    return mutants


def core_files(root: Path) -> list[str]:
    """Return the files that mutants are made of, relative to the checkout."""
    paths = [*root.glob("csrc/*.[ch]"), *root.glob("python/ext/*.[ch]")]
    return sorted(path.relative_to(root).as_posix() for path in paths)


def generate_all(root: Path) -> list[Mutant]:
    """Return every mutant of the core and of the calls for Python."""
    return [m for file in core_files(root) for m in generate(file, (root / file).read_bytes())]
