"""The small part of a record that is no array: bytes, or anything JSON can say."""

from __future__ import annotations

import json
import re
from typing import Any

from lanekit import errors

# One byte says what follows, so that what was put comes back as what it was.
_BYTES, _JSON = b"b", b"j"

NESTING_MOST = 200
"""How deeply lists and objects may be nested. Python's parser takes some stack for each level, and
how much there is depends on who calls it."""

_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


def encode_metadata(value: Any) -> bytes:
    """Return the bytes that a record carries for `value`; none for None."""
    if value is None:
        return b""
    if type(value) is bytes:
        return _BYTES + value
    if isinstance(value, bytes | bytearray | memoryview):
        return _BYTES + bytes(value)
    try:
        text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
        content = text.encode("utf-8", "surrogatepass")
        check_nesting(content)
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(
            f"metadata is bytes or what JSON can say, and this is neither: {error}"
        ) from None
    return _JSON + content


def decode_metadata(content: bytes) -> Any:
    """Return what :func:`encode_metadata` was given; None for no bytes.

    Raises :class:`~lanekit.errors.SegmentCorrupt` for what it can not have made.
    """
    if not content:
        return None
    if content[:1] == _BYTES:
        return content[1:]
    if content[:1] == _JSON:
        try:
            return read_json(content[1:])
        except ValueError as error:
            raise errors.SegmentCorrupt(
                f"a record's metadata of {len(content)} bytes begins as JSON does (a 'j'), and is "
                f"none: {error}. Look at what its producer puts; the record's arrays can be used"
            ) from None
    return content  # put by a producer in another language, which means what it says


def read_json(content: bytes, **options: Any) -> Any:
    """Return what JSON from another process says; ValueError, and nothing else, if it is none."""
    check_nesting(content)
    try:
        return json.loads(content.decode("utf-8", "surrogatepass"), **options)
    except RecursionError:
        raise ValueError("it is nested more deeply than can be read here") from None


def check_nesting(content: bytes) -> None:
    """Raise ValueError for JSON that is nested too deeply to be handed to a parser."""
    if content.count(b"[") + content.count(b"{") <= NESTING_MOST:
        return
    # Take the innermost brackets away, again and again: as often as they are nested.
    left = _STRING.sub(b"", content).translate(None, _NO_BRACKETS)
    for _ in range(NESTING_MOST):
        shorter = left.replace(b"[]", b"").replace(b"{}", b"")
        if len(shorter) == len(left):
            break
        left = shorter
    if left:
        raise ValueError(
            f"it is nested more than {NESTING_MOST} levels deep, or its brackets do not match"
        )
