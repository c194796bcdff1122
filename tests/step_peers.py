"""The ends of a step lane in processes and threads of their own, for tests of what goes wrong.

A peer is `python -c` with the PREAMBLE below; it says on its standard output how far it has come,
and is killed there.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from typing import Any

import lanekit
from lanekit import StepServer, segment_name
from lanekit.segments import segment_path
from patience import patience

ENVS, OBS, ACT = 64, 8, 4

PREAMBLE = f"""
import json, os, signal, sys, threading, time
import numpy as np
import lanekit
from lanekit import StepClient, StepLaneConfig, StepServer
lane, pipelined = sys.argv[1], len(sys.argv) > 2
def create():
    return StepServer.create(lane, {ENVS}, {OBS}, {ACT}, pipelined=pipelined, final_obs=True)
def attach():
    return StepClient.attach(lane, timeout=None)
def here():
    print("here", flush=True)
    time.sleep(600)
"""


def exists(lane: str) -> bool:
    return segment_path(segment_name("step", lane)).exists()


def create(lane: str, pipelined: bool = False) -> StepServer:
    return StepServer.create(lane, ENVS, OBS, ACT, pipelined=pipelined, final_obs=True)


class Peers:
    """Starts processes, none of which outlives the test."""

    def __init__(self) -> None:
        self.started: list[subprocess.Popen[str]] = []

    def start(self, lane: str, body: str, *arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", PREAMBLE + textwrap.dedent(body), lane, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        )
        self.started.append(process)
        return process

    def start_until_here(self, lane: str, body: str, pipelined: bool) -> subprocess.Popen[str]:
        """Start a process and return when it is at the place where it is to be killed."""
        process = self.start(lane, body, *(["pipelined"] if pipelined else []))
        assert said(process) == "here"
        return process

    def end(self) -> None:
        for process in self.started:
            process.kill()
            process.communicate()


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def finish(process: subprocess.Popen[str], text: str | None = None) -> str:
    output, _ = process.communicate(text, timeout=patience())
    return output


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait(patience())


def serve_one(server: StepServer) -> lanekit.StepExchange:
    asked = server.wait_actions(patience())
    assert asked is not None
    server.obs[asked.envs] = asked.number
    server.commit()
    return asked


def in_thread(work: Callable[[], Any]) -> Callable[[], Any]:
    """Run something beside this thread; call what is returned for its result or exception."""
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append(work())
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=run)
    thread.start()

    def wait() -> Any:
        thread.join(patience(120))
        assert outcome, "hangs"
        if isinstance(outcome[0], BaseException):
            raise outcome[0]
        return outcome[0]

    return wait
