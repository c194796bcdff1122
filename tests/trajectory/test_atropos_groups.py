"""Atropos' scored-data groups: the codec, the batching rules, the ways in."""

from __future__ import annotations

import asyncio
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lanekit
from lanekit import TrajectoryReader, TrajectoryWriter
from lanekit.trajectory.atropos import ATROPOS_SCHEMA, ScoredGroup, decode_group, encode_group
from lanekit.trajectory.atropos_batches import EnvironmentRules, ScoredDataBatches, choose
from lanekit.trajectory.atropos_transport import ScoredDataGateway, ScoredDataSender
from patience import patience


def full_group(**changes: Any) -> dict[str, Any]:
    """A group with everything that Atropos knows, and more."""
    group: dict[str, Any] = {
        "tokens": [[1, 2, 3], [4, 5]],
        "masks": [[-100, 2, 3], [-100, 5]],
        "scores": [1.0, -0.1],
        "advantages": [[0.1, 0.2, 0.3], [0.4, 0.5]],
        "ref_logprobs": [[-0.5, -0.25, -1.0], [-2.0, 0.0]],
        "inference_logprobs": [[1.0, -0.125, -0.5], [1.0, -3.0]],
        "generation_params": {"temperature": 0.7, "stop": None},
        "messages": [
            [
                {"role": "user", "content": "ä?"},
                {"role": "assistant", "content": "1", "reward": 0.5},
            ],
            [{"role": "user", "content": [{"type": "text", "text": "x"}]}],
        ],
        "overrides": [{"set_advantage_to_zero": True}, {}],
        "group_overrides": {"length": 2},
        "images": ["aGVsbG8=", None],
        "env_id": 3,
        "task_id": "math/17",
        "thinking_traces": ["first …\n", "second"],
        "process_rewards": [[0.1, 0.9], []],
        "distill_token_ids": [[[1, 2], [3]], [[]]],
    }
    return {**group, **changes}


@pytest.fixture
def reader(lane: str) -> Iterator[TrajectoryReader]:
    with TrajectoryReader.create(lane, ATROPOS_SCHEMA, producers=4, ring_bytes=1 << 18) as made:
        yield made


def pass_through(lane: str, reader: TrajectoryReader, group: dict[str, Any]) -> dict[str, Any]:
    with TrajectoryWriter.attach(lane, schema=ATROPOS_SCHEMA) as writer:
        writer.put(*encode_group(group))
        record = reader.get(timeout=patience())
        assert record is not None
        return decode_group(record)


# --- the codec ------------------------------------------------------------------------------------


def test_a_group_with_everything_comes_back_equal(lane: str, reader: TrajectoryReader) -> None:
    assert pass_through(lane, reader, full_group()) == full_group()


@pytest.mark.parametrize(
    "changes",
    [
        {"advantages": None, "messages": None, "images": None, "env_id": None},
        {"tokens": [], "masks": [], "scores": []},
        {"tokens": [[], []], "masks": [[], []]},
        {"tokens": [[2**31 - 1, -(2**31)], [0]]},
        {"tokens": [[2**31], [0]]},  # beyond 32 bits
        {"tokens": [[2**80], [0]]},  # beyond everything
        {"masks": [[True, False, True], [1, 0]]},
        {"masks": [[1], [2, 3, 4]]},  # of other lengths than the tokens
        {"advantages": [[0.1, 1e300], [float("inf"), 5e-324]]},
        {"advantages": [[1, 2], [3.5]]},
        {"advantages": [[None, 1.0], []]},
        {"advantages": [0.5, 0.25]},
        {"scores": [1, 2]},
        {"scores": [2**60 + 1, 0.5]},
        {"scores": [[0.5], [0.25]]},
        {"scores": None},
        {"images": [b"\x89PNG\0\xff", {"deep": [b""]}]},
        {"env_id": "named"},
        {"env_id": 2**70},
        {"\udcff": "a lone surrogate \udc80"},
    ],
)
def test_whatever_a_group_holds_comes_back_equal(
    lane: str, reader: TrajectoryReader, changes: dict[str, Any]
) -> None:
    assert pass_through(lane, reader, full_group(**changes)) == full_group(**changes)


def test_a_minimal_group_needs_nothing_else(lane: str, reader: TrajectoryReader) -> None:
    group = {"tokens": [[7]], "masks": [[7]], "scores": [0.5]}
    assert pass_through(lane, reader, group) == group


def test_arrays_are_taken_and_pictures_stay_arrays(lane: str, reader: TrajectoryReader) -> None:
    picture = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
    group = full_group(
        tokens=[np.array([1, 2, 3]), np.array([4, 5])],
        inference_logprobs=[np.array([0.1, 0.2], np.float32), np.array([], np.float32)],
        scores=np.array([0.1, 0.2]),
        images=[picture, np.float32(0.5)],
    )
    found = pass_through(lane, reader, group)
    assert found["tokens"] == [[1, 2, 3], [4, 5]]
    assert found["inference_logprobs"] == [[float(np.float32(0.1)), float(np.float32(0.2))], []]
    assert found["scores"] == [0.1, 0.2]
    assert found["images"][0].dtype == np.uint8
    assert (found["images"][0] == picture).all()
    assert found["images"][1] == 0.5


def test_log_probabilities_of_32_bits_take_32_bits() -> None:
    exact, _ = encode_group(full_group())
    assert exact["ref_logprobs"].dtype == np.float32
    assert exact["advantages_wide"].dtype == np.float64  # 0.1 is not a 32-bit number
    assert "advantages" not in exact


def test_what_no_group_can_hold_is_refused() -> None:
    with pytest.raises(TypeError, match="mapping"):
        encode_group([1])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="not object"):
        encode_group(full_group(images=object()))


numbers = st.one_of(st.integers(-(2**40), 2**40), st.floats(allow_nan=False))
texts = st.text(st.characters(exclude_characters="\0"), max_size=6)
jsons = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, texts, st.binary(max_size=6)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=8,
)
groups = st.fixed_dictionaries(
    {},
    optional={
        "tokens": st.lists(st.lists(st.integers(-(2**33), 2**33), max_size=4), max_size=3),
        "masks": st.lists(st.lists(st.integers(-5, 5), max_size=4), max_size=3),
        "scores": st.lists(numbers, max_size=3),
        "advantages": st.one_of(st.none(), st.lists(st.lists(numbers, max_size=4), max_size=3)),
        "ref_logprobs": st.lists(st.lists(st.floats(width=32, allow_nan=False)), max_size=3),
        "messages": jsons,
        "images": jsons,
        "env_id": st.one_of(st.none(), st.integers()),
        "else": jsons,
    },
)


@settings(max_examples=200, deadline=None)
@given(groups)
def test_any_group_comes_back_equal(group: dict[str, Any]) -> None:
    arrays, rest = encode_group(group)
    assert ScoredGroup(arrays, rest).to_dict() == group


# --- batches --------------------------------------------------------------------------------------


def group_of(size: int, env: int | None, mark: int) -> dict[str, Any]:
    return {
        "tokens": [[mark]] * size,
        "masks": [[mark]] * size,
        "scores": [float(mark)] * size,
        "env_id": env,
    }


def marks(batch: list[ScoredGroup] | None) -> list[int] | None:
    return None if batch is None else [int(group.scores[0]) for group in batch]


def test_a_batch_has_whole_groups_and_exactly_its_size(lane: str, reader: TrajectoryReader) -> None:
    batches = ScoredDataBatches(reader, batch_size=8)
    with ScoredDataSender(lane) as sender:
        assert sender.local
        for mark, size in enumerate([4, 2, 4, 1, 1, 4, 8, 3]):
            sender.post(group_of(size, None, mark))
        assert marks(batches.next_batch(timeout=patience())) == [0, 1, 3, 4]  # 4 + 2 + 1 + 1
        assert marks(batches.next_batch(timeout=patience())) == [2, 5]
        assert marks(batches.next_batch(timeout=patience())) == [6]
        assert batches.next_batch(timeout=0.01) is None
        assert batches.queued == 3


def test_groups_of_another_size_wait_for_company(lane: str, reader: TrajectoryReader) -> None:
    rules = {0: EnvironmentRules(group_size=4)}
    batches = ScoredDataBatches(reader, 4, rules)
    with ScoredDataSender(lane) as sender:
        sender.post([group_of(3, 0, 1), group_of(2, 0, 2)])
        assert batches.next_batch(timeout=0.01) is None
        assert (batches.queued, batches.buffered) == (0, 5)
        sender.post([group_of(4, 0, 3), group_of(1, 0, 4)])
        assert marks(batches.next_batch(timeout=patience())) == [3]
        assert marks(batches.next_batch(timeout=patience())) == [1, 4]
        assert batches.buffered == 2


def test_a_minimum_allocation_is_kept_or_there_is_no_batch(
    lane: str, reader: TrajectoryReader
) -> None:
    rules = {
        0: EnvironmentRules(group_size=2, min_batch_allocation=0.5),
        1: EnvironmentRules(group_size=2),
    }
    batches = ScoredDataBatches(reader, 8, rules)
    with ScoredDataSender(lane) as sender:
        for mark in range(6):
            sender.post(group_of(2, 1, mark))
        assert batches.next_batch(timeout=0.01) is None
        for mark in (10, 11, 12):
            sender.post(group_of(2, 0, mark))
        assert marks(batches.next_batch(timeout=patience())) == [0, 1, 10, 11]
        assert batches.next_batch(timeout=0.01) is None  # one of four is not half


def test_weights_share_the_work_and_starve_nobody(reader: TrajectoryReader) -> None:
    rules = {
        0: EnvironmentRules(weight=3.0, max_token_length=1000),
        1: EnvironmentRules(weight=1.0, max_token_length=1000),
        2: EnvironmentRules(weight=0.0, max_token_length=1000),
    }
    batches = ScoredDataBatches(reader, 8, rules)
    assert [batches.share(env) for env in rules] == [0.75, 0.25, 0.01]
    with pytest.raises(ValueError, match="share"):
        EnvironmentRules(min_batch_allocation=2.0)
    with pytest.raises(ValueError, match="group"):
        EnvironmentRules(group_size=0)


def test_a_batch_larger_than_the_lane_is_formed_all_the_same(lane: str) -> None:
    with TrajectoryReader.create(lane, ATROPOS_SCHEMA, producers=1, ring_bytes=8192) as reader:
        batches = ScoredDataBatches(reader, 200)
        sent = [group_of(4, None, mark) for mark in range(100)]

        def produce() -> None:
            with ScoredDataSender(lane) as sender:
                sender.post(sent)

        thread = threading.Thread(target=produce)
        thread.start()
        for half in (0, 50):
            batch = batches.next_batch(timeout=patience(120))
            assert batch is not None
            assert [group.to_dict() for group in batch] == sent[half : half + 50]
        thread.join()


@given(st.lists(st.integers(0, 9), max_size=10), st.integers(0, 30))
def test_a_choice_is_exact_and_found_if_there_is_one(sizes: list[int], target: int) -> None:
    sums = {0}
    for size in sizes:
        sums |= {s + size for s in sums}
    found = choose(sizes, target)
    assert (found is not None) == (target in sums)
    if found is not None:
        assert sum(sizes[i] for i in found) == target
        assert found == sorted(set(found))


# --- the ways in ----------------------------------------------------------------------------------


def test_a_remote_environment_posts_by_http_and_arrives_in_the_lane(
    lane: str, reader: TrajectoryReader
) -> None:
    with ScoredDataGateway(lane) as gateway:
        with ScoredDataSender("a-lane-of-another-machine", fallback=gateway.url) as sender:
            assert not sender.local
            sender.post(full_group())
            sender.post([full_group(env_id=4), full_group(env_id=5)])
        found = [decode_group(record) for record in reader.get_batch(3, timeout=patience())]
        assert found == [full_group(), full_group(env_id=4), full_group(env_id=5)]


def post(url: str, body: bytes) -> tuple[int, dict[str, Any]]:
    try:
        with urllib.request.urlopen(
            urllib.request.Request(url, body), timeout=patience()
        ) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


def test_the_gateway_answers_as_the_api_does(lane: str, reader: TrajectoryReader) -> None:
    with ScoredDataGateway(lane, timeout=0.05) as gateway:
        group = json.dumps(full_group()).encode()
        assert post(f"{gateway.url}/scored_data", group) == (200, {"status": "received"})
        many = post(f"{gateway.url}/scored_data_list", b"[" + group + b"," + group + b"]")
        assert many == (200, {"status": "received", "groups_processed": 2})
        assert post(f"{gateway.url}/scored_data", b"[1]")[0] == 422
        assert post(f"{gateway.url}/scored_data", b"{")[0] == 422
        assert post(f"{gateway.url}/scored_data_list", b"{}")[0] == 422
        assert post(f"{gateway.url}/elsewhere", b"{}")[0] == 404
        large = json.dumps(full_group(messages="x" * (1 << 18))).encode()
        code, says = post(f"{gateway.url}/scored_data", large)
        assert code == 422
        assert "limit" in says["error"]
        while (answer := post(f"{gateway.url}/scored_data", group))[0] == 200:
            pass
        assert answer == (503, {"error": "the lane is full; try again"})
        with pytest.raises(lanekit.LanekitError, match="503"):
            ScoredDataSender("nowhere", fallback=gateway.url).post(full_group())


def test_without_lane_and_api_the_sender_says_so(lane: str) -> None:
    with pytest.raises(lanekit.SegmentNotFound):
        ScoredDataSender(lane)
    sender = ScoredDataSender(lane, fallback="http://127.0.0.1:9")
    with pytest.raises(lanekit.PeerLost, match="does not answer"):
        sender.post(full_group())


def test_a_full_lane_is_said_at_the_timeout(lane: str) -> None:
    with TrajectoryReader.create(lane, ATROPOS_SCHEMA, producers=1, ring_bytes=8192):
        with ScoredDataSender(lane) as sender:
            with pytest.raises(lanekit.WaitTimeout, match=r"of 100 groups were put"):
                sender.post([full_group()] * 100, timeout=0.01)


class Environment:
    """What an Atropos environment has, as far as sending goes."""

    env_id = 9

    async def _send_scored_data_to_api(self, scored_data: Any) -> None:
        raise AssertionError("this would be an HTTP request")


def test_an_environment_sends_through_the_lane(lane: str, reader: TrajectoryReader) -> None:
    environment = Environment()
    with ScoredDataSender(lane) as sender:
        sender.serve(environment)
        group = full_group()
        del group["env_id"]
        asyncio.run(environment._send_scored_data_to_api(group))
        asyncio.run(environment._send_scored_data_to_api([full_group(), full_group()]))
        with pytest.raises(TypeError, match="no Atropos environment"):
            sender.serve(object())
    found = [decode_group(record)["env_id"] for record in reader.get_batch(3, timeout=patience())]
    assert found == [9, 3, 3]
