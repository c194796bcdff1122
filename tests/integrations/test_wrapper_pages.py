"""What the page about the wrappers says is run, not believed."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from lane_serving import Command, check_nothing_left

from lanekit import StepServer
from lanekit.integrations import LaneVectorEnv
from patience import patience

DOCS = Path(__file__).resolve().parents[2] / "docs"


def examples(page: str = "integrations.md", language: str = "python") -> list[str]:
    text = (DOCS / page).read_text("utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("code", examples())
def test_the_examples_run_as_written(code: str) -> None:
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=patience(), check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not list(Path("/dev/shm").glob("lanekit-frame-my-run-*"))


def test_the_page_about_the_step_lane_runs_as_written(run_id: str) -> None:
    page = "step-lane-gymnasium.md"
    line = re.search(r"^\$ lanekit serve (.*)$", (DOCS / page).read_text("utf-8"), re.MULTILINE)
    assert line is not None
    with Command(*line[1].replace("my-envs", run_id).split()) as server:
        for code in examples(page):
            code = code.replace("my-envs", run_id).replace("my-pendulums", f"{run_id}/pendulums")
            command = [sys.executable, "-W", "error", "-c", code]
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=patience(), check=False
            )
            assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        assert server.end() == 0
    check_nothing_left(run_id)


def test_an_engine_can_describe_itself_as_the_page_says(run_id: str) -> None:
    (text,) = examples("step-lane-gymnasium.md", "json")
    with StepServer.create(
        run_id, 2, 3, 1, act_dtype="<i8", description=text, infos=("energy",)
    ) as engine:
        envs = LaneVectorEnv(run_id)
        assert isinstance(envs.single_observation_space, gymnasium.spaces.Box)
        assert envs.single_observation_space.low.tolist() == [-np.inf, -1, 0]
        assert envs.single_action_space == gymnasium.spaces.Discrete(4)
        assert envs.metadata == {"render_fps": 50, "autoreset_mode": envs.autoreset_mode}

        def serve() -> None:
            for _ in range(2):
                assert engine.wait_actions(patience()) is not None
                engine.obs[:] = engine.actions
                engine.infos["energy"][:] = 0.5
                engine.commit()

        thread = threading.Thread(target=serve)
        thread.start()
        envs.reset(seed=1)
        observations, rewards, *_, infos = envs.step(np.array([3, 1]))
        thread.join()
        assert observations.tolist() == [[3, 3, 3], [1, 1, 1]]
        assert rewards.dtype == np.float32, "as the engine has them"
        assert infos["energy"].tolist() == [0.5, 0.5]
        assert infos["_energy"].all()
        envs.close()
