"""The programs of docs/command-lane.md do what the page says."""

from __future__ import annotations

import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from memory_channel import memory_channels
from pumping import Pumped

from lanekit import segment_name
from lanekit.command import METHODS, CommandClient, CommandServer
from lanekit.command.messages import Envelope
from lanekit.segments import segment_path
from lanekit.step import StepServer
from patience import patience


@pytest.fixture
def page(root: Path) -> str:
    return (root / "docs" / "command-lane.md").read_text(encoding="utf-8")


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page, re.MULTILINE | re.DOTALL)


def test_the_two_programs_run_as_written(page: str, run_id: str, tmp_path: Path) -> None:
    # Under a name of their own, so that two suites may run at once.
    engine, trainer, _ = (code.replace("docs-engine", run_id) for code in blocks(page, "python"))
    (promised,) = blocks(page, "text")
    (tmp_path / "engine.py").write_text(engine, encoding="utf-8")
    (tmp_path / "trainer.py").write_text(trainer, encoding="utf-8")
    command = [sys.executable, "-W", "error"]
    with subprocess.Popen(
        [*command, "engine.py"], stdout=subprocess.PIPE, text=True, cwd=tmp_path
    ) as running:
        assert running.stdout is not None
        try:
            assert running.stdout.readline() == "ready\n"
            done = subprocess.run(
                [*command, "trainer.py"],
                capture_output=True,
                text=True,
                cwd=tmp_path,
                timeout=patience(),
                check=False,
            )
            assert running.poll() is None
        finally:
            running.terminate()
    assert (done.stdout, done.stderr) == (promised, "")
    assert not segment_path(segment_name("step", run_id)).exists()


def test_a_method_of_your_own_works_as_written(page: str) -> None:
    names: dict[str, object] = {}
    exec(blocks(page, "python")[2], names)
    server_end, client_end = memory_channels()
    server = CommandServer(server_end)
    names["serve"](server)  # type: ignore[operator]
    with CommandClient(client_end, timeout=patience()) as client, Pumped(server):
        assert names["call"](client) == {"was": 0, "is": 3.5}  # type: ignore[operator]


def test_a_ring_can_be_read_from_the_layout_page_alone(root: Path, run_id: str) -> None:
    page = (root / "docs" / "layout.md").read_text(encoding="utf-8")
    vector = re.search(r"As bytes, a ring's data.*?```\n(.*?)```", page, re.DOTALL)
    assert vector is not None
    promised = bytes.fromhex("".join(line[4:] for line in vector.group(1).splitlines()))
    with StepServer.create(run_id, 1, 1, 1, command_ring=4096) as lane:
        assert lane.commands.send(b"hello", 0.0)
        assert lane.commands.send(b"", 0.0)
        data = segment_path(segment_name("step", run_id)).read_bytes()
        (ring,) = struct.unpack_from("<Q", data, 728)  # cmd_s2c_offset
        write_pos, read_pos = (struct.unpack_from("<Q", data, ring + at)[0] for at in (0, 64))
        assert (write_pos, read_pos) == (len(promised), 0)
        assert data[ring + 128 : ring + 128 + write_pos] == promised
        found, at = [], read_pos
        while at < write_pos:
            (length,) = struct.unpack_from("<I", data, ring + 128 + at % 4096)
            found.append(data[ring + 132 + at % 4096 :][:length])
            at += (4 + length + 7) // 8 * 8
        assert found == [b"hello", b""]


def test_the_page_lists_every_method_and_every_field_of_the_envelope(page: str) -> None:
    for method in METHODS:
        service, _, name = method.partition(".")
        assert re.search(rf"^\| `{service}` \| .*`{name}`", page, re.MULTILINE), method
    for field in Envelope.FIELDS:
        assert re.search(rf"^\| .*`{field.name}`", page, re.MULTILINE), field.name
