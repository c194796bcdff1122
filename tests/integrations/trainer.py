"""Training processes for the tests: ``python trainer.py ROLE RUN_ID ...`` (see :class:`Training`).

Each steps its environment with actions drawn from a known seed until its standard input ends, so
that a test can compute which picture belongs to which step.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import gymnasium
import numpy as np
import worlds

import lanekit
from lanekit.integrations import (
    FastLaneTelemetryWrapper,
    FastLaneVectorWrapper,
    FrameNote,
    wrap_env_fns,
)

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # it is run by itself, too

from patience import Watchdog, patience

SEED = 7
PAUSE = 0.002


# --- for the tests --------------------------------------------------------------------------------


class Training:
    """A training process. It ends with the block, and says then what it has seen."""

    def __init__(self, role: Callable[..., Any], run_id: str, *arguments: object) -> None:
        self.run_id = run_id
        self.process = subprocess.Popen(
            [sys.executable, __file__, role.__name__, run_id, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONFAULTHANDLER": "1"},
        )
        self.result: Any = None

    def reader(self, run_id: str | None = None) -> lanekit.FastLaneReader:
        try:
            return lanekit.FastLaneReader.attach(run_id or self.run_id, timeout=patience())
        except lanekit.LanekitError:
            self.process.kill()
            raise AssertionError(self.process.communicate()) from None

    def end(self) -> Any:
        out, self.errors = self.process.communicate(timeout=patience())
        assert self.process.returncode == 0, f"{self.process.returncode}: {out}{self.errors}"
        self.result = json.loads(out.splitlines()[-1])
        return self.result

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None and self.process.poll() is None:
            self.end()
        self.process.kill()
        self.process.communicate()


def frames(
    reader: lanekit.FastLaneReader, count: int
) -> Iterator[tuple[lanekit.FastLaneFrame, FrameNote]]:
    """Give so many frames with their notes; fail if they do not come."""
    seen = 0
    watchdog = Watchdog(f"{count} frames")
    while seen < count:
        watchdog.check()
        if not reader.wait(0.2):
            continue
        frame = reader.latest_frame(fresh=True)
        if frame is None:
            continue
        note = FrameNote.decode(frame.metadata)
        assert note is not None
        seen += 1
        yield frame, note


def rgb(frame: lanekit.FastLaneFrame) -> np.ndarray:
    """The frame's pixels as render() returns them."""
    return frame.array[..., 2::-1] if frame.pixel_format == "BGRX" else frame.array[..., :3]


class Replay:
    """The same training again, in the test's process: what a step must look like."""

    def __init__(self, env_id: str, **options: Any) -> None:
        self.env = gymnasium.make(env_id, render_mode="rgb_array", **options)
        self._steps = steps_of(self.env)
        self._step = 0

    def picture_at(self, step: int) -> Any:
        while self._step < step:
            next(self._steps)
            self._step += 1
        return self.env.render()


def steps_of(env: Any, seed: int = SEED) -> Iterator[int]:
    """Step an environment for ever, with known actions; give the number of steps taken."""
    env.reset(seed=seed)
    env.action_space.seed(seed)
    taken = 0
    while True:
        _, _, terminated, truncated, _ = env.step(env.action_space.sample())
        taken += 1
        yield taken
        if terminated or truncated:
            env.reset()


# --- roles ----------------------------------------------------------------------------------------


def told_to_end() -> bool:
    return bool(select.select([sys.stdin], [], [], 0)[0])


@contextmanager
def warnings_kept() -> Iterator[list[str]]:
    said: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield said
    said += [str(w.message) for w in caught if "lanekit" in str(w.message)]


def run(env: Any, pause: float = PAUSE) -> dict[str, Any]:
    taken = 0
    with warnings_kept() as said:
        for taken in steps_of(env):  # noqa: B007
            time.sleep(pause)
            if told_to_end():
                break
        publisher = env.publisher
        rendering = publisher.rendering
        env.close()
        env.close()
    return {"steps": taken, "rendering": rendering, "warnings": said}


def train(run_id: str, env_id: str, options: str = "{}", make: str = "{}") -> dict[str, Any]:
    """Step one environment."""
    env = gymnasium.make(env_id, **{"render_mode": "rgb_array", **json.loads(make)})
    return run(FastLaneTelemetryWrapper(env, run_id, **json.loads(options)))


def train_and_forget(run_id: str, env_id: str, options: str = "{}") -> dict[str, Any]:
    """Step one environment and leave without closing it."""
    env = gymnasium.make(env_id, render_mode="rgb_array")
    wrapped = FastLaneTelemetryWrapper(env, run_id, **json.loads(options))
    for _ in steps_of(wrapped):
        time.sleep(PAUSE)
        if told_to_end():
            break
    return {}


def vector(run_id: str, kind: str, context: str, options: str = "{}") -> dict[str, Any]:
    """Step four Counters of different tints together."""
    settings = json.loads(options)
    makers = [
        lambda tint=tint: gymnasium.make("Counter-v0", tint=tint) for tint in (10, 20, 30, 40)
    ]
    if kind == "sync":
        envs: Any = FastLaneVectorWrapper(
            gymnasium.vector.SyncVectorEnv(makers), run_id, **settings
        )
    else:
        makers = [RegisteredFirst(maker) for maker in makers]
        wrapped = wrap_env_fns(makers, run_id, **settings)
        envs = gymnasium.vector.AsyncVectorEnv(wrapped, context=context)
    envs.reset(seed=SEED)
    steps = 0
    with warnings_kept() as said:
        while not told_to_end():
            envs.step(np.zeros(4, int))
            steps += 1
            time.sleep(PAUSE)
        rendering = envs.publisher.rendering if kind == "sync" else ""
        envs.close()
    return {"steps": steps, "rendering": rendering, "warnings": said}


class RegisteredFirst:
    """Makes an environment in a process that may not know it yet."""

    def __init__(self, maker: Callable[[], Any]) -> None:
        self._maker = maker

    def __call__(self) -> Any:
        sys.path.insert(0, str(Path(__file__).parent))
        import worlds

        worlds.register()
        return self._maker()


if __name__ == "__main__":
    worlds.register()
    print(json.dumps(globals()[sys.argv[1]](*sys.argv[2:])), flush=True)
