"""The method that tests call when any will do."""

from __future__ import annotations

from lanekit.command import Bytes, Method

Echo = Method("Test.Echo", Bytes, Bytes)


def echo(request: Bytes) -> Bytes:
    return request
