"""Exports to programs that draw curves, read back by each one's own reader."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from recorded_runs import BEGIN, RUN, SECOND, Recording, beside_the_store, open_store

from lanekit.slow.export.run_export import export_run
from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.store.run_store import RunStore
from patience import patience, until

pytestmark = pytest.mark.once

# --- tensorboard --------------------------------------------------------------------------------


def scalars(directory: Path, tag: str) -> list[Any]:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = accumulator.EventAccumulator(str(directory), size_guidance={"scalars": 0})
    events.Reload()
    return list(events.Scalars(tag))


def test_tensorboard_reads_a_curve_for_each_agent(recorded: RunStore, tmp_path: Path) -> None:
    out = tmp_path / "out"
    export_run(recorded, RUN, "tensorboard", out)
    returns = scalars(out / "blue", "episode/return")
    assert [(event.step, event.value) for event in returns] == [(0, 1.0), (1, 11.0), (2, 21.0)]
    assert returns[1].wall_time == (BEGIN + SECOND) / 1e9
    rewards = scalars(out / "red", "step/reward")
    assert [event.value for event in rewards] == [i / 8 for i in range(0, 300, 2)]
    assert [event.step for event in rewards] == list(range(150))
    # The reward that the worker did not give is a gap, not a zero.
    assert [event.step for event in scalars(out / "blue", "step/reward")][:3] == [0, 2, 3]


def test_tensorboard_shows_the_log_as_text(recorded: RunStore, tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    out = tmp_path / "out"
    export_run(recorded, RUN, "tensorboard", out)
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
    assert sorted(beside_the_store(tmp_path)) == ["out"]
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
    until(lambda: wandb_processes(scratch) == [], "the end of all processes of wandb", pause=0.05)


def test_wandb_writes_an_offline_run_and_leaves_no_process(
    recorded: RunStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
    export_run(recorded, RUN, "wandb-offline", out)
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
    until(lambda: "wandb-core" in wandb_processes(scratch), "wandb-core", pause=0.02)
    os.killpg(process.pid, signal.SIGINT)  # as Ctrl-C does
    assert process.wait(patience()) == 130
    wait_until_gone(scratch)
    assert beside_the_store(tmp_path) == ["scratch"]
