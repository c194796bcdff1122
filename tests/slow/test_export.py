"""Exports, read back by each format's own reader."""

from __future__ import annotations

import base64
import contextlib
import csv
import json
import os
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import numpy as np
import psutil
import pytest
from recorded_runs import (
    BEGIN,
    SECOND,
    Recording,
    frame_message,
    number_of,
    open_store,
    picture,
    write_training_run,
)

from lanekit.errors import MissingExtra, RunNotFound, TelemetryError
from lanekit.slow.batches import steps_batch
from lanekit.slow.export.run_export import FORMATS, export_run
from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.sending.lines import LineParser
from lanekit.slow.store.run_store import RunStore

pytestmark = pytest.mark.once

RUN = "cartpole-7"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RunStore]:
    path = tmp_path / "runs.db"
    write_training_run(path)
    with RunStore.open(path) as opened:
        yield opened


def left_over(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir() if not path.name.startswith("runs.db")]


# --- parquet ------------------------------------------------------------------------------------


def test_parquet_has_typed_columns_and_every_row(store: RunStore, tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    out = tmp_path / "out"
    export_run(store, RUN, "parquet", out)
    table = pq.read_table(out / "steps.parquet")
    expected = store.steps(RUN)
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


def test_parquet_carries_frames_when_asked(store: RunStore, tmp_path: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    export_run(store, RUN, "parquet", tmp_path / "without")
    assert "frame_pixels" not in pq.read_schema(tmp_path / "without" / "steps.parquet").names
    export_run(store, RUN, "parquet", tmp_path / "with", frames=True)
    rows = pq.read_table(tmp_path / "with" / "steps.parquet").to_pylist()
    shape = tuple(rows[7][f"frame_{name}"] for name in ("height", "width", "channels"))
    pixels = np.frombuffer(rows[7]["frame_pixels"], np.uint8).reshape(shape)
    assert number_of(pixels) == 7
    assert rows[8]["frame_pixels"] is None


@pytest.mark.once
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
        done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=True)
        return int(done.stdout) * 1024

    # The long run's text alone is 85 MB; as Python objects it would be far more.
    for name in ("parquet", "jsonl"):
        assert peak("long", name) - peak("short", name) < 64 * 2**20, name


# --- csv and json lines -------------------------------------------------------------------------


def test_csv_reads_back_as_what_was_stored(store: RunStore, tmp_path: Path) -> None:
    out = tmp_path / "out"
    export_run(store, RUN, "csv", out)
    with (out / "steps.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    expected = list(store.steps(RUN))
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


def test_json_lines_hold_values_byte_for_byte(store: RunStore, tmp_path: Path) -> None:
    out = tmp_path / "out"
    export_run(store, RUN, "jsonl", out, frames=True)
    raw = (out / "steps.jsonl").read_bytes().splitlines()
    lines = [json.loads(line) for line in raw]
    expected = list(store.steps(RUN))
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
            action_json=[b"1e400", b"1", nested, b"2"],
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
    store: RunStore, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    export_run(store, RUN, "jsonl", out, frames=True)
    for name in ("steps", "episodes", "events"):
        parsed = LineParser(RUN).parse((out / f"{name}.jsonl").read_bytes())
        assert not parsed.rejected, name


# --- tensorboard --------------------------------------------------------------------------------


def scalars(directory: Path, tag: str) -> list[Any]:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = accumulator.EventAccumulator(str(directory), size_guidance={"scalars": 0})
    events.Reload()
    return list(events.Scalars(tag))


def test_tensorboard_reads_a_curve_for_each_agent(store: RunStore, tmp_path: Path) -> None:
    out = tmp_path / "out"
    export_run(store, RUN, "tensorboard", out)
    returns = scalars(out / "blue", "episode/return")
    assert [(event.step, event.value) for event in returns] == [(0, 1.0), (1, 11.0), (2, 21.0)]
    assert returns[1].wall_time == (BEGIN + SECOND) / 1e9
    rewards = scalars(out / "red", "step/reward")
    assert [event.value for event in rewards] == [i / 8 for i in range(0, 300, 2)]
    assert [event.step for event in rewards] == list(range(150))
    # The reward that the worker did not give is a gap, not a zero.
    assert [event.step for event in scalars(out / "blue", "step/reward")][:3] == [0, 2, 3]


def test_tensorboard_shows_the_log_as_text(store: RunStore, tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    out = tmp_path / "out"
    export_run(store, RUN, "tensorboard", out)
    files = [str(path) for path in out.glob("events.out.tfevents.*")]
    events = accumulator.EventAccumulator(files[0])
    events.Reload()
    texts = [event.tensor_proto.string_val[0].decode() for event in events.Tensors("events")]
    assert texts[1] == '`checkpoint` {"path": "a, b"}'


def test_the_only_agent_needs_no_directory_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with open_store(path) as opened:
        run = Recording(opened, "r")
        run.event("run_started")
        run.steps(pb.Step(step=i, reward=i) for i in range(5))
    with RunStore.open(path) as store:
        export_run(store, "r", "tensorboard", tmp_path / "out")
    assert [event.value for event in scalars(tmp_path / "out", "step/reward")] == [0, 1, 2, 3, 4]


def test_names_of_workers_can_not_leave_the_directory(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with open_store(path) as opened:
        run = Recording(opened, "r")
        names = ["../../x", "..", "a/b", "a_b", "A_b", ""]
        run.steps(pb.Step(agent_id=name, step=0, reward=1) for name in names)
    with RunStore.open(path) as store:
        export_run(store, "r", "tensorboard", tmp_path / "out")
    assert sorted(left_over(tmp_path)) == ["out"]
    directories = [entry for entry in (tmp_path / "out").iterdir() if entry.is_dir()]
    assert len(directories) == len(names)


# --- wandb --------------------------------------------------------------------------------------


def wandb_records(path: Path) -> Iterator[Any]:
    """Read a .wandb file: wandb's messages in LevelDB's log format, blocks of 32 KiB."""
    messages = pytest.importorskip("wandb.proto.wandb_internal_pb2")
    data = path.read_bytes()
    assert data[:4] == b":W&B"
    position, message = 7, b""
    while position + 7 <= len(data):
        left = 32768 - position % 32768
        if left < 7:
            position += left
            continue
        _, size, kind = struct.unpack("<IHB", data[position : position + 7])
        message += data[position + 7 : position + 7 + size]
        position += 7 + size
        if kind in (1, 4):  # whole, or the last part
            record = messages.Record()
            record.ParseFromString(message)
            message = b""
            yield record


def wandb_processes(scratch: Path) -> list[str]:
    """The processes that have their wandb directories below `scratch`."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get("WANDB_CACHE_DIR", "").startswith(str(scratch)):
                found.append(process.name())
    return found


def wait_until_gone(scratch: Path) -> None:
    deadline = time.monotonic() + 60
    while wandb_processes(scratch) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert wandb_processes(scratch) == []


def test_wandb_writes_an_offline_run_and_leaves_no_process(
    store: RunStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("wandb")
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("WANDB_MODE", "online")  # the user's own wish, for other runs
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    out = tmp_path / "out"
    export_run(store, RUN, "wandb-offline", out)
    (path,) = out.glob("wandb/offline-run-*/run-*.wandb")
    assert not [link for link in out.rglob("*") if link.is_symlink()]
    history: list[dict[str, Any]] = []
    config: dict[str, Any] = {}
    for record in wandb_records(path):
        kind = record.WhichOneof("record_type")
        if kind == "history":
            history.append(
                {
                    item.key or "/".join(item.nested_key): json.loads(item.value_json)
                    for item in record.history.item
                }
            )
        elif kind == "run":
            assert record.run.run_id == RUN
            config = {u.key: json.loads(u.value_json) for u in record.run.config.update}
    assert config["lr"] == 0.5
    red = [row for row in history if "red/step/reward" in row]
    assert [row["red/step/reward"] for row in red] == [i / 8 for i in range(0, 300, 2)]
    assert [row["red/step/index"] for row in red] == list(range(150))
    assert red[1]["_timestamp"] == pytest.approx((BEGIN + 2 * SECOND / 100) / 1e9, abs=1e-3)
    returns = [row["blue/episode/return"] for row in history if "blue/episode/return" in row]
    assert returns == [1.0, 11.0, 21.0]
    wait_until_gone(scratch)
    assert list(home.rglob("*")) == []
    assert list(scratch.iterdir()) == []


def test_an_export_to_wandb_that_is_interrupted_leaves_no_process(tmp_path: Path) -> None:
    pytest.importorskip("wandb")
    path = tmp_path / "runs.db"
    with open_store(path) as opened:
        run = Recording(opened, "r")
        run.steps(pb.Step(step=i, reward=i) for i in range(50_000))
    command = ["export", "r", "--to", "wandb-offline", "--store", str(path)]
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "lanekit", *command],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(scratch)},
        start_new_session=True,
    )
    deadline = time.monotonic() + 60
    while "wandb-core" not in wandb_processes(scratch):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)  # as Ctrl-C does
    assert process.wait(60) == 130
    wait_until_gone(scratch)
    assert left_over(tmp_path) == ["scratch"]


# --- all formats --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FORMATS)
def test_a_run_without_rows_can_be_exported(name: str, tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with open_store(path) as opened:
        opened.create_run("empty")
    with RunStore.open(path) as store:
        export_run(store, "empty", name, tmp_path / "out")
    about = json.loads((tmp_path / "out" / "run.json").read_text())
    assert (about["lanekit_export"], about["steps"]) == (name, 0)


@pytest.mark.parametrize(
    ("name", "module"),
    [("parquet", "pyarrow"), ("tensorboard", "tensorboard"), ("wandb-offline", "wandb")],
)
def test_a_missing_package_is_named_with_the_command_that_installs_it(
    name: str, module: str, store: RunStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / f"{module}.py").write_text("raise ImportError('not here')")
    for loaded in [m for m in sys.modules if m.partition(".")[0] == module]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.syspath_prepend(str(hidden))
    monkeypatch.setenv("PYTHONPATH", str(hidden))
    with pytest.raises(MissingExtra, match=rf"needs {module}.*pip install 'lanekit\[export\]'"):
        export_run(store, RUN, name, tmp_path / "out")
    assert left_over(tmp_path) == ["hidden"]


def test_what_is_there_already_is_not_overwritten(store: RunStore, tmp_path: Path) -> None:
    out = tmp_path / "out"
    export_run(store, RUN, "csv", out)
    before = (out / "steps.csv").stat().st_ino
    with pytest.raises(TelemetryError, match="exists already; --force"):
        export_run(store, RUN, "csv", out)
    assert (out / "steps.csv").stat().st_ino == before
    export_run(store, RUN, "jsonl", out, force=True)
    assert not (out / "steps.csv").exists()
    assert (out / "steps.jsonl").exists()
    assert left_over(tmp_path) == ["out"]


def test_force_replaces_exports_only(store: RunStore, tmp_path: Path) -> None:
    precious = tmp_path / "thesis"
    precious.mkdir()
    (precious / "chapter1").write_text("it was a dark night")
    with pytest.raises(TelemetryError, match="not a lanekit export"):
        export_run(store, RUN, "csv", precious, force=True)
    file = tmp_path / "file"
    file.write_text("x")
    with pytest.raises(TelemetryError, match="not a lanekit export"):
        export_run(store, RUN, "csv", file, force=True)
    assert (precious / "chapter1").read_text() == "it was a dark night"
    assert sorted(left_over(tmp_path)) == ["file", "thesis"]


def test_an_empty_directory_may_be_written_to(store: RunStore, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    export_run(store, RUN, "csv", out)
    assert (out / "steps.csv").exists()


def test_a_failure_leaves_nothing_half_written(
    store: RunStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    export_run(store, RUN, "csv", out)
    real, calls = RunStore.episode_rows, []

    def failing(self: RunStore, *args: Any, **kwargs: Any) -> Any:
        calls.append(args)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(RunStore, "episode_rows", failing)
    for name in ("csv", "jsonl", "parquet", "tensorboard"):
        with pytest.raises(OSError, match="No space"):
            export_run(store, RUN, name, tmp_path / f"new-{name}")
        with pytest.raises(OSError, match="No space"):
            export_run(store, RUN, name, out, force=True)
    assert len(calls) == 8
    monkeypatch.setattr(RunStore, "episode_rows", real)
    assert left_over(tmp_path) == ["out"]
    assert len((out / "steps.csv").read_text().splitlines()) > 300


def test_a_file_that_may_not_grow_is_a_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    write_training_run(path)
    # The store's own index takes 32 KiB, so less is not possible.
    code = (
        "import resource, signal, sys;"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (32768, 32768));"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "from lanekit.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", code, "export", RUN, "--to", "jsonl", "--store", str(path)]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert "can not write cartpole-7-jsonl: [Errno 27] File too large" in done.stderr
    assert "Traceback" not in done.stderr
    assert left_over(tmp_path) == []


def test_a_run_that_goes_on_is_exported_as_it_was_at_the_beginning(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with open_store(path) as opened:
        run = Recording(opened, "r")
        run.steps(pb.Step(step=i) for i in range(10))
        with RunStore.open(path) as store:

            def more(rows: int) -> None:
                run.steps([pb.Step(step=99)])

            export_run(store, "r", "jsonl", tmp_path / "out", progress=more)
    assert len((tmp_path / "out" / "steps.jsonl").read_text().splitlines()) == 10


def test_large_frames_come_in_small_windows(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with open_store(path) as opened:
        run = Recording(opened, "r")
        for number in range(6):
            frame = frame_message(picture(number, 1024, 1024))
            run.steps([pb.Step(step=number, frame=frame)])
    seen = []
    with RunStore.open(path) as store:
        export_run(store, "r", "jsonl", tmp_path / "out", frames=True, progress=seen.append)
    assert sum(seen) == 6
    assert max(seen) < 6


def test_frames_are_refused_by_formats_that_can_not_hold_them(
    store: RunStore, tmp_path: Path
) -> None:
    with pytest.raises(TelemetryError, match=r"csv can not hold frames; .* parquet, jsonl"):
        export_run(store, RUN, "csv", tmp_path / "out", frames=True)


def test_an_unknown_run_or_format_is_an_error(store: RunStore, tmp_path: Path) -> None:
    with pytest.raises(RunNotFound):
        export_run(store, "nobody", "csv", tmp_path / "out")
    with pytest.raises(ValueError, match="known: parquet, csv"):
        export_run(store, RUN, "xml", tmp_path / "out")
    assert left_over(tmp_path) == []


def test_the_export_says_what_it_holds(store: RunStore, tmp_path: Path) -> None:
    export_run(store, RUN, "csv", tmp_path / "deep" / "out")
    about = json.loads((tmp_path / "deep" / "out" / "run.json").read_text())
    assert about["run_id"] == RUN
    assert (about["steps"], about["episodes"], about["events"]) == (300, 6, 4)
    assert about["state"] == "completed"
