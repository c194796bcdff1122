"""MLflow: its tracking store in a SQLite file, metrics in batches as large as it allows."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from bench.peers.trackers import Recorder
from bench.slow_events import Step

PACKAGE = "mlflow"
CALLS = "MlflowClient.log_batch, 6 metrics a step, 166 steps a call (1,000 metrics at most)"
_STEPS_PER_CALL = 1000 // 6


def begin(directory: Path) -> Recorder:
    os.environ["MLFLOW_TRACKING_URI"] = f"sqlite:///{directory / 'mlflow.db'}"
    os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
    from mlflow import MlflowClient
    from mlflow.entities import Metric

    client = MlflowClient()
    run_id = client.create_run(client.create_experiment("bench", str(directory))).info.run_id

    def record(steps: Sequence[Step]) -> None:
        for start in range(0, len(steps), _STEPS_PER_CALL):
            metrics = []
            for i, step in enumerate(steps[start : start + _STEPS_PER_CALL], start):
                when = step.time_ns // 1_000_000
                metrics.append(Metric("reward", step.reward, when, i))
                metrics.append(Metric("action", step.action, when, i))
                for at, value in enumerate(step.observation):
                    metrics.append(Metric(f"observation/{at}", value, when, i))
            client.log_batch(run_id, metrics=metrics)
        client.set_terminated(run_id)

    return record
