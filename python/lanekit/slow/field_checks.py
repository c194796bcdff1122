"""What one field of an event may hold: names, JSON, frames, and fields of newer versions.

Every check raises :class:`~lanekit.errors.InvalidEvent` with the row, what was expected and what
was found. Whole columns are checked at the speed of C as long as nothing is wrong with them.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from itertools import accumulate

import msgspec
from google.protobuf.message import DecodeError, EncodeError

from lanekit.errors import InvalidEvent
from lanekit.slow.limits import MAX_JSON_DEPTH
from lanekit.slow.proto import telemetry_pb2 as pb

MAX_NAME_BYTES = 256
TOO_DEEP = f"nested too deeply: at most {MAX_JSON_DEPTH} levels of arrays and objects"
"""Why JSON beyond the limit is refused."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_json_value = msgspec.json.Decoder(msgspec.Raw)
_json_values = msgspec.json.Decoder(list[msgspec.Raw])
_JSON_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_BRACES_AS_BRACKETS = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


def check_size(text: str, where: str) -> None:
    """Refuse a name that is too long, that is not Unicode, or that no database could hold."""
    if "\0" in text:
        raise InvalidEvent(f"{where} must not have control characters; got '\\x00' in it")
    if text.isascii() and len(text) <= MAX_NAME_BYTES:
        return
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise InvalidEvent(f"{where} must be valid Unicode; {error}") from None
    if size > MAX_NAME_BYTES:
        raise InvalidEvent(f"{where} takes at most {MAX_NAME_BYTES} bytes; got {size}")


def check_name(text: str, where: str) -> None:
    """Refuse a worker's or an agent's name that could not be shown, or that is too long."""
    check_size(text, where)
    if not text.isprintable() and (found := _CONTROL.search(text)):
        raise InvalidEvent(f"{where} must not have control characters; got {found[0]!r} in it")


def is_too_deep(text: bytes) -> bool:
    """Tell whether a JSON text is nested more deeply than :data:`~.limits.MAX_JSON_DEPTH`."""
    # Most texts have no room for so many brackets. The cheapest questions come first.
    if (
        len(text) <= 2 * MAX_JSON_DEPTH
        or max(text.rfind(b"["), text.rfind(b"{")) < MAX_JSON_DEPTH
        or text.count(b"[") + text.count(b"{") <= MAX_JSON_DEPTH
    ):
        return False
    brackets = _JSON_STRING.sub(b"", text).translate(_BRACES_AS_BRACKETS, _NO_BRACKETS)
    # Whatever holds no other goes, level by level: nearly all of an array of arrays at once.
    for _ in range(8):
        brackets = brackets.replace(b"[]", b"")
    levels = accumulate(1 if byte == ord("[") else -1 for byte in brackets)
    return any(level > MAX_JSON_DEPTH - 8 for level in levels)


def check_json(text: bytes, name: str, row: int) -> None:
    """Refuse what is neither empty nor JSON, and JSON that is nested too deeply."""
    if not text:
        return
    try:
        text.decode()
    except UnicodeDecodeError as error:
        raise InvalidEvent(f"row {row}: {name} must be UTF-8; {error}") from None
    if is_too_deep(text):
        raise InvalidEvent(f"row {row}: {name} is {TOO_DEEP}")
    try:
        _decode(text)
    except msgspec.DecodeError as error:
        raise InvalidEvent(f"row {row}: {name} must be JSON, or empty; {error}") from None


def check_extra(text: bytes, row: int) -> None:
    """Refuse what is neither empty nor a JSON object, known to be JSON."""
    if text and not text.lstrip(b" \t\r\n").startswith(b"{"):
        raise InvalidEvent(
            f"row {row}: extra_json must be a JSON object, or empty; got {text[:40]!r}"
        )


def check_json_column(column: Sequence[bytes], name: str, rows: Sequence[int]) -> None:
    """Refuse a column of which one text is neither empty nor JSON; `rows` says whose each is."""
    texts = list(column)
    if not _are_all_json([text for text in texts if text] if b"" in texts else texts):
        for row, text in zip(rows, texts, strict=True):
            check_json(text, name, row)


def _are_all_json(texts: list[bytes]) -> bool:
    """Tell whether each is a JSON value by itself, in one go. False: look at each."""
    if not texts:
        return True
    if any(map(is_too_deep, texts)):
        return False
    lined = b"\n".join(texts)
    if lined.count(b"\n") != len(texts) - 1:
        return False
    joined = b",".join(texts)
    if not joined.isascii():
        # Joined, halves of a character would stand apart, and be found.
        try:
            joined.decode()
        except UnicodeDecodeError:
            return False
    try:
        values = _json_values.decode(b"[" + joined + b"]")
    except (msgspec.DecodeError, RecursionError):
        return False
    # As many values as texts would not be enough: `[1` and `2]` make one, `3,4` two. Nor may
    # spaces around a value hide where it begins; such a column is looked at text by text.
    return b"\n".join(values) == lined


def _decode(text: bytes) -> None:
    """Let msgspec read a text that is not nested too deeply, however little stack is left here."""
    try:
        _json_value.decode(text)
    except RecursionError:
        problems: list[msgspec.DecodeError] = []

        def decode() -> None:
            try:
                _json_value.decode(text)
            except msgspec.DecodeError as error:
                problems.append(error)

        thread = threading.Thread(target=decode, name="lanekit-deep-json")
        thread.start()
        thread.join()
        if problems:
            raise problems[0] from None


def check_unknown(blob: bytes, row: int) -> None:
    """Refuse "fields of a newer version" that could not be given back, or are none."""
    try:
        step = pb.Step.FromString(blob)
        # As deep as it will be in an answer: the wire has a limit to how deep messages are nested.
        pb.StreamRunStepsResponse.FromString(
            pb.StreamRunStepsResponse(steps=[step]).SerializeToString()
        )
    except (DecodeError, EncodeError, ValueError) as error:
        raise InvalidEvent(
            f"row {row}: unknown_fields must be the serialised fields of a step; {error}"
        ) from None
    if known := step.ListFields():
        raise InvalidEvent(
            f"row {row}: unknown_fields must only hold fields this daemon does not know; got"
            f" {known[0][0].name}, which has a column"
        )


def check_frame(frame: pb.Frame, row: int) -> None:
    """Refuse a frame whose pixels do not fit its size."""
    expected = frame.width * frame.height * frame.channels
    if frame.channels not in (1, 3, 4) or expected == 0 or expected != len(frame.pixels):
        raise InvalidEvent(
            f"row {row}: a frame has width * height * channels bytes, in 1, 3 or 4 channels; got"
            f" {frame.width} x {frame.height} x {frame.channels} and {len(frame.pixels)} bytes"
        )
