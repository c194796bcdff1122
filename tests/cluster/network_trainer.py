"""A trainer whose workers are behind a bad network; prints what it saw as JSON.

usage: python network_trainer.py ADDRESS
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

import ray
import rollouts

from lanekit import TrajectoryReader
from lanekit.integrations import ray as cluster
from lanekit.integrations.ray.nodes import affinity, find_node
from lanekit.slow.store.records import RunRecord

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # it is run by itself, too

from patience import patience


def main() -> None:
    cluster.connect(sys.argv[1])
    far = next(
        cluster_node
        for cluster_node in cluster.live_nodes()
        if cluster_node.address != sys.argv[1].split(":")[0]
    )
    seen: dict[str, object] = {"node": find_node(far.address).address}
    placed = cluster.place_run(
        "stepping", {"run_id": "far-run", "total_steps": 50}, node=far.address
    )
    seen["run_id"] = placed.run_id
    lane = f"far-{os.getpid()}"
    with TrajectoryReader.create(lane, rollouts.SCHEMA) as reader, cluster.forward(lane) as way_in:
        produce = ray.remote(num_cpus=0, max_retries=0)(rollouts.produce)
        task = produce.options(scheduling_strategy=affinity(far)).remote(lane, "far", 60, window=4)
        records, killed = [], 0
        while len(records) < 60:
            record = reader.get(patience(120))
            assert record is not None, records
            assert rollouts.is_right(record)
            records.append(record.meta["n"])
            record.release()
            del record
            if len(records) in (15, 40):
                os.kill(way_in.pid(), signal.SIGKILL)
                killed += 1
        ray.get(task)
        assert reader.get(1.0) is None
    daemon = cluster.RemoteDaemon(placed)
    while not (state := RunRecord.from_message(daemon.run(placed.run_id)).state).is_over:
        time.sleep(0.5)
    seen.update(records=records, killed=killed, state=str(state))
    print(json.dumps(seen))


if __name__ == "__main__":
    main()
