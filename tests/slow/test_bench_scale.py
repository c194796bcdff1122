"""The simulation of many nodes works, and would notice a lost or a changed row."""

from __future__ import annotations

import json
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


def test_simulated_nodes_are_driven_and_all_their_rows_are_found(
    postgres_server: PostgresServer, tmp_path: Path, root: Path
) -> None:
    url = postgres_server.fresh_store()
    options = ["--nodes=2", "--rate=100", "--seconds=1", f"--store={url}", f"--out={tmp_path}"]
    done = subprocess.run(
        [sys.executable, "-m", "bench.scale", *options],
        capture_output=True,
        text=True,
        check=False,
        cwd=root,
    )
    assert done.returncode == 0, done.stderr
    (found,) = json.loads((tmp_path / "scale.json").read_text())["results"]
    assert found["rows"] >= 2
    assert found["nodes"] == 2


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
