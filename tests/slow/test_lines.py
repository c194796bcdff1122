"""Which lines are telemetry, which are prints, which are kept aside: against a slow reference."""

from __future__ import annotations

import base64
import json
import math
import unicodedata
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from recording_daemon import step_line

from lanekit.slow.limits import MAX_JSON_DEPTH, MAX_LINE_BYTES
from lanekit.slow.sending import lines as lines_module
from lanekit.slow.sending.lines import LineParser, Parsed

# --- the reference: one line at a time, with the standard library ---------------------------------

STEP = {
    *("event_type", "run_id", "worker_id", "agent_id", "episode_index", "step_index", "action"),
    *("observation", "reward", "terminated", "truncated", "info", "render_hint", "seed"),
    *("time_ns", "timestamp", "frame"),
}
EPISODE = {
    *("event_type", "run_id", "worker_id", "agent_id", "episode_index", "return", "length"),
    *("terminated", "truncated", "seed", "info", "time_ns", "timestamp"),
}
EVENT = {"event", "run_id", "worker_id", "payload", "time_ns", "timestamp"}
FREE = {"action", "observation", "info", "render_hint"}


def strict(line: bytes) -> Any:
    def no_constant(name: str) -> None:
        raise ValueError(name)

    value = json.loads(line.decode(), parse_constant=no_constant)
    json.dumps(value, ensure_ascii=False).encode()  # a lone surrogate is no text
    return value


def is_int(value: Any) -> bool:
    return type(value) is int and -(2**63) <= value < 2**63


def is_number(value: Any) -> bool:
    try:
        return type(value) in (int, float) and math.isfinite(float(value))
    except OverflowError:
        return False


def is_short(value: Any) -> bool:
    return isinstance(value, str) and len(value.encode()) <= 256


def is_name(value: Any) -> bool:
    return is_short(value) and not any(unicodedata.category(c) == "Cc" for c in value)


def is_frame(value: Any) -> bool:
    if not isinstance(value, dict) or set(value) != {"width", "height", "channels", "pixels"}:
        return False
    sides = [value[key] for key in ("width", "height", "channels")]
    if not all(is_int(side) and side > 0 for side in sides) or sides[2] not in (1, 3, 4):
        return False
    try:
        return len(base64.b64decode(value["pixels"], validate=True)) == math.prod(sides)
    except (ValueError, TypeError):
        return False


CHECKS = {
    "run_id": lambda v: v == "r",
    "worker_id": is_name,
    "agent_id": is_name,
    "episode_index": is_int,
    "step_index": is_int,
    "reward": is_number,
    "return": is_number,
    "length": is_int,
    "terminated": lambda v: isinstance(v, bool),
    "truncated": lambda v: isinstance(v, bool),
    "seed": is_int,
    "time_ns": is_int,
    "timestamp": lambda v: is_number(v) and abs(v) <= 9.2e9,
    "frame": is_frame,
    "payload": lambda v: isinstance(v, dict),
    "event": lambda v: is_short(v) and v != "",
    "event_type": lambda v: v in ("step", "episode"),
}


def reference(line: bytes) -> tuple[str, Any]:
    """Return ("print" | "reject" | "step" | "episode" | "event", fields)."""
    try:
        value = strict(line)
    except ValueError:
        return ("reject", None) if line.startswith(b'{"') else ("print", None)
    if not isinstance(value, dict) or not {"event_type", "event"} & set(value):
        return "print", None
    given_fields = {k: v for k, v in value.items() if v is not None or k in FREE}
    if ("event_type" in given_fields) == ("event" in given_fields):
        return "reject", None
    kind = "event" if "event" in given_fields else given_fields["event_type"]
    if kind not in ("step", "episode", "event"):
        return "reject", None
    known = {"step": STEP, "episode": EPISODE, "event": EVENT}[kind]
    required = {"step": {"episode_index", "step_index"}, "episode": {"episode_index"}}
    if not required.get(kind, set()) <= set(given_fields):
        return "reject", None
    for key, item in given_fields.items():
        if key in known and key in CHECKS and not CHECKS[key](item):
            return "reject", None
    fields = {k: v for k, v in given_fields.items() if k in known}
    # An unknown key keeps even a null.
    extra = {k: v for k, v in value.items() if k not in known}
    return kind, (fields, extra)


def split(journal: bytes) -> Iterator[bytes]:
    parts = journal.split(b"\n")
    yield from (part + b"\n" for part in parts[:-1])
    if parts[-1]:
        yield parts[-1]


def expected(journal: bytes) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {k: [] for k in ("step", "episode", "event", "print", "reject")}
    for line in split(journal):
        kind, fields = reference(line)
        found[kind].append(line if fields is None else fields)
    found["reject"] = [line.rstrip(b"\n") for line in found["reject"]]
    return found


# --- what the parser found, in the reference's words ----------------------------------------------


def plain(row: Any, extra: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    fields: dict[str, Any] = {}
    for name, key in zip(row.__struct_fields__, row.__struct_encode_fields__, strict=True):
        value = getattr(row, name)
        if isinstance(value, lines_module.Raw):
            if bytes(value):
                fields[key] = json.loads(bytes(value))
        elif key == "frame" and value is not None:
            fields[key] = {
                "width": value.width,
                "height": value.height,
                "channels": value.channels,
                "pixels": base64.b64encode(value.pixels).decode(),
            }
        elif value is not None and value == value:
            fields[key] = value
    tag = row.__struct_config__.tag
    if tag is not None:
        fields["event_type"] = tag
    return fields, json.loads(extra) if extra else {}


def found(parsed: Parsed) -> dict[str, list[Any]]:
    return {
        "step": [plain(r, parsed.step_extras.get(i, b"")) for i, r in enumerate(parsed.steps)],
        "episode": [plain(*pair) for pair in parsed.episodes],
        "event": [plain(*pair) for pair in parsed.events],
        "print": parsed.prints,
        "reject": [reject.line for reject in parsed.rejected],
    }


DEFAULTS = {
    *(("worker_id", ""), ("agent_id", ""), ("terminated", False), ("truncated", False)),
    *(("time_ns", 0), ("timestamp", 0.0), ("length", 0)),
}


def same(ours: dict[str, list[Any]], theirs: dict[str, list[Any]]) -> bool:
    def hashable(fields: dict[str, Any]) -> dict[str, Any]:
        return {
            k: v
            for k, v in fields.items()
            if k in FREE | {"payload", "frame"} or (k, v) not in DEFAULTS
        }

    for kind in ("step", "episode", "event"):
        a = [(hashable(f), x) for f, x in ours[kind]]
        b = [(hashable(f), x) for f, x in theirs[kind]]
        if a != b:
            return False
    return ours["print"] == theirs["print"] and ours["reject"] == theirs["reject"]


def check(journal: bytes, cuts: list[int] | None = None) -> None:
    """Parse the journal in pieces that end with lines, and compare."""
    parser = LineParser("r")
    total: dict[str, list[Any]] = {k: [] for k in ("step", "episode", "event", "print", "reject")}
    begin = 0
    ends = [i + 1 for i, byte in enumerate(journal) if byte == 10]
    stops = sorted({ends[c % len(ends)] for c in cuts or []} if ends else set())
    for stop in [*stops, len(journal)]:
        if stop > begin:
            for kind, rows in found(parser.parse(journal[begin:stop], begin)).items():
                total[kind] += rows
            begin = stop
    assert same(total, expected(journal)), (journal, total, expected(journal))


# --- fuzz -----------------------------------------------------------------------------------------

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**63) - 1, 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
SMALL = st.integers(-3, 3)
GOOD = {
    "run_id": st.just("r"),
    "worker_id": st.sampled_from(["", "w", "é" * 128]),
    "agent_id": st.sampled_from(["", "a", "b", "\x00"]),
    "episode_index": SMALL,
    "step_index": st.integers(0, 2**63 - 1),
    "action": JSON,
    "observation": JSON,
    "info": JSON,
    "render_hint": JSON,
    "reward": st.floats(allow_nan=False, allow_infinity=False) | SMALL,
    "return": st.floats(allow_nan=False, allow_infinity=False) | SMALL,
    "length": SMALL,
    "terminated": st.booleans(),
    "truncated": st.booleans(),
    "seed": SMALL,
    "time_ns": SMALL,
    "timestamp": st.floats(-9e9, 9e9),
    "frame": st.sampled_from(
        [
            {"width": 1, "height": 2, "channels": 3, "pixels": "AAAAAAAA"},
            {"width": 1, "height": 2, "channels": 3, "pixels": "AAAA"},
            {"width": 1, "height": 1, "channels": 2, "pixels": "AAA="},
            {"width": 0, "height": 1, "channels": 1, "pixels": ""},
        ]
    ),
    "payload": st.dictionaries(st.text(max_size=4), JSON, max_size=2),
    "event": st.sampled_from(["heartbeat", "x", ""]),
    "event_type": st.sampled_from(["step", "step", "step", "episode", "other"]),
    "extra": JSON,
    "run": st.just("r"),
}


@st.composite
def telemetry(draw: Any) -> bytes:
    kind = draw(st.sampled_from(["step", "step", "step", "episode", "event"]))
    fields: dict[str, Any] = {"event": "x"} if kind == "event" else {"event_type": kind}
    if kind != "event":
        fields["episode_index"] = draw(SMALL)
    if kind == "step":
        fields["step_index"] = draw(SMALL)
    own = sorted({"step": STEP, "episode": EPISODE, "event": EVENT}[kind])
    names = draw(st.lists(st.sampled_from(own), max_size=6))
    if draw(st.integers(0, 9)) == 0:
        names += draw(st.lists(st.sampled_from(sorted(GOOD)), max_size=3))
    for name in names:
        fields[name] = draw(GOOD[name])
    if draw(st.integers(0, 9)) == 0:
        fields[draw(st.sampled_from(sorted(GOOD)))] = draw(JSON)
    items = list(fields.items())
    if draw(st.booleans()):
        items = draw(st.permutations(items))
    compact = draw(st.booleans())
    text = json.dumps(
        dict(items),
        ensure_ascii=draw(st.booleans()),
        separators=(",", ":") if compact else (", ", ": "),
    )
    return text.encode("utf-8", errors="surrogatepass")


ODD = st.sampled_from(
    [
        *(
            b"",
            b"hello",
            b"{",
            b"{}",
            b'{"',
            b"[]",
            b"null",
            b"epoch 3: loss=1",
            b"\xff\xfe",
            b"\x00",
        ),
        *(b'{"a": 1}', b' {"event": "x"}', b'{"event": "x"} ', b'{"event": "x"}\t', b"\r", b"}"),
        *(
            b'{"event": NaN}',
            b'{"event_type":"step","reward":NaN}',
            b'{"event": "x"}{"event": "y"}',
        ),
        *(b'{"event_type":"step",', b'"episode_index":1,"step_index":1}', b'{"event": null}'),
        *(
            b'{"event_type":"step","episode_index":1,"step_index":2}' * 2,
            b'\xef\xbb\xbf{"event":"x"}',
        ),
        *(b'{"event_type":"step","episode_index":1,"step_index":2,"action":"\xff"}',),
        *(b'{"event_type":"step","episode_index":1,"step_index":2,"action":"\\ud800"}',),
        *(b'{"event_type":"step","episode_index":1,"step_index":2,"action":"\\udc00x"}',),
        *(b'{"event_type":"step","episode_index":1,"step_index":2,"action":1,"action":2}',),
        *(b'{"event_type":"episode","event_type":"step","episode_index":1,"step_index":2}',),
        *(b'{"event_type":"step","episode_index":1,"step_index":2,"reward":1e999}',),
        *(b'{"event_type":"step","episode_index":1,"step_index":2,"reward":1' + b"0" * 400 + b"}",),
        *(
            b'{"event":"x","payload":{}\n{}}',
            b'{"event":"x","payload":[]}',
            b'{"event":"x","payload":null}',
        ),
    ]
)


@st.composite
def journals(draw: Any) -> tuple[bytes, list[int]]:
    parts = []
    for line in draw(
        st.lists(telemetry() | telemetry() | ODD | st.binary(max_size=12), max_size=12)
    ):
        if draw(st.integers(0, 19)) == 0 and line:
            at = draw(st.integers(0, len(line) - 1))
            line = line[:at] + draw(st.binary(max_size=2)) + line[at + 1 :]
        parts.append(line + draw(st.sampled_from([b"\n"] * 12 + [b"\r\n"])))
    journal = b"".join(parts)
    if journal and draw(st.integers(0, 4)) == 0:
        journal = journal[: draw(st.integers(0, len(journal)))]
    return journal, draw(st.lists(st.integers(0, 50), max_size=4))


@pytest.mark.once
@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(journals())
@example((b'{"event_type":"step","episode_index":1,"step_index":2}{"event_type":"step",\n'
          b'"episode_index":1,"step_index":2}\n', []))  # fmt: skip
def test_any_journal_is_sorted_as_the_slow_reference_does(case: tuple[bytes, list[int]]) -> None:
    check(*case)


# --- by name --------------------------------------------------------------------------------------


def test_every_position_of_a_cut_gives_the_same() -> None:
    journal = (
        step_line(0)
        + b"a print\n"
        + step_line(1, extra=[1])
        + b'{"event":"heartbeat"}\r\n\n'
        + b'{"event_type":"episode","episode_index":0,"return":1.5}\n'
        + b'{"event_type":"step","episode_index":0}\n'
        + b'{"event_type":"step","epi'
    )
    for cut in range(len(journal)):
        check(journal[:cut])
    for first in range(6):
        for second in range(6):
            check(journal, [first, second])


def test_a_chunk_of_steps_takes_the_short_way_with_the_same_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    journal = b"".join(map(step_line, range(300)))
    short = found(LineParser("r").parse(journal))
    monkeypatch.setattr(lines_module, "_count_lines", lambda chunk: 0)
    long = found(LineParser("r").parse(journal))
    assert short == long
    assert len(short["step"]) == 300


def test_null_is_a_value_for_actions_and_an_absence_elsewhere() -> None:
    line = (
        b'{"event_type":"step","episode_index":0,"step_index":0,"reward":null,"terminated":null,'
        b'"action":null,"agent_id":null,"seed":null,"frame":null}\n'
    )
    (step,) = LineParser("r").parse(line).steps
    assert bytes(step.action) == b"null"
    assert bytes(step.observation) == b""
    assert math.isnan(step.reward)
    assert step.seed is None


def test_values_keep_the_workers_bytes() -> None:
    odd = b'{ "b":1.50,  "a":[1e3, "\\u00e9\xc3\xa9"] }'
    line = b'{"event_type":"step","episode_index":0,"step_index":0,"action":' + odd + b',"x":1.0}\n'
    parsed = LineParser("r").parse(line)
    assert bytes(parsed.steps[0].action) == odd
    assert parsed.step_extras == {0: b'{"x":1.0}'}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"event_type":"step","episode_index":0}', "step_index"),
        (b'{"event_type":"step","episode_index":0,"step_index":9223372036854775808}', "step_index"),
        (b'{"event_type":"step","episode_index":0,"step_index":0,"reward":"high"}', "reward"),
        (b'{"event_type":"step","episode_index":0,"step_index":0,"run_id":"other"}', "run 'r'"),
        (b'{"event_type":"jump"}', "step"),
        (b'{"event_type":"step","event":"x"}', "both"),
        (b'{"event":"x","payload":3}', "object"),
        (b'{"event":""}', "empty"),
        (b'{"event":"' + b"x" * 257 + b'"}', "256 bytes"),
        (b'{"event":"x","worker_id":"a\\u0000b"}', "control characters"),
        (
            b'{"event_type":"step","episode_index":0,"step_index":0,"agent_id":"a\\n"}',
            "control characters",
        ),
        (b'{"event_type":"step","episode_index":0,"step_index":0,"reward":NaN}', "not JSON"),
        (b'{"event_type":"step","epis', "cut short"),
        (b'{"event_type":"step","action":"\xff"}', "not UTF-8"),
        (b'{"event":"x","payload":{"a":' + b"[" * 50_000 + b"]" * 50_000 + b"}}", "deeply"),
    ],
)
def test_a_rejected_line_says_why_and_where(line: bytes, reason: str) -> None:
    parsed = LineParser("r").parse(b"print\n" + line + b"\n" + step_line(0), 1000)
    (reject,) = parsed.rejected
    assert reason in reject.reason
    assert (reject.offset, reject.line) == (1006, line)
    assert len(parsed.steps) == 1
    assert parsed.prints == [b"print\n"]


LEVELS = [
    (b"[", b"]"),
    (b'{"a":', b"}"),
    (b' [ "]}" , ', b" ]"),
    (b'{ "\\"[{" : ', b" } "),
    (b"[[],", b"]"),
]
"""Ways to write one more level; brackets in strings and beside the way down do not count."""
NESTED = [
    (1, b'{"event_type":"step","episode_index":0,"step_index":0,"observation":%s}'),
    (1, b'{"event_type":"step","episode_index":0,"step_index":0,"own":%s}'),
    (1, b'{"event_type":"episode","episode_index":1,"info":%s}'),
    (2, b'{"event":"x","payload":{"a":%s}}'),
    (1, b'{"event":"x","own":%s}'),
]
"""Lines, and how many levels they have around a value."""


@pytest.mark.parametrize(("around", "line"), NESTED)
@pytest.mark.parametrize(("opening", "closing"), LEVELS)
def test_nesting_has_a_limit_of_its_own(
    around: int, line: bytes, opening: bytes, closing: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def parse(depth: int) -> Parsed:
        levels = depth - around - 1
        value = opening * levels + b'["innermost"]' + closing * levels
        return LineParser("r").parse(line % value + b"\n")

    for _ in range(2):
        parsed = parse(MAX_JSON_DEPTH)
        assert len([*parsed.steps, *parsed.episodes, *parsed.events]) == 1
        for depth in (MAX_JSON_DEPTH + 1, MAX_JSON_DEPTH + 9, 5_000, 50_000):
            (reject,) = parse(depth).rejected
            assert "nested too deeply" in reject.reason
        monkeypatch.setattr(lines_module, "_count_lines", lambda chunk: 0)  # now the long way


@pytest.mark.parametrize("size", [1, 2, 50 * 2**20])
def test_a_line_may_be_one_byte_or_fifty_million(size: int) -> None:
    parsed = LineParser("r").parse(b"x" * size + b"\n")
    assert parsed.prints == [b"x" * size + b"\n"]
    line = step_line(0, observation="y" * size)
    parsed = LineParser("r").parse(line + step_line(1))
    assert len(bytes(parsed.steps[0].observation)) == size + 2
    assert len(parsed.steps) == 2


def test_the_longest_line_is_taken_and_one_byte_more_is_not() -> None:
    frame = b'{"event":"x","payload":{"a":"%s"}}'
    fill = MAX_LINE_BYTES - len(frame % b"")
    for more, taken in ((0, 1), (1, 0)):
        line = frame % (b"z" * (fill + more)) + b"\n"
        parsed = LineParser("r").parse(line)
        assert (len(parsed.events), len(parsed.rejected)) == (taken, 1 - taken)
        step = b'{"event_type":"step","episode_index":0,"step_index":0,"action":"%s"}'
        line = step % (b"z" * (MAX_LINE_BYTES - len(step % b"") + more)) + b"\n"
        parsed = LineParser("r").parse(line)
        assert (len(parsed.steps), len(parsed.rejected)) == (taken, 1 - taken)
        if not taken:
            assert "longer than" in parsed.rejected[0].reason
