"""The processes of the engine's benchmark: the same simulation without lanes, or behind others."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

ACTION_SETS = 8
_METHOD = "/lanekit.bench.Engine/Step"
_UNLIMITED = [
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
]
_NOT_DRAWN = b"\0"


def actions_for(num_envs: int, act_size: int) -> list[np.ndarray]:
    """Return the actions that everybody steps with."""
    rng = np.random.default_rng(0)
    return [rng.uniform(-1, 1, (num_envs, act_size)).astype(np.float32) for _ in range(ACTION_SETS)]


# --- without lanes --------------------------------------------------------------------------------


def _in_process(model: str, num_envs: int) -> tuple[Callable[[int], Any], int]:
    """The simulation with its tasks, called directly."""
    from lanekit.engine import StepArrays, VectorSimulation

    simulation = VectorSimulation(model, num_envs)
    out = StepArrays.allocate(num_envs, simulation.obs_size)
    simulation.reset(out)
    actions = actions_for(num_envs, simulation.act_size)
    return lambda made: simulation.step(actions[made % ACTION_SETS], out), num_envs


def _physics(model: str, num_envs: int) -> tuple[Callable[[int], Any], int]:
    """MuJoCo's batch alone: no observation, no reward, no reset but of what has fallen."""
    from lanekit.engine import StepArrays, VectorSimulation

    simulation = VectorSimulation(model, num_envs)
    out = StepArrays.allocate(num_envs, simulation.obs_size)
    simulation.reset(out)
    actions = actions_for(num_envs, simulation.act_size)
    limit = simulation.episode_steps or 500

    def step(made: int) -> None:
        simulation.state.ctrl[:] = actions[made % ACTION_SETS]
        simulation.batch.step(nstep=simulation.task.frame_skip)
        if made % limit == 0:
            simulation.reset(out)

    return step, num_envs


def _rollout(model: str, num_envs: int) -> tuple[Callable[[int], Any], int]:
    """MuJoCo's older way to step many: rollouts of one step."""
    import mujoco
    from mujoco.rollout import Rollout

    from lanekit.engine import StepArrays, VectorSimulation

    simulation = VectorSimulation(model, num_envs)
    out = StepArrays.allocate(num_envs, simulation.obs_size)
    simulation.reset(out)
    own, substeps = simulation.model, simulation.task.frame_skip
    pool = Rollout(nthread=simulation.threads)
    datas = [mujoco.MjData(own) for _ in range(simulation.threads)]
    models = [own] * num_envs
    spec = mujoco.mjtState.mjSTATE_FULLPHYSICS.value
    size = mujoco.mj_stateSize(own, spec)
    first = np.zeros((num_envs, size))
    row, scratch = np.zeros(size), mujoco.MjData(own)
    for env in range(num_envs):
        mujoco.mj_getState(own, simulation.batch.get_data(env, scratch), row, spec)
        first[env] = row
    states, before = np.zeros((num_envs, substeps, size)), first.copy()
    sensors = np.zeros((num_envs, substeps, own.nsensordata))
    controls = [
        np.repeat(found[:, None], substeps, axis=1).astype(np.float64)
        for found in actions_for(num_envs, simulation.act_size)
    ]
    limit = simulation.episode_steps or 500

    def step(made: int) -> None:
        pool.rollout(
            models,
            datas,
            before,
            controls[made % ACTION_SETS],
            skip_checks=True,
            nstep=substeps,
            state=states,
            sensordata=sensors,
        )
        before[:] = first if made % limit == 0 else states[:, -1]

    return step, num_envs


def _async(model: str, num_envs: int) -> tuple[Callable[[int], Any], int]:
    """A process for each environment."""
    import functools

    from gymnasium.vector import AsyncVectorEnv, AutoresetMode

    envs = AsyncVectorEnv(
        [functools.partial(_single, model)] * num_envs, autoreset_mode=AutoresetMode.SAME_STEP
    )
    envs.reset(seed=1)
    actions = actions_for(num_envs, envs.single_action_space.shape[0])
    return lambda made: envs.step(actions[made % ACTION_SETS]), num_envs


def _single(model: str) -> Any:
    import gymnasium

    from lanekit.engine import StepArrays, VectorSimulation

    class Single(gymnasium.Env[Any, Any]):
        """One environment of the same simulation."""

        def __init__(self) -> None:
            self._simulation = VectorSimulation(model, 1, threads=1)
            self._out = StepArrays.allocate(1, self._simulation.obs_size)
            low, high = self._simulation.action_limits()
            self.action_space = gymnasium.spaces.Box(low, high)
            self.observation_space = gymnasium.spaces.Box(
                -np.inf, np.inf, (self._simulation.obs_size,), np.float32
            )

        def reset(
            self, *, seed: int | None = None, options: dict[str, Any] | None = None
        ) -> tuple[Any, dict[str, Any]]:
            super().reset(seed=seed)
            self._simulation.reset(self._out, seeds=None if seed is None else [seed])
            return self._out.obs[0].copy(), {}

        def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
            out = self._out
            self._simulation.step(action[None], out)
            over = bool(out.dones[0]), bool(out.truncateds[0])
            assert out.final_obs is not None
            obs = out.final_obs[0] if any(over) else out.obs[0]
            return obs.copy(), float(out.rewards[0]), *over, {}

    return Single()


def _serve_on_request(role: str, model: str, num_envs: int) -> None:
    kinds = {
        "in-process": _in_process,
        "physics": _physics,
        "rollout": _rollout,
        "async": _async,
    }
    step, count = kinds[role](model, num_envs)
    step(1)
    print("ready", flush=True)
    for line in sys.stdin:
        seconds = float(line)
        begun, made = time.perf_counter(), 0
        while True:
            made += 1
            step(made)
            passed = time.perf_counter() - begun
            if passed >= seconds:
                break
        print(made * count, passed, flush=True)


# --- behind gRPC ----------------------------------------------------------------------------------


def _serve_grpc(model: str, num_envs: int, address: str, side: int) -> None:
    from concurrent.futures import ThreadPoolExecutor

    import grpc

    from lanekit.engine import StepArrays, VectorSimulation
    from lanekit.engine.drawing import Drawing
    from lanekit.engine.drawing_threads import DrawingThreads
    from lanekit.engine.pictures import PictureMaker

    simulation = VectorSimulation(model, num_envs)
    out = StepArrays.allocate(num_envs, simulation.obs_size)
    simulation.reset(out)
    images = np.zeros((num_envs, side, side, 3), np.uint8)
    pictures = PictureMaker(simulation, Drawing()) if side else None
    drawing = DrawingThreads(pictures, simulation.threads) if pictures else None

    def step(request: bytes, context: Any) -> bytes:
        values = np.frombuffer(request, np.float32, num_envs * simulation.act_size)
        simulation.step(values.reshape(num_envs, -1), out)
        if pictures and drawing and not request.endswith(_NOT_DRAWN * 4):
            camera = pictures.camera(name="track")
            sights = [pictures.look(env, camera, side, side) for env in range(num_envs)]
            drawing.fill(sights, images)
        parts = [out.obs, out.rewards, out.dones, out.truncateds]
        return b"".join(part.tobytes() for part in (*parts, images))

    server = grpc.server(ThreadPoolExecutor(max_workers=1), options=_UNLIMITED)
    service, method = _METHOD.strip("/").split("/")
    handler = grpc.unary_unary_rpc_method_handler(step)
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(service, {method: handler}),)
    )
    server.add_insecure_port(address)
    server.start()
    print("ready", flush=True)
    sys.stdin.read()
    server.stop(None).wait()
    if drawing:
        drawing.close()


class GrpcTrainer:
    """The trainer's end of the same engine behind gRPC: raw bytes, no message to parse."""

    def __init__(self, address: str, side: int) -> None:
        """Connect."""
        import grpc

        self._channel = grpc.insecure_channel(address, options=_UNLIMITED)
        self._call = self._channel.unary_unary(_METHOD)
        self._side = side

    def step(self, actions: np.ndarray, draw: bool = True) -> tuple[Any, ...]:
        """Step all environments; returns observations, the rest, and pictures."""
        # Four bytes behind the actions say whether to draw.
        request = actions.tobytes() + (b"\1" if draw else _NOT_DRAWN) * 4
        answer = self._call(request)
        count = len(actions)
        pixels = count * self._side**2 * 3
        rest = len(answer) - pixels
        images = np.frombuffer(answer, np.uint8, pixels, rest)
        sizes = rest // count
        obs = np.frombuffer(answer, np.float32, count * (sizes - 6) // 4)
        return obs.reshape(count, -1), images

    def close(self) -> None:
        """Disconnect."""
        self._channel.close()


if __name__ == "__main__":
    if sys.argv[1] == "grpc":
        _serve_grpc(sys.argv[2], int(sys.argv[3]), sys.argv[4], int(sys.argv[5]))
    else:
        _serve_on_request(sys.argv[1], sys.argv[2], int(sys.argv[3]))
