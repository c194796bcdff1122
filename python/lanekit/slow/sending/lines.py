"""The worker's lines: which are telemetry, which are prints, which are neither.

One JSON object per line. ``{"event_type": "step", ...}`` and ``{"event_type": "episode", ...}`` are
steps and episodes, ``{"event": "a name", ...}`` is anything that happens once. A line that claims
to be telemetry and can not be stored is *rejected*, with a reason; all others are the worker's
prints.

What becomes of a line depends on the line alone, never on how the journal was cut into chunks:
events are numbered by their order, and a restarted sender must number them the same way. Whole
chunks of steps and episodes take a short way through msgspec; it accepts only what the long way,
line by line, would accept with the same result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import nan
from operator import attrgetter
from typing import Annotated, Any, TypeAlias

import msgspec

from lanekit.errors import InvalidEvent
from lanekit.slow.field_checks import TOO_DEEP, check_name, check_size, is_too_deep
from lanekit.slow.limits import MAX_JSON_DEPTH, MAX_LINE_BYTES

TOO_LONG = f"longer than {MAX_LINE_BYTES} bytes"
"""Why a line beyond the limit is rejected."""

Raw = msgspec.Raw
_Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_Side = Annotated[int, msgspec.Meta(ge=1, le=2**32 - 1)]
# Seconds that fit into 64 bits of nanoseconds.
_Seconds = Annotated[float, msgspec.Meta(ge=-9.2e9, le=9.2e9)]


class FrameLine(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """A step's ``frame``; the pixels are base64 in the line."""

    width: _Side
    height: _Side
    channels: int
    pixels: bytes


class StepLine(
    msgspec.Struct, gc=False, forbid_unknown_fields=True, tag_field="event_type", tag="step"
):
    """A step's line. Empty, zero, NaN and None mean that the line does not say."""

    episode_index: _Int64
    step_index: _Int64
    run_id: str | None = None
    worker_id: str = ""
    agent_id: str = ""
    action: Raw = Raw()
    observation: Raw = Raw()
    reward: float = nan
    terminated: bool = False
    truncated: bool = False
    info: Raw = Raw()
    render_hint: Raw = Raw()
    seed: _Int64 | None = None
    time_ns: _Int64 = 0
    timestamp: _Seconds = 0.0
    frame: FrameLine | None = None


class EpisodeLine(
    msgspec.Struct, gc=False, forbid_unknown_fields=True, tag_field="event_type", tag="episode"
):
    """A finished episode's line."""

    episode_index: _Int64
    run_id: str | None = None
    worker_id: str = ""
    agent_id: str = ""
    episode_return: float | None = msgspec.field(default=None, name="return")
    length: _Int64 = 0
    terminated: bool = False
    truncated: bool = False
    seed: _Int64 | None = None
    info: Raw = Raw()
    time_ns: _Int64 = 0
    timestamp: _Seconds = 0.0


class EventLine(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """A line about something that happens once."""

    event: str
    run_id: str | None = None
    worker_id: str = ""
    payload: Raw = Raw()
    time_ns: _Int64 = 0
    timestamp: _Seconds = 0.0


class _OpenStepLine(StepLine, forbid_unknown_fields=False, tag="step"):
    """A step's line with keys that lanekit does not know."""


class _OpenEpisodeLine(EpisodeLine, forbid_unknown_fields=False, tag="episode"):
    """An episode's line with keys that lanekit does not know."""


class _OpenEventLine(EventLine, forbid_unknown_fields=False):
    """An event's line with keys that lanekit does not know."""


Line: TypeAlias = StepLine | EpisodeLine | EventLine


@dataclass(frozen=True, slots=True)
class Rejected:
    """A line that is kept aside, and why."""

    offset: int
    """Where it begins in the journal."""
    reason: str
    line: bytes


@dataclass(slots=True)
class Parsed:
    """What a chunk of the journal holds."""

    steps: list[StepLine] = field(default_factory=list)
    step_extras: dict[int, bytes] = field(default_factory=dict)
    """Index in `steps` to the keys lanekit does not know, as one JSON object."""
    episodes: list[tuple[EpisodeLine, bytes]] = field(default_factory=list)
    events: list[tuple[EventLine, bytes]] = field(default_factory=list)
    prints: list[bytes] = field(default_factory=list)
    """Lines that are no telemetry, with their line ends."""
    rejected: list[Rejected] = field(default_factory=list)


_STEP_OR_EPISODE: msgspec.json.Decoder[StepLine | EpisodeLine] = msgspec.json.Decoder(
    StepLine | EpisodeLine
)
_OBJECT: msgspec.json.Decoder[dict[str, Raw]] = msgspec.json.Decoder(dict[str, Raw])
_EVENT: msgspec.json.Decoder[Any] = msgspec.json.Decoder(EventLine)
_DECODERS: dict[str, msgspec.json.Decoder[Any]] = {
    "step": msgspec.json.Decoder(StepLine),
    "episode": msgspec.json.Decoder(EpisodeLine),
    "event": _EVENT,
}
_OPEN_DECODERS: dict[str, msgspec.json.Decoder[Any]] = {
    "step": msgspec.json.Decoder(_OpenStepLine),
    "episode": msgspec.json.Decoder(_OpenEpisodeLine),
    "event": msgspec.json.Decoder(_OpenEventLine),
}
_KNOWN: dict[str, frozenset[str]] = {
    "step": frozenset({*StepLine.__struct_encode_fields__, "event_type"}),
    "episode": frozenset({*EpisodeLine.__struct_encode_fields__, "event_type"}),
    "event": frozenset(EventLine.__struct_encode_fields__),
}
_ANY_SHAPE = frozenset({"action", "observation", "info", "render_hint"})

_run_id: Callable[[Any], str | None] = attrgetter("run_id")
_worker_id: Callable[[Any], str] = attrgetter("worker_id")
_agent_id: Callable[[Any], str] = attrgetter("agent_id")
_frame: Callable[[StepLine], FrameLine | None] = attrgetter("frame")


class _Refusal(Exception):
    """Why a telemetry line can not be stored."""


class LineParser:
    """Sorts the lines of one run's journal."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._own_run: set[str | None] = {None, run_id}

    def parse(self, chunk: bytes, offset: int = 0) -> Parsed:
        """Sort the lines of a chunk that begins at `offset` of the journal and ends with a line.

        Only the journal's very last line may lack its line end.
        """
        lines = _count_lines(chunk)
        if lines:
            try:
                rows = _STEP_OR_EPISODE.decode_lines(chunk)
            except msgspec.DecodeError:
                rows = []
            if len(rows) == lines and (parsed := self._accept_all(rows)) is not None:
                return parsed
        parsed = Parsed()
        run_id = self._run_id
        for line in chunk.splitlines(keepends=True) if b"\r" not in chunk else _split(chunk):
            if line[:1] != b"{" and line.lstrip(b" \t\r")[:1] != b"{":
                parsed.prints.append(line)
            elif len(line) - line.endswith(b"\n") > MAX_LINE_BYTES:
                _refuse_or_print(parsed, line, offset, TOO_LONG)
            elif is_too_deep(line):
                _refuse_or_print(parsed, line, offset, TOO_DEEP)
            else:
                decoder = _EVENT if line.startswith(b'{"event":') else _STEP_OR_EPISODE
                try:
                    row: Line = decoder.decode(line)
                    if not line.isascii():
                        line.decode()
                    _check(row, run_id)
                    _add(parsed, row, b"")
                except (msgspec.DecodeError, UnicodeDecodeError, _Refusal):
                    fields: dict[str, Raw] | None = None
                    try:
                        line.decode()
                        fields = _OBJECT.decode(line)
                    except UnicodeDecodeError as error:
                        reason = f"not UTF-8: {error.reason} at byte {error.start}"
                    except msgspec.DecodeError as error:
                        reason = f"not JSON, or cut short: {error}"
                    if fields is not None:
                        self._take_fields(fields, line, offset, parsed)
                    else:
                        _refuse_or_print(parsed, line, offset, reason)
            offset += len(line)
        return parsed

    def _accept_all(self, rows: list[StepLine | EpisodeLine]) -> Parsed | None:
        """Return a chunk of nothing but steps and episodes, or None if one must be looked at."""
        if not self._own_run.issuperset(map(_run_id, rows)):
            return None
        try:
            for name in {*map(_worker_id, rows), *map(_agent_id, rows)}:
                check_name(name, "")
        except InvalidEvent:
            return None
        parsed = Parsed()
        if set(map(type, rows)) == {StepLine}:
            parsed.steps = rows  # type: ignore[assignment]
        else:
            parsed.steps = [row for row in rows if type(row) is StepLine]
            parsed.episodes = [(row, b"") for row in rows if type(row) is EpisodeLine]
        frames = list(map(_frame, parsed.steps))
        if frames.count(None) != len(frames) and any(map(_frame_problem, frames)):
            return None
        return parsed

    def _take_fields(
        self, fields: dict[str, Raw], line: bytes, offset: int, parsed: Parsed
    ) -> None:
        """Take a line that is an object, but not one for the short way."""
        if "event_type" not in fields and "event" not in fields:
            parsed.prints.append(line)
            return
        try:
            kind = _kind_of(fields)
            known = _KNOWN[kind]
            extra = {key: value for key, value in fields.items() if key not in known}
            row: Line
            try:
                row = _OPEN_DECODERS[kind].decode(line)
                if isinstance(row, EventLine) and bytes(row.payload) == b"null":
                    row.payload = Raw()
            except msgspec.DecodeError:
                # An explicit null says the same as an absent key, except where any value may stand.
                given = {
                    key: value
                    for key, value in fields.items()
                    if key in known and (key in _ANY_SHAPE or bytes(value) != b"null")
                }
                row = _DECODERS[kind].decode(msgspec.json.encode(given))
            _check(row, self._run_id)
            _add(parsed, row, msgspec.json.encode(extra) if extra else b"")
        except (_Refusal, msgspec.DecodeError) as refusal:
            parsed.rejected.append(Rejected(offset, str(refusal), line.rstrip(b"\n")))


def _count_lines(chunk: bytes) -> int:
    """Return how many lines a chunk has, or 0 when it can not be read as one piece.

    Read as one piece, a value might go on over a line's end, or two might share a line. Neither is
    possible if each line begins with ``{`` and ends with ``}``: nothing valid has ``}`` and ``{``
    with only a line end between, and then as many values as lines means one value on each.
    """
    if not chunk.startswith(b"{") or not chunk.endswith(b"}\n"):
        return 0
    lines = chunk.count(b"\n")
    if chunk.count(b"}\n{") != lines - 1:
        return 0
    begin = 0
    while begin < len(chunk):
        # Short lines, which have no room for so many levels, are passed over several at a time.
        end = chunk.rfind(b"\n", begin, begin + 2 * MAX_JSON_DEPTH + 1)
        if end < 0:
            end = chunk.index(b"\n", begin)
            if end - begin > MAX_LINE_BYTES or is_too_deep(chunk[begin:end]):
                return 0
        begin = end + 1
    if not chunk.isascii():
        try:
            chunk.decode()
        except UnicodeDecodeError:
            return 0
    return lines


def _split(chunk: bytes) -> list[bytes]:
    r"""Split at ``\n`` alone; ``bytes.splitlines`` splits at ``\r`` too."""
    lines = [line + b"\n" for line in chunk.split(b"\n")]
    last = lines.pop()[:-1]
    return [*lines, last] if last else lines


def _kind_of(fields: dict[str, Raw]) -> str:
    kinds = {
        name: bytes(fields[name])
        for name in ("event_type", "event")
        if name in fields and bytes(fields[name]) != b"null"
    }
    if len(kinds) != 1:
        what = "both" if kinds else "null"
        raise _Refusal(f"expected either `event_type` or `event`, found {what}")
    if "event" in kinds:
        return "event"
    kind = msgspec.json.decode(kinds["event_type"])
    if kind not in ("step", "episode"):
        raise _Refusal(f'`event_type` is "step" or "episode", not {kinds["event_type"][:80]!r}')
    return str(kind)


def _check(row: Line, run_id: str) -> None:
    """Refuse what the types do not exclude and the daemon would not store."""
    if row.run_id is not None and row.run_id != run_id:
        raise _Refusal(f"`run_id` is {row.run_id[:200]!r}, but this is run {run_id!r}")
    try:  # the same as the daemon: it would refuse the whole batch
        check_name(row.worker_id, "`worker_id`")
        if isinstance(row, EventLine):
            check_size(row.event, "`event`")
        else:
            check_name(row.agent_id, "`agent_id`")
    except InvalidEvent as error:
        raise _Refusal(str(error)) from None
    if isinstance(row, EventLine):
        if not row.event:
            raise _Refusal("`event` is empty")
        if bytes(row.payload)[:1] not in (b"", b"{"):
            raise _Refusal("`payload` must be an object")
    if isinstance(row, StepLine) and (problem := _frame_problem(row.frame)):
        raise _Refusal(problem)


def _frame_problem(frame: FrameLine | None) -> str:
    if frame is None:
        return ""
    if frame.channels not in (1, 3, 4):
        return f"`frame.channels` is 1, 3 or 4, not {frame.channels}"
    expected = frame.width * frame.height * frame.channels
    if len(frame.pixels) != expected:
        return (
            f"`frame` of {frame.width}x{frame.height}x{frame.channels} needs {expected} bytes of "
            f"pixels, found {len(frame.pixels)}"
        )
    return ""


def _refuse_or_print(parsed: Parsed, line: bytes, offset: int, reason: str) -> None:
    """Sort a line of which nothing can be made: it is a print unless it begins with ``{"``."""
    if line.startswith(b'{"'):
        parsed.rejected.append(Rejected(offset, reason, line.rstrip(b"\n")))
    else:
        parsed.prints.append(line)


def _add(parsed: Parsed, row: Line, extra: bytes) -> None:
    if isinstance(row, StepLine):
        if extra:
            parsed.step_extras[len(parsed.steps)] = extra
        parsed.steps.append(row)
    elif isinstance(row, EpisodeLine):
        parsed.episodes.append((row, extra))
    else:
        parsed.events.append((row, extra))
