"""Write the command lane's Python classes from its binary schema.

The binary schema is what `flatc --binary --schema --bfbs-comments --bfbs-builtins` makes of a .fbs
file; it is a FlatBuffer itself, and is read here with the package's own reader.
tools/generate_commands.sh does both steps.

Usage: emit_messages.py BFBS DIRECTORY
"""

from __future__ import annotations

import sys
import textwrap
import types
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

# Not the package itself, which needs the very modules that are written here.
_package = types.ModuleType("lanekit.command")
_package.__path__ = [str(Path(__file__).parent.parent / "python" / "lanekit" / "command")]
sys.modules["lanekit.command"] = _package

from lanekit.command.flatbuffer import (  # noqa: E402
    Field,
    Message,
    Number,
    SubTable,
    Tables,
    Text,
    Texts,
    Truth,
    decode,
)

# --- the schema of schemas, as far as it is needed: reflection.fbs of FlatBuffers -----------------

(UTYPE, BOOL, BYTE, UBYTE, SHORT, USHORT, INT, UINT, LONG, ULONG, FLOAT, DOUBLE) = range(1, 13)
(STRING, VECTOR, OBJECT, UNION) = range(13, 17)

CODES = {
    BYTE: "b",
    UBYTE: "B",
    SHORT: "h",
    USHORT: "H",
    INT: "i",
    UINT: "I",
    LONG: "q",
    ULONG: "Q",
    FLOAT: "f",
    DOUBLE: "d",
}
DTYPES = {"h": "int16", "H": "uint16", "i": "int32", "I": "uint32"}
DTYPES |= {"q": "int64", "Q": "uint64", "f": "float32", "d": "float64", "b": "int8"}


@dataclass(frozen=True, slots=True, eq=False)
class SchemaType(Message):
    """What a field holds."""

    base_type: int = 0
    element: int = 0
    index: int = -1
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("base_type", 0, Number("b")),
        Field("element", 1, Number("b")),
        Field("index", 2, Number("i", -1)),
    )


@dataclass(frozen=True, slots=True, eq=False)
class KeyValue(Message):
    """An attribute."""

    key: str = ""
    value: str = ""
    FIELDS: ClassVar[tuple[Field, ...]] = (Field("key", 0, Text()), Field("value", 1, Text()))


@dataclass(frozen=True, slots=True, eq=False)
class SchemaField(Message):
    """A field of a table or struct."""

    name: str = ""
    type: SchemaType = field(default_factory=SchemaType)
    id: int = 0
    offset: int = 0
    default_integer: int = 0
    default_real: float = 0
    documentation: tuple[str, ...] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", 0, Text()),
        Field("type", 1, SubTable(SchemaType)),
        Field("id", 2, Number("H")),
        Field("offset", 3, Number("H")),
        Field("default_integer", 4, Number("q")),
        Field("default_real", 5, Number("d")),
        Field("documentation", 10, Texts()),
    )


@dataclass(frozen=True, slots=True, eq=False)
class SchemaObject(Message):
    """A table or struct."""

    name: str = ""
    fields: tuple[SchemaField, ...] = ()
    is_struct: bool = False
    documentation: tuple[str, ...] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", 0, Text()),
        Field("fields", 1, Tables(SchemaField)),
        Field("is_struct", 2, Truth()),
        Field("documentation", 6, Texts()),
    )


@dataclass(frozen=True, slots=True, eq=False)
class EnumValue(Message):
    """A member of an enumeration or union."""

    name: str = ""
    value: int = 0
    union_type: SchemaType | None = None
    documentation: tuple[str, ...] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", 0, Text()),
        Field("value", 1, Number("q")),
        Field("union_type", 3, SubTable(SchemaType)),
        Field("documentation", 4, Texts()),
    )


@dataclass(frozen=True, slots=True, eq=False)
class SchemaEnum(Message):
    """An enumeration or union."""

    name: str = ""
    values: tuple[EnumValue, ...] = ()
    is_union: bool = False
    underlying_type: SchemaType = field(default_factory=SchemaType)
    documentation: tuple[str, ...] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", 0, Text()),
        Field("values", 1, Tables(EnumValue)),
        Field("is_union", 2, Truth()),
        Field("underlying_type", 3, SubTable(SchemaType)),
        Field("documentation", 5, Texts()),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Call(Message):
    """A method of a service."""

    name: str = ""
    request: SchemaObject = field(default_factory=SchemaObject)
    response: SchemaObject = field(default_factory=SchemaObject)
    attributes: tuple[KeyValue, ...] = ()
    documentation: tuple[str, ...] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", 0, Text()),
        Field("request", 1, SubTable(SchemaObject)),
        Field("response", 2, SubTable(SchemaObject)),
        Field("attributes", 3, Tables(KeyValue)),
        Field("documentation", 4, Texts()),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Service(Message):
    """A service."""

    name: str = ""
    calls: tuple[Call, ...] = ()
    documentation: tuple[str, ...] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", 0, Text()),
        Field("calls", 1, Tables(Call)),
        Field("documentation", 3, Texts()),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Schema(Message):
    """All of it."""

    objects: tuple[SchemaObject, ...] = ()
    enums: tuple[SchemaEnum, ...] = ()
    file_ident: str = ""
    services: tuple[Service, ...] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("objects", 0, Tables(SchemaObject)),
        Field("enums", 1, Tables(SchemaEnum)),
        Field("file_ident", 2, Text()),
        Field("services", 5, Tables(Service)),
    )


# --- Python from it -------------------------------------------------------------------------------

HEAD = '''"""{title}

Written by tools/generate_commands.sh from schema/command.fbs; changes belong there.
"""
'''


def short(name: str) -> str:
    """Return a name without its namespace."""
    return name.rpartition(".")[2]


def words(documentation: tuple[str, ...], fallback: str) -> str:
    """Return a comment of the schema as one paragraph."""
    return " ".join(line.strip() for line in documentation) or fallback


def docstring(text: str, indent: str = "    ") -> Iterator[str]:
    """Yield the lines of a docstring: a sentence, then the rest."""
    first, stop, rest = text.partition(". ")
    if len(indent) + 6 + len(text) <= 100:
        yield f'{indent}"""{text}"""'
        return
    lines = textwrap.wrap(first + stop.strip(), 97 - len(indent))
    assert len(lines) == 1, f"the first sentence is too long: {first}"
    yield f'{indent}"""{lines[0]}'
    yield ""
    for line in textwrap.wrap(rest, 100 - len(indent)):
        yield indent + line
    yield f'{indent}"""'


def noun(name: str) -> str:
    """Say what a class is of which the schema says nothing: "GetEntityRequest" is a request."""
    for suffix, what in (("Request", "Request of"), ("Response", "Answer to")):
        if name.endswith(suffix):
            return f"{what} ``{name.removesuffix(suffix)}``."
    return f"``{name}`` of the schema."


class Emitter:
    """Writes the classes of one schema."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.out: list[str] = []

    def field(self, one: SchemaField) -> tuple[str, str, str]:
        """Return a field's annotation, default and descriptor."""
        kind, element, index = one.type.base_type, one.type.element, one.type.index
        if kind == UNION:
            union = short(self.schema.enums[index].name)
            return "Message | None", "None", f"UnionOf({union.upper()}S)"
        if kind in CODES and index >= 0:
            name = short(self.schema.enums[index].name)
            member = self.member(index, one.default_integer)
            extra = f", {one.default_integer}" if one.default_integer else ""
            return name, f"{name}.{member}", f'Enumerated("{CODES[kind]}", {name}{extra})'
        if kind == BOOL:
            default = str(bool(one.default_integer))
            return "bool", default, f"Truth({default if one.default_integer else ''})"
        if kind in CODES:
            real = kind in (FLOAT, DOUBLE)
            default = repr(one.default_real if real else one.default_integer)
            extra = f", {default}" if float(default) else ""
            return "float" if real else "int", default, f'Number("{CODES[kind]}"{extra})'
        if kind == STRING:
            return "str", '""', "Text()"
        if kind == OBJECT:
            name = short(self.schema.objects[index].name)
            wrapper = "Structure" if self.schema.objects[index].is_struct else "SubTable"
            return f"{name} | None", "None", f"{wrapper}({name})"
        assert kind == VECTOR, f"{one.name}: no Python for this type yet"
        if element == STRING:
            return "Sequence[str]", "()", "Texts()"
        if element == OBJECT:
            name = short(self.schema.objects[index].name)
            assert not self.schema.objects[index].is_struct, f"{one.name}: a list of structs"
            return f"Sequence[{name}]", "()", f"Tables({name})"
        if element == UBYTE:
            return "bytes", 'b""', "Blob()"
        code = CODES[element]
        empty = f"field(default_factory=_empty(np.{DTYPES[code]}))"
        return f"npt.NDArray[np.{DTYPES[code]}]", empty, f'Array("{code}")'

    def public(self) -> list[str]:
        """Return what users meet: all but the envelope."""
        names = [short(one.name) for one in self.schema.objects]
        names += [short(one.name) for one in self.schema.enums if not one.is_union]
        return sorted(set(names) - {"Envelope", "ErrorCode", "Kind"})

    def member(self, index: int, value: int) -> str:
        """Return the name of an enumeration's member."""
        return next(snake(v.name) for v in self.schema.enums[index].values if v.value == value)

    def ordered(self) -> Iterator[SchemaObject]:
        """Yield structs and tables, each after those it holds."""
        done: set[str] = set()

        def visit(one: SchemaObject) -> Iterator[SchemaObject]:
            if one.name in done:
                return
            done.add(one.name)
            for part in one.fields:
                base, element, index = part.type.base_type, part.type.element, part.type.index
                if base == OBJECT or (base == VECTOR and element == OBJECT):
                    yield from visit(self.schema.objects[index])
            yield one

        for one in sorted(self.schema.objects, key=lambda o: (not o.is_struct, o.name)):
            if short(one.name) != "Envelope":
                yield from visit(one)

    def struct(self, one: SchemaObject) -> None:
        """Write a struct."""
        name = short(one.name)
        fields = sorted(one.fields, key=lambda f: f.offset)
        assert all(f.type.base_type == FLOAT for f in fields), f"{name}: not all floats"
        self.out += ["", "", "@dataclass(frozen=True, slots=True)", f"class {name}(StructValue):"]
        self.out += [*docstring(words(one.documentation, noun(name))), ""]
        self.out += [f"    {f.name}: float" for f in fields]
        code = "f" * len(fields)
        self.out += [f'    FORMAT: ClassVar[struct.Struct] = struct.Struct("<{code}")']

    def table(self, one: SchemaObject) -> None:
        """Write a table."""
        name = short(one.name)
        fields = sorted(one.fields, key=lambda f: f.id)
        self.out += ["", "", "@dataclass(frozen=True, slots=True, eq=False)"]
        self.out += [f"class {name}(Message):"]
        self.out += [*docstring(words(one.documentation, noun(name))), ""]
        descriptors: list[str] = []
        for part in fields:
            if part.type.base_type == UTYPE:
                continue
            annotation, default, descriptor = self.field(part)
            for line in textwrap.wrap(words(part.documentation, ""), 93):
                self.out.append(f"    #: {line}")
            self.out.append(f"    {part.name}: {annotation} = {default}")
            descriptors.append(f'Field("{part.name}", {part.id}, {descriptor})')
        one_line = (
            f"    FIELDS: ClassVar[tuple[Field, ...]] = ({''.join(f'{d},' for d in descriptors)})"
        )
        if len(descriptors) <= 1 and len(one_line) <= 100:
            self.out.append(one_line)
            return
        self.out.append("    FIELDS: ClassVar[tuple[Field, ...]] = (")
        self.out += [f"        {descriptor}," for descriptor in descriptors]
        self.out.append("    )")

    def enumeration(self, one: SchemaEnum) -> None:
        """Write an enumeration."""
        name = short(one.name)
        self.out += ["", "", f"class {name}(enum.IntEnum):"]
        self.out += [*docstring(words(one.documentation, noun(name))), ""]
        for value in one.values:
            for line in textwrap.wrap(words(value.documentation, ""), 93):
                self.out.append(f"    #: {line}")
            self.out.append(f"    {snake(value.name)} = {value.value}")

    def union(self, one: SchemaEnum) -> None:
        """Write which number of a union is which table."""
        name = f"{short(one.name).upper()}S"
        self.out += ["", "", f"{name}: dict[int, type[Message]] = {{"]
        self.out += [f"    {v.value}: {v.name}," for v in one.values if v.value != 0]
        self.out.append("}")

    def messages(self) -> str:
        """Return the module of all messages."""
        enums = sorted(self.schema.enums, key=lambda e: e.name)
        self.out = [
            HEAD.format(title="The messages of the command lane."),
            "from __future__ import annotations",
            "",
            "import enum",
            "import struct",
            "from collections.abc import Callable, Sequence",
            "from dataclasses import dataclass, field",
            "from typing import Any, ClassVar",
            "",
            "import numpy as np",
            "import numpy.typing as npt",
            "",
            "from lanekit.command.flatbuffer import (",
            *(f"    {n}," for n in ("Array", "Blob", "Enumerated", "Field", "Message", "Number")),
            *(f"    {n}," for n in ("Structure", "StructValue", "SubTable", "Tables", "Text")),
            *(f"    {n}," for n in ("Texts", "Truth", "UnionOf")),
            ")",
            "",
            "__all__ = [",
            *(f'    "{name}",' for name in self.public()),
            "]",
            "",
            f'FILE_IDENTIFIER = b"{self.schema.file_ident}"',
            "",
            "",
            "def _empty(kind: type[Any]) -> Callable[[], npt.NDArray[Any]]:",
            "    return lambda: np.zeros(0, kind)",
        ]
        for one in enums:
            if not one.is_union:
                self.enumeration(one)
        envelope = next(o for o in self.schema.objects if short(o.name) == "Envelope")
        for one in self.ordered():
            (self.struct if one.is_struct else self.table)(one)
        for one in enums:
            if one.is_union:
                self.union(one)
        self.table(envelope)
        return "\n".join(self.out) + "\n"

    def methods(self) -> str:
        """Return the services, each a class that holds its methods."""
        self.out = [
            HEAD.format(title="The services of the command lane and their methods."),
            "from __future__ import annotations",
            "",
            "from typing import Any, Final",
            "",
            "from lanekit.command import messages as m",
            "from lanekit.command.method import Method",
            "",
        ]
        names: list[str] = []
        for service in sorted(self.schema.services, key=lambda s: s.name):
            name = short(service.name)
            self.out += ["", f"class {name}:"]
            self.out += [*docstring(words(service.documentation, name)), ""]
            for call in sorted(service.calls, key=lambda c: c.name):
                asked, given = short(call.request.name), short(call.response.name)
                streams = any(a.key == "streaming" for a in call.attributes)
                comment = textwrap.wrap(words(call.documentation, ""), 93)
                self.out += [f"    #: {line}" for line in comment]
                self.out += [
                    f"    {call.name} = Method(",
                    f'        "{name}.{call.name}",',
                    f"        m.{asked},",
                    f"        m.{given},",
                    *(["        streams=True,"] if streams else []),
                    "    )",
                ]
                names.append(f"{name}.{call.name}")
            self.out.append("")
        self.out += ["", "METHODS: Final[dict[str, Method[Any, Any]]] = {"]
        self.out += ["    method.name: method", "    for method in ("]
        self.out += [f"        {name}," for name in names]
        self.out += ["    )", "}"]
        return "\n".join(self.out) + "\n"


def snake(name: str) -> str:
    """Return "UnknownMethod" as "UNKNOWN_METHOD"."""
    return "".join(f"_{c}" if c.isupper() and i else c for i, c in enumerate(name)).upper()


def main() -> int:
    """Write the two modules."""
    source, target = Path(sys.argv[1]), Path(sys.argv[2])
    emitter = Emitter(decode(source.read_bytes(), Schema, b"BFBS"))
    (target / "messages.py").write_text(emitter.messages(), encoding="utf-8")
    (target / "methods.py").write_text(emitter.methods(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
