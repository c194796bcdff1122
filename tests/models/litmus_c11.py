"""From C to a C11 litmus test: the core's functions, inlined statement by statement.

herd7's C has no functions, no 64-bit types and no loops. So calls are replaced by the bodies they
mean, with their arguments; what depends on constants only is decided here; a loop becomes one turn
of it, and an execution that would need another turn ends there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pycparser import CParser, c_ast  # type: ignore[import-untyped]

from .litmus_programs import SHRUNK, Program
from .source import FUNCTION, SourceError, blank_comments

MODELS = ("rc11.cat", "c11_partialSC.cat")

PRELUDE = """
typedef unsigned long uint64_t; typedef unsigned int uint32_t; typedef int bool;
typedef int memory_order;
struct lk_spin { uint32_t budget_ns; uint32_t waits; uint32_t most_ns; };
enum lk_wait_strategy { LK_WAIT_HYBRID = 0, LK_WAIT_SPIN = 1, LK_WAIT_BLOCK = 2 };
"""
CONSTANTS = {"LK_WAIT_HYBRID": 0, "LK_WAIT_SPIN": 1, "LK_WAIT_BLOCK": 2}
FILES = ("lk_seqlock.h", "lk_wait.h", "lk_wait.c")

# A value: a number, or the text of an expression over registers, or the name of a location.
Value = int | str
Then = Callable[[Value], None]
Environment = dict[str, Value]

FOLD: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "==": lambda a, b: int(a == b),
    "!=": lambda a, b: int(a != b),
    "<": lambda a, b: int(a < b),
    ">=": lambda a, b: int(a >= b),
    "&&": lambda a, b: int(bool(a) and bool(b)),
    "||": lambda a, b: int(bool(a) or bool(b)),
}


class _Thread:
    """Writes one thread; `then` is always what remains to be done after the piece at hand."""

    def __init__(self, number: int, functions: Mapping[str, Any], program: Program) -> None:
        self.number = number
        self.functions = functions
        self.program = program
        self.lines: list[str] = []
        self.depth = 1
        self.registers = 0
        self.plain: set[str] = set()
        self.atomic: set[str] = set()

    def indented(self, line: str) -> list[str]:
        return ["  " * self.depth + line]

    def emit(self, line: str) -> None:
        self.lines += self.indented(line)

    def register(self, value: str) -> str:
        self.registers += 1
        name = f"r{self.registers}"
        self.emit(f"int {name} = {value};")
        return name

    def branch(self, condition: Value, yes: Callable[[], None], no: Callable[[], None]) -> None:
        if isinstance(condition, int):
            (yes if condition else no)()
            return
        sides: list[list[str]] = []
        outer = self.lines
        self.depth += 1
        for side in (yes, no):
            self.lines = []
            side()
            sides.append(self.lines)
        self.depth -= 1
        self.lines = outer
        yes_lines, no_lines = sides
        # herd7 knows neither an empty block nor a negation.
        if yes_lines:
            self.lines += [*self.indented(f"if ({condition}) {{"), *yes_lines]
            if no_lines:
                self.lines += [*self.indented("} else {"), *no_lines]
            self.emit("}")
        elif no_lines:
            self.lines += [*self.indented(f"if ({condition} == 0) {{"), *no_lines]
            self.emit("}")

    # Statements.

    def block(
        self, items: Sequence[Any], env: Environment, done: Callable[[], None], result: Then
    ) -> None:
        """Write the statements; go on with `result` at a return, with `done` after the last."""
        if not items:
            done()
            return
        first, rest = items[0], items[1:]

        def next_one() -> None:
            self.block(rest, env, done, result)

        match first:
            case c_ast.Decl() if first.init is not None:

                def declare(value: Value) -> None:
                    # A variable of the program: registers it was computed from may not change.
                    env[first.name] = value
                    next_one()

                self.value(first.init, env, declare)
            case c_ast.Decl():
                next_one()
            case c_ast.Return():
                self.value(first.expr, env, result) if first.expr is not None else result(0)
            case c_ast.Compound():
                self.block([*(first.block_items or []), *rest], env, done, result)
            case c_ast.If():
                yes = [first.iftrue, *rest]
                no = ([first.iffalse] if first.iffalse is not None else []) + list(rest)

                def choose(condition: Value) -> None:
                    self.branch(
                        condition,
                        lambda: self.block(yes, dict(env), done, result),
                        lambda: self.block(no, dict(env), done, result),
                    )

                self.value(first.cond, env, choose)
            case c_ast.While() | c_ast.For():
                self.loop(first, rest, env, done, result)
            case c_ast.Assignment() if first.op == "=":

                def assign(value: Value) -> None:
                    target = first.lvalue
                    if isinstance(target, c_ast.UnaryOp) and target.op == "*":
                        location = str(env[target.expr.name])
                        self.plain.add(location)
                        self.emit(f"*{location} = {value};")
                    else:
                        env[target.name] = value
                    next_one()

                self.value(first.rvalue, env, assign)
            case c_ast.EmptyStatement():
                next_one()
            case _:
                self.value(first, env, lambda _: next_one())

    def loop(
        self,
        statement: Any,
        rest: Sequence[Any],
        env: Environment,
        done: Callable[[], None],
        result: Then,
    ) -> None:
        """One turn; then the loop must be over, or the execution ends here."""
        counted = isinstance(statement, c_ast.For) and statement.init is not None
        before = list(statement.init.decls) if counted else []
        step = [c_ast.Assignment("=", c_ast.ID("i"), c_ast.Constant("int", "1"))] if counted else []
        condition = statement.cond

        def after() -> None:
            if condition is not None:
                self.value(
                    condition,
                    env,
                    lambda again: self.branch(
                        again, lambda: None, lambda: self.block(rest, env, done, result)
                    ),
                )

        def turn() -> None:
            def inside(go: Value) -> None:
                self.branch(
                    go,
                    lambda: self.block([statement.stmt, *step], env, after, result),
                    lambda: self.block(rest, dict(env), done, result),
                )

            if condition is None:
                inside(1)
            else:
                self.value(condition, env, inside)

        self.block(before, env, turn, result)

    # Expressions.

    def value(self, node: Any, env: Environment, then: Then) -> None:
        match node:
            case c_ast.Constant():
                then(int(node.value.rstrip("uUlL"), 0))
            case c_ast.ID():
                if node.name in CONSTANTS:
                    then(CONSTANTS[node.name])
                else:
                    then(env[node.name])
            case c_ast.Cast():
                self.value(node.expr, env, then)
            case c_ast.BinaryOp():

                def left(a: Value) -> None:
                    self.value(node.right, env, lambda b: then(self.fold(node.op, a, b)))

                self.value(node.left, env, left)
            case c_ast.UnaryOp() if node.op == "*":
                location = str(env[node.expr.name])
                self.plain.add(location)
                then(self.register(f"*{location}"))
            case c_ast.FuncCall():
                self.call(node, env, then)
            case _:
                raise SourceError(f"litmus: no idea what to do with {type(node).__name__}")

    @staticmethod
    def fold(operator: str, a: Value, b: Value) -> Value:
        if isinstance(a, int) and isinstance(b, int):
            return FOLD[operator](a, b)
        return f"({a} {operator} {b})"

    def call(self, node: Any, env: Environment, then: Then) -> None:
        name = node.name.name
        arguments = list(node.args.exprs) if node.args is not None else []
        if name.startswith("atomic_"):
            self.atomic_call(name, arguments, env, then)
            return
        if name == "lk_futex_wake_all":
            self.atomic.add("woke")
            self.emit("atomic_store_explicit(woke, 1, memory_order_relaxed);")
            then(0)
            return
        if name == "lk_futex_wait":
            self.futex_wait(arguments, env, then)
            return
        if name in ("lk_cpu_relax", "lk_clock_ns"):
            then(1)
            return
        function = self.functions[name]
        values: Environment = {}

        def bind(index: int) -> None:
            if index < len(arguments):

                def bound(value: Value) -> None:
                    values[function.decl.type.args.params[index].name] = value
                    bind(index + 1)

                self.value(arguments[index], env, bound)
            else:
                items = function.body.block_items or []
                self.block(items, dict(values), lambda: then(0), then)

        bind(0)

    def futex_wait(self, arguments: Sequence[Any], env: Environment, then: Then) -> None:
        if not self.program.futex_sleeps:
            then(0)
            return
        word, seen = str(env[arguments[0].name]), env[arguments[1].name]
        self.atomic |= {word, "parked"}
        now = self.register(f"atomic_load_explicit({word}, memory_order_relaxed)")
        park = "atomic_store_explicit(parked, 1, memory_order_relaxed);"
        self.branch(f"({now} == {seen})", lambda: self.emit(park), lambda: then(0))

    def atomic_call(
        self, name: str, arguments: Sequence[Any], env: Environment, then: Then
    ) -> None:
        if name == "atomic_thread_fence":
            order = arguments[0].name
            if order != "memory_order_relaxed":
                self.emit(f"atomic_thread_fence({order});")
            then(0)
            return
        location = str(env[arguments[0].name])
        self.atomic.add(location)
        orders = [a.name for a in arguments if isinstance(a, c_ast.ID) and "memory_order" in a.name]
        if name == "atomic_load_explicit":
            then(self.register(f"atomic_load_explicit({location}, {orders[0]})"))
        elif name == "atomic_store_explicit":

            def store(value: Value) -> None:
                self.emit(f"atomic_store_explicit({location}, {value}, {orders[0]});")
                then(0)

            self.value(arguments[1], env, store)
        elif name.startswith("atomic_compare_exchange"):
            # herd7 wants the expected value in memory; a weak exchange may also fail for no reason,
            # which only leads to the turn of the loop that we leave out.
            variable = arguments[1].expr.name
            expected = f"expected{self.number}"
            self.plain.add(expected)
            self.emit(f"*{expected} = {env[variable]};")

            def exchange(value: Value) -> None:
                call = "atomic_compare_exchange_strong_explicit"
                done = self.register(
                    f"{call}({location}, {expected}, {value}, {orders[0]}, {orders[1]})"
                )
                then(done)

            self.value(arguments[2], env, exchange)
        else:
            raise SourceError(f"litmus: no idea what to do with {name}")


def _parse(files: Mapping[str, str], program: Program) -> dict[str, Any]:
    """Return the syntax trees of the core's functions and of the program's two threads."""
    text = PRELUDE
    for file in FILES:
        code = blank_comments(files[file])
        for name, old, new in SHRUNK:
            code = code.replace(old, new) if name == file else code
        text += "\n".join(m.group() for m in FUNCTION.finditer(code))
    text = re.sub(r"\b(_Atomic|inline|const|static)\b", "", text + program.text)
    tree = CParser().parse(text)
    return {node.decl.name: node for node in tree.ext if isinstance(node, c_ast.FuncDef)}


def generate(files: Mapping[str, str], program: Program, directory: Path) -> Path:
    """Write the program, with the given source inlined, as a litmus test."""
    functions = _parse(files, program)
    threads = []
    for number, name in enumerate(sorted(n for n in functions if re.fullmatch(r"P\d", n))):
        thread = _Thread(number, functions, program)
        function = functions[name]
        parameters = [p.name for p in function.decl.type.args.params]
        env: Environment = {p: p for p in parameters}
        thread.block(function.body.block_items, env, lambda: None, lambda _: None)
        typed = [f"atomic_int* {p}" for p in sorted(thread.atomic)]
        typed += [f"int* {p}" for p in sorted(thread.plain)]
        threads.append(f"P{number} ({', '.join(typed)}) {{\n" + "\n".join(thread.lines) + "\n}")
    directory.mkdir(parents=True, exist_ok=True)
    litmus = directory / f"{program.name}-c11.litmus"
    body = "\n".join(threads)
    litmus.write_text(f"C {program.name}\n{{ }}\n{body}\nexists ({program.never})\n", "utf-8")
    return litmus
