"""A batch of events: what a publish request becomes once it is known to be storable.

Everything the store relies on is checked here, once, before a batch is queued: lengths, ranges,
numbers, names and text. What passes can be stored; what does not is refused whole, with
:class:`~lanekit.errors.InvalidEvent` that says what was expected and what was found.
"""

from __future__ import annotations

import enum
import itertools
import math
import re
import secrets
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from google.protobuf.unknown_fields import UnknownFieldSet

from lanekit.errors import InvalidEvent
from lanekit.slow.field_checks import (
    check_extra,
    check_frame,
    check_json,
    check_json_column,
    check_name,
    check_size,
    check_unknown,
)
from lanekit.slow.limits import MAX_BATCH_ROWS, MAX_SEQ
from lanekit.slow.proto import telemetry_pb2 as pb

if TYPE_CHECKING:
    from google.protobuf.message import Message

_ROW_BYTES = 128
"""What an event takes in memory beyond its size on the wire, where numbers are packed."""

_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", re.ASCII)
_STREAM_ID = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
_NOT_A_NUMBER = float("nan")


class Kind(enum.StrEnum):
    """What a batch holds. Each kind of a stream is numbered on its own."""

    STEPS = "steps"
    EPISODES = "episodes"
    EVENTS = "events"


Content = pb.StepColumns | list[pb.Episode] | list[pb.RunEvent]


@dataclass(slots=True, frozen=True)
class Batch:
    """Events of one kind and one stream, numbered `first_seq` to `last_seq`, fit to be stored."""

    run_id: str
    stream_id: str
    kind: Kind
    first_seq: int
    rows: int
    nbytes: int
    """Roughly what it takes in memory."""
    content: Content

    @property
    def last_seq(self) -> int:
        """The number of its last event."""
        return self.first_seq + self.rows - 1


def check_run_id(text: str) -> str:
    """Return `text` when it can name a run, else raise `InvalidEvent`."""
    if not isinstance(text, str) or not _RUN_ID.fullmatch(text):
        raise InvalidEvent(
            "a run id is 1 to 128 letters, digits, '.', '_' or '-', and begins with a letter or"
            f" digit; got {_shortened(text)}"
        )
    return text


def new_run_id(name: str = "run") -> str:
    """Return an id for a new run: what it is about, when it was made, and a little chance."""
    about = re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")[:64] or "run"
    return f"{about}-{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(3)}"


def check_stream_id(text: str) -> str:
    """Return `text` when it can name a stream, else raise `InvalidEvent`."""
    if not isinstance(text, str) or not _STREAM_ID.fullmatch(text):
        raise InvalidEvent(
            f"a stream id is 1 to 64 letters, digits, '-' or '_'; got {_shortened(text)}"
        )
    return text


def check_worker_id(text: str) -> str:
    """Return `text` when it can name a worker, else raise `InvalidEvent`. Empty: it has no name."""
    if not isinstance(text, str):
        raise InvalidEvent(f"a worker id is text; got {_shortened(text)}")
    check_name(text, "a worker id")
    return text


def steps_batch(request: pb.PublishRunStepsRequest) -> Batch:
    """Check a request to store steps; row-wise steps become columns."""
    _check_rows(max(request.columns.rows, len(request.steps)), Kind.STEPS)
    if request.HasField("columns") == bool(request.steps):
        raise InvalidEvent(
            "a request to store steps holds either columns or steps, and at least one of them; got"
            f" {'both' if request.steps else 'neither'}"
        )
    if request.steps:
        columns = _columns_of(request.steps)
    else:
        columns = request.columns
        _check_columns(columns)
    return _batch(request, Kind.STEPS, columns.rows, columns)


def episodes_batch(request: pb.PublishRunEpisodesRequest) -> Batch:
    """Check a request to store episodes."""
    _check_rows(len(request.episodes), Kind.EPISODES)
    episodes = list(request.episodes)
    for row, episode in enumerate(episodes):
        check_name(episode.worker_id, f"row {row}: worker_id")
        check_name(episode.agent_id, f"row {row}: agent_id")
        if not math.isfinite(episode.episode_return):
            raise InvalidEvent(
                f"row {row}: episode_return must be finite, or left out; got"
                f" {episode.episode_return}"
            )
        check_json(episode.info_json, "info_json", row)
        check_json(episode.extra_json, "extra_json", row)
        check_extra(episode.extra_json, row)
    return _batch(request, Kind.EPISODES, len(episodes), episodes)


def events_batch(request: pb.PublishRunEventsRequest) -> Batch:
    """Check a request to store log events."""
    _check_rows(len(request.events), Kind.EVENTS)
    events = list(request.events)
    for row, event in enumerate(events):
        check_name(event.worker_id, f"row {row}: worker_id")
        check_size(event.name, f"row {row}: name")
        if not event.name:
            raise InvalidEvent(f"row {row}: an event has a name; got an empty one")
        check_json(event.payload_json, "payload_json", row)
        check_json(event.extra_json, "extra_json", row)
        check_extra(event.extra_json, row)
    return _batch(request, Kind.EVENTS, len(events), events)


def _check_rows(rows: int, kind: Kind) -> None:
    """Refuse, before anything is made of it, a batch whose rows would fill the memory."""
    if rows > MAX_BATCH_ROWS:
        raise InvalidEvent(
            f"a batch of {kind} holds at most {MAX_BATCH_ROWS:,} rows; got {rows:,}: send several"
        )


def _batch(
    request: pb.PublishRunStepsRequest | pb.PublishRunEpisodesRequest | pb.PublishRunEventsRequest,
    kind: Kind,
    rows: int,
    content: Content,
) -> Batch:
    first_seq = request.first_seq
    if rows == 0:
        raise InvalidEvent(f"a batch of {kind} holds at least one row; got none")
    if first_seq < 1 or first_seq + rows - 1 > MAX_SEQ:
        raise InvalidEvent(
            f"{kind} of a stream are numbered from 1 to {MAX_SEQ}; got {first_seq} to"
            f" {first_seq + rows - 1}"
        )
    return Batch(
        run_id=check_run_id(request.run_id),
        stream_id=check_stream_id(request.stream_id),
        kind=kind,
        first_seq=first_seq,
        rows=rows,
        nbytes=request.ByteSize() + rows * _ROW_BYTES,
        content=content,
    )


# --- columns --------------------------------------------------------------------------------

_DENSE = (
    *("worker_index", "agent_index", "episode", "step", "reward", "terminated", "truncated"),
    *("wall_time_ns", "action_json", "observation_json", "info_json", "render_hint_json"),
    *("stream_index", "seq"),
)
_TEXTS = ["action_json", "observation_json", "info_json", "render_hint_json", "extra_json"]
_SPARSE = (
    ("seed_row", "seed"),
    ("frame_row", "frame"),
    ("extra_row", "extra_json"),
    ("unknown_row", "unknown_fields"),
)


def _check_columns(columns: pb.StepColumns) -> None:
    rows = columns.rows
    if len(UnknownFieldSet(columns)):
        raise InvalidEvent(
            "the columns hold fields this daemon does not know, so it could not give them back;"
            " send them row by row, or update the daemon"
        )
    for name in _DENSE:
        length = len(getattr(columns, name))
        if length not in (0, rows):
            raise InvalidEvent(f"column {name} must have {rows} rows, or none; got {length}")
    for index_name, name in _SPARSE:
        _check_sparse(getattr(columns, index_name), len(getattr(columns, name)), name, rows)
    # A worker and an agent a row, and the stream's own worker.
    for name, most in (("names", 2 * rows + 1), ("streams", rows)):
        if len(getattr(columns, name)) > most:
            raise InvalidEvent(
                f"{rows} rows have at most {most} {name}; got {len(getattr(columns, name))}"
            )
    names = list(columns.names)
    for index, text in enumerate(names):
        check_name(text, f"names[{index}]")
    for name in ("worker_index", "agent_index"):
        indexes = getattr(columns, name)
        if indexes and (largest := max(indexes)) >= len(names):
            raise InvalidEvent(f"{name} points at name {largest}, but there are {len(names)}")
    rewards = list(columns.reward)
    if math.inf in rewards or -math.inf in rewards:
        row = next(i for i, reward in enumerate(rewards) if math.isinf(reward))
        raise InvalidEvent(f"row {row}: reward must be finite, or NaN for none; got {rewards[row]}")
    for name in _TEXTS:
        texts = getattr(columns, name)
        check_json_column(texts, name, columns.extra_row if name == "extra_json" else range(rows))
    for row, extra in zip(columns.extra_row, columns.extra_json, strict=True):
        check_extra(extra, row)
    for row, unknown in zip(columns.unknown_row, columns.unknown_fields, strict=True):
        check_unknown(unknown, row)
    for row, frame in zip(columns.frame_row, columns.frame, strict=True):
        check_frame(frame, row)


def _check_sparse(indexes: Sequence[int], values: int, name: str, rows: int) -> None:
    if not indexes and not values:
        return
    if len(indexes) != values:
        raise InvalidEvent(f"{name} has {values} values, for {len(indexes)} rows")
    if values > rows:
        raise InvalidEvent(f"{rows} rows have at most as many {name}; got {values}")
    listed = list(indexes)
    if listed[-1] >= rows or any(a >= b for a, b in itertools.pairwise(listed)):
        raise InvalidEvent(
            f"the rows that have {name} must be named in order, each once, and be below {rows}"
        )


def _shortened(text: object) -> str:
    shown = repr(text)
    return shown if len(shown) <= 80 else f"{shown[:77]}..."


# --- rows to columns and back --------------------------------------------------------------

_STEP_FIELDS = [field.name for field in pb.Step.DESCRIPTOR.fields]


def _columns_of(steps: Iterable[pb.Step]) -> pb.StepColumns:
    """The same steps as columns, each row checked."""
    columns = pb.StepColumns()
    names: dict[str, int] = {}
    for row, step in enumerate(steps):
        _check_step(step, row)
        columns.rows += 1
        columns.worker_index.append(names.setdefault(step.worker_id, len(names)))
        columns.agent_index.append(names.setdefault(step.agent_id, len(names)))
        columns.episode.append(step.episode)
        columns.step.append(step.step)
        columns.action_json.append(step.action_json)
        columns.observation_json.append(step.observation_json)
        columns.reward.append(step.reward if step.HasField("reward") else _NOT_A_NUMBER)
        columns.terminated.append(step.terminated)
        columns.truncated.append(step.truncated)
        columns.info_json.append(step.info_json)
        columns.render_hint_json.append(step.render_hint_json)
        columns.wall_time_ns.append(step.wall_time_ns)
        if step.HasField("seed"):
            columns.seed_row.append(row)
            columns.seed.append(step.seed)
        if step.HasField("frame"):
            columns.frame_row.append(row)
            columns.frame.append(step.frame)
        if step.extra_json:
            columns.extra_row.append(row)
            columns.extra_json.append(step.extra_json)
        if unknown := unknown_fields(step, _STEP_FIELDS):
            columns.unknown_row.append(row)
            columns.unknown_fields.append(unknown)
    columns.names.extend(names)
    return columns


def _check_step(step: pb.Step, row: int) -> None:
    check_name(step.worker_id, f"row {row}: worker_id")
    check_name(step.agent_id, f"row {row}: agent_id")
    if not math.isfinite(step.reward):
        raise InvalidEvent(f"row {row}: reward must be finite, or left out; got {step.reward}")
    for name in _TEXTS:
        check_json(getattr(step, name), name, row)
    check_extra(step.extra_json, row)
    if step.HasField("frame"):
        check_frame(step.frame, row)


def unknown_fields(message: Message, known: Iterable[str]) -> bytes:
    """What `message` holds beyond its `known` fields, serialised; usually nothing."""
    if not len(UnknownFieldSet(message)):
        return b""
    rest = type(message)()
    rest.CopyFrom(message)
    for name in known:
        rest.ClearField(name)
    return rest.SerializeToString()


def rows_to_steps(columns: pb.StepColumns, run_id: str) -> list[pb.Step]:
    """Turn answer columns into steps, with the fields this version does not know merged back."""
    steps = [pb.Step(run_id=run_id) for _ in range(columns.rows)]

    def fill(name: str, values: Iterable[object]) -> None:
        for step, value in zip(steps, values, strict=False):
            setattr(step, name, value)

    names, streams = list(columns.names), list(columns.streams)
    fill("stream_id", (streams[i] for i in columns.stream_index))
    fill("worker_id", (names[i] for i in columns.worker_index))
    fill("agent_id", (names[i] for i in columns.agent_index))
    for name in ("seq", "episode", "step", "terminated", "truncated", "wall_time_ns"):
        fill(name, getattr(columns, name))
    for name in ("action_json", "observation_json", "info_json", "render_hint_json"):
        fill(name, getattr(columns, name))
    for step, reward in zip(steps, columns.reward, strict=False):
        if not math.isnan(reward):
            step.reward = reward
    for row, seed in zip(columns.seed_row, columns.seed, strict=True):
        steps[row].seed = seed
    for row, frame in zip(columns.frame_row, columns.frame, strict=True):
        steps[row].frame.CopyFrom(frame)
    for row, extra in zip(columns.extra_row, columns.extra_json, strict=True):
        steps[row].extra_json = extra
    for row, unknown in zip(columns.unknown_row, columns.unknown_fields, strict=True):
        steps[row].MergeFromString(unknown)
    return steps
