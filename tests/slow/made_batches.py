"""Batches for the store's tests, made as a sender would make them, and what is stored of them."""

from __future__ import annotations

from lanekit.slow.batches import Batch, episodes_batch, events_batch, steps_batch
from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.store.address import StoreAddress
from lanekit.slow.store.run_store import RunStore
from lanekit.slow.store.telemetry_store import TelemetryStore

RUN = "run-1"
STREAM = "stream-1"


def a_step(seq: int, agent: str = "agent", worker: str = "worker") -> pb.Step:
    """A step that can be told apart from every other of its stream by what is in it."""
    return pb.Step(
        worker_id=worker,
        agent_id=agent,
        episode=seq // 10,
        step=seq % 10,
        action_json=b"%d" % seq,
        observation_json=b'{"seq": %d, "text": "\xc3\xa9"}' % seq,
        reward=seq / 4,
        wall_time_ns=1_000 + seq,
    )


def steps(
    first_seq: int,
    rows: int,
    *,
    run_id: str = RUN,
    stream_id: str = STREAM,
    agents: tuple[str, ...] = ("agent",),
    worker: str = "worker",
) -> Batch:
    """Steps numbered `first_seq` on, the agents in turn."""
    return steps_batch(
        pb.PublishRunStepsRequest(
            run_id=run_id,
            stream_id=stream_id,
            first_seq=first_seq,
            steps=[
                a_step(seq, agents[seq % len(agents)], worker)
                for seq in range(first_seq, first_seq + rows)
            ],
        )
    )


def episodes(first_seq: int, rows: int, *, stream_id: str = STREAM, agent: str = "agent") -> Batch:
    """Episodes numbered `first_seq` on."""
    return episodes_batch(
        pb.PublishRunEpisodesRequest(
            run_id=RUN,
            stream_id=stream_id,
            first_seq=first_seq,
            episodes=[
                pb.Episode(agent_id=agent, episode=seq, episode_return=seq / 2, length=10)
                for seq in range(first_seq, first_seq + rows)
            ],
        )
    )


def events(first_seq: int, *named: tuple[str, bytes], stream_id: str = STREAM) -> Batch:
    """Events with these names and payloads, numbered `first_seq` on."""
    return events_batch(
        pb.PublishRunEventsRequest(
            run_id=RUN,
            stream_id=stream_id,
            first_seq=first_seq,
            events=[
                pb.RunEvent(name=name, payload_json=payload, wall_time_ns=7_000 + index)
                for index, (name, payload) in enumerate(named)
            ],
        )
    )


def append_steps(store: TelemetryStore, *made: pb.Step, stream_id: str = STREAM) -> None:
    """Store steps behind those that the stream has."""
    committed = store.register_stream(RUN, stream_id).steps
    request = pb.PublishRunStepsRequest(
        run_id=RUN, stream_id=stream_id, first_seq=committed + 1, steps=made
    )
    store.append([steps_batch(request)])


def interleaved(store: TelemetryStore) -> list[tuple[str, int]]:
    """Steps of three streams, in turn and several agents each; the order they were committed in."""
    order: list[tuple[str, int]] = []
    for turn in range(12):
        stream = f"s{turn % 3}"
        first = store.register_stream(RUN, stream).steps + 1
        rows = 1 + turn * 7 % 11
        store.append([steps(first, rows, stream_id=stream, agents=("a", "b", "c"))])
        order += [(stream, seq) for seq in range(first, first + rows)]
    return order


def actions(address: StoreAddress, run_id: str = RUN) -> list[tuple[str, int, bytes | None]]:
    """Every step's stream, number and action, in the order of commits."""
    with RunStore.open(address) as reader:
        found = reader.steps(run_id)
        return list(zip(found.stream, found.seq.tolist(), found.action_json, strict=True))
