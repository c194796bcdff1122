"""What holds for an export to any format: what it refuses, replaces and leaves behind."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from recorded_runs import (
    RUN,
    Recording,
    beside_the_store,
    frame_message,
    open_store,
    picture,
    write_training_run,
)

from lanekit.errors import MissingExtra, RunNotFound, TelemetryError
from lanekit.slow.export.run_export import FORMATS, export_run
from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.store.run_store import RunStore
from patience import patience

pytestmark = pytest.mark.once


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
    name: str, module: str, recorded: RunStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / f"{module}.py").write_text("raise ImportError('not here')")
    for loaded in [m for m in sys.modules if m.partition(".")[0] == module]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.syspath_prepend(str(hidden))
    monkeypatch.setenv("PYTHONPATH", str(hidden))
    with pytest.raises(MissingExtra, match=rf"needs {module}.*pip install 'lanekit\[export\]'"):
        export_run(recorded, RUN, name, tmp_path / "out")
    assert beside_the_store(tmp_path) == ["hidden"]


def test_what_is_there_already_is_not_overwritten(recorded: RunStore, tmp_path: Path) -> None:
    out = tmp_path / "out"
    export_run(recorded, RUN, "csv", out)
    before = (out / "steps.csv").stat().st_ino
    with pytest.raises(TelemetryError, match="exists already; --force"):
        export_run(recorded, RUN, "csv", out)
    assert (out / "steps.csv").stat().st_ino == before
    export_run(recorded, RUN, "jsonl", out, force=True)
    assert not (out / "steps.csv").exists()
    assert (out / "steps.jsonl").exists()
    assert beside_the_store(tmp_path) == ["out"]


def test_force_replaces_exports_only(recorded: RunStore, tmp_path: Path) -> None:
    precious = tmp_path / "thesis"
    precious.mkdir()
    (precious / "chapter1").write_text("it was a dark night")
    with pytest.raises(TelemetryError, match="not a lanekit export"):
        export_run(recorded, RUN, "csv", precious, force=True)
    file = tmp_path / "file"
    file.write_text("x")
    with pytest.raises(TelemetryError, match="not a lanekit export"):
        export_run(recorded, RUN, "csv", file, force=True)
    assert (precious / "chapter1").read_text() == "it was a dark night"
    assert sorted(beside_the_store(tmp_path)) == ["file", "thesis"]


def test_an_empty_directory_may_be_written_to(recorded: RunStore, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    export_run(recorded, RUN, "csv", out)
    assert (out / "steps.csv").exists()


def test_a_failure_leaves_nothing_half_written(
    recorded: RunStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    export_run(recorded, RUN, "csv", out)
    real, calls = RunStore.episode_rows, []

    def failing(self: RunStore, *args: Any, **kwargs: Any) -> Any:
        calls.append(args)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(RunStore, "episode_rows", failing)
    for name in ("csv", "jsonl", "parquet", "tensorboard"):
        with pytest.raises(OSError, match="No space"):
            export_run(recorded, RUN, name, tmp_path / f"new-{name}")
        with pytest.raises(OSError, match="No space"):
            export_run(recorded, RUN, name, out, force=True)
    assert len(calls) == 8
    monkeypatch.setattr(RunStore, "episode_rows", real)
    assert beside_the_store(tmp_path) == ["out"]
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
        command, cwd=tmp_path, capture_output=True, text=True, timeout=patience(), check=False
    )
    assert done.returncode == 1
    assert "can not write cartpole-7-jsonl: [Errno 27] File too large" in done.stderr
    assert "Traceback" not in done.stderr
    assert beside_the_store(tmp_path) == []


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
    recorded: RunStore, tmp_path: Path
) -> None:
    with pytest.raises(TelemetryError, match=r"csv can not hold frames; .* parquet, jsonl"):
        export_run(recorded, RUN, "csv", tmp_path / "out", frames=True)


def test_an_unknown_run_or_format_is_an_error(recorded: RunStore, tmp_path: Path) -> None:
    with pytest.raises(RunNotFound):
        export_run(recorded, "nobody", "csv", tmp_path / "out")
    with pytest.raises(ValueError, match="known: parquet, csv"):
        export_run(recorded, RUN, "xml", tmp_path / "out")
    assert beside_the_store(tmp_path) == []


def test_the_export_says_what_it_holds(recorded: RunStore, tmp_path: Path) -> None:
    export_run(recorded, RUN, "csv", tmp_path / "deep" / "out")
    about = json.loads((tmp_path / "deep" / "out" / "run.json").read_text())
    assert about["run_id"] == RUN
    assert (about["steps"], about["episodes"], about["events"]) == (300, 6, 4)
    assert about["state"] == "completed"
