"""Each token sees its own runs, and nothing of the others': events, frames, life cycle, control."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from daemon_process import (
    OPTIONS,
    DaemonProcess,
    events,
    obeying_permissions,
    publish,
    publish_steps,
    steps,
)
from picture_worker import PictureWorker

from lanekit import errors
from lanekit.slow.daemon.access import OWNER, Caller, Tokens, read_tokens, words_for
from lanekit.slow.daemon.methods import (
    MANY_RUNS_METHODS,
    OWNERS_METHODS,
    SERVICE,
    check_access,
)
from lanekit.slow.daemon_client import DaemonClient
from lanekit.slow.endpoint import token_metadata
from lanekit.slow.proto import telemetry_pb2 as pb
from patience import patience, until

MakeDaemon = Callable[..., DaemonProcess]

OWNERS = "owner-token-owner-token"
ALICES = "alice-token-alice-token"
BOBS = "bob-token-bob-token-bob"


class Stub:
    """A stub whose calls all bring one token."""

    def __init__(self, stub: Any, token: str) -> None:
        self._stub = stub
        self._metadata = token_metadata(token)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._stub, name)

        def call(request: Any, timeout: float | None = None) -> Any:
            limit = patience() if timeout is None else timeout
            return method(request, timeout=limit, metadata=self._metadata)

        return call


@pytest.fixture
def files(short_directory: Path) -> tuple[Path, Path]:
    owner, named = short_directory / "token", short_directory / "tokens"
    owner.write_text(OWNERS)
    named.write_text(f"# who may do what\n\nalice {ALICES}\n  bob\t{BOBS}\n")
    for path in (owner, named):
        path.chmod(0o600)
    return owner, named


@pytest.fixture
def shared(make_daemon: MakeDaemon, files: tuple[Path, Path]) -> DaemonProcess:
    owner, named = files
    return make_daemon("--token-file", str(owner), "--tokens", str(named)).start()


@pytest.fixture
def stubs(shared: DaemonProcess) -> Iterator[tuple[Any, Any, Any]]:
    """The owner's, alice's and bob's."""
    with shared.connect() as stub:
        yield Stub(stub, OWNERS), Stub(stub, ALICES), Stub(stub, BOBS)


def code_of(call: Callable[[], Any]) -> grpc.StatusCode:
    try:
        answer = call()
        if hasattr(answer, "cancel"):
            next(answer)
            answer.cancel()
    except grpc.RpcError as error:
        code: grpc.StatusCode = error.code()
        return code
    return grpc.StatusCode.OK


def every_call(stub: Any, run: str) -> dict[str, Callable[[], Any]]:
    """Each method of the service that names a run, about this one."""
    beat = pb.HeartbeatRequest(run_id=run, stream_id="s1")
    return {
        "PublishRunSteps": lambda: stub.PublishRunSteps(iter([steps(run, 1, 1)])),
        "PublishRunEpisodes": lambda: stub.PublishRunEpisodes(
            iter([pb.PublishRunEpisodesRequest(run_id=run, stream_id="s1", first_seq=1)])
        ),
        "PublishRunEvents": lambda: stub.PublishRunEvents(iter([events(run, 1, "hello")])),
        "StreamRunSteps": lambda: stub.StreamRunSteps(pb.StreamRunStepsRequest(run_id=run)),
        "StreamRunEpisodes": lambda: stub.StreamRunEpisodes(
            pb.StreamRunEpisodesRequest(run_id=run)
        ),
        "StreamRunEvents": lambda: stub.StreamRunEvents(pb.StreamRunEventsRequest(run_id=run)),
        "SubmitRun": lambda: stub.SubmitRun(pb.SubmitRunRequest(run_id=run, command=["true"])),
        "CancelRun": lambda: stub.CancelRun(pb.CancelRunRequest(run_id=run)),
        "ArchiveRun": lambda: stub.ArchiveRun(pb.ArchiveRunRequest(run_id=run, archived=True)),
        "ListRuns": lambda: stub.ListRuns(pb.ListRunsRequest(run_id=run)),
        "ControlRun": lambda: stub.ControlRun(
            pb.ControlRunRequest(run_id=run, action=pb.CONTROL_ACTION_PAUSE)
        ),
        "RegisterWorker": lambda: register_as(stub, run),
        "Heartbeat": lambda: stub.Heartbeat(iter([beat])),
        "WatchFrames": lambda: stub.WatchFrames(
            iter([pb.WatchFramesRequest(run_id=run, credits=1)])
        ),
        "ListLanes": lambda: stub.ListLanes(pb.ListLanesRequest(run_id=run)),
        "OpenWeb": lambda: stub.OpenWeb(pb.OpenWebRequest()),
    }


def register_as(stub: Any, run: str) -> Any:
    return stub.RegisterWorker(pb.RegisterWorkerRequest(run_id=run, stream_id="s1"))


def test_no_call_of_one_token_reaches_another_tokens_run(stubs: tuple[Any, Any, Any]) -> None:
    owner, alice, bob = stubs
    publish_steps(bob, "bob.secret", 3)
    publish_steps(owner, "no-names-run", 3)
    methods = {method.name for method in SERVICE.methods}
    assert methods == every_call(alice, "x").keys() | {"WatchRuns"}, "a method is not tried here"
    for run in ("bob.secret", "no-names-run", "alice", "alicebob.x", "bob.alice.x", ""):
        for name, call in every_call(alice, run).items():
            if run == "" and name in MANY_RUNS_METHODS:
                continue
            assert code_of(call) is grpc.StatusCode.PERMISSION_DENIED, f"{name} of {run!r}"
    assert len(history_of(bob, "bob.secret")) == 3
    assert owner.ListRuns(pb.ListRunsRequest(run_id="bob.secret")).runs[0].archived is False


def history_of(stub: Any, run: str) -> list[Any]:
    request = pb.StreamRunStepsRequest(run_id=run, history_only=True, row_wise=True)
    return [step for page in stub.StreamRunSteps(request) for step in page.steps]


def test_a_token_does_all_that_a_worker_and_its_viewer_need_with_its_own_runs(
    stubs: tuple[Any, Any, Any],
) -> None:
    _, alice, _ = stubs
    publish_steps(alice, "alice.ppo", 5)
    assert publish(alice.PublishRunEvents, events("alice.ppo", 1, "run_started")) == [1]
    assert len(history_of(alice, "alice.ppo")) == 5
    assert alice.ControlRun(
        pb.ControlRunRequest(run_id="alice.ppo", action=pb.CONTROL_ACTION_PAUSE)
    ).command_id
    assert alice.CancelRun(pb.CancelRunRequest(run_id="alice.ppo")).run.run_id == "alice.ppo"


def test_listings_hold_the_callers_own_runs_only(stubs: tuple[Any, Any, Any]) -> None:
    owner, alice, bob = stubs
    for stub, run in ((owner, "plain"), (alice, "alice.1"), (bob, "bob.1"), (alice, "alice.2")):
        publish_steps(stub, run, 1)

    def listed(stub: Any, **more: Any) -> list[str]:
        return [run.run_id for run in stub.ListRuns(pb.ListRunsRequest(**more)).runs]

    assert listed(alice) == ["alice.2", "alice.1"]
    assert listed(alice, limit=1) == ["alice.2"]
    assert listed(bob, limit=1) == ["bob.1"]
    assert listed(owner) == ["alice.2", "bob.1", "alice.1", "plain"]
    watch = bob.WatchRuns(pb.WatchRunsRequest())
    first = next(watch)
    assert [run.run_id for run in first.runs] == ["bob.1"]
    # What alice does is no news to bob; what bob does is.
    publish_steps(alice, "alice.3", 1)
    publish_steps(bob, "bob.2", 1)
    seen: set[str] = set()
    while "bob.2" not in seen:
        seen |= {run.run_id for run in next(watch).runs}
    assert seen <= {"bob.1", "bob.2"}
    watch.cancel()


def test_frames_of_another_tokens_run_are_neither_listed_nor_shown(shared: DaemonProcess) -> None:
    run = f"alice.{time.time_ns()}"
    worker = PictureWorker(run)
    try:
        with DaemonClient(shared.target, token=ALICES) as alice:
            listed = [lane.run_id for lane in alice.list_lanes()]
            assert run in listed
            assert all(name.startswith("alice.") for name in listed)
            with alice.watch_frames(run) as stream:
                assert next(update for update in stream if update.frame is not None)
        with DaemonClient(shared.target, token=BOBS) as bob:
            assert [lane.run_id for lane in bob.list_lanes() if "alice" in lane.run_id] == []
            with pytest.raises(errors.DaemonError, match=r"not bob's.*begins with 'bob\.'"):
                bob.list_lanes(run)
            with bob.watch_frames(run) as stream:
                with pytest.raises(errors.DaemonError, match="not bob's") as refused:
                    next(stream)
            assert refused.value.code == "PERMISSION_DENIED"
        with DaemonClient(shared.target, token=OWNERS) as owner:
            assert run in {lane.run_id for lane in owner.list_lanes()}
    finally:
        worker.leave()


def test_a_stream_that_turns_to_another_run_half_way_is_cut(stubs: tuple[Any, Any, Any]) -> None:
    _, alice, bob = stubs
    register_as(bob, "bob.1")
    register_as(alice, "alice.1")
    call = alice.PublishRunSteps(iter([steps("alice.1", 1, 1), steps("bob.1", 1, 1)]))
    with pytest.raises(grpc.RpcError) as refused:
        list(call)
    assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
    assert history_of(bob, "bob.1") == []


def test_cancelling_ones_own_run_ends_nobody_elses_worker(
    shared: DaemonProcess, stubs: tuple[Any, Any, Any]
) -> None:
    """A worker says itself where its spool is: it must not be able to name another run's."""
    owner, alice, _ = stubs
    command = ["sleep", "1000"]
    submitted = owner.SubmitRun(pb.SubmitRunRequest(run_id="victim", command=command)).run
    assert submitted.run_id == "victim"
    spool = None
    while spool is None:
        run = owner.ListRuns(pb.ListRunsRequest(run_id="victim")).runs[0]
        spools = [Path(worker.spool_directory) for worker in run.workers if worker.host]
        spool = next((each for each in spools if (each / "worker.json").exists()), None)
        host = next((worker.host for worker in run.workers if worker.host), "")
        time.sleep(0.02)
    pid = json.loads((spool / "worker.json").read_text())["pid"]
    # What anybody can write to is no word of a worker's own, whatever it says.
    forged = shared.directory / "forged"
    forged.mkdir()
    forged.chmod(0o777)
    (forged / "stream.json").write_text('{"run_id": "alice.1"}')
    (forged / "worker.json").symlink_to(spool / "worker.json")
    for number, named in enumerate((spool, forged, "/no/where")):
        run_id = f"alice.{number}"
        alice.RegisterWorker(
            pb.RegisterWorkerRequest(
                run_id=run_id, stream_id="s1", host=host, spool_directory=str(named)
            )
        )
        alice.CancelRun(pb.CancelRunRequest(run_id=run_id, grace_seconds=0))
        assert Path(f"/proc/{pid}").exists(), named
    owner.CancelRun(pb.CancelRunRequest(run_id="victim", grace_seconds=0))


def details_of(call: Callable[[], Any]) -> str:
    try:
        answer = call()
        if hasattr(answer, "cancel"):
            next(answer, None)
            answer.cancel()
    except grpc.RpcError as error:
        return error.details() or ""
    return str(answer)


def test_no_answer_to_a_named_token_tells_a_path_of_the_daemons_machine(
    shared: DaemonProcess, stubs: tuple[Any, Any, Any]
) -> None:
    owner, alice, _ = stubs
    place = str(shared.directory)

    def answers(stub: Any, run: str) -> dict[str, str]:
        calls = every_call(stub, run)
        del calls["WatchFrames"]  # of no lane it never answers
        return {name: details_of(call) for name, call in calls.items()}

    for run in ("alice.unknown", "alice..", "bob.x"):
        for name, told in answers(alice, run).items():
            assert place not in told, f"{name}: {told}"
    # A run that the owner started for her has its spool, and its failure, on this machine.
    owner.SubmitRun(pb.SubmitRunRequest(run_id="alice.failed", command=["/no/such/program"]))

    def run_for(stub: Any) -> pb.Run:
        answer = stub.ListRuns(pb.ListRunsRequest(run_id="alice.failed"))
        run: pb.Run = answer.runs[0]
        return run

    until(lambda: run_for(owner).state == pb.RUN_STATE_FAILED)
    assert "/no/such/program" in run_for(owner).reason
    assert "/no/such/program" not in run_for(alice).reason
    owner.SubmitRun(pb.SubmitRunRequest(run_id="alice.ok", command=["true"]))
    until(lambda: owner.ListRuns(pb.ListRunsRequest(run_id="alice.ok")).runs[0].workers)
    assert place in str(owner.ListRuns(pb.ListRunsRequest(run_id="alice.ok")))
    assert place not in str(alice.ListRuns(pb.ListRunsRequest()))
    watching = alice.WatchRuns(pb.WatchRunsRequest())
    assert place not in str(next(watching))
    watching.cancel()


def test_a_named_token_hears_that_the_store_fails_but_not_where_it_is(
    shared: DaemonProcess, stubs: tuple[Any, Any, Any]
) -> None:
    owner, alice, _ = stubs
    publish_steps(alice, "alice.ppo", 5)
    shared.stop()
    shared.store.chmod(0o400)
    shared.prefix = obeying_permissions()
    shared.start()
    with shared.connect() as stub:
        owner, alice = Stub(stub, OWNERS), Stub(stub, ALICES)
        listing = pb.ListRunsRequest()
        until(lambda: str(shared.store) in owner.ListRuns(listing).store_problem)
        assert alice.ListRuns(listing).store_problem
        assert str(shared.directory) not in str(alice.ListRuns(listing))
        assert str(shared.store) in details_of(lambda: register_as(owner, "alice.new"))
        told = details_of(lambda: register_as(alice, "alice.new"))
        assert "store" in told
        assert str(shared.directory) not in told
    shared.store.chmod(0o600)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("no store at /home/me/lanekit.db; start one", "no store at {}; start one"),
        ("(see '/var/x/proxy.log')", "(see '{}')"),
        ("in postgresql://me@db.example/lane now", "in postgresql:{} now"),
        ("5 steps/s, and/or `lanekit runs`", "5 steps/s, and/or `lanekit runs`"),
    ],
)
def test_paths_are_left_out_of_what_others_read(text: str, told: str) -> None:
    assert words_for(OWNER, text) == text
    assert words_for(Caller("alice"), text) == told.format("(a path on the daemon's machine)")


def test_a_wrong_token_and_none_reach_nothing(shared: DaemonProcess) -> None:
    with grpc.insecure_channel(shared.target, OPTIONS) as channel:
        from lanekit.slow.proto.telemetry_pb2_grpc import TrainerServiceStub

        for token in ("", ALICES[:-1], ALICES + "x", ALICES.upper()):
            stub = Stub(TrainerServiceStub(channel), token)
            for name, call in every_call(stub, "alice.x").items():
                assert code_of(call) is grpc.StatusCode.UNAUTHENTICATED, f"{name} {token!r}"


def test_a_method_about_no_run_in_particular_is_refused_unless_it_is_known_to_filter() -> None:
    alice = Caller("alice")
    for method in SERVICE.methods:
        fields = {field.name for field in method.input_type.fields}
        known = method.name in MANY_RUNS_METHODS or method.name in OWNERS_METHODS
        assert "run_id" in fields or known, method.name
    assert {method.name for method in SERVICE.methods} >= OWNERS_METHODS.keys()
    with pytest.raises(errors.TelemetryError, match="not alice's"):
        check_access(alice, "SomethingNew", pb.WatchRunsRequest())
    check_access(OWNER, "SomethingNew", pb.WatchRunsRequest())


@pytest.mark.parametrize(
    ("content", "mode", "said"),
    [
        ("", 0o600, "no token"),
        ("# nothing\n", 0o600, "no token"),
        ("alice\n", 0o600, "line 1: expected NAME TOKEN"),
        (f"alice {ALICES} x\n", 0o600, "3 words"),
        (f"\na.b {ALICES}\n", 0o600, "line 2: 'a.b' can not name"),
        (f"-a {ALICES}\n", 0o600, "can not name"),
        ("alice short\n", 0o600, "at least 16"),
        (f"alice {ALICES}\nalice {BOBS}\n", 0o600, "second time"),
        (f"alice {ALICES}\nbob {ALICES}\n", 0o600, "second time"),
        (f"alice {OWNERS}\n", 0o600, "owner's own token"),
        (f"alice {ALICES}\n", 0o640, "chmod 600"),
    ],
)
def test_a_tokens_file_that_is_not_sound_is_refused(
    make_daemon: MakeDaemon, files: tuple[Path, Path], content: str, mode: int, said: str
) -> None:
    owner, named = files
    named.write_text(content)
    named.chmod(mode)
    if "owner" in said:  # the daemon itself says it
        options = ("--token-file", str(owner), "--tokens", str(named))
        status, message = make_daemon().refusal(*options)
        assert status == 1
        assert said in message
        assert "Traceback" not in message
        return
    with pytest.raises(errors.TelemetryError, match=said):
        read_tokens(named)


def test_tokens_without_the_owners_are_refused(
    make_daemon: MakeDaemon, files: tuple[Path, Path]
) -> None:
    status, message = make_daemon().refusal("--tokens", str(files[1]))
    assert status == 2
    assert "--token-file" in message


def test_without_tokens_whoever_can_connect_is_the_owner() -> None:
    assert Tokens().caller([]) is OWNER
    assert not Tokens().needed
    known = Tokens(OWNERS, {"alice": ALICES})
    assert known.caller([f"Bearer {OWNERS}"]) is OWNER
    assert known.caller([f"Bearer {ALICES}".encode()]) == Caller("alice")
    assert known.caller([f"Bearer {ALICES}", f"Bearer {ALICES}"]) is None
    assert known.caller([]) is None
    assert known.caller(["Bearer "]) is None
