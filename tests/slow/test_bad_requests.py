"""Whatever a client sends, it gets a status code and a reason, and the daemon goes on."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import grpc
import pytest
from daemon_process import (
    DaemonProcess,
    columns,
    events,
    failure_of,
    history,
    publish,
    publish_steps,
    register,
    run_of,
    steps,
)
from google.protobuf.descriptor import FieldDescriptor

from lanekit.errors import DaemonError
from lanekit.slow.daemon_client import DaemonClient
from lanekit.slow.limits import MAX_MESSAGE_BYTES
from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.proto.telemetry_pb2_grpc import TrainerServiceStub
from patience import patience

INVALID = grpc.StatusCode.INVALID_ARGUMENT
SERVICE = pb.DESCRIPTOR.services_by_name["TrainerService"]
BAD_RUN_IDS = [
    "",
    "'; DROP TABLE runs; --",
    '"r" OR 1=1',
    "../../etc/passwd",
    "/etc/passwd",
    "a/b",
    "..",
    ".hidden",
    "-rf",
    "r\0",
    "r\n",
    "r ",
    "ü",
    "x" * 129,
    "%s%n",
    "r;ls",
]


@pytest.fixture(autouse=True)
def goes_on(stub: TrainerServiceStub) -> Any:
    """After each test the daemon takes and gives back events as ever."""
    register(stub, "good")
    yield
    first = register(stub, "good").committed_steps + 1
    assert publish(stub.PublishRunSteps, steps("good", first, 10))[-1] == first + 9
    assert len(history(stub, "good")) == first + 9


def unary_calls(stub: TrainerServiceStub, run: str) -> dict[str, Callable[[], Any]]:
    return {
        "RegisterWorker": lambda: register(stub, run),
        "ControlRun": lambda: stub.ControlRun(
            pb.ControlRunRequest(run_id=run, action=pb.CONTROL_ACTION_PAUSE)
        ),
        "CancelRun": lambda: stub.CancelRun(pb.CancelRunRequest(run_id=run)),
        "ArchiveRun": lambda: stub.ArchiveRun(pb.ArchiveRunRequest(run_id=run, archived=True)),
        "StreamRunSteps": lambda: stub.StreamRunSteps(pb.StreamRunStepsRequest(run_id=run)),
        "StreamRunEpisodes": lambda: stub.StreamRunEpisodes(
            pb.StreamRunEpisodesRequest(run_id=run)
        ),
        "StreamRunEvents": lambda: stub.StreamRunEvents(pb.StreamRunEventsRequest(run_id=run)),
        "PublishRunSteps": lambda: stub.PublishRunSteps(iter([steps(run, 1, 1)])),
        "PublishRunEvents": lambda: stub.PublishRunEvents(iter([events(run, 1, "x")])),
        "Heartbeat": lambda: stub.Heartbeat(
            iter([pb.HeartbeatRequest(run_id=run, stream_id="s1")])
        ),
    }


@pytest.mark.parametrize("run", BAD_RUN_IDS)
def test_a_run_id_that_is_none_is_refused_by_every_method(
    stub: TrainerServiceStub, run: str
) -> None:
    for name, call in unary_calls(stub, run).items():
        error = failure_of(call)
        assert error.code() is INVALID, name
        assert "run id" in error.details(), name
    if run:  # an empty one asks the daemon to choose, or for all
        request = pb.SubmitRunRequest(run_id=run, command=["true"])
        assert failure_of(lambda: stub.SubmitRun(request)).code() is INVALID
        assert failure_of(lambda: stub.ListRuns(pb.ListRunsRequest(run_id=run))).code() is INVALID
    listed = stub.ListRuns(pb.ListRunsRequest(include_archived=True)).runs
    assert [found.run_id for found in listed] == ["good"]


def test_an_unknown_run_is_not_found(stub: TrainerServiceStub) -> None:
    calls = unary_calls(stub, "nobody-knows-it")
    del calls["RegisterWorker"]  # that one makes it known
    calls["ListRuns"] = lambda: stub.ListRuns(pb.ListRunsRequest(run_id="nobody-knows-it"))
    calls["RegisterWorker"] = lambda: register(stub, "nobody-knows-it", require_run=True)
    for name, call in calls.items():
        error = failure_of(call)
        assert error.code() is grpc.StatusCode.NOT_FOUND, name
        assert "nobody-knows-it" in error.details(), name


@pytest.mark.parametrize("stream", ["", "a b", "../x", "s" * 65, "'; --"])
def test_a_stream_id_that_is_none_is_refused(stub: TrainerServiceStub, stream: str) -> None:
    for call in (
        lambda: register(stub, "good", stream),
        lambda: stub.PublishRunSteps(iter([steps("good", 1, 1, stream=stream)])),
        lambda: stub.Heartbeat(iter([pb.HeartbeatRequest(run_id="good", stream_id=stream)])),
    ):
        error = failure_of(call)
        assert error.code() is INVALID
        assert "stream id" in error.details()


def test_the_daemons_own_stream_is_not_for_workers(stub: TrainerServiceStub) -> None:
    error = failure_of(lambda: register(stub, "good", "daemon"))
    assert error.code() is INVALID
    assert "daemon's own" in error.details()


@pytest.mark.parametrize("method", [method.name for method in SERVICE.methods])
def test_bytes_that_are_no_message_are_refused(daemon: DaemonProcess, method: str) -> None:
    found = SERVICE.methods_by_name[method]
    path = f"/{SERVICE.full_name}/{method}"
    noise = random.Random(method)
    samples = [b"\xff", b"\x0a\x7f", noise.randbytes(10_000)]
    if found.input_type.fields_by_number[1].type == FieldDescriptor.TYPE_STRING:
        samples.append(b"\x0a\x02\xff\xfe")  # not UTF-8
    with grpc.insecure_channel(daemon.target) as channel:
        for sample in samples:
            if found.client_streaming:
                call: Any = channel.stream_stream(path)
                error = failure_of(
                    lambda call=call, s=sample: call(iter([s]), timeout=patience(30))
                )
            elif found.server_streaming:
                call = channel.unary_stream(path)
                error = failure_of(lambda call=call, s=sample: call(s, timeout=patience(30)))
            else:
                call = channel.unary_unary(path)
                error = failure_of(lambda call=call, s=sample: call(s, timeout=patience(30)))
            assert error.code() is INVALID
            assert found.input_type.name in error.details()


def step_request(**fields: Any) -> Any:
    return pb.PublishRunStepsRequest(
        run_id="good", stream_id="s1", first_seq=1, steps=[pb.Step(**fields)]
    )


def column_request(**fields: Any) -> Any:
    request = pb.PublishRunStepsRequest(
        run_id="good", stream_id="s1", first_seq=1, columns=columns(3)
    )
    for name, values in fields.items():
        del getattr(request.columns, name)[:]
        getattr(request.columns, name).extend(values)
    return request


def numbered_from_zero() -> Any:
    request = steps("good", 1, 1)
    request.first_seq = 0
    return request


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (step_request(reward=float("nan")), "finite"),
        (step_request(reward=float("inf")), "finite"),
        (step_request(reward=-float("inf")), "finite"),
        (column_request(reward=[1, float("inf"), 1]), "finite"),
        (step_request(action_json=b"{"), "JSON"),
        (step_request(info_json=b"\xff"), "UTF-8"),
        (column_request(observation_json=[b"1", b"\xff\xfe", b"1"]), "UTF-8"),
        (column_request(step=[1, 2]), "rows"),
        (column_request(agent_index=[0, 1, 2]), "name"),
        (column_request(seed_row=[5], seed=[1]), "seed"),
        (column_request(seed_row=[1], seed=[]), "seed"),
        (step_request(worker_id="w" * 257), "256"),
        (step_request(frame=pb.Frame(width=2, height=2, channels=3, pixels=b"x")), "frame"),
        (step_request(frame=pb.Frame(width=2**31, height=2**31, channels=4)), "frame"),
        (pb.PublishRunStepsRequest(run_id="good", stream_id="s1", first_seq=1), "neither"),
        (numbered_from_zero(), "from 1"),
    ],
)
def test_what_can_not_be_stored_is_refused_whole(
    stub: TrainerServiceStub, request_: Any, said: str
) -> None:
    error = failure_of(lambda: publish(stub.PublishRunSteps, request_))
    assert error.code() is INVALID
    assert said in error.details()
    assert register(stub, "good").committed_steps == 0


@pytest.mark.parametrize("first_seq", [2**40, 2**63 - 1, 2**63, 2**64 - 1])
def test_numbers_beyond_the_last_are_refused(stub: TrainerServiceStub, first_seq: int) -> None:
    for call, request in (
        (stub.PublishRunSteps, step_request()),
        (stub.PublishRunEvents, events("good", 1, "x")),
    ):
        request.first_seq = first_seq
        error = failure_of(lambda call=call, request=request: publish(call, request))
        assert error.code() is INVALID
        assert "1 to" in error.details()


def test_the_largest_numbers_of_a_step_are_stored(stub: TrainerServiceStub) -> None:
    extreme = pb.Step(
        episode=2**63 - 1, step=-(2**63), wall_time_ns=2**63 - 1, seed=2**63 - 1, reward=1.7e308
    )
    request = pb.PublishRunStepsRequest(run_id="edge", stream_id="s1", first_seq=1, steps=[extreme])
    register(stub, "edge")
    publish(stub.PublishRunSteps, request)
    (back,) = history(stub, "edge")
    assert (back.episode, back.step) == (2**63 - 1, -(2**63))
    assert (back.seed, back.wall_time_ns, back.reward) == (2**63 - 1, 2**63 - 1, 1.7e308)


def test_numbers_out_of_range_in_other_requests_do_no_harm(stub: TrainerServiceStub) -> None:
    biggest = 2**64 - 1
    beat = pb.HeartbeatRequest(
        run_id="good",
        stream_id="s1",
        delivered_command_id=biggest,
        rejected_lines=biggest,
        spooled_bytes=biggest,
    )
    call = stub.Heartbeat(iter([beat]), timeout=patience(30))
    assert not next(call).HasField("command")
    list(call)
    watch = stub.WatchRuns(pb.WatchRunsRequest(after_revision=biggest), timeout=patience(30))
    assert list(next(watch).runs) == []
    watch.cancel()
    register(stub, "good", pid=-(2**63), host="h" * 4096)
    error = failure_of(lambda: register(stub, "good", host="h" * 5000))
    assert error.code() is INVALID
    for grace in (float("nan"), float("inf"), -1.0, 1e9):
        request = pb.CancelRunRequest(run_id="good", grace_seconds=grace)
        assert failure_of(lambda request=request: stub.CancelRun(request)).code() is INVALID


@pytest.mark.parametrize("action", [0, 4, 99])
def test_an_unknown_command_is_refused(stub: TrainerServiceStub, action: Any) -> None:
    request = pb.ControlRunRequest(run_id="good", action=action)
    error = failure_of(lambda: stub.ControlRun(request))
    assert error.code() is INVALID
    assert "pause" in error.details()


def test_a_message_over_the_limit_is_refused_before_it_is_read(
    daemon: DaemonProcess, stub: TrainerServiceStub
) -> None:
    before = daemon.memory()
    text = b'"' + b"x" * MAX_MESSAGE_BYTES + b'"'
    request = pb.PublishRunStepsRequest(
        run_id="good", stream_id="s1", first_seq=1, columns=columns(1, text=text)
    )
    error = failure_of(lambda: stub.PublishRunSteps(iter([request]), timeout=patience()))
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    error = failure_of(lambda: publish(stub.PublishRunSteps, request))  # nor in parts
    assert error.code() is INVALID
    register_request = pb.RegisterWorkerRequest(
        run_id="good", stream_id="s1", host="h" * MAX_MESSAGE_BYTES
    )
    error = failure_of(lambda: stub.RegisterWorker(register_request))
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "SERVER" in error.details()  # this client has no limit of its own
    assert daemon.memory() - before < 32 * 2**20


def test_a_request_over_the_limit_is_explained_where_it_is_made(daemon: DaemonProcess) -> None:
    with (
        DaemonClient(daemon.target) as client,
        pytest.raises(DaemonError, match=r"at most 80 MiB \(CLIENT: .*\); ask for less"),
    ):
        client.submit_run(["true"], config_json=b" " * MAX_MESSAGE_BYTES)


def test_the_longest_line_fits(stub: TrainerServiceStub) -> None:
    text = b'"' + b"x" * (64 * 2**20 - 2) + b'"'
    request = pb.PublishRunStepsRequest(
        run_id="long", stream_id="s1", first_seq=1, columns=columns(1, text=text)
    )
    register(stub, "long")
    publish(stub.PublishRunSteps, request)
    (back,) = history(stub, "long")
    assert back.observation_json == text


@pytest.mark.once
def test_the_largest_message_that_is_taken_is_given_back(
    daemon: DaemonProcess, stub: TrainerServiceStub
) -> None:
    request = pb.PublishRunStepsRequest(
        run_id="large", stream_id="s1" * 16, first_seq=1, columns=columns(1)
    )
    half = b'"' + b"x" * (MAX_MESSAGE_BYTES // 2) + b'"'
    rest = MAX_MESSAGE_BYTES - request.ByteSize() - len(half) - 40
    request.columns.action_json.append(half)
    request.columns.info_json.append(b'"' + b"x" * rest + b'"')
    size = request.ByteSize()
    assert MAX_MESSAGE_BYTES - 64 < size <= MAX_MESSAGE_BYTES
    register(stub, "large", "s1" * 16)
    publish(stub.PublishRunSteps, request)
    with DaemonClient(daemon.target) as client:
        for row_wise in (False, True):
            (page,) = client.stream_steps("large", history_only=True, row_wise=row_wise)
            assert page.ByteSize() > size - 1024


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"command": []}, "command"),
        ({"command": [""]}, "command"),
        ({"command": ["true\0"]}, "NUL"),
        ({"command": ["true"], "environment": {"": "x"}}, "environment variable"),
        ({"command": ["true"], "environment": {"A=B": "x"}}, "environment variable"),
        ({"command": ["true"], "environment": {"A": "\0"}}, "NUL"),
        ({"command": ["true"], "working_directory": "relative"}, "absolute"),
        ({"command": ["true"], "working_directory": "/no/such/directory"}, "directory"),
        ({"command": ["true"], "working_directory": "/\0"}, "directory"),
        ({"command": ["true"], "worker_id": "w\0"}, "worker id"),
        ({"command": ["true"], "worker_id": "w" * 300}, "worker id"),
        ({"command": ["true"], "config_json": b"{"}, "JSON"),
        ({"command": ["true"], "config_json": b"\xff"}, "JSON"),
        ({"command": ["true"], "config_json": b'"' + b"x" * 200_000 + b'"'}, "120000"),
    ],
)
def test_a_run_that_can_not_be_started_is_refused_and_not_recorded(
    stub: TrainerServiceStub, fields: dict[str, Any], said: str
) -> None:
    request = pb.SubmitRunRequest(run_id="never", **fields)
    error = failure_of(lambda: stub.SubmitRun(request))
    assert error.code() is INVALID
    assert said in error.details()
    listed = stub.ListRuns(pb.ListRunsRequest(run_id="")).runs
    assert [run.run_id for run in listed] == ["good"]


def code_of(call: Any) -> grpc.StatusCode:
    try:
        list(call)
    except grpc.RpcError as error:
        code: grpc.StatusCode = error.code()
        return code
    return grpc.StatusCode.OK


@pytest.mark.once
def test_a_thousand_broken_calls_leave_nothing_behind(
    daemon: DaemonProcess, stub: TrainerServiceStub
) -> None:
    noise = random.Random(7)
    publish_steps(stub, "noise", 10)
    before = daemon.memory()
    path = f"/{SERVICE.full_name}/PublishRunSteps"
    with grpc.insecure_channel(daemon.target) as channel:
        publish_raw: Any = channel.stream_stream(path)
        good = steps("noise", 11, 5).SerializeToString()
        codes = set()
        for _ in range(1000):
            data = bytearray(good)
            for _ in range(noise.randint(1, 8)):
                data[noise.randrange(len(data))] = noise.randrange(256)
            codes.add(code_of(publish_raw(iter([bytes(data)]), timeout=patience(30))))
    assert codes <= {
        grpc.StatusCode.OK,
        INVALID,
        grpc.StatusCode.NOT_FOUND,
        grpc.StatusCode.FAILED_PRECONDITION,
    }
    rows = history(stub, "noise")
    assert [step.seq for step in rows] == list(range(1, len(rows) + 1))
    assert run_of(stub, "noise").steps == len(rows)
    assert daemon.memory() - before < 64 * 2**20
