"""What one field of an event may hold: names, JSON, frames, and fields of newer versions.

Every check raises :class:`~lanekit.errors.InvalidEvent` with the row, what was expected and what
was found. Whole columns are checked at the speed of C as long as nothing is wrong with them.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence

import msgspec
from google.protobuf.message import DecodeError, EncodeError

from lanekit.errors import InvalidEvent
from lanekit.slow.proto import telemetry_pb2 as pb

MAX_NAME_BYTES = 256

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_json_value = msgspec.json.Decoder(msgspec.Raw)
_json_values = msgspec.json.Decoder(list[msgspec.Raw])


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


def check_json(text: bytes, name: str, row: int) -> None:
    """Refuse what is neither empty nor JSON."""
    if not text:
        return
    try:
        text.decode()
    except UnicodeDecodeError as error:
        raise InvalidEvent(f"row {row}: {name} must be UTF-8; {error}") from None
    try:
        _json_value.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
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
            try:
                check_json(text, name, row)
            except InvalidEvent:
                if not _is_deep_json(text):
                    raise


def _are_all_json(texts: list[bytes]) -> bool:
    """Tell whether each is a JSON value by itself, in one go. False: look at each."""
    if not texts:
        return True
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


def _is_deep_json(text: bytes) -> bool:
    """Tell whether a text is JSON that is only too deeply nested for this place of the stack.

    Senders decode a line where they are, and how deep that may go depends on the stack's depth. A
    thread of its own has more of it left than any sender had: what one accepted passes here.
    """
    if text.count(b"[") + text.count(b"{") < 100:
        return False
    passed = []

    def decode() -> None:
        try:
            text.decode()
            _json_value.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return
        passed.append(True)

    thread = threading.Thread(target=decode, name="lanekit-deep-json")
    thread.start()
    thread.join()
    return bool(passed)


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
