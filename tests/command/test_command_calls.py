"""Calls between a client and a server, over real rings and within one process."""

from __future__ import annotations

import asyncio
import gc
import threading
from concurrent.futures import Future
from typing import Any

import numpy as np
import pytest
from echo_method import Echo, echo
from pumping import Pumped

from lanekit import ReplyTimeout
from lanekit.command import (
    Agent,
    AgentSchema,
    Bytes,
    Channel,
    CommandClient,
    CommandServer,
    GetAgentSchemaRequest,
    GetAgentSchemaResponse,
    GetEntityRequest,
    GetEntityResponse,
    Range,
    ResetAgentRequest,
    ResetAgentResponse,
    Scene,
    SimulationContract,
    Telemetry,
)
from patience import patience, until


def test_a_call_brings_a_typed_answer(ends: tuple[Channel, Channel]) -> None:
    seen: list[Any] = []

    def schema(request: GetAgentSchemaRequest) -> GetAgentSchemaResponse:
        seen.append((request, threading.get_ident()))
        return GetAgentSchemaResponse(AgentSchema(request.agent_name, ["height"], ["hip"], 1, 1))

    server = CommandServer(ends[0], {Agent.GetAgentSchema: schema})
    with CommandClient(ends[1], timeout=patience()) as client:
        future = client.submit(Agent.GetAgentSchema, GetAgentSchemaRequest("walker"))
        assert server.pump(timeout=patience()) == 1
        answer = future.result(patience())
        assert answer.schema is not None
        assert answer.schema.observation_names == ("height",)
        assert seen == [(GetAgentSchemaRequest("walker"), threading.get_ident())]
        assert server.pump() == 0
        with Pumped(server):
            by_name = client.call("Agent.GetAgentSchema", timeout=patience())
            assert by_name.schema.agent_name == ""  # without a request: an empty one


def test_a_reset_carries_its_contract(ends: tuple[Channel, Channel]) -> None:
    contract = SimulationContract(
        friction_range=Range(0.5, 1.25), mass_scale_range=Range(0.9, 1.1), terrain_type="stairs"
    )
    applied: list[ResetAgentRequest] = []
    server = CommandServer(ends[0])

    @server.handles(Agent.ResetAgent)
    def reset(request: ResetAgentRequest) -> ResetAgentResponse:
        applied.append(request)
        return ResetAgentResponse(success=True, message=f"{len(request.env_ids)} reset")

    with CommandClient(ends[1], timeout=patience()) as client, Pumped(server):
        request = ResetAgentRequest("walker", contract, env_ids=np.array([0, 2]), seed=7)
        assert client.call(Agent.ResetAgent, request, timeout=patience()).message == "2 reset"
    assert applied == [request]


def test_many_threads_have_many_calls_in_flight(ends: tuple[Channel, Channel]) -> None:
    wrong: list[object] = []

    def work(client: CommandClient, thread: int) -> None:
        futures: list[tuple[bytes, Future[Bytes]]] = []
        for i in range(40):
            data = bytes([thread, i]) * (i + 1)
            futures.append((data, client.submit(Echo, Bytes(data), timeout=patience())))
        for data, future in futures:
            if future.result(patience()).data != data:
                wrong.append((thread, data))

    with (
        CommandClient(ends[1], timeout=patience()) as client,
        Pumped(CommandServer(ends[0], {Echo: echo})),
    ):
        threads = [threading.Thread(target=work, args=(client, n)) for n in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []
        assert client.stats.discarded == 0


def test_a_future_can_be_awaited(ends: tuple[Channel, Channel]) -> None:
    async def ask(client: CommandClient) -> list[bytes]:
        futures = [client.submit(Echo, Bytes(bytes([n]))) for n in range(10)]
        answers = await asyncio.gather(*map(asyncio.wrap_future, futures))
        return [answer.data for answer in answers]

    with (
        CommandClient(ends[1], timeout=patience()) as client,
        Pumped(CommandServer(ends[0], {Echo: echo})),
    ):
        assert asyncio.run(ask(client)) == [bytes([n]) for n in range(10)]


def test_pump_handles_as_many_as_it_is_told(ends: tuple[Channel, Channel]) -> None:
    server = CommandServer(ends[0], {Echo: echo})
    with CommandClient(ends[1], timeout=patience()) as client:
        futures = [client.submit(Echo, Bytes(bytes([n]))) for n in range(5)]
        assert server.pump(max=2, timeout=patience()) == 2
        assert server.pump(max=2, timeout=patience()) == 2
        assert server.pump() == 1
        assert [f.result(patience()).data for f in futures] == [bytes([n]) for n in range(5)]
        assert server.stats.requests == 5
    with pytest.raises(ValueError, match="1 or more"):
        server.pump(max=0)


def test_a_forgotten_client_takes_its_thread_with_it(ends: tuple[Channel, Channel]) -> None:
    before = set(threading.enumerate())
    client = CommandClient(ends[1], timeout=patience())
    client.submit(Echo, Bytes(b""))
    (its_thread,) = set(threading.enumerate()) - before
    del client
    gc.collect()
    until(lambda: not its_thread.is_alive())


def test_timeouts_of_any_size_are_taken(ends: tuple[Channel, Channel]) -> None:
    with (
        CommandClient(ends[1], timeout=1e300) as client,
        Pumped(CommandServer(ends[0], {Echo: echo})),
    ):
        assert client.call(Echo, Bytes(b"x")).data == b"x"
        assert client.call(Echo, Bytes(b"x"), timeout=1e12).data == b"x"
        with pytest.raises(ReplyTimeout):
            client.call(Echo, Bytes(b"x"), timeout=-1)
        with pytest.raises(ValueError, match="NaN"):
            client.stream(Telemetry.StreamTelemetry, timeout=float("nan"))


def test_an_entity_that_is_not_there_is_an_answer(ends: tuple[Channel, Channel]) -> None:
    def find(request: GetEntityRequest) -> GetEntityResponse:
        return GetEntityResponse()

    with (
        CommandClient(ends[1], timeout=patience()) as client,
        Pumped(CommandServer(ends[0], {Scene.GetEntity: find})),
    ):
        assert (
            client.call(Scene.GetEntity, GetEntityRequest(id=5), timeout=patience()).entity is None
        )
