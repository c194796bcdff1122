"""Telemetry: named numbers of an environment, streamed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import mujoco
import numpy as np

from lanekit.command import Telemetry
from lanekit.command import messages as m
from lanekit.engine.model_file import name_of, names_of
from lanekit.engine.simulation import StepArrays, VectorSimulation
from lanekit.engine.tasks.task import position_names, velocity_names
from lanekit.errors import EngineError

_EPISODE = ("reward", "episode_return", "episode_length", "time")


class TelemetryService:
    """Streams positions, velocities, controls, sensors, and how the episode goes."""

    def __init__(self, simulation: VectorSimulation, out: StepArrays) -> None:
        """Serve a simulation whose rewards go to `out`."""
        self._simulation = simulation
        self._out = out
        model = simulation.model
        actuators = names_of(model, mujoco.mjtObj.mjOBJ_ACTUATOR, model.nu)
        self._parts: dict[str, list[str]] = {
            "qpos": position_names(model),
            "qvel": velocity_names(model),
            "ctrl": [f"ctrl/{name}" for name in actuators],
            "sensor": _sensor_names(model),
            "episode": list(_EPISODE),
        }
        self.signal_names = [name for names in self._parts.values() for name in names]
        self._places = {name: place for place, name in enumerate(self.signal_names)}

    def handlers(self) -> Mapping[Any, Callable[[Any], Any]]:
        """Return the methods."""
        return {
            Telemetry.GetTelemetrySchema: self.schema,
            Telemetry.StreamTelemetry: self.stream,
        }

    def schema(self, request: m.GetTelemetrySchemaRequest) -> m.GetTelemetrySchemaResponse:
        """Tell what can be streamed."""
        model = self._simulation.model
        return m.GetTelemetrySchemaResponse(
            schema=m.TelemetrySchema(
                observation_names=self._parts["qpos"],
                action_names=self._parts["ctrl"],
                nq=model.nq,
                nu=model.nu,
                signal_names=self.signal_names,
            )
        )

    def stream(self, request: m.StreamTelemetryRequest) -> Iterator[m.TelemetryFrame]:
        """Tell an environment's numbers again and again."""
        env = self._simulation.checked_env(request.env_id)
        names = list(request.signals) or self.signal_names
        if unknown := [name for name in names if name not in self._places]:
            near = [name for name in self.signal_names if unknown[0].split("/")[-1] in name]
            hint = f"is {near[0]!r} meant? " if near else ""
            raise EngineError(
                f"there is no signal {unknown[0]!r}; {hint}GetTelemetrySchema lists all"
            )
        return self._frames(env, names)

    def _frames(self, env: int, names: list[str]) -> Iterator[m.TelemetryFrame]:
        places = np.array([self._places[name] for name in names], np.intp)
        senses = any(name.startswith("sensor/") for name in names)
        data = mujoco.MjData(self._simulation.model) if senses else None
        number = 0
        while True:
            number += 1
            state = self._simulation.state
            yield m.TelemetryFrame(
                timestamp_ms=time.time_ns() // 1_000_000,
                frame_number=number,
                observation_qpos=state.qpos[env],
                action_ctrl=state.ctrl[env],
                values=self._values(env, data)[places].astype(np.float32),
                time=float(state.time[env]),
            )

    def _values(self, env: int, data: mujoco.MjData | None) -> Any:
        simulation = self._simulation
        state = simulation.state
        sensors = np.zeros(simulation.model.nsensordata)
        if data is not None:
            sensors = simulation.data(env, data).sensordata
        episode = (
            self._out.rewards[env],
            simulation.episode_return[env],
            simulation.episode_length[env],
            state.time[env],
        )
        return np.concatenate([state.qpos[env], state.qvel[env], state.ctrl[env], sensors, episode])


def _sensor_names(model: mujoco.MjModel) -> list[str]:
    names = []
    for sensor in range(model.nsensor):
        name = name_of(model, mujoco.mjtObj.mjOBJ_SENSOR, sensor)
        size = int(model.sensor_dim[sensor])
        names += [f"sensor/{name}.{part}" for part in range(size)]
    return names
