"""Floods on the daemon's gRPC port: what is refused is refused early, and in little memory."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from daemon_process import (
    OPTIONS,
    DaemonProcess,
    OpenCall,
    columns,
    failure_of,
    history,
    in_parts,
    publish,
    register,
    steps,
)
from grpc_health.v1 import health_pb2, health_pb2_grpc

from lanekit.slow import TelemetryClient
from lanekit.slow.certificates import make_certificates
from lanekit.slow.endpoint import token_metadata
from lanekit.slow.limits import MAX_BATCH_ROWS, MAX_RECEIVED_BYTES
from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.proto.telemetry_pb2_grpc import TrainerServiceStub
from patience import patience, until

MakeDaemon = Callable[..., DaemonProcess]

OWNERS = "owner-token-owner-token"
ALICES = "alice-token-alice-token"
PUBLISH = "/lanekit.telemetry.v1.TrainerService/PublishRunSteps"
EXHAUSTED = grpc.StatusCode.RESOURCE_EXHAUSTED
MIB = 2**20


class Lab:
    """A daemon on TCP, with TLS and two tokens."""

    def __init__(self, make_daemon: MakeDaemon, directory: Path, *options: str, **constants: float):
        for name, text in (("token", OWNERS), ("tokens", f"alice {ALICES}")):
            (directory / name).write_text(text + "\n")
            (directory / name).chmod(0o600)
        files = make_certificates(directory / "certs", ["localhost"])
        self.authority = files.authority
        self.daemon = make_daemon(
            *("--listen", "127.0.0.1:0", "--tls-cert", str(files.certificate)),
            *("--tls-key", str(files.key), "--token-file", str(directory / "token")),
            *("--tokens", str(directory / "tokens"), *options),
            **constants,
        ).start()
        self.address = self.daemon.announcement.rsplit(" ", 1)[1]

    @contextmanager
    def channel(self) -> Iterator[grpc.Channel]:
        credentials = grpc.ssl_channel_credentials(self.authority.read_bytes())
        options = [*OPTIONS, ("grpc.ssl_target_name_override", "localhost")]
        with grpc.secure_channel(self.address, credentials, options) as channel:
            yield channel

    @contextmanager
    def stub(self, token: str = ALICES) -> Iterator[Any]:
        with self.channel() as channel:
            yield WithToken(TrainerServiceStub(channel), token)


class WithToken:
    """A stub whose calls all bring one token."""

    def __init__(self, stub: Any, token: str) -> None:
        self._stub = stub
        self._metadata = token_metadata(token)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._stub, name)

        def call(request: Any, timeout: float = 120.0) -> Any:
            return method(request, timeout=timeout, metadata=self._metadata)

        return call


@pytest.fixture
def make_lab(make_daemon: MakeDaemon, short_directory: Path) -> Callable[..., Lab]:
    def make(*options: str, **constants: float) -> Lab:
        return Lab(make_daemon, short_directory, *options, **constants)

    return make


class Peak:
    """The most memory that a daemon had while something happened."""

    def __init__(self, daemon: DaemonProcess) -> None:
        self._daemon = daemon
        self._done = threading.Event()
        self.before = self.most = daemon.memory()
        self._thread = threading.Thread(target=self._watch)

    def _watch(self) -> None:
        while not self._done.wait(0.002):
            self.most = max(self.most, self._daemon.memory())

    def __enter__(self) -> Peak:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    @property
    def grown_mib(self) -> float:
        return (self.most - self.before) / MIB


def flood(lab: Lab, count: int, make_messages: Callable[[], Iterator[bytes]]) -> Counter[Any]:
    """Publish from as many connections at the same time; return the status codes."""
    codes: list[Any] = []

    def one() -> None:
        with lab.channel() as channel:
            call: Any = channel.stream_stream(PUBLISH)
            metadata = token_metadata(ALICES)
            error = failure_of(
                lambda: call(make_messages(), metadata=metadata, timeout=patience(240))
            )
            codes.append(error.code())

    threads = [threading.Thread(target=one) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return Counter(codes)


def steps_of(run: str, nbytes: int) -> Any:
    text = b'"' + b"x" * nbytes + b'"'
    return pb.PublishRunStepsRequest(
        run_id=run, stream_id="s1", first_seq=1, columns=columns(1, text=text)
    )


def test_a_flood_of_large_messages_for_somebody_elses_run_is_not_received(
    make_lab: Callable[..., Lab],
) -> None:
    lab = make_lab()
    data = steps_of("bob.secret", 40 * MIB).SerializeToString()
    with Peak(lab.daemon) as peak:
        codes = flood(lab, 12, lambda: iter([data]))
    assert codes == {EXHAUSTED: 12}
    assert peak.grown_mib < 64, "480 MiB were sent"
    with lab.stub() as alice:
        assert alice.ListRuns(pb.ListRunsRequest()).runs == []


def test_a_flood_of_small_messages_for_somebody_elses_run_waits_for_its_turn(
    make_lab: Callable[..., Lab],
) -> None:
    lab = make_lab()
    data = steps_of("bob.secret", MAX_RECEIVED_BYTES - 1024).SerializeToString()
    with Peak(lab.daemon) as peak:
        codes = flood(lab, 160, lambda: iter([data]))
    assert codes == {grpc.StatusCode.PERMISSION_DENIED: 160}
    assert peak.grown_mib < 200, "320 MiB were sent, and 8 messages may be under way"


def test_a_flood_of_requests_in_parts_for_somebody_elses_run_ends_at_the_first(
    make_lab: Callable[..., Lab],
) -> None:
    lab = make_lab()
    request = steps_of("bob.secret", 40 * MIB)
    parts = [part.SerializeToString() for part in in_parts(request)]
    assert len(parts) == 41
    with Peak(lab.daemon) as peak:
        codes = flood(lab, 12, lambda: iter(parts))
    assert codes == {grpc.StatusCode.PERMISSION_DENIED: 12}
    assert peak.grown_mib < 128, "480 MiB were on their way"


def test_parts_of_ones_own_run_that_make_a_request_for_anothers_are_refused(
    make_lab: Callable[..., Lab],
) -> None:
    lab = make_lab()
    with lab.stub() as alice:
        forged = list(in_parts(steps_of("bob.secret", 3 * MIB)))
        for part in forged:
            part.run_id = "alice.x"
        error = failure_of(lambda: alice.PublishRunSteps(iter(forged)))
        assert error.code() is grpc.StatusCode.PERMISSION_DENIED


def test_compressed_messages_are_refused_before_they_are_unpacked(
    make_lab: Callable[..., Lab],
) -> None:
    lab = make_lab()
    data = steps_of("alice.x", 200 * MIB).SerializeToString()
    with lab.channel() as channel, Peak(lab.daemon) as peak:
        call: Any = channel.stream_stream(PUBLISH)
        error = failure_of(
            lambda: call(
                iter([data]),
                metadata=token_metadata(ALICES),
                timeout=patience(120),
                compression=grpc.Compression.Gzip,
            )
        )
    assert error.code() is grpc.StatusCode.UNIMPLEMENTED
    assert peak.grown_mib < 64


def test_a_million_empty_rows_are_counted_before_they_are_parsed(daemon: DaemonProcess) -> None:
    with daemon.connect() as stub:
        register(stub, "r")
        head = pb.PublishRunStepsRequest(run_id="r", stream_id="s1", first_seq=1)
        data = head.SerializeToString() + b"\x2a\x00" * (MAX_RECEIVED_BYTES // 2 - 100)
        with grpc.insecure_channel(daemon.target, OPTIONS) as channel, Peak(daemon) as peak:
            call: Any = channel.stream_stream(PUBLISH)
            error = failure_of(lambda: call(iter([data]), timeout=patience()))
        assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert f"{MAX_BATCH_ROWS:,}" in error.details()
        assert peak.grown_mib < 100, "parsed, they take 230 MiB"


def test_a_request_in_parts_of_many_rows_is_refused_unparsed(daemon: DaemonProcess) -> None:
    """Rows are small in a message, and large once they are parsed."""
    with daemon.connect() as stub:
        register(stub, "r")
        content = pb.PublishRunStepsRequest(run_id="r", stream_id="s1", first_seq=1)
        whole = content.SerializeToString() + b"\x2a\x00" * (8 * MIB)
        messages = []
        for start in range(0, len(whole), MIB):
            part = pb.RequestPart(
                request_bytes=len(whole), offset=start, data=whole[start : start + MIB]
            )
            messages.append(pb.PublishRunStepsRequest(run_id="r", part=part))
        with Peak(daemon) as peak:
            error = failure_of(lambda: stub.PublishRunSteps(iter(messages), timeout=patience()))
        assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert "rows" in error.details()
        assert peak.grown_mib < 128, "parsed, they take 1.8 GiB"


def part(size: int, offset: int, data: bytes, run: str = "r") -> Any:
    inner = pb.RequestPart(request_bytes=size, offset=offset, data=data)
    return pb.PublishRunStepsRequest(run_id=run, part=inner)


@pytest.mark.parametrize(
    ("parts", "word"),
    [
        ([part(0, 0, b"x")], "parts"),
        ([part(2**40, 0, b"x")], "parts"),
        ([part(10, 5, b"x")], "expected the part at byte 0"),
        ([part(10, 0, b"")], "part"),
        ([part(10, 0, b"x" * 11)], "part"),
        ([part(10, 0, b"x"), part(11, 1, b"x")], "expected"),
        ([part(10, 0, b"x"), part(10, 0, b"x")], "expected"),
        ([part(10, 0, b"x")], "ended in the middle"),
        ([part(10, 0, b"x"), steps("r", 1, 1)], "expected"),
        ([part(4, 0, b"\xff\xff\xff\xff")], "PublishRunStepsRequest"),
    ],
)
def test_parts_that_make_no_request_are_refused(
    daemon: DaemonProcess, parts: list[Any], word: str
) -> None:
    with daemon.connect() as stub:
        register(stub, "r")
        error = failure_of(lambda: stub.PublishRunSteps(iter(parts), timeout=patience()))
        assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert word in error.details()
        assert publish(stub.PublishRunSteps, steps("r", 1, 3)) == [3]


def test_a_part_within_parts_is_refused(daemon: DaemonProcess) -> None:
    with daemon.connect() as stub:
        register(stub, "r")
        inner = part(10, 0, b"x").SerializeToString()
        outer = part(len(inner), 0, inner)
        error = failure_of(lambda: stub.PublishRunSteps(iter([outer]), timeout=patience()))
        assert error.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_what_would_be_too_much_for_one_token_is_refused_by_name_and_taken_later(
    make_lab: Callable[..., Lab],
) -> None:
    lab = make_lab("--mib-per-token", "80")
    with lab.stub() as alice, lab.stub(OWNERS) as owner:
        for stub, run in ((alice, "alice.x"), (owner, "owners")):
            stub.RegisterWorker(pb.RegisterWorkerRequest(run_id=run, stream_id="s1"))
        first, *_ = in_parts(steps_of("alice.x", 60 * MIB))
        held = OpenCall(lambda requests, timeout: alice.PublishRunSteps(requests, timeout))
        held.send(first)
        large = list(in_parts(steps_of("alice.x", 30 * MIB)))

        def refused() -> Any:
            try:
                list(alice.PublishRunSteps(iter(large)))
            except grpc.RpcError as error:
                return error
            return None

        error = until(refused, "the first part to be counted")
        assert error.code() is EXHAUSTED
        assert "--mib-per-token" in error.details()
        # The owner is not alice, and small requests are no large ones.
        assert publish(owner.PublishRunSteps, steps_of("owners", 30 * MIB)) == [1]
        held.cancel()

        def taken() -> bool:
            try:
                return publish(alice.PublishRunSteps, steps_of("alice.x", 30 * MIB)) == [1]
            except grpc.RpcError:
                return False

        assert until(taken, "alice's share to be free again")


def test_a_sender_that_is_told_to_wait_sends_all_of_it_later(
    make_lab: Callable[..., Lab], short_directory: Path
) -> None:
    lab = make_lab("--mib-per-token", "80")
    said: list[str] = []
    with lab.stub() as alice:
        first, *_ = in_parts(steps_of("alice.other", 79 * MIB))
        held = OpenCall(lambda requests, timeout: alice.PublishRunSteps(requests, timeout))
        held.send(first)
        probe = list(in_parts(steps_of("alice.other", 10 * MIB)))
        until(
            lambda: failure_of(lambda: alice.PublishRunSteps(iter(probe))).code() is EXHAUSTED,
            "the first part to be counted",
        )
        with TelemetryClient(
            "alice.large",
            target=lab.daemon.target,
            spool=short_directory / "spool",
            token=ALICES,
            report=said.append,
        ) as client:
            client.event("large", text="x" * (12 * MIB))
            client.step(0, 0, action=1)
            until(lambda: any("RESOURCE_EXHAUSTED" in each for each in said), "the refusal")
            held.cancel()
            assert client.flush(120)
            assert client.close().complete
        request = pb.StreamRunEventsRequest(run_id="alice.large", history_only=True)
        events = [e for page in alice.StreamRunEvents(request) for e in page.events]
        assert [len(e.payload_json) for e in events if e.name == "large"] == [12 * MIB + 11]


def test_calls_beyond_a_tokens_share_are_refused_until_some_end(
    make_lab: Callable[..., Lab],
) -> None:
    lab = make_lab("--calls-per-token", "8")
    with lab.stub() as alice, lab.stub(OWNERS) as owner:
        watches = [alice.WatchRuns(pb.WatchRunsRequest()) for _ in range(8)]
        for watch in watches:
            next(watch)
        error = failure_of(lambda: alice.ListRuns(pb.ListRunsRequest()))
        assert error.code() is EXHAUSTED
        assert "--calls-per-token" in error.details()
        assert list(owner.ListRuns(pb.ListRunsRequest()).runs) == []
        watches.pop().cancel()

        def answered() -> bool:
            try:
                return list(alice.ListRuns(pb.ListRunsRequest()).runs) == []
            except grpc.RpcError:
                return False

        assert until(answered, "the place of the call that ended")
        for watch in watches:
            watch.cancel()


def test_health_and_reflection_count_as_calls_too(make_lab: Callable[..., Lab]) -> None:
    lab = make_lab("--calls-per-token", "8")
    with lab.channel() as channel:
        health = health_pb2_grpc.HealthStub(channel)
        asked = health_pb2.HealthCheckRequest()
        watches = [health.Watch(asked, metadata=token_metadata(ALICES)) for _ in range(8)]
        for watch in watches:
            next(watch)
        error = failure_of(
            lambda: health.Check(asked, metadata=token_metadata(ALICES), timeout=patience())
        )
        assert error.code() is EXHAUSTED
        check = health.Check(asked, metadata=token_metadata(OWNERS), timeout=patience())
        assert check.status == health_pb2.HealthCheckResponse.SERVING
        for watch in watches:
            watch.cancel()


def test_answers_that_a_token_does_not_read_are_not_made_without_end(
    make_lab: Callable[..., Lab],
) -> None:
    lab = make_lab("--mib-per-token", "80")
    request = pb.StreamRunStepsRequest(run_id="alice.x", history_only=True)
    with lab.stub() as alice:
        alice.RegisterWorker(pb.RegisterWorkerRequest(run_id="alice.x", stream_id="s1"))
        assert publish(alice.PublishRunSteps, steps_of("alice.x", 30 * MIB)) == [1]
        codes: Counter[Any] = Counter()
        with contextlib.ExitStack() as held, Peak(lab.daemon) as peak:
            # What is not asked for is not received: gRPC's flow control holds the daemon back.
            channels = [held.enter_context(lab.channel()) for _ in range(16)]
            path = PUBLISH.replace("PublishRunSteps", "StreamRunSteps")
            calls = [
                channel.unary_stream(path, request_serializer=type(request).SerializeToString)(
                    request, metadata=token_metadata(ALICES), timeout=patience(240)
                )
                for channel in channels
            ]
            until(lambda: sum(call.done() for call in calls) >= 14, "all that do not fit")
            codes.update(call.code() for call in calls if call.done())
            for call in calls:
                call.cancel()
        assert codes == {EXHAUSTED: 14}
        assert peak.grown_mib < 600, "480 MiB would be under way, and some copies of them"

        def read() -> int:
            try:
                return sum(page.ByteSize() for page in alice.StreamRunSteps(request))
            except grpc.RpcError:
                return 0

        assert until(read, "the calls that were cancelled to be gone") > 30 * MIB


def test_a_named_call_that_sends_nothing_gives_its_turn_up(make_lab: Callable[..., Lab]) -> None:
    lab = make_lab(admission__FIRST_MESSAGE_SECONDS=0.5)
    with lab.stub() as alice, lab.stub(OWNERS) as owner:
        silent = [
            OpenCall(lambda requests, timeout: alice.Heartbeat(requests, timeout))
            for _ in range(24)
        ]
        patient = OpenCall(lambda requests, timeout: owner.Heartbeat(requests, timeout))
        # Three times as many as there are turns, and all are told.
        for call in silent:
            assert call.failure().code() is grpc.StatusCode.DEADLINE_EXCEEDED
        owner.RegisterWorker(pb.RegisterWorkerRequest(run_id="r", stream_id="s1"))
        patient.send(pb.HeartbeatRequest(run_id="r", stream_id="s1"))
        assert not patient.read().HasField("command")
        patient.cancel()


def test_a_request_whose_parts_stop_coming_is_ended(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon(methods__NEXT_PART_SECONDS=0.3).start()
    with daemon.connect() as stub:
        register(stub, "r")
        call = OpenCall(stub.PublishRunSteps)
        first, *_ = in_parts(steps_of("r", 10 * MIB))
        call.send(first)
        assert call.failure().code() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert publish(stub.PublishRunSteps, steps_of("r", 10 * MIB)) == [1]
        (back,) = history(stub, "r")
        assert len(back.observation_json) == 10 * MIB + 2


def test_who_guesses_tokens_waits_and_who_came_with_a_right_one_goes_on(
    make_lab: Callable[..., Lab],
) -> None:
    lab = make_lab()
    with lab.stub(OWNERS) as owner:
        assert list(owner.ListRuns(pb.ListRunsRequest()).runs) == []
        codes = Counter()
        for number in range(200):
            with lab.stub(f"wrong-token-number-{number:04}") as guesser:
                codes[failure_of(lambda: guesser.ListRuns(pb.ListRunsRequest())).code()] += 1
        assert codes.keys() == {grpc.StatusCode.UNAUTHENTICATED, EXHAUSTED}
        assert codes[EXHAUSTED] > 150
        # The same address, known to bring the owner's token.
        assert list(owner.ListRuns(pb.ListRunsRequest()).runs) == []
    # alice has not been here before: she waits, and not for long.
    with lab.stub() as alice:
        said: list[str] = []

        def let_in() -> bool:
            try:
                return list(alice.ListRuns(pb.ListRunsRequest()).runs) == []
            except grpc.RpcError as error:
                said.append(f"{error.code().name}: {error.details()}")
                return False

        assert until(let_in, "the end of the wait", pause=0.2)
        assert said
        assert all("RESOURCE_EXHAUSTED: too many different wrong tokens" in each for each in said)


def test_an_old_token_that_comes_again_and_again_makes_nobody_wait(
    make_lab: Callable[..., Lab],
) -> None:
    lab = make_lab()
    with lab.stub("the-token-of-last-year") as old, lab.stub() as alice:
        for _ in range(50):
            error = failure_of(lambda: old.ListRuns(pb.ListRunsRequest()))
            assert error.code() is grpc.StatusCode.UNAUTHENTICATED
        assert list(alice.ListRuns(pb.ListRunsRequest()).runs) == []


def test_connections_without_tls_are_few_and_leave_others_alone(
    make_lab: Callable[..., Lab],
) -> None:
    lab = make_lab()
    host, port = lab.address.rsplit(":", 1)
    with lab.stub(OWNERS) as owner:
        assert list(owner.ListRuns(pb.ListRunsRequest()).runs) == []
        with Peak(lab.daemon) as peak:
            silent = [
                socket.create_connection((host, int(port)), timeout=patience()) for _ in range(1500)
            ]
            until(lambda: open_files(lab.daemon) > 1000, "the connections")
            assert open_files(lab.daemon) < 1200
            assert list(owner.ListRuns(pb.ListRunsRequest()).runs) == []
        assert peak.grown_mib < 128
        # Each has some seconds to agree on TLS, then it is closed from there.
        until(lambda: open_files(lab.daemon) < 100, "the daemon to close them")
        for client in silent:
            client.close()


def open_files(daemon: DaemonProcess) -> int:
    return sum(1 for _ in Path(f"/proc/{daemon.pid}/fd").iterdir())
