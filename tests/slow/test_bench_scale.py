"""The simulation of many nodes works, and would notice a lost or a changed row."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from bench.scale.__main__ import compare
from made_batches import RUN, STREAM
from postgres_server import PostgresServer

from lanekit.slow.batches import steps_batch
from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.store.opening import open_to_write

pytestmark = pytest.mark.once


PAGE = Path(__file__).parents[2] / "docs" / "scale.md"
COMMANDS = re.findall(
    r"^\$ python (-m bench\.(?:scale|postgres_store).*?)(?:\s+#.*)?$",
    PAGE.read_text(),
    re.MULTILINE,
)
SHORT = {
    "bench.scale": "--nodes 2 --rate 60 --seconds 1",
    "bench.postgres_store": "--events 3000 --rounds 1",
}


@pytest.mark.parametrize("command", COMMANDS)
def test_what_the_page_measures_with_runs_to_its_end(
    command: str, tmp_path: Path, root: Path
) -> None:
    """Each line of docs/scale.md as it stands, but for so short a time that it tells nothing."""
    options = [*command.split(), *SHORT[command.split()[1]].split(), "--out", str(tmp_path)]
    if "--away" in options:
        options += ["--away", "0.5", "--seconds", "3"]
    done = subprocess.run(
        [sys.executable, *options], capture_output=True, text=True, check=False, cwd=root
    )
    assert done.returncode == 0, done.stderr
    (file,) = tmp_path.iterdir()
    record = json.loads(file.read_text())
    if "bench.scale" in command:
        (found,) = record["results"]
        assert found["nodes"] == 2
        assert found["rows"] >= 2
        assert found["row_bytes"] > 0
        assert (found["log_bytes"] > 0) == ("sqlite" not in command)
    else:
        assert record["ratios"]["COPY"] > 0


def test_a_server_that_is_there_already_is_used(
    postgres_server: PostgresServer, tmp_path: Path, root: Path
) -> None:
    url = postgres_server.fresh_store()
    options = ["--nodes=2", "--rate=60", "--seconds=1", f"--store={url}", f"--out={tmp_path}"]
    done = subprocess.run(
        [sys.executable, "-m", "bench.scale", *options],
        capture_output=True,
        text=True,
        check=False,
        cwd=root,
    )
    assert done.returncode == 0, done.stderr
    (found,) = json.loads((tmp_path / "scale.json").read_text())["results"]
    assert found["commits"] > 0


@pytest.mark.parametrize(("rows", "reward"), [(4, 0.0), (6, 0.0), (5, 1.0)])
def test_rows_that_are_not_what_was_sent_are_noticed(path: Path, rows: int, reward: float) -> None:
    steps = [pb.Step(step=n, reward=n / 8) for n in range(rows)]
    with open_to_write(path) as store:
        store.register_stream(RUN, STREAM)
        steps[2].reward += reward
        request = pb.PublishRunStepsRequest(run_id=RUN, stream_id=STREAM, first_seq=1, steps=steps)
        store.append([steps_batch(request)])
    with pytest.raises(RuntimeError, match="are not the 5"):
        compare(str(path), {RUN: 5})
