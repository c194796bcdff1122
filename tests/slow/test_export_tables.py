"""Exports to tables, read back by each format's own reader."""

from __future__ import annotations

import base64
import contextlib
import csv
import json
import subprocess
import sys
from pathlib import Path

import apsw
import numpy as np
import pytest
from recorded_runs import RUN, Recording, number_of, open_store, picture

from lanekit.slow.batches import steps_batch
from lanekit.slow.export.run_export import export_run
from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.sending.lines import LineParser
from lanekit.slow.store.run_store import RunStore
from patience import patience

pytestmark = pytest.mark.once

# --- parquet ------------------------------------------------------------------------------------


def test_parquet_has_typed_columns_and_every_row(recorded: RunStore, tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    out = tmp_path / "out"
    export_run(recorded, RUN, "parquet", out)
    table = pq.read_table(out / "steps.parquet")
    expected = recorded.steps(RUN)
    assert table.num_rows == 300
    assert table["position"].to_pylist() == list(range(300))
    assert table["seq"].to_pylist() == expected.seq.tolist()
    assert table["agent_id"].to_pylist() == list(expected.agent)
    assert table["observation"].to_pylist()[9] == "[9, 0.25, -1e-3]"
    assert table["reward"].null_count == 1
    assert table["reward"].to_pylist()[3] is None
    assert table["reward"].to_pylist()[299] == 299 / 8
    assert table["seed"].to_pylist()[99:101] == [7, None]
    assert table.schema.field("wall_time").type == pa.timestamp("ns", tz="UTC")
    assert table["wall_time"].cast(pa.int64()).to_pylist() == expected.wall_time_ns.tolist()
    assert table["terminated"].to_pylist() == expected.terminated.tolist()
    assert table["action_values"].to_pylist() == expected.action
    assert table.schema.field("observation_values").type == pa.list_(pa.float64(), 3)
    assert table["observation_values"].to_pylist() == expected.observation
    episodes = pq.read_table(out / "episodes.parquet")
    assert episodes["return"].to_pylist() == [0.0, 1.0, 10.0, 11.0, 20.0, 21.0]
    events = pq.read_table(out / "events.parquet")
    assert events["name"].to_pylist()[-1] == "worker_exited"


def test_parquet_keeps_a_value_of_another_shape_as_text_only(tmp_path: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "runs.db"
    with open_store(path) as opened:
        run = Recording(opened, "r")
        run.steps(pb.Step(step=i, observation_json=b"[1, 2]") for i in range(9000))
        run.steps([pb.Step(step=9000, observation_json=b'{"x": 1}', action_json=b'"jump"')])
    with RunStore.open(path) as store:
        export_run(store, "r", "parquet", tmp_path / "out")
    table = pq.read_table(tmp_path / "out" / "steps.parquet")
    assert table["observation"].to_pylist()[-1] == '{"x": 1}'
    assert table["observation_values"].to_pylist()[-2:] == [[1.0, 2.0], None]
    assert table["action"].to_pylist()[-2:] == [None, '"jump"']
    assert "action_values" not in table.column_names


def test_parquet_carries_frames_when_asked(recorded: RunStore, tmp_path: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    export_run(recorded, RUN, "parquet", tmp_path / "without")
    assert "frame_pixels" not in pq.read_schema(tmp_path / "without" / "steps.parquet").names
    export_run(recorded, RUN, "parquet", tmp_path / "with", frames=True)
    rows = pq.read_table(tmp_path / "with" / "steps.parquet").to_pylist()
    shape = tuple(rows[7][f"frame_{name}"] for name in ("height", "width", "channels"))
    pixels = np.frombuffer(rows[7]["frame_pixels"], np.uint8).reshape(shape)
    assert number_of(pixels) == 7
    assert rows[8]["frame_pixels"] is None


def test_an_export_of_a_long_run_needs_no_more_memory_than_one_of_a_short_run(
    tmp_path: Path,
) -> None:
    pytest.importorskip("pyarrow")
    path = tmp_path / "runs.db"
    columns = pb.StepColumns(
        rows=4096,
        names=["w", "a"],
        worker_index=[0] * 4096,
        agent_index=[1] * 4096,
        episode=range(4096),
        step=range(4096),
        reward=[0.5] * 4096,
        wall_time_ns=range(4096),
        action_json=[b"[0.25, 0.5]"] * 4096,
        observation_json=[b"[%s]" % b", ".join([b"0.123456789"] * 40)] * 4096,
    )
    with open_store(path) as opened:
        for run_id, batches in (("short", 8), ("long", 40)):
            run = Recording(opened, run_id)
            for number in range(batches):
                request = pb.PublishRunStepsRequest(
                    run_id=run_id, stream_id="s1", first_seq=number * 4096 + 1, columns=columns
                )
                run.append(steps_batch(request))
    code = (
        "import resource, sys; from pathlib import Path;"
        "from lanekit.slow.store.run_store import RunStore;"
        "from lanekit.slow.export.run_export import export_run;"
        "export_run(RunStore.open(sys.argv[1]), sys.argv[2], sys.argv[3], Path(sys.argv[4]));"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )

    def peak(run_id: str, name: str) -> int:
        out = tmp_path / f"{run_id}-{name}"
        command = [sys.executable, "-c", code, str(path), run_id, name, str(out)]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=patience(200), check=True
        )
        return int(done.stdout) * 1024

    # The long run's text alone is 85 MB; as Python objects it would be far more.
    for name in ("parquet", "jsonl"):
        assert peak("long", name) - peak("short", name) < 64 * 2**20, name


# --- csv and json lines -------------------------------------------------------------------------


def test_csv_reads_back_as_what_was_stored(recorded: RunStore, tmp_path: Path) -> None:
    out = tmp_path / "out"
    export_run(recorded, RUN, "csv", out)
    with (out / "steps.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    expected = list(recorded.steps(RUN))
    assert len(rows) == 300
    for row, record in zip(rows, expected, strict=True):
        assert row["agent_id"] == record.agent_id
        assert int(row["seq"]) == record.seq
        assert (float(row["reward"]) if row["reward"] else None) == record.reward
        assert row["terminated"] == str(record.terminated).lower()
        assert int(row["wall_time_ns"]) == record.wall_time_ns
        assert json.loads(row["observation"]) == record.observation
        assert (json.loads(row["info"]) if row["info"] else None) == record.info
    with (out / "episodes.csv").open(encoding="utf-8", newline="") as file:
        assert [float(row["return"]) for row in csv.DictReader(file)][-1] == 21.0
    with (out / "events.csv").open(encoding="utf-8", newline="") as file:
        payloads = {row["name"]: row["payload"] for row in csv.DictReader(file)}
    assert payloads["checkpoint"] == '{"path": "a, b"}'
    assert payloads["run_completed"] == ""


def test_json_lines_hold_values_byte_for_byte(recorded: RunStore, tmp_path: Path) -> None:
    out = tmp_path / "out"
    export_run(recorded, RUN, "jsonl", out, frames=True)
    raw = (out / "steps.jsonl").read_bytes().splitlines()
    lines = [json.loads(line) for line in raw]
    expected = list(recorded.steps(RUN))
    assert len(lines) == 300
    assert b'"observation":[9, 0.25, -1e-3]' in raw[9]
    assert "reward" not in lines[3]
    assert lines[4]["info"] == {"naïve": 'comma, "quote"\nline'}
    assert lines[5]["mood"] == [1, {"deep": None}]
    assert lines[6]["render_hint"] == {"camera": 2}
    assert base64.b64decode(lines[7]["frame"]["pixels"]) == picture(7).tobytes()
    for line, record in zip(lines, expected, strict=True):
        assert (line["seq"], line["agent_id"]) == (record.seq, record.agent_id)
        assert line["observation"] == record.observation
        assert line.get("reward") == record.reward
        assert line.get("seed") == record.seed
    episodes = [json.loads(line) for line in (out / "episodes.jsonl").read_text().splitlines()]
    assert episodes[-1]["return"] == 21.0
    events = [json.loads(line) for line in (out / "events.jsonl").read_text().splitlines()]
    assert [event["event"] for event in events][:2] == ["run_started", "checkpoint"]


@pytest.mark.parametrize("name", ["jsonl", "csv", "parquet"])
def test_one_odd_value_spoils_no_export(name: str, tmp_path: Path) -> None:
    if name == "parquet":
        pytest.importorskip("pyarrow")
    path = tmp_path / "runs.db"
    nested = b"[" * 900 + b"]" * 900
    with open_store(path) as opened:
        run = Recording(opened, RUN)
        columns = pb.StepColumns(
            rows=4,
            action_json=[b"1e400", b"1", b'"deep"', b"2"],
            info_json=[b"", b"0", b"", b""],
            extra_row=[1, 3],
            extra_json=[b'{"mine": 1}', b'{"mine": 2}'],
        )
        run.append(
            steps_batch(
                pb.PublishRunStepsRequest(run_id=RUN, stream_id="s1", first_seq=1, columns=columns)
            )
        )
    # Nothing that takes events lets these in, but a file may hold them.
    with contextlib.closing(apsw.Connection(str(path))) as connection:
        connection.execute("UPDATE steps SET info = '{not json', extra = '7' WHERE info = '0'")
        connection.execute(
            "UPDATE steps SET action = ? WHERE action = '\"deep\"'", (nested.decode(),)
        )
    with RunStore.open(path) as reader:
        export_run(reader, RUN, name, tmp_path / "out")
    if name == "jsonl":
        raw = (tmp_path / "out" / "steps.jsonl").read_bytes().splitlines()
        assert b'"action":1e400' in raw[0]
        assert b'"action":' + nested in raw[2]
        assert json.loads(raw[1])["info"] == "{not json"
        assert json.loads(raw[1])["extra"] == 7
        assert json.loads(raw[3])["mine"] == 2


def test_json_lines_are_lines_that_a_worker_could_have_printed(
    recorded: RunStore, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    export_run(recorded, RUN, "jsonl", out, frames=True)
    for name in ("steps", "episodes", "events"):
        parsed = LineParser(RUN).parse((out / f"{name}.jsonl").read_bytes())
        assert not parsed.rejected, name
