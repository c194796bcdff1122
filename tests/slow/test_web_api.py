"""What the browser's page is told: the store's rows by cursor, at the browser's own pace."""

from __future__ import annotations

import io
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from daemon_process import DaemonProcess, events, publish, publish_steps, register
from PIL import Image
from web_client import WebClient
from websockets.exceptions import ConnectionClosed

import lanekit.slow.web
from lanekit import FastLaneConfig, FastLaneMetrics, FastLaneWriter
from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.proto.telemetry_pb2_grpc import TrainerServiceStub
from lanekit.slow.store.run_store import RunStore
from patience import until

PAGE = Path(lanekit.slow.web.__file__).parent / "page"


@pytest.fixture(scope="module")
def served() -> Iterator[DaemonProcess]:
    """One daemon with a page, for all tests of this file; each has runs of its own."""
    directory = Path(tempfile.mkdtemp(prefix="lk-"))
    daemon = DaemonProcess(directory, "--web", "0").start()
    yield daemon
    assert daemon.stop() == 0
    assert "Traceback" not in daemon.said(), daemon.said()
    shutil.rmtree(directory)


@pytest.fixture(scope="module")
def client(served: DaemonProcess) -> WebClient:
    found = re.search(r"http://\S+", served.announcement)
    assert found is not None
    return WebClient(found[0], (served.directory / "web.token").read_text().strip())


@pytest.fixture(scope="module")
def stub(served: DaemonProcess) -> Iterator[TrainerServiceStub]:
    with served.connect() as connected:
        yield connected


def publish_episodes(stub: TrainerServiceStub, run: str, first: int, count: int) -> None:
    register(stub, run)
    episodes = [
        pb.Episode(
            agent_id="a" if number % 3 else "b",
            episode=number,
            episode_return=None if number % 10 == 9 else number * 1.5,
            length=number + 1,
            terminated=bool(number % 2),
            wall_time_ns=1,
        )
        for number in range(first, first + count)
    ]
    request = pb.PublishRunEpisodesRequest(
        run_id=run, stream_id="s1", first_seq=first + 1, episodes=episodes
    )
    assert publish(stub.PublishRunEpisodes, request)[-1] == first + count


def test_the_page_is_whole_and_asks_nobody_else(client: WebClient) -> None:
    page = client.ask("/")
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert page.headers["x-content-type-options"] == "nosniff"
    assert "set-cookie" not in page.headers
    for path in PAGE.iterdir():
        text = path.read_text()
        answer = client.ask(f"/page/{path.name}")
        assert answer.body == path.read_bytes()
        assert answer.headers["content-security-policy"] == policy
        addresses = set(re.findall(r"https?://[^\s\"'`)]+", text))
        assert addresses <= {"http://www.w3.org/2000/svg"}, path
        for name in re.findall(r"from \"\./([\w.-]+)\"", text) + re.findall(
            r"/page/([\w.-]+)", text
        ):
            assert (PAGE / name).exists(), f"{path.name} names {name}"
    assert client.ask("/page/../access.py").status == 404


def test_runs_come_all_at_first_and_then_as_they_change(
    client: WebClient, stub: TrainerServiceStub
) -> None:
    publish_steps(stub, "seen", 5)
    with client.socket("/api/runs") as socket:
        messages = iter(socket.read, None)
        first = next(message for message in messages if "runs" in message)
        seen = next(run for run in first["runs"] if run["id"] == "seen")
        assert (seen["state"], seen["steps"], seen["archived"]) == ("running", 5, False)
        assert seen["actions"] == ["cancel", "pause", "stop"]
        publish_steps(stub, "seen", 7)
        changed: dict[str, Any] = {}
        while changed.get("steps") != 12:
            message = socket.read()
            changed = {run["id"]: run for run in message.get("runs", [])}.get("seen", changed)
            cursor = message.get("next", 0)
    publish_steps(stub, "later", 1)
    with client.socket("/api/runs", after=cursor) as socket:
        ids: set[str] = set()
        while "later" not in ids:
            ids |= {run["id"] for run in socket.read().get("runs", [])}
        assert "seen" not in ids


def test_a_run_is_followed_from_a_cursor_on_without_gap_or_repetition(
    client: WebClient, stub: TrainerServiceStub
) -> None:
    publish_episodes(stub, "followed", 0, 1500)
    publish(stub.PublishRunEvents, events("followed", 1, "run_started", payload=b'{"env": "x"}'))

    def read(rows: int, **cursors: Any) -> tuple[list[Any], int]:
        found: list[Any] = []
        with client.socket("/api/runs/followed", **cursors) as socket:
            while len(found) < rows:
                message = socket.read()
                assert message["kind"] == "episodes"
                found += zip(
                    [message["agents"][place] for place in message["agent"]],
                    message["episode"],
                    message["returns"],
                    message["length"],
                    message["ending"],
                    strict=True,
                )
        return found, message["next"]

    rows, cursor = read(1500, episodes="")
    publish_episodes(stub, "followed", 1500, 20)
    more, end = read(20, episodes=cursor)
    assert end == 1520
    assert [row[1] for row in rows + more] == list(range(1520))
    assert rows[9] == ("b", 9, None, 10, 1)
    assert more[-1] == ("a", 1519, None, 1520, 1)
    with client.socket("/api/runs/followed", events="") as socket:
        (event,) = socket.read()["events"]
    assert (event["name"], event["payload"]) == ("run_started", '{"env": "x"}')


def test_a_browser_that_is_slow_gets_the_newest_steps_and_holds_nobody_up(
    client: WebClient, stub: TrainerServiceStub
) -> None:
    publish_steps(stub, "slow", 10)
    with client.socket("/api/runs/slow", steps="") as socket:
        first = socket.read(ack=False)
        assert (first["skipped"], first["next"]) == (0, 10)
        publish_steps(stub, "slow", 10)
        second = socket.read(ack=False)
        assert second["next"] == 20
        # Two are under way: until one is acknowledged nothing else comes, whatever is published.
        publish_steps(stub, "slow", 20_000)
        assert socket.is_silent(0.5)
        socket.ack()
        third = socket.read()
        assert third["skipped"] == 20_020 - 2000 - 20
        assert third["next"] == 20_020
        assert len(third["rewards"]["a"]) == 2000
        assert third["newest"][-1]["step"] == 20_019


def test_misuse_of_a_websocket_ends_it_with_a_reason(
    client: WebClient, stub: TrainerServiceStub
) -> None:
    publish_steps(stub, "misused", 1)

    def ending(path: str, *messages: str, **query: Any) -> str:
        with client.socket(path, **query) as socket:
            for message in messages:
                socket.opened.send(message)
            with pytest.raises(ConnectionClosed) as ended:
                while True:
                    socket.read(ack=False)
        assert ended.value.rcvd is not None
        assert ended.value.rcvd.code == 1008
        return ended.value.rcvd.reason

    assert "once" in ending("/api/runs", "ack", "ack", "ack")
    assert "nothing else" in ending("/api/runs", '{"a": 1}')
    assert "is not known" in ending("/api/runs/nowhere", episodes="")
    assert "whole number" in ending("/api/runs/misused", episodes="-1")
    assert "can be followed" in ending("/api/runs/misused", pixels="1")
    assert "JSON object" in ending("/api/runs/misused/pictures", "[1]")
    assert "rate" in ending("/api/runs/misused/pictures", '{"rate": "fast"}')
    assert "encoding" in ending("/api/runs/misused/pictures", '{"encoding": "gif"}')
    assert "lane is" in ending("/api/runs/misused/pictures", lane="../other")


def test_a_recorded_episode_comes_as_the_store_holds_it(
    client: WebClient, stub: TrainerServiceStub, served: DaemonProcess
) -> None:
    register(stub, "filmed", worker_id="w")
    shapes = [(4, 6, 3), (4, 6, 3), (5, 3, 1), (2, 2, 4)]
    rng = np.random.default_rng(1)
    pixels = [rng.integers(0, 256, shape, np.uint8) for shape in shapes]
    steps = [
        pb.Step(
            worker_id="w",
            agent_id="a",
            episode=7,
            step=number,
            reward=None if number == 2 else float(number),
            action_json=b"[%d]" % number,
            terminated=number == 5,
            wall_time_ns=number * 100_000_000,
        )
        for number in range(6)
    ]
    for number, image in zip((1, 2, 3, 5), pixels, strict=True):
        height, width, channels = image.shape
        frame = pb.Frame(width=width, height=height, channels=channels, pixels=image.tobytes())
        steps[number].frame.CopyFrom(frame)
    publish(
        stub.PublishRunSteps,
        pb.PublishRunStepsRequest(run_id="filmed", stream_id="s1", first_seq=1, steps=steps),
    )
    (player,) = client.ask("/api/runs/filmed/recorded").json["players"]
    assert (player["worker"], player["agent"], player["title"]) == ("w", "a", "w · a")
    assert (player["episode"], player["steps"], player["frames"]) == ([7], [6], [4])
    tape = client.ask("/api/runs/filmed/tape?worker=w&agent=a&episode=7").json
    assert tape["step"] == [0, 1, 2, 3, 4, 5]
    assert tape["reward"] == [0.0, 1.0, None, 3.0, 4.0, 5.0]
    assert tape["total"] == [0.0, 1.0, 1.0, 4.0, 8.0, 13.0]
    assert tape["action"] == [f"[{number}]" for number in range(6)]
    assert tape["seconds"] == pytest.approx([0, 0.1, 0.2, 0.3, 0.4, 0.5])
    assert tape["ending"] == "terminated"
    # A step without a frame shows the last one before it; the first ones show the first.
    shown = [tape["frames"][place] for place in tape["frameOfStep"]]
    assert shown[0] == shown[1]
    assert shown[3] == shown[4]
    for place, image in zip((1, 2, 3, 5), pixels, strict=True):
        answer = client.ask(f"/api/runs/filmed/frames/{shown[place]}.png")
        assert answer.headers["content-type"] == "image/png"
        decoded = np.asarray(Image.open(io.BytesIO(answer.body)))
        assert (decoded.reshape(image.shape) == image).all()
    with RunStore.open(served.store) as store:
        assert len(store.frames("filmed")) == 4


def test_what_is_not_recorded_is_said_so(client: WebClient, stub: TrainerServiceStub) -> None:
    publish_steps(stub, "bare", 3)
    for path, status, words in (
        ("/api/runs/nowhere/recorded", 404, "is not known"),
        ("/api/runs/bare/tape?episode=5", 404, "no steps"),
        ("/api/runs/bare/tape?episode=five", 400, "whole number"),
        ("/api/runs/bare/tape?episode=99999999999999999999", 400, "64-bit"),
        ("/api/runs/bare/frames/77.png", 404, "no such frame"),
        ("/api/runs/bare/frames/99999999999999999999.png", 404, "no such frame"),
        ("/api/runs/bad%20id!/recorded", 400, "id"),
        ("/api/nothing", 404, ""),
    ):
        answer = client.ask(path)
        assert answer.status == status, (path, answer.body)
        assert words in answer.json["problem"], path


def test_runs_are_controlled_as_over_grpc(client: WebClient, stub: TrainerServiceStub) -> None:
    publish_steps(stub, "steered", 1)
    assert client.ask("/api/runs/steered/pause", "POST", {}).json == {"workers": 0}
    for path, status, words in (
        ("nowhere/pause", 404, "nowhere"),
        ("steered/dance", 404, "dance"),
    ):
        answer = client.ask(f"/api/runs/{path}", "POST", {})
        assert answer.status == status
        assert words in answer.json["problem"]
    assert client.ask("/api/runs/steered/pause").status == 405
    ended = client.ask("/api/runs/steered/cancel", "POST", {}).json["run"]
    assert (ended["state"], ended["actions"]) == ("cancelled", ["archive"])
    answer = client.ask("/api/runs/steered/resume", "POST", {})
    assert answer.status == 409
    assert "has ended" in answer.json["problem"]
    hidden = client.ask("/api/runs/steered/archive", "POST", {}).json["run"]
    assert (hidden["archived"], hidden["actions"]) == (True, ["unarchive"])


def test_two_browsers_watch_and_the_worker_knows_while_they_do(
    client: WebClient, run_id: str
) -> None:
    image = np.zeros((30, 40, 3), np.uint8)
    path = f"/api/runs/{run_id}/pictures"
    with FastLaneWriter.create(run_id, FastLaneConfig(40, 30, capacity=4)) as writer:
        assert not writer.watched
        with client.socket(path) as one, client.socket(path) as two:
            for socket in (one, two):
                socket.opened.send('{"encoding": "png", "rate": 100}')
            for number in (1, 2, 3):
                image[:] = 40 * number
                until(lambda: writer.watched)
                writer.publish(image, metrics=FastLaneMetrics(number, number * 2.0, 50.0))
                for socket in (one, two):
                    message: Any = {}
                    while not isinstance(message, tuple) or message[0]["seq"] != number:
                        message = socket.read()
                    head, picture = message
                    assert head["metrics"] == {"reward": number, "return": number * 2, "rate": 50}
                    assert (head["status"], head["sourceWidth"]) == ("connected", 40)
                    if head["encoding"] == "png":
                        assert (np.asarray(Image.open(io.BytesIO(picture))) == image).all()
            # Nothing is acknowledged: two go out, and then the newest waits until one is.
            one.opened.send('{"rate": 200}')
            deadline = time.monotonic() + 1.0
            while time.monotonic() < deadline:
                writer.publish(image)
                time.sleep(0.01)
            sequence = []
            while len(sequence) < 2:
                if isinstance(message := two.read(ack=False), tuple):
                    sequence.append(message[0]["seq"])
                else:
                    two.ack()  # news of the picture, if the first frame came late
            assert two.is_silent(0.3)
            newest = writer.publish(image)
            two.ack()
            head, _ = two.read()
            assert head["seq"] == newest > sequence[-1]
        until(lambda: not writer.watched)
