"""The trajectory lane beside Atropos' own API server: what that takes and hands out, so do we."""

from __future__ import annotations

import ast
import importlib.util
import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lanekit import TrajectoryReader
from lanekit.trajectory.atropos import ATROPOS_SCHEMA
from lanekit.trajectory.atropos_batches import EnvironmentRules, ScoredDataBatches
from lanekit.trajectory.atropos_transport import ScoredDataSender
from patience import patience

BATCH = 8


class Server:
    """Atropos' API server in a process of its own."""

    def __init__(self) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "uvicorn", "atroposlib.api.server:app", "--port", str(port)]
        )

    def ask(self, path: str, **content: Any) -> Any:
        request = urllib.request.Request(
            self.url + path,
            json.dumps(content).encode() if content else None,
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=patience()) as answer:
            return json.loads(answer.read())

    def begin(self, environments: dict[int, EnvironmentRules]) -> None:
        while True:
            try:
                self.ask("/")
                break
            except urllib.error.URLError:
                assert self.process.poll() is None, "Atropos' server has ended"
                time.sleep(0.1)
        self.ask(
            "/register",
            wandb_group="",
            wandb_project="",
            batch_size=BATCH,
            max_token_len=64,
            checkpoint_dir="",
            save_checkpoint_interval=0,
            starting_step=0,
            num_steps=1000,
        )
        assert self.ask("/batch") == {"batch": None}  # from here on environments may register
        for number, rules in environments.items():
            registered = self.ask(
                "/register-env",
                max_token_length=rules.max_token_length,
                desired_name=f"env {number}",
                weight=rules.weight,
                group_size=rules.group_size,
                min_batch_allocation=rules.min_batch_allocation,
            )
            assert registered["env_id"] == number

    def batches(self) -> list[list[dict[str, Any]]]:
        """All that are complete; what a group does not have is left out."""
        found = []
        while (batch := self.ask("/batch")["batch"]) is not None:
            found.append([{k: v for k, v in group.items() if v is not None} for group in batch])
        return found


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.process.terminate()
    made.process.wait()


def group(number: int, size: int, env: int) -> dict[str, Any]:
    return {
        "tokens": [[number, i] for i in range(size)],
        "masks": [[-100, i] for i in range(size)],
        "scores": [number + i / 2 for i in range(size)],
        "inference_logprobs": [[-0.5, -0.1 * i] for i in range(size)],
        "messages": [[{"role": "user", "content": f"{number}?"}] for _ in range(size)],
        "overrides": [{"set_advantage_to_zero": i == 0} for i in range(size)],
        "distill_token_ids": [[[1], [2, 3]] for _ in range(size)],
        "env_id": env,
    }


def through_the_lane(
    groups: list[dict[str, Any]], environments: dict[int, EnvironmentRules]
) -> list[list[dict[str, Any]]]:
    lane = f"atropos-{uuid.uuid4().hex}"
    with (
        TrajectoryReader.create(lane, ATROPOS_SCHEMA, producers=1) as reader,
        ScoredDataSender(lane) as sender,
    ):
        assert sender.local
        sender.post(groups)
        taker = ScoredDataBatches(reader, BATCH, environments)
        found = []
        while (batch := taker.next_batch(timeout=0)) is not None:
            found.append([each.to_dict() for each in batch])
        return found


def by_number(batches: list[list[dict[str, Any]]]) -> list[list[dict[str, Any]]]:
    """Atropos hands out the newest complete batch first: put them in the order of their groups."""
    return sorted(batches, key=lambda batch: batch[0]["tokens"][0][0])


@pytest.mark.parametrize("groups_at_once", [1, 5])
def test_batches_are_those_that_atropos_own_server_hands_out(
    server: Server, groups_at_once: int
) -> None:
    environments = {0: EnvironmentRules(group_size=4), 1: EnvironmentRules(group_size=4)}
    server.begin(environments)
    # Environment 1 also sends halves, which wait for each other.
    sizes = [(4, 0), (4, 1), (2, 1), (4, 0), (2, 1), (4, 1), (4, 0), (2, 1), (4, 0), (2, 1)]
    groups = [group(number, size, env) for number, (size, env) in enumerate(sizes)]
    with ScoredDataSender(f"no lane {uuid.uuid4()}", fallback=server.url) as sender:
        assert not sender.local
        for i in range(0, len(groups), groups_at_once):
            sender.post(groups[i] if groups_at_once == 1 else groups[i : i + groups_at_once])
    theirs = by_number(server.batches())
    assert theirs == by_number(through_the_lane(groups, environments))
    assert [sum(len(g["tokens"]) for g in batch) for batch in theirs] == [BATCH] * 4


def test_an_environments_least_share_is_kept_as_by_atropos_own_server(server: Server) -> None:
    environments = {
        0: EnvironmentRules(group_size=2),
        1: EnvironmentRules(group_size=2, min_batch_allocation=0.25),
    }
    server.begin(environments)
    owners = [0, 0, 0, 0, 1, 0, 0, 0, 0, 0]  # one group of environment 1: enough for one batch
    groups = [group(number, 2, env) for number, env in enumerate(owners)]
    with ScoredDataSender(f"no lane {uuid.uuid4()}", fallback=server.url) as sender:
        sender.post(groups)
    theirs, ours = server.batches(), through_the_lane(groups, environments)
    assert len(theirs) == len(ours) == 1

    def numbers(batch: list[dict[str, Any]]) -> list[int]:
        return sorted(each["tokens"][0][0] for each in batch)

    assert numbers(theirs[0]) == numbers(ours[0]) == [0, 1, 2, 4]


def test_atropos_environments_still_call_what_the_sender_replaces() -> None:
    """Looked up in the source: to import it needs all that language models need."""
    package = importlib.util.find_spec("atroposlib")
    assert package is not None
    assert package.origin is not None
    source = Path(package.origin).with_name("envs").joinpath("base.py").read_text("utf-8")
    defined = {
        method.name
        for kind in ast.parse(source).body
        if isinstance(kind, ast.ClassDef) and kind.name == "BaseEnv"
        for method in kind.body
        if isinstance(method, ast.AsyncFunctionDef)
    }
    assert "_send_scored_data_to_api" in defined
