"""From C to an AArch64 litmus test, by way of the compiler: what gcc emits is what is checked."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.patience import patience

from .litmus_programs import SHRUNK, Program
from .source import SourceError

COMPILER = "aarch64-linux-gnu-gcc"
# With and without single-instruction compare-and-swap: the exchange in raise_wake_at differs.
MACHINES = ("armv8-a", "armv8.1-a")
MODEL = "aarch64.cat"

# What stands for a call, and where control goes after it. Registers 26 and 27 are used by nobody
# else: kernel's own look at the word, and whether the call was reached.
WOKE, PARKED = "0:X27", "1:X27"


def _operand(text: str) -> str:
    text = text.strip()
    if re.fullmatch(r"-?\d+", text):
        return f"#{text}"
    return text.removeprefix(".").upper()


def _convert(lines: list[str], thread: int, program: Program) -> list[str]:
    """Translate one function's instructions into herd7's dialect."""
    out: list[str] = []
    end = f"LEND{thread}"
    for line in lines:
        line = line.split("//")[0].strip()
        label = re.fullmatch(r"\.(\w+):", line)
        if label:
            out.append(f"{label.group(1).upper()}:")
            continue
        if not line or line.startswith((".", "#")):
            continue
        name, _, rest = line.partition("\t")
        # The stack holds saved registers only, which no other thread sees.
        if "[sp" in rest or rest.replace(" ", "") == "x29,sp":
            continue
        if name == "ret":
            out.append(f"B {end}")
        elif rest.startswith("lk_futex_wake_all"):
            out += ["MOV W27,#1"] + ([f"B {end}"] if name == "b" else [])
        elif rest.startswith("lk_futex_wait"):
            # The kernel looks at the word (its address is the first argument), then sleeps.
            sleep = ["LDR X26,[X0]", f"CBNZ X26,LGO{thread}", "MOV W27,#1", f"B {end}"]
            out += [*sleep, f"LGO{thread}:"] if program.futex_sleeps else []
        elif rest.startswith("lk_clock_ns"):
            out.append("MOV X0,#1")  # the deadline
        elif name in ("bl", "blr"):
            raise SourceError(f"{program.name}: an unexpected call: {line}")
        else:
            branch = re.fullmatch(r"b\.?(eq|ne|cs|hs|cc|lo|hi|ls|ge|gt|le|lt)", name)
            operands = ",".join(_operand(part) for part in rest.split(","))
            out.append(f"{'B.' + branch.group(1).upper() if branch else name.upper()} {operands}")
    return [*out, f"{end}:"]


def _functions(assembly: str) -> dict[str, list[str]]:
    found = re.finditer(r"^(P\d):\n(.*?)^\t\.size\t\1", assembly, re.M | re.S)
    return {m.group(1): m.group(2).split("\n") for m in found}


def generate(
    files: Mapping[str, str], program: Program, directory: Path, machine: str = MACHINES[0]
) -> Path:
    """Compile the program against the given source, and write it as a litmus test."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        for file, old, new in SHRUNK:
            text = text.replace(old, new) if file == name else text
        (directory / name).write_text(text, encoding="utf-8")
    visible = re.sub(r"^void", "__attribute__((externally_visible)) void", program.text, flags=re.M)
    source = directory / f"{program.name}.c"
    source.write_text(f'#include "{program.files[-1]}"\n{visible}', encoding="utf-8")
    # Everything but the two threads is private to the file, so that it is inlined into them.
    flags = ["-std=gnu11", "-O2", "-fwhole-program", "-mno-outline-atomics", f"-march={machine}"]
    flags += [
        "-fno-asynchronous-unwind-tables",
        "-fno-stack-protector",
        "-fno-pic",
        "-S",
        "-o",
        "-",
    ]
    done = subprocess.run(
        [COMPILER, *flags, str(source)],
        capture_output=True,
        text=True,
        timeout=patience(),
        check=False,
    )
    if done.returncode != 0:
        raise SourceError(f"{program.name}: {done.stderr[:2000]}")
    threads = _functions(done.stdout)
    columns, setup = [], []
    for number, (name, lines) in enumerate(sorted(threads.items())):
        parameters = re.search(rf"void {name}\((.*?)\)", program.text, re.S)
        assert parameters is not None
        for i, parameter in enumerate(parameters.group(1).split(",")):
            location = parameter.split("*")[-1].strip()
            setup.append(f"{number}:X{i}={location};")
        columns.append(_convert(lines, number, program))
    for shared in sorted(set(re.findall(r"uint64_t \*(\w+)[,)]", program.text))):
        setup.insert(0, f"uint64_t {shared}=0;")
    rows = max(len(column) for column in columns)
    table = "\n".join(
        " | ".join(column[row] if row < len(column) else "" for column in columns) + " ;"
        for row in range(rows)
    )
    never = program.never.replace("woke=", f"{WOKE}=").replace("parked=", f"{PARKED}=")
    litmus = directory / f"{program.name}-{machine}.litmus"
    litmus.write_text(
        f"AArch64 {program.name}\n{{\n{' '.join(setup)}\n}}\n"
        f"{' | '.join(f'P{i}' for i in range(len(columns)))} ;\n{table}\n\nexists ({never})\n",
        encoding="utf-8",
    )
    return litmus
