"""What may be stored, and what is refused with which words."""

from __future__ import annotations

import math
from collections.abc import Callable

import grpc
import pytest
from daemon_process import DaemonProcess, failure_of, history, publish, register
from hypothesis import given
from hypothesis import strategies as st
from made_batches import a_step, episodes, events

from lanekit.errors import InvalidEvent
from lanekit.slow.batches import (
    Kind,
    check_run_id,
    check_stream_id,
    check_worker_id,
    episodes_batch,
    events_batch,
    rows_to_steps,
    steps_batch,
)
from lanekit.slow.limits import MAX_BATCH_ROWS, MAX_JSON_DEPTH, MAX_SEQ
from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.proto.telemetry_pb2_grpc import TrainerServiceStub


def request(**columns: object) -> pb.PublishRunStepsRequest:
    fields = {"rows": 3, **columns}
    return pb.PublishRunStepsRequest(
        run_id="run",
        stream_id="s",
        first_seq=1,
        columns=pb.StepColumns(**fields),  # type: ignore[arg-type]
    )


def row_request(*steps: pb.Step, first_seq: int = 1) -> pb.PublishRunStepsRequest:
    return pb.PublishRunStepsRequest(
        run_id="run", stream_id="s", first_seq=first_seq, steps=list(steps)
    )


@pytest.mark.parametrize("text", ["a", "0", "run-1_x.y", "A" * 128])
def test_a_run_id_is_taken_as_it_is(text: str) -> None:
    assert check_run_id(text) == text


@pytest.mark.parametrize(
    "text",
    ["", ".", "..", "-x", "a/b", "../etc", "a b", "a\n", "é", "x' OR '1'='1", "a\0b", "A" * 129],
)
def test_a_run_id_that_could_mean_something_else_is_refused(text: str) -> None:
    with pytest.raises(InvalidEvent, match="run id"):
        check_run_id(text)
    with pytest.raises(InvalidEvent, match="run id"):
        steps_batch(
            pb.PublishRunStepsRequest(run_id=text, stream_id="s", first_seq=1, steps=[a_step(1)])
        )


@pytest.mark.parametrize("text", ["", "a.b", "a/b", "x" * 65, "a\n"])
def test_a_stream_id_that_could_mean_something_else_is_refused(text: str) -> None:
    assert check_stream_id("0123_abc-DEF") == "0123_abc-DEF"
    with pytest.raises(InvalidEvent, match="stream id"):
        check_stream_id(text)


@pytest.mark.parametrize("text", ["", "worker-1", "é" * 128, "a b", "\u202e", "工"])
def test_a_worker_id_is_taken_as_it_is(text: str) -> None:
    assert check_worker_id(text) == text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x" * 257, "a worker id takes at most 256 bytes; got 257"),
        ("é" * 129, "a worker id takes at most 256 bytes; got 258"),
        ("a\0b", "must not have control characters"),
        ("a\x1b[2J", "must not have control characters"),
        ("\x9b", "must not have control characters"),
        ("\udcff", "must be valid Unicode"),
        (7, "a worker id is text; got 7"),
    ],
)
def test_a_worker_id_that_can_not_be_shown_is_refused(text: str, words: str) -> None:
    with pytest.raises(InvalidEvent, match=words):
        check_worker_id(text)


@pytest.mark.parametrize("rows", [MAX_BATCH_ROWS + 1, 2**32 - 1])
def test_a_few_bytes_that_claim_billions_of_rows_are_refused_at_once(rows: int) -> None:
    asked = request(rows=rows)
    assert asked.ByteSize() < 32
    with pytest.raises(InvalidEvent, match=r"steps holds at most 65,536 rows; got"):
        steps_batch(asked)


def test_every_kind_has_a_most_of_rows() -> None:
    assert steps_batch(request(rows=MAX_BATCH_ROWS)).rows == MAX_BATCH_ROWS
    many = MAX_BATCH_ROWS + 1
    with pytest.raises(InvalidEvent, match="a batch of steps holds at most"):
        steps_batch(pb.PublishRunStepsRequest(steps=[pb.Step()] * many))
    with pytest.raises(InvalidEvent, match="a batch of episodes holds at most"):
        episodes_batch(pb.PublishRunEpisodesRequest(episodes=[pb.Episode()] * many))
    with pytest.raises(InvalidEvent, match="a batch of events holds at most"):
        events_batch(pb.PublishRunEventsRequest(events=[pb.RunEvent()] * many))


def test_the_daemon_refuses_billions_of_rows_and_poisoned_ones_and_goes_on(
    daemon: DaemonProcess, stub: TrainerServiceStub
) -> None:
    register(stub, "run", "s")
    before = daemon.memory()
    for bad in (
        {"rows": 2**32 - 1},
        {"unknown_row": [0], "unknown_fields": [b"\xff"]},
        {"action_json": [b"{not json", b"", b""]},
    ):
        error = failure_of(lambda bad=bad: list(stub.PublishRunSteps(iter([request(**bad)]))))
        assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert publish(stub.PublishRunSteps, request(action_json=[b"1e400"] * 3)) == [3]
    assert len(history(stub, "run")) == 3
    assert daemon.memory() - before < 64 * 2**20


def test_columns_are_taken_as_they_are() -> None:
    asked = request(
        episode=[1, 2, 3], reward=[1.0, math.nan, -2.5], names=["w"], worker_index=[0] * 3
    )
    batch = steps_batch(asked)
    assert (batch.kind, batch.rows, batch.first_seq, batch.last_seq) == (Kind.STEPS, 3, 1, 3)
    assert batch.nbytes > asked.ByteSize()
    assert isinstance(batch.content, pb.StepColumns)
    assert list(batch.content.episode) == [1, 2, 3]


BAD_COLUMNS = [
    ({"episode": [1, 2]}, "column episode must have 3 rows, or none; got 2"),
    ({"action_json": [b"1"] * 4}, "column action_json must have 3 rows"),
    ({"names": ["w"], "worker_index": [0, 1, 0]}, "worker_index points at name 1"),
    ({"agent_index": [0, 0, 0]}, "agent_index points at name 0, but there are 0"),
    ({"reward": [0.0, math.inf, 0.0]}, "row 1: reward must be finite"),
    ({"reward": [0.0, 1.0, -math.inf]}, "row 2: reward must be finite"),
    ({"action_json": [b"1", b"\xff", b"1"]}, "row 1: action_json must be UTF-8"),
    # Two halves of one character, each in a row of its own, are not UTF-8 either.
    ({"info_json": [b"", b'"\xc3', b'\xa9"']}, "row 1: info_json must be UTF-8"),
    ({"seed_row": [0, 1], "seed": [7]}, "seed has 1 values, for 2 rows"),
    ({"seed_row": [3], "seed": [7]}, "be below 3"),
    ({"seed_row": [1, 1], "seed": [7, 8]}, "each once"),
    ({"extra_row": [2, 1], "extra_json": [b"{}", b"{}"]}, "in order"),
    ({"unknown_row": [0]}, "unknown_fields has 0 values"),
    ({"names": ["x" * 257]}, "at most 256 bytes"),
    ({"names": ["é" * 129]}, "at most 256 bytes; got 258"),
    (
        {"frame_row": [0], "frame": [pb.Frame(width=2, height=2, channels=3, pixels=b"0" * 11)]},
        "2 x 2 x 3 and 11 bytes",
    ),
    (
        {"frame_row": [0], "frame": [pb.Frame(width=2, height=2, channels=2, pixels=b"0" * 8)]},
        "1, 3 or 4 channels",
    ),
    ({"frame_row": [0], "frame": [pb.Frame()]}, "a frame has"),
    ({"rows": 0}, "at least one row"),
    ({"names": [""] * 8}, "3 rows have at most 7 names; got 8"),
    ({"streams": [""] * 4}, "3 rows have at most 3 streams; got 4"),
    ({"seq": [1, 2]}, "column seq must have 3 rows"),
    ({"seed_row": range(4), "seed": range(4)}, "3 rows have at most as many seed; got 4"),
    ({"names": ["a\0"]}, r"names\[0\] must not have control characters"),
    ({"action_json": [b"1", b"{not json", b""]}, "row 1: action_json must be JSON"),
    ({"info_json": [b"", b"", b"NaN"]}, "row 2: info_json must be JSON"),
    ({"observation_json": [b"1,2", b"", b"3"]}, "row 0: observation_json must be JSON"),
    ({"render_hint_json": [b"", b"1],[2", b""]}, "row 1: render_hint_json must be JSON"),
    # As many values as texts, but not one in each.
    ({"action_json": [b"[1", b"2]", b"3,4"]}, "row 0: action_json must be JSON"),
    ({"action_json": [b'"a', b'b"', b"3,4"]}, "row 0: action_json must be JSON"),
    ({"action_json": [b"1", b" ", b"2"]}, "row 1: action_json must be JSON"),
    ({"extra_row": [2], "extra_json": [b"{"]}, "row 2: extra_json must be JSON"),
    ({"extra_row": [1], "extra_json": [b"[1]"]}, "row 1: extra_json must be a JSON object"),
    (
        {"action_json": [b"1", b"[" * 100_000, b"1"]},
        "row 1: action_json is nested too deeply",
    ),
    (
        {"unknown_row": [1], "unknown_fields": [b"\xff"]},
        "row 1: unknown_fields must be the serialised fields of a step",
    ),
    (
        {"unknown_row": [2], "unknown_fields": [b"\xfb\x3f" * 100 + b"\xfc\x3f" * 100]},
        "row 2: unknown_fields must be the serialised fields of a step",
    ),
    (
        {"unknown_row": [0], "unknown_fields": [pb.Step(seq=7).SerializeToString()]},
        "row 0: unknown_fields must only hold fields this daemon does not know; got seq",
    ),
    (
        {"unknown_row": [0], "unknown_fields": [pb.Step(reward=math.nan).SerializeToString()]},
        "got reward, which has a column",
    ),
]


@pytest.mark.parametrize(("columns", "words"), BAD_COLUMNS, ids=[w for _, w in BAD_COLUMNS])
def test_columns_that_can_not_be_stored_are_refused(columns: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidEvent, match=words):
        steps_batch(request(**columns))


def test_columns_take_whatever_is_json_byte_for_byte() -> None:
    texts = [b" 1 ", b"{\n}", b'"a,b]"', b"", b"1e400", b'"\xc3\xa9"', b"[" * 200 + b"]" * 200]
    batch = steps_batch(request(rows=7, action_json=texts, info_json=[b"", *[b"[1, 2]"] * 6]))
    assert isinstance(batch.content, pb.StepColumns)
    assert list(batch.content.action_json) == texts


def test_json_that_a_sender_could_decode_is_taken_however_deep_the_stack_is_here() -> None:
    nested = b"[" * MAX_JSON_DEPTH + b"]" * MAX_JSON_DEPTH

    def further_down(frames: int) -> int:
        if frames:
            return further_down(frames - 1)
        return steps_batch(request(action_json=[b"1", nested, b"2"])).rows

    assert further_down(200) == further_down(700) == 3


def test_json_nested_beyond_the_limit_is_refused_in_steps_episodes_and_events() -> None:
    ids = {"run_id": "run", "stream_id": "s", "first_seq": 1}
    kinds: list[Callable[[bytes], object]] = [
        lambda text: steps_batch(request(action_json=[b"1", text, b"2"])),
        lambda text: steps_batch(request(extra_row=[1], extra_json=[text])),
        lambda text: steps_batch(row_request(pb.Step(info_json=text))),
        lambda text: episodes_batch(
            pb.PublishRunEpisodesRequest(episodes=[pb.Episode(info_json=text)], **ids)
        ),
        lambda text: events_batch(
            pb.PublishRunEventsRequest(events=[pb.RunEvent(name="x", payload_json=text)], **ids)
        ),
    ]
    deepest = b'{"a":' * MAX_JSON_DEPTH + b"1" + b"}" * MAX_JSON_DEPTH
    for batch_with in kinds:
        batch_with(deepest)
        with pytest.raises(InvalidEvent, match="nested too deeply"):
            batch_with(b'{"a":' + deepest + b"}")


def test_fields_of_a_newer_version_are_kept_in_columns() -> None:
    newer = b"\xf8\x3f\x07"
    batch = steps_batch(request(unknown_row=[1], unknown_fields=[newer]))
    assert isinstance(batch.content, pb.StepColumns)
    assert rows_to_steps(batch.content, "run")[1].SerializeToString().endswith(newer)


def test_columns_with_a_column_of_a_newer_version_are_refused_instead_of_losing_it() -> None:
    asked = request()
    asked.columns.MergeFromString(b"\xf8\x3f\x01")  # field 1023, a varint
    with pytest.raises(InvalidEvent, match="does not know"):
        steps_batch(asked)


@pytest.mark.parametrize("first_seq", [0, MAX_SEQ + 1, 2**63, 2**64 - 1])
def test_numbers_outside_the_range_are_refused(first_seq: int) -> None:
    with pytest.raises(InvalidEvent, match="numbered from 1 to"):
        steps_batch(row_request(a_step(1), first_seq=first_seq))


def test_the_last_number_is_still_taken() -> None:
    assert steps_batch(row_request(a_step(1), first_seq=MAX_SEQ)).last_seq == MAX_SEQ


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 2**200])
def test_a_number_that_does_not_fit_is_refused_before_it_is_sent(number: int) -> None:
    with pytest.raises(ValueError, match="range"):
        pb.Step(step=number)
    with pytest.raises(ValueError, match="range"):
        pb.StepColumns(episode=[number])


def test_a_request_holds_columns_or_steps_but_not_both() -> None:
    both = request()
    both.steps.append(a_step(1))
    with pytest.raises(InvalidEvent, match="got both"):
        steps_batch(both)
    with pytest.raises(InvalidEvent, match="got neither"):
        steps_batch(row_request())


BAD_STEPS = [
    (pb.Step(reward=math.nan), "reward must be finite, or left out; got nan"),
    (pb.Step(reward=math.inf), "reward must be finite"),
    (pb.Step(action_json=b"{"), "action_json must be JSON"),
    (pb.Step(action_json=b"NaN"), "action_json must be JSON"),
    (pb.Step(observation_json=b"[1, 2"), "observation_json must be JSON"),
    (pb.Step(info_json=b'"\xff"'), "info_json must be UTF-8"),
    (pb.Step(extra_json=b"[" * 100_000), "extra_json is nested too deeply"),
    (pb.Step(extra_json=b"null"), "extra_json must be a JSON object"),
    (pb.Step(agent_id="x" * 300), "agent_id takes at most 256 bytes"),
    (pb.Step(worker_id="\x1b[2J"), "worker_id must not have control characters"),
    (pb.Step(frame=pb.Frame(width=1, height=1, channels=3, pixels=b"12")), "a frame has"),
]


@pytest.mark.parametrize(("step", "words"), BAD_STEPS, ids=[w for _, w in BAD_STEPS])
def test_a_step_that_can_not_be_stored_is_refused_with_its_row(step: pb.Step, words: str) -> None:
    with pytest.raises(InvalidEvent, match=f"row 1: {words}"):
        steps_batch(row_request(a_step(1), step))


def test_episodes_and_events_are_checked_like_steps() -> None:
    assert episodes(5, 3).last_seq == 7
    assert events(2, ("run_started", b"{}")).kind is Kind.EVENTS

    def bad_episode(**fields: object) -> None:
        episode = pb.Episode(**fields)  # type: ignore[arg-type]
        episodes_batch(
            pb.PublishRunEpisodesRequest(run_id="r", stream_id="s", first_seq=1, episodes=[episode])
        )

    def bad_event(**fields: object) -> None:
        event = pb.RunEvent(**fields)  # type: ignore[arg-type]
        events_batch(
            pb.PublishRunEventsRequest(run_id="r", stream_id="s", first_seq=1, events=[event])
        )

    with pytest.raises(InvalidEvent, match="episode_return must be finite"):
        bad_episode(episode_return=math.nan)
    with pytest.raises(InvalidEvent, match="info_json must be JSON"):
        bad_episode(info_json=b"nope")
    with pytest.raises(InvalidEvent, match="extra_json must be a JSON object"):
        bad_episode(extra_json=b"7")
    with pytest.raises(InvalidEvent, match="extra_json must be a JSON object"):
        bad_event(name="x", extra_json=b"[]")
    with pytest.raises(InvalidEvent, match="an event has a name"):
        bad_event()
    with pytest.raises(InvalidEvent, match="payload_json must be JSON"):
        bad_event(name="x", payload_json=b"{'a': 1}")
    with pytest.raises(InvalidEvent, match="at least one row; got none"):
        events_batch(pb.PublishRunEventsRequest(run_id="r", stream_id="s", first_seq=1))


json_texts = st.sampled_from([b"", b"null", b"0", b'"\xc3\xa9"', b'{"a": [1,  2]}', b"1e300"])
int64s = st.integers(-(2**63), 2**63 - 1)
made_steps = st.builds(
    pb.Step,
    worker_id=st.sampled_from(["", "w", "x"]),
    agent_id=st.sampled_from(["", "w", "agent"]),
    episode=int64s,
    step=int64s,
    action_json=json_texts,
    observation_json=json_texts,
    reward=st.none() | st.floats(allow_nan=False, allow_infinity=False),
    terminated=st.booleans(),
    truncated=st.booleans(),
    info_json=json_texts,
    render_hint_json=json_texts,
    seed=st.none() | int64s,
    wall_time_ns=int64s,
    frame=st.none() | st.just(pb.Frame(width=1, height=2, channels=3, pixels=b"abcdef")),
    extra_json=st.sampled_from([b"", b"{}", b' {"a": [1,  2]}', b'{"\xc3\xa9": 1e300}']),
)


@given(st.lists(made_steps, min_size=1, max_size=6), st.lists(st.booleans(), min_size=6))
def test_steps_come_back_from_columns_as_they_were(made: list[pb.Step], newer: list[bool]) -> None:
    for step, is_newer in zip(made, newer, strict=False):
        if is_newer:
            step.MergeFromString(b"\xf8\x3f\x07")  # a field this version does not know
    batch = steps_batch(row_request(*made))
    assert isinstance(batch.content, pb.StepColumns)
    for step in made:
        step.run_id = "run"
    assert rows_to_steps(batch.content, "run") == made
    assert [
        s.SerializeToString(deterministic=True) for s in rows_to_steps(batch.content, "run")
    ] == [s.SerializeToString(deterministic=True) for s in made]
