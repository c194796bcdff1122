"""Messages of all kinds, made by hypothesis from the message classes' own lists of fields."""

from __future__ import annotations

import enum
from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from lanekit import MalformedMessage
from lanekit.command import flatbuffer as fb
from lanekit.command import messages as m
from lanekit.command.envelope import pack, unpack

ALL: list[type[fb.Message]] = list(m.PAYLOADS.values())

quick = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


def _values(kind: fb.FieldType) -> st.SearchStrategy[Any]:
    if isinstance(kind, fb.Truth):
        return st.booleans()
    if isinstance(kind, fb.Enumerated):
        members: list[enum.IntEnum] = list(kind._members.values())
        return st.sampled_from(members)
    if isinstance(kind, fb.Number):
        if kind._float:
            width = 32 if kind.size == 4 else 64
            return st.floats(width=width, allow_nan=False)
        return st.integers(kind._low, kind._high)
    if isinstance(kind, fb.Structure):
        floats = st.floats(width=32, allow_nan=False)
        made = st.builds(kind._kind, *[floats for _ in kind._kind.__slots__])
        return st.none() | made
    if isinstance(kind, fb.Text):
        return _texts
    if isinstance(kind, fb.Blob):
        return st.binary(max_size=40)
    if isinstance(kind, fb.Array):
        elements = {"allow_nan": False} if kind._dtype.kind == "f" else {}
        return npst.arrays(kind._dtype, st.integers(0, 9), elements=elements or None)
    if isinstance(kind, fb.Texts):
        return st.lists(_texts, max_size=4)
    if isinstance(kind, fb.Tables):
        element = kind._element
        assert isinstance(element, fb.SubTable)
        return st.lists(messages_of(element._kind), max_size=3)
    if isinstance(kind, fb.SubTable):
        return st.none() | messages_of(kind._kind)
    raise AssertionError(kind)


def messages_of(kind: type[fb.Message]) -> st.SearchStrategy[Any]:
    """Messages of one class, with any of its fields left out."""
    optional = {field.name: st.deferred(lambda f=field: _values(f.type)) for field in kind.FIELDS}
    return st.fixed_dictionaries({}, optional=optional).map(lambda values: kind(**values))


payloads = st.one_of([messages_of(kind) for kind in ALL])

envelopes = st.builds(
    m.Envelope,
    session=st.integers(0, 2**64 - 1),
    correlation_id=st.integers(0, 2**64 - 1),
    kind=st.sampled_from(m.Kind),
    method=_texts,
    deadline_ns=st.integers(0, 2**64 - 1),
    error_code=st.sampled_from(m.ErrorCode),
    error_message=_texts,
    payload=st.none() | payloads,
)


def full(kind: type[fb.Message], depth: int = 0) -> fb.Message:
    """One message with every field set, the same each time."""
    values: dict[str, Any] = {}
    for number, field in enumerate(kind.FIELDS):
        values[field.name] = _full_value(field.type, 3 + number + depth)
    return kind(**values)


def _full_value(kind: fb.FieldType, salt: int) -> Any:
    if isinstance(kind, fb.Truth):
        return not kind.default
    if isinstance(kind, fb.Enumerated):
        return list(kind._members.values())[-1]
    if isinstance(kind, fb.Number):
        return salt + (0.5 if kind._float else 0)
    if isinstance(kind, fb.Structure):
        return kind._kind(*[salt + i / 4 for i, _ in enumerate(kind._kind.__slots__)])
    if isinstance(kind, fb.Text):
        return f"text {salt} ä"
    if isinstance(kind, fb.Blob):
        return bytes(range(salt, salt + 5))
    if isinstance(kind, fb.Array):
        return np.arange(salt, salt + 3).astype(kind._dtype)
    if isinstance(kind, fb.Texts):
        return [f"item {salt}", "", "same", "same"]
    if isinstance(kind, fb.Tables):
        element = kind._element
        assert isinstance(element, fb.SubTable)
        return [full(element._kind, salt), element._kind()]
    assert isinstance(kind, fb.SubTable)
    return full(kind._kind, salt)


SAMPLES = [pack(m.Envelope(session=1, correlation_id=2, method="x", payload=full(k))) for k in ALL]


def take(data: bytes) -> m.Envelope | None:
    """Read bytes that may be anything: a message, or the one kind of error."""
    try:
        return unpack(data)
    except MalformedMessage as error:
        told = str(error)
    assert told.startswith("malformed message: ")
    return None
