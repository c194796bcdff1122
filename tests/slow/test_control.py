"""A worker's ear for commands."""

from __future__ import annotations

import io
import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lanekit.slow.control import ControlCommand, ControlInbox
from lanekit.slow.emit import Emitter
from patience import patience


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    path = tmp_path / "control.fifo"
    os.mkfifo(path)
    return path


@pytest.fixture
def proxy_end(fifo: Path) -> Iterator[int]:
    file = os.open(fifo, os.O_RDWR | os.O_NONBLOCK)
    yield file
    os.close(file)


def send(file: int, *commands: tuple[int, str]) -> None:
    for number, action in commands:
        os.write(file, json.dumps({"command_id": number, "action": action}).encode() + b"\n")


def test_commands_come_once_and_in_order(fifo: Path, proxy_end: int) -> None:
    inbox = ControlInbox(str(fifo))
    assert inbox.poll() == []
    send(proxy_end, (1, "pause"), (2, "resume"))
    assert inbox.poll() == [ControlCommand("pause", 1), ControlCommand("resume", 2)]
    send(proxy_end, (1, "pause"), (2, "resume"), (3, "stop"))  # a new proxy delivers again
    assert inbox.poll() == [ControlCommand("stop", 3)]
    assert inbox.poll() == []
    inbox.close()
    assert inbox.poll() == []


def test_a_command_cut_in_two_is_put_together(fifo: Path, proxy_end: int) -> None:
    inbox = ControlInbox(str(fifo))
    os.write(proxy_end, b'{"command_id": 1, "act')
    assert inbox.poll() == []
    os.write(proxy_end, b'ion": "stop"}\n')
    assert inbox.poll() == [ControlCommand("stop", 1)]
    inbox.close()


def test_what_is_no_command_is_passed_over(fifo: Path, proxy_end: int) -> None:
    inbox = ControlInbox(str(fifo))
    os.write(proxy_end, b'\n{}\n[]\n7\n{"command_id":"1","action":"stop"}\n\xff\n')
    os.write(proxy_end, b'{"command_id":1,"action":"explode"}\n')
    send(proxy_end, (2, "stop"))
    assert inbox.poll() == [ControlCommand("stop", 2)]
    inbox.close()


def test_commands_survive_the_proxy_that_sent_them(fifo: Path) -> None:
    inbox = ControlInbox(str(fifo))
    first = os.open(fifo, os.O_RDWR | os.O_NONBLOCK)
    send(first, (1, "pause"))
    os.close(first)
    assert inbox.poll() == [ControlCommand("pause", 1)]
    inbox.close()


def test_without_a_proxy_there_are_no_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LANEKIT_CONTROL_FIFO", raising=False)
    inbox = ControlInbox.from_environment()
    assert inbox.poll() == []
    assert inbox.wait_while_paused()
    inbox.close()


def test_a_pause_holds_the_worker_until_resumed_and_each_is_reported(
    fifo: Path, proxy_end: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANEKIT_CONTROL_FIFO", str(fifo))
    stream = io.StringIO()
    inbox = ControlInbox.from_environment(Emitter(stream))
    assert inbox.wait_while_paused()
    send(proxy_end, (1, "pause"))
    assert inbox.wait_while_paused(timeout=0.05)
    assert inbox.paused

    released: list[bool] = []
    thread = threading.Thread(target=lambda: released.append(inbox.wait_while_paused()))
    thread.start()
    time.sleep(0.1)
    assert released == []
    send(proxy_end, (2, "resume"))
    thread.join(patience())
    assert released == [True]
    send(proxy_end, (3, "pause"), (4, "stop"))
    assert not inbox.wait_while_paused()
    assert not inbox.wait_while_paused()
    reported = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line["event"] for line in reported] == ["control_applied"] * 4
    assert [line["payload"] for line in reported] == [
        {"command_id": number, "action": action}
        for number, action in enumerate(("pause", "resume", "pause", "stop"), 1)
    ]
    inbox.close()
