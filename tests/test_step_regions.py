"""Where everything of a step lane lies, read with nothing but what docs/layout.md says."""

from __future__ import annotations

import os
import re
import struct
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lanekit import StepClient, StepGpu, StepLaneConfig, StepServer, segment_name
from lanekit.segments import segment_path
from patience import patience


class HeaderFromThePage:
    """Reads a step segment with nothing but the offsets that docs/layout.md lists."""

    def __init__(self, name: str) -> None:
        root = Path(__file__).resolve().parent.parent
        page = (root / "docs" / "layout.md").read_text(encoding="utf-8")
        sections = re.split(r"^## ", page, flags=re.MULTILINE)
        section = next(each for each in sections if each.startswith("Step lane"))
        row = re.compile(r"^\| (\d+) \| (\d+|\d+ × \d+) \| `(\w+)`", re.MULTILINE)
        self.fields = {field: (int(at), size) for at, size, field in row.findall(section)}
        self.data = segment_path(segment_name("step", name)).read_bytes()

    def __getitem__(self, field: str) -> int:
        offset, size = self.fields[field]
        return int.from_bytes(self.data[offset : offset + int(size)], "little")

    def bytes_of(self, field: str) -> bytes:
        offset, size = self.fields[field]
        return self.data[offset : offset + int(size)]

    def array(self, field: str, dtype: npt.DTypeLike, shape: tuple[int, ...]) -> npt.NDArray[Any]:
        count = int(np.prod(shape))
        return np.frombuffer(self.data, dtype, count, self[field]).reshape(shape)


def test_the_offsets_in_the_file_are_those_of_the_page(lane: str) -> None:
    config = StepLaneConfig(
        *(5, 3, 2),
        mode="inference",
        obs_dtype=np.float64,
        act_dtype=np.int64,
        reward_dtype=np.float64,
        image=(4, 6, 3),
        final_obs=True,
        infos=("speed", "height"),
        description="what it is",
        pipelined=True,
        command_ring=8192,
        gpu=StepGpu("cuda-ipc", bytes(range(64)), 3),
    )
    with StepServer.create(lane, config) as server, StepClient.attach(lane) as client:
        for n in range(2):
            half = client.actions[client.next_envs]
            half[:] = np.arange(half.size).reshape(half.shape) + 100 * (n + 1)
            client.resets[n], client.seeds[n] = 2, 77 + n
            client.send()
        first = server.wait_actions(patience())
        assert first is not None
        server.obs[:] = np.arange(15).reshape(5, 3)
        assert server.final_obs is not None
        assert server.images is not None
        server.final_obs[:] = -server.obs
        server.images[:] = np.arange(360, dtype=np.uint16).reshape(5, 4, 6, 3).astype(np.uint8)
        server.rewards[:] = [1, 2, 3, 4, 5]
        server.dones[:], server.truncateds[:] = [1, 0, 1, 0, 1], [0, 1, 0, 1, 0]
        server.infos["height"][:] = [9, 8, 7, 6, 5]
        server.commit()

        found = HeaderFromThePage(lane)
        assert struct.unpack_from("<IHHI", found.data) == (0x4C524243, 2, 0, 4096)
        expected = {
            "mode": 1,
            "halves": 2,
            "gpu_available": 1,
            "gpu_obs_mode": 1,
            "gpu_device_id": 3,
            "num_envs": 5,
            "obs_size": 3,
            "act_size": 2,
            "obs_item_size": 8,
            "act_item_size": 8,
            "image_width": 6,
            "image_height": 4,
            "image_channels": 3,
            "reward_size": 8,
            "info_count": 2,
            "description_size": 10,
            "cmd_ring_size": 8192,
            "action_seq": 2,
            "frame_seq": 1,
            "failure_size": 0,
        }
        assert {field: found[field] for field in expected} == expected
        assert found.bytes_of("obs_dtype") == b"<f8\0\0\0\0\0"
        assert found.bytes_of("act_dtype") == b"<i8\0\0\0\0\0"
        assert found.bytes_of("gpu_obs_handle") == bytes(range(64))
        assert found["client"] >> 32 == os.getpid()
        assert np.array_equal(found.array("obs_offset", "<f8", (5, 3)), server.obs)
        assert np.array_equal(found.array("final_obs_offset", "<f8", (5, 3)), -server.obs)
        actions = found.array("act_offset", "<i8", (5, 2))
        assert actions.ravel().tolist() == [100, 101, 102, 103, 104, 105, 200, 201, 202, 203]
        assert found.array("rewards_offset", "<f8", (5,)).tolist() == [1, 2, 3, 4, 5]
        assert found.array("dones_offset", "u1", (5,)).tolist() == [1, 0, 1, 0, 1]
        assert found.array("truncateds_offset", "u1", (5,)).tolist() == [0, 1, 0, 1, 0]
        assert found.array("resets_offset", "u1", (5,)).tolist() == [0, 0, 0, 0, 0]  # committed
        assert found.array("seeds_offset", "<u8", (5,)).tolist() == [77, 78, 0, 0, 0]
        assert found.array("infos_offset", "<f8", (2, 5))[1].tolist() == [9, 8, 7, 6, 5]
        names = found.array("info_names_offset", "S64", (2,)).tolist()
        assert names == [b"speed", b"height"]
        assert found.array("description_offset", "S10", (1,)).tolist() == [b"what it is"]
        images = found.array("image_offset", "u1", (5, 4, 6, 3))
        assert np.array_equal(images, server.images)
        assert len(found.data) == found["image_offset"] + -(-360 // 64) * 64
        regions = [field for field in found.fields if field.endswith("_offset")]
        assert len(regions) == 14
        assert all(found[field] % 64 == 0 and found[field] >= 4096 for field in regions)
        ring = 128 + 8192
        assert found["cmd_c2s_offset"] == found["cmd_s2c_offset"] + ring
        assert found["image_offset"] == found["cmd_c2s_offset"] + ring


def test_what_a_lane_leaves_out_has_offset_0_and_takes_no_room(lane: str) -> None:
    config = StepLaneConfig(3, 2, 1, command_ring=0)
    with StepServer.create(lane, config) as server:
        found = HeaderFromThePage(lane)
        for field in ("final_obs", "infos", "info_names", "description", "cmd_s2c", "image"):
            assert found[f"{field}_offset"] == 0, field
        assert len(found.data) == config.size == 4096 + 6 * 64 + 64
        assert (server.images, server.final_obs, dict(server.infos)) == (None, None, {})


def test_both_ends_see_the_shared_memory_itself(lane: str) -> None:
    config = StepLaneConfig(7, 5, 3, image=(4, 4, 3), final_obs=True, infos=("speed",))
    with StepServer.create(lane, config) as server, StepClient.attach(lane) as client:
        found = HeaderFromThePage(lane)
        offsets = {"obs": "obs", "actions": "act", "images": "image"}
        for end in (server, client):
            for region, offset in end.offsets.items():
                array = end.infos["speed"] if region == "infos" else getattr(end, region)
                assert offset == found[f"{offsets.get(region, region)}_offset"], region
                assert array.ctypes.data == end.base + offset, region
            path = str(segment_path(server.segment))
            mappings = Path("/proc/self/maps").read_text().splitlines()
            begins = [int(line.split("-")[0], 16) for line in mappings if path in line]
            assert end.base in begins, "the arrays lie in no mapping of the segment"
        assert server.base != client.base  # two mappings of one memory
        server.obs[6, 4] = 42
        assert client.obs[6, 4] == 42
        client.actions[:] = 5
        result = client.send()
        asked = server.wait_actions(patience())
        assert asked is not None
        assert (server.actions == 5).all()
        server.commit()
        came = client.recv(patience())
        assert came.obs.ctypes.data == client.base + client.offsets["obs"]
        assert result.number == asked.number == 1


def test_views_outlive_the_handles_and_the_segment(lane: str) -> None:
    with StepServer.create(lane, 4, 2, 1) as server, StepClient.attach(lane) as client:
        theirs, ours = server.obs, client.obs
        theirs[:] = 3
    del server, client
    assert (ours == 3).all()
    ours[:] = 4
    assert (theirs == 4).all()
