"""Batches of records, and dense arrays made of them."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import lanekit
from lanekit import TrajectoryReader, TrajectoryWriter
from patience import patience

SMALL = {"tokens": "int32[:]", "score": "float32"}


def test_a_batch_of_tokens_ends_before_it_is_too_large(lane: str) -> None:
    with TrajectoryReader.create(lane, SMALL, producers=1) as reader:
        with TrajectoryWriter.attach(lane) as writer:
            for length in (5, 3, 4, 20, 1, 1):
                writer.put({"tokens": range(length), "score": length})
            lengths = []
            for _ in range(3):
                with reader.get_batch(tokens=10, timeout=patience()) as batch:
                    lengths.append(batch.lengths("tokens").tolist())
            with reader.get_batch(tokens=10, timeout=0.01) as batch:
                lengths.append(batch.lengths("tokens").tolist())
            assert lengths == [[5, 3], [4], [20], [1, 1]]
            assert len(reader.get_batch(1, timeout=0)) == 0


def test_a_batch_larger_than_the_lane_ends_where_the_lane_does(lane: str) -> None:
    with TrajectoryReader.create(lane, SMALL, producers=1, ring_bytes=4096) as reader:
        with TrajectoryWriter.attach(lane) as writer:

            def produce() -> None:
                for n in range(40):
                    writer.put({"tokens": [n] * 300, "score": n})

            thread = threading.Thread(target=produce)
            thread.start()
            scores: list[int] = []
            while len(scores) < 40:
                with reader.get_batch(1000 if len(scores) < 38 else 1) as batch:
                    assert len(batch) >= 1
                    scores += [int(record["score"]) for record in batch]
            thread.join()
            assert scores == list(range(40))


def test_padding_makes_dense_arrays(lane: str) -> None:
    schema = {"tokens": "int32[:]", "pairs": "float32[:,2]?", "score": "float32", "box": "int8[2]"}
    with TrajectoryReader.create(lane, schema, producers=1) as reader:
        with TrajectoryWriter.attach(lane) as writer:
            for length in (3, 0, 2):
                arrays: dict[str, Any] = {"tokens": range(length), "score": length, "box": [1, 2]}
                if length:
                    arrays["pairs"] = np.full((length, 2), length, np.float32)
                writer.put(arrays)
            with reader.get_batch(3, timeout=patience()) as batch:
                tokens = batch.padded("tokens", pad=-100)
                assert tokens.tolist() == [[0, 1, 2], [-100] * 3, [0, 1, -100]]
                assert batch.mask("tokens").tolist() == [
                    [True] * 3,
                    [False] * 3,
                    [True, True, False],
                ]
                pairs = batch.padded("pairs", length=4)
                assert pairs.shape == (3, 4, 2)
                assert pairs[0, :3].tolist() == [[3, 3]] * 3
                assert not pairs[1].any()
                assert batch.padded("score").tolist() == [3, 0, 2]
                assert batch.padded("box").tolist() == [[1, 2]] * 3
                out = np.empty((3, 5), np.int32)
                assert batch.padded("tokens", length=5, out=out) is out
                assert out[2].tolist() == [0, 1, 0, 0, 0]
                with pytest.raises(ValueError, match="more than the length 2"):
                    batch.padded("tokens", length=2)
                with pytest.raises(ValueError, match="shape"):
                    batch.padded("tokens", out=out)
                with pytest.raises(TypeError, match="dtype"):
                    batch.padded("tokens", length=5, out=out.astype(np.int64))
                with pytest.raises(ValueError, match="contiguous"):
                    batch.padded("tokens", length=5, out=np.empty((5, 3), np.int32).T)
                with pytest.raises(TypeError, match="tensor"):
                    batch.padded("tokens", length=5, out=[[0] * 5] * 3)
                with pytest.raises(KeyError):
                    batch.padded("nothing")
            with pytest.raises(lanekit.HandleClosed):
                batch.padded("tokens")


def test_padding_writes_into_a_tensor_of_torch(lane: str) -> None:
    torch = pytest.importorskip("torch")
    with TrajectoryReader.create(lane, SMALL, producers=1) as reader:
        with TrajectoryWriter.attach(lane) as writer:
            writer.put({"tokens": torch.tensor([1, 2], dtype=torch.int32), "score": 1.0})
            with reader.get_batch(1, timeout=patience()) as batch:
                out = torch.empty((1, 4), dtype=torch.int32)
                batch.padded("tokens", length=4, out=out)
                assert out.tolist() == [[1, 2, 0, 0]]
                assert torch.from_numpy(batch.padded("tokens")).tolist() == [[1, 2]]


@pytest.mark.parametrize("options", [{}, {"n": 1, "tokens": 1}, {"n": 0}, {"tokens": -1}])
def test_a_batch_needs_one_size(lane: str, options: dict[str, int]) -> None:
    with TrajectoryReader.create(lane, SMALL, producers=1) as reader:
        with pytest.raises(ValueError, match="batch"):
            reader.get_batch(**options)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="no ragged field"):
            reader.get_batch(tokens=5, field="score")


@pytest.mark.parametrize("options", [{"n": 1.5}, {"n": "2"}, {"tokens": 3.0}])
def test_a_batch_has_a_whole_number_of_something(lane: str, options: dict[str, Any]) -> None:
    with TrajectoryReader.create(lane, SMALL) as reader:
        with pytest.raises(TypeError, match="a whole number of records or tokens"):
            reader.get_batch(**options, timeout=0)


@pytest.mark.parametrize(
    ("pad", "error", "says"),
    [
        (1.5, ValueError, "1.5 does not fit into int32"),
        (2**40, ValueError, "does not fit into int32"),
        (float("nan"), ValueError, "does not fit into int32"),
        ("x", TypeError, "pad is a number, not 'x'"),
        ([1, 2], TypeError, r"pad is a number, not \[1, 2\]"),
    ],
)
def test_padding_that_the_field_can_not_hold_is_refused(
    lane: str, pad: Any, error: type[Exception], says: str
) -> None:
    with TrajectoryReader.create(lane, SMALL) as reader, TrajectoryWriter.attach(lane) as writer:
        for rows in (0, 3):
            writer.put({"tokens": np.zeros(rows, np.int32), "score": 1.0})
        with reader.get_batch(2) as batch:
            with pytest.raises(error, match=says):
                batch.padded("tokens", pad=pad)
            assert batch.padded("tokens", pad=-100.0, length=4)[0].tolist() == [-100] * 4
