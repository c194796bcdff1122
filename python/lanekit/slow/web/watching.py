"""Live pictures: a run's newest frame, each time the browser has drawn the one before.

A message with a frame is binary: the length of a JSON object in four bytes, lowest first, the
object, and then the picture. Without a new frame the object comes alone, as text.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import msgspec

from lanekit.fast.frame import FastLaneMetrics
from lanekit.slow.daemon.access import Caller, words_for
from lanekit.slow.daemon.frames.tap import FrameTap, FrameWatch
from lanekit.slow.watched_frames import DEFAULT_RATE, Encoding, FrameUpdate, Recipe
from lanekit.slow.web.paced_socket import MISBEHAVED, PacedSocket, Refused

_LENGTH = struct.Struct("<I")


class WatchedRun:
    """One page's picture of one run."""

    def __init__(self, tap: FrameTap, run_id: str, lane: str, caller: Caller) -> None:
        self._tap = tap
        self._run_id = run_id
        self._lane = lane
        self._caller = caller
        self._rate = DEFAULT_RATE
        self._recipe = Recipe()
        self._watch: FrameWatch | None = None

    def wish(self, wishes: Mapping[str, Any]) -> None:
        """Take over what the page asks for: rate, width, height, encoding; the rest stays."""
        try:
            self._rate = _number(wishes, "rate", self._rate)
            self._recipe = replace(
                self._recipe,
                max_width=int(_number(wishes, "width", self._recipe.max_width)),
                max_height=int(_number(wishes, "height", self._recipe.max_height)),
                encoding=cast(Encoding, str(wishes.get("encoding", self._recipe.encoding))),
            )
            if self._watch is not None:
                self._watch.change(rate=self._rate, recipe=self._recipe)
        except ValueError as error:
            raise Refused(MISBEHAVED, str(error)) from error

    async def watch(self, socket: PacedSocket) -> None:
        """Send frames until the watch ends. The lane is read from here on, and no longer."""
        with self._tap.watch(
            self._run_id, self._lane, rate=self._rate, recipe=self._recipe
        ) as watch:
            self._watch = watch
            while True:
                # First room, then the frame: one that waited for room would be old.
                await socket.room()
                update = await anext(watch, None)
                if update is None:
                    return
                update = replace(update, problem=words_for(self._caller, update.problem))
                if update.frame is None:
                    await socket.send(_head(update))
                else:
                    await socket.send_bytes(_packed(update))


def _number(wishes: Mapping[str, Any], name: str, usual: float) -> float:
    value = wishes.get(name, usual)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{name} is a number, not {value!r}")
    return min(float(value), 100_000.0)


def _packed(update: FrameUpdate) -> bytes:
    assert update.frame is not None
    head = msgspec.json.encode(_head(update))
    return b"".join((_LENGTH.pack(len(head)), head, update.frame.picture.data))


def _head(update: FrameUpdate) -> dict[str, Any]:
    head: dict[str, Any] = {
        "status": update.status,
        "problem": update.problem,
        "metrics": _metrics(update.metrics),
    }
    if (frame := update.frame) is not None:
        picture = frame.picture
        head |= {
            "metrics": _metrics(frame.metrics),
            "seq": frame.seq,
            "skipped": frame.skipped,
            "published": frame.published_unix_ns // 1_000_000,
            "sourceWidth": frame.source_width,
            "sourceHeight": frame.source_height,
            "width": picture.width,
            "height": picture.height,
            "encoding": picture.encoding,
        }
    return head


def _metrics(metrics: FastLaneMetrics | None) -> dict[str, float] | None:
    if metrics is None:
        return None
    return {
        "reward": metrics.last_reward,
        "return": metrics.rolling_return,
        "rate": metrics.step_rate_hz,
    }
