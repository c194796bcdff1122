"""The generated protocol code is what the .proto says, and the .proto keeps its promises."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from google.protobuf.descriptor import FieldDescriptor

from lanekit.slow.proto import telemetry_pb2 as pb

pytestmark = pytest.mark.once


def test_the_generated_code_is_current(root: Path, tmp_path: Path) -> None:
    subprocess.run([str(root / "tools" / "generate_protocol.sh"), str(tmp_path)], check=True)
    made = sorted((tmp_path / "lanekit" / "slow" / "proto").iterdir())
    assert len(made) == 4
    for file in made:
        kept = root / "python" / "lanekit" / "slow" / "proto" / file.name
        assert kept.read_text() == file.read_text(), (
            f"{file.name} is stale: run tools/generate_protocol.sh"
        )


def test_every_rpc_and_message_is_documented(root: Path) -> None:
    proto = root / "python" / "lanekit" / "slow" / "proto" / "telemetry.proto"
    lines = proto.read_text().splitlines()
    for number, line in enumerate(lines):
        if line.strip().startswith("rpc "):
            assert lines[number - 1].strip().startswith("//"), line


def test_a_batch_has_a_column_for_each_property_of_a_step() -> None:
    def names(message: type) -> set[str]:
        fields: list[FieldDescriptor] = list(message.DESCRIPTOR.fields)  # type: ignore[attr-defined]
        return {field.name for field in fields}

    # Interned, or given once for the whole batch.
    elsewhere = {"run_id", "stream_id", "worker_id", "agent_id"}
    assert names(pb.Step) - elsewhere <= names(pb.StepColumns)
