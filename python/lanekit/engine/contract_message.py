"""Contracts as they travel on the command lane."""

from __future__ import annotations

from typing import Any

from lanekit.command import messages as m
from lanekit.engine.contract import RANGES, SimulationContract
from lanekit.errors import EngineError

# What other engines vary, and this one can not.
_NOT_HERE = {
    "restitution_range": "MuJoCo's contacts have no coefficient of restitution",
    "terrain_type": "the ground is what the model file says",
    "terrain_difficulty": "the ground is what the model file says",
    "vel_command_x_range": "no task here observes a commanded velocity",
    "vel_command_y_range": "no task here observes a commanded velocity",
    "vel_command_yaw_range": "no task here observes a commanded velocity",
    "vel_command_resampling_time_range": "no task here observes a commanded velocity",
    "vel_command_standing_probability": "no task here observes a commanded velocity",
}


def unknown_parts(message: m.SimulationContract) -> dict[str, str]:
    """Return what of a contract this engine can not do, with the reason."""
    return {name: why for name, why in _NOT_HERE.items() if getattr(message, name)}


def contract_from(message: m.SimulationContract) -> SimulationContract:
    """Return a contract that came as a message, checked."""
    for name, why in unknown_parts(message).items():
        raise EngineError(f"the contract's {name} can not be kept: {why}; leave it out")
    ranges = {}
    for name in RANGES:
        found: m.Range | None = getattr(message, f"{name}_range")
        ranges[name] = None if found is None else (found.min, found.max)
    noise = message.pose_position_noise
    return SimulationContract(
        **ranges,
        pose_position_noise=(0.0, 0.0, 0.0) if noise is None else (noise.x, noise.y, noise.z),
        pose_orientation_noise=message.pose_orientation_noise,
        joint_position_noise=message.joint_position_noise,
        joint_velocity_noise=message.joint_velocity_noise,
    )


def message_of(contract: SimulationContract) -> m.SimulationContract:
    """Return a contract as a message."""
    ranges: dict[str, Any] = {}
    for name in RANGES:
        span = contract.span(name)
        ranges[f"{name}_range"] = None if span is None else m.Range(*span)
    position = contract.pose_position_noise
    return m.SimulationContract(
        **ranges,
        pose_position_noise=m.Vec3(*position) if any(position) else None,
        pose_orientation_noise=contract.pose_orientation_noise,
        joint_position_noise=contract.joint_position_noise,
        joint_velocity_noise=contract.joint_velocity_noise,
    )
