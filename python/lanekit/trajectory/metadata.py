"""The small part of a record that is no array: bytes, or anything JSON can say."""

from __future__ import annotations

import json
from typing import Any

# One byte says what follows, so that what was put comes back as what it was.
_BYTES, _JSON = b"b", b"j"


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
        return _JSON + text.encode("utf-8", "surrogatepass")
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"metadata is bytes or what JSON can say, and this is neither: {error}"
        ) from None


def decode_metadata(content: bytes) -> Any:
    """Return what :func:`encode_metadata` was given; None for no bytes."""
    if not content:
        return None
    if content[:1] == _BYTES:
        return content[1:]
    if content[:1] == _JSON:
        return json.loads(content[1:].decode("utf-8", "surrogatepass"))
    return content  # put by a producer in another language, which means what it says
