"""Watch a training run, and step its environments in other processes.

Each name is loaded when it is asked for, so that this package needs only what is used of it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from lanekit.errors import MissingExtra

if TYPE_CHECKING:
    from lanekit.integrations.gymnasium_env import FastLaneTelemetryWrapper
    from lanekit.integrations.launch import maybe_wrap_env, watch_env, watch_env_fns
    from lanekit.integrations.pettingzoo_env import FastLaneAECWrapper, FastLaneParallelWrapper
    from lanekit.integrations.shadow.adapters import StateAdapter, register_state_adapter
    from lanekit.integrations.showing.demand import Demand
    from lanekit.integrations.showing.frame_note import FrameNote
    from lanekit.integrations.showing.publisher import FastLaneWarning, Publisher, Telemetry
    from lanekit.integrations.stepping import LaneVectorEnv, VectorEnvServer, serve_vector_env
    from lanekit.integrations.vector_env import FastLaneVectorWrapper, wrap_env_fns

_HOMES = {
    "Demand": "showing.demand",
    "FastLaneAECWrapper": "pettingzoo_env",
    "FastLaneParallelWrapper": "pettingzoo_env",
    "FastLaneTelemetryWrapper": "gymnasium_env",
    "FastLaneVectorWrapper": "vector_env",
    "FastLaneWarning": "showing.publisher",
    "FrameNote": "showing.frame_note",
    "LaneVectorEnv": "stepping",
    "Publisher": "showing.publisher",
    "StateAdapter": "shadow.adapters",
    "Telemetry": "showing.publisher",
    "VectorEnvServer": "stepping",
    "maybe_wrap_env": "launch",
    "register_state_adapter": "shadow.adapters",
    "serve_vector_env": "stepping",
    "watch_env": "launch",
    "watch_env_fns": "launch",
    "wrap_env_fns": "vector_env",
}

__all__ = [
    "Demand",
    "FastLaneAECWrapper",
    "FastLaneParallelWrapper",
    "FastLaneTelemetryWrapper",
    "FastLaneVectorWrapper",
    "FastLaneWarning",
    "FrameNote",
    "LaneVectorEnv",
    "Publisher",
    "StateAdapter",
    "Telemetry",
    "VectorEnvServer",
    "maybe_wrap_env",
    "register_state_adapter",
    "serve_vector_env",
    "watch_env",
    "watch_env_fns",
    "wrap_env_fns",
]


def __getattr__(name: str) -> Any:
    """Load what is asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module 'lanekit.integrations' has no attribute {name!r}")
    try:
        home = import_module(f"lanekit.integrations.{_HOMES[name]}")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("gymnasium", "pettingzoo"):
            raise
        raise MissingExtra(
            f"lanekit.integrations.{name} needs {error.name}: pip install 'lanekit[rl]'"
        ) from error
    return getattr(home, name)
