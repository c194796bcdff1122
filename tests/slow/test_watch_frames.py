"""WatchFrames on a real daemon: pictures of a worker's process, over a socket."""

from __future__ import annotations

import itertools
import queue
import threading
import time
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest
from daemon_process import DaemonProcess
from picture_worker import PictureWorker
from slow_network import Relay

from lanekit import FastLaneMetrics, errors
from lanekit.slow.daemon_client import DaemonClient
from lanekit.slow.frame_stream import WINDOW, FrameStream
from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.watched_frames import FrameUpdate, Recipe, WatchedFrame
from patience import patience

RAW = Recipe("raw")

_numbers = itertools.count()


@pytest.fixture
def run_id(worker_id: str) -> str:
    return f"watch-{worker_id}-{time.time_ns()}-{next(_numbers)}"


def next_frame(stream: FrameStream) -> WatchedFrame:
    return next(update.frame for update in stream if update.frame is not None)


def until(stream: FrameStream, condition: Callable[[FrameUpdate], bool]) -> FrameUpdate:
    return next(update for update in stream if condition(update))


def test_a_frame_arrives_as_it_was_published(
    client: DaemonClient, run_id: str, worker: PictureWorker
) -> None:
    with client.watch_frames(run_id, recipe=RAW) as stream:
        frame = next_frame(stream)
        n = frame.seq
        assert frame.picture.data == bytes([n % 256]) * (64 * 48 * 3)
        assert frame.metrics == FastLaneMetrics(float(n), 2.0 * n, 200.0)
        assert frame.metadata == b'{"step": %d}' % n
        lanes = client.list_lanes(run_id)
        assert [(lane.run_id, lane.lane, lane.width, lane.live) for lane in lanes] == [
            (run_id, "", 64, True)
        ]
        assert lanes[0].viewers == 1
        # Another wish, from the next frame on, in the same call.
        stream.change(rate=100, recipe=Recipe("png", max_width=16))
        small = until(stream, lambda u: u.frame is not None and u.frame.picture.width == 16)
        assert small.frame is not None
        assert small.frame.picture.data.startswith(b"\x89PNG")
        assert (small.frame.source_width, small.frame.picture.height) == (64, 12)


def test_the_worker_draws_for_a_watcher_elsewhere_and_rests_when_it_leaves(
    client: DaemonClient, run_id: str, worker: PictureWorker
) -> None:
    assert client.list_lanes(run_id)[0].frames == 0
    with client.watch_frames(run_id) as stream:
        next_frame(stream)
        worker.wait_for("watched")
    worker.wait_for("alone")


def test_a_daemon_that_is_killed_leaves_the_worker_alone(
    daemon: DaemonProcess, client: DaemonClient, run_id: str, worker: PictureWorker
) -> None:
    with client.watch_frames(run_id) as stream:
        next_frame(stream)
        daemon.kill()
        worker.wait_for("alone")
        with pytest.raises(errors.DaemonUnavailable):
            until(stream, lambda _: False)
        daemon.start()
    with client.watch_frames(run_id) as stream:
        assert next_frame(stream).seq > 0


def test_no_more_frames_are_under_way_than_there_is_room_for(
    daemon: DaemonProcess, run_id: str, worker: PictureWorker
) -> None:
    """A client that does not read gets old frames only as far as it gave credit for them."""
    requests: queue.SimpleQueue[pb.WatchFramesRequest | None] = queue.SimpleQueue()

    def ask(credits: int) -> None:
        wish = pb.FrameWish(max_rate_hz=200, encoding=pb.FRAME_ENCODING_RAW)
        requests.put(pb.WatchFramesRequest(run_id=run_id, credits=credits, wish=wish))

    with daemon.connect() as stub, DaemonClient(daemon.target) as client:
        ask(0)
        call = stub.WatchFrames(iter(requests.get, None))
        ask(1)
        while not next(call).HasField("frame"):
            ask(1)
        # Without credit nothing comes, however much is published meanwhile.
        arrived: queue.SimpleQueue[pb.WatchFramesResponse] = queue.SimpleQueue()
        reader = threading.Thread(target=lambda: arrived.put(next(call)), daemon=True)
        reader.start()
        with client.watch_frames(run_id, rate=200, recipe=RAW) as other:
            seen = [next_frame(other).seq for _ in range(30)]
            assert arrived.empty()
            ask(1)
            newest = arrived.get(timeout=patience())
        assert newest.frame.seq >= seen[-1]
        assert newest.frame.skipped > 20
        assert newest.status == pb.LANE_STATUS_CONNECTED
        requests.put(None)
        assert list(call) == []


def test_a_client_that_is_slow_to_look_skips_frames_and_stays_near_the_newest(
    client: DaemonClient, run_id: str, worker: PictureWorker
) -> None:
    with (
        client.watch_frames(run_id, rate=200, recipe=RAW) as slow,
        client.watch_frames(run_id, rate=200, recipe=RAW) as quick,
    ):
        next_frame(slow)
        seen = [next_frame(quick).seq for _ in range(30)]
        late = [next_frame(slow) for _ in range(WINDOW + 1)]
        # Those that were under way, and then what is newest.
        assert late[0].seq < seen[-1]
        assert late[WINDOW].seq >= seen[-1]


def test_a_network_that_stands_still_delivers_the_newest_frame_when_it_moves_again(
    make_daemon: Callable[..., DaemonProcess],
    short_directory: Path,
    run_id: str,
    worker: PictureWorker,
) -> None:
    token = short_directory / "token"
    token.write_text("a-token-for-a-slow-network")
    token.chmod(0o600)
    daemon = make_daemon(
        *("--listen", "127.0.0.1:0", "--insecure-loopback", "--token-file", str(token))
    ).start()
    address = daemon.announcement.rsplit(" ", 1)[1]
    with (
        Relay(address) as relay,
        DaemonClient(relay.address, token=token.read_text(), insecure=True) as far,
        DaemonClient(address, token=token.read_text(), insecure=True) as near,
        far.watch_frames(run_id, rate=200, recipe=RAW) as slow,
        near.watch_frames(run_id, rate=200, recipe=RAW) as quick,
    ):
        next_frame(slow)
        relay.hold()
        # Meanwhile all goes on for others.
        seen = [next_frame(quick).seq for _ in range(50)]
        relay.release()
        late = [next_frame(slow) for _ in range(WINDOW + 1)]
        assert late[WINDOW].seq >= seen[-1], "more than the window's frames had queued up"
        assert sum(frame.skipped for frame in late) > 20


def test_two_viewers_watch_at_rates_and_sizes_of_their_own(
    client: DaemonClient, run_id: str, worker: PictureWorker
) -> None:
    with (
        client.watch_frames(run_id, rate=5, recipe=Recipe("jpeg", max_width=32)) as small,
        client.watch_frames(run_id, rate=100, recipe=Recipe("webp")) as large,
    ):
        assert next_frame(small).picture.width == 32
        assert next_frame(large).picture.encoding == "webp"
        assert client.list_lanes(run_id)[0].viewers == 1, "the daemon reads a lane once"


def test_status_words_are_those_of_the_local_viewer(client: DaemonClient, run_id: str) -> None:
    with client.watch_frames(run_id) as stream:
        assert next(stream).status == "fastlane-unavailable"
        worker = PictureWorker(run_id)
        assert until(stream, lambda u: u.frame is not None).status == "connected"
        worker.kill()
        assert until(stream, lambda u: u.status != "connected").status == "reconnecting"
        worker = PictureWorker(run_id)
        assert until(stream, lambda u: u.status != "reconnecting").status == "connected"
        worker.leave()


def test_a_watch_does_not_outlast_the_daemons_orderly_end(
    daemon: DaemonProcess, client: DaemonClient, run_id: str, worker: PictureWorker
) -> None:
    with client.watch_frames(run_id) as stream, client.watch_frames("nobody-there") as idle:
        next_frame(stream)
        next(idle)
        ended: list[int] = []
        stopping = threading.Thread(target=lambda: ended.append(daemon.stop()))
        stopping.start()
        for each in (stream, idle):
            with pytest.raises(errors.DaemonUnavailable, match="shutting down"):
                until(each, lambda _: False)
        stopping.join()
        assert ended == [0]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (pb.WatchFramesRequest(), "names the run"),
        (pb.WatchFramesRequest(run_id="x" * 5000), "names the run"),
        (pb.WatchFramesRequest(run_id="x", lane="state"), "lane"),
        (pb.WatchFramesRequest(run_id="x", wish=pb.FrameWish(max_rate_hz=1e9)), "rate"),
        (pb.WatchFramesRequest(run_id="x", wish=pb.FrameWish(max_rate_hz=-1)), "rate"),
        (pb.WatchFramesRequest(run_id="x", wish=pb.FrameWish(quality=200)), "quality"),
        (pb.WatchFramesRequest(run_id="x", wish=pb.FrameWish(encoding=99)), "99"),  # type: ignore[arg-type]
    ],
)
def test_a_wish_that_makes_no_sense_is_refused_with_the_reason(
    daemon: DaemonProcess, wrong: pb.WatchFramesRequest, said: str
) -> None:
    with daemon.connect() as stub:
        with pytest.raises(grpc.RpcError) as refused:
            list(stub.WatchFrames(iter([wrong])))
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert said in refused.value.details()
        # The same in a later request.
        if wrong.run_id == "x" and not wrong.lane:
            good = pb.WatchFramesRequest(run_id="x", credits=1)
            with pytest.raises(grpc.RpcError, match=said):
                list(stub.WatchFrames(iter([good, wrong])))


def test_a_call_watches_one_lane_only(daemon: DaemonProcess) -> None:
    requests = [pb.WatchFramesRequest(run_id=name, credits=1) for name in ("x", "y")]
    with daemon.connect() as stub, pytest.raises(grpc.RpcError, match="another call"):
        list(stub.WatchFrames(iter(requests)))


def test_a_call_without_a_request_ends_in_peace(daemon: DaemonProcess) -> None:
    with daemon.connect() as stub:
        assert list(stub.WatchFrames(iter([]))) == []
