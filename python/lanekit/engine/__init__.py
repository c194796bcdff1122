"""An engine behind the lanes: MuJoCo served to a trainer over step and command lanes.

``lanekit engine --model humanoid --num-envs 1024`` runs one; :class:`EngineClient` is the trainer's
side and needs no MuJoCo.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lanekit.engine.client import EngineClient, pixels_of
from lanekit.engine.contract import SimulationContract

if TYPE_CHECKING:
    from lanekit.engine.engine import Engine
    from lanekit.engine.simulation import StepArrays, VectorSimulation

__all__ = [
    "Engine",
    "EngineClient",
    "SimulationContract",
    "StepArrays",
    "VectorSimulation",
    "pixels_of",
]

_WITH_MUJOCO = {
    "Engine": "lanekit.engine.engine",
    "StepArrays": "lanekit.engine.simulation",
    "VectorSimulation": "lanekit.engine.simulation",
}


def __getattr__(name: str) -> Any:
    """Import what needs MuJoCo when it is asked for."""
    if name not in _WITH_MUJOCO:
        raise AttributeError(f"module 'lanekit.engine' has no attribute {name!r}")
    from importlib import import_module

    try:
        return getattr(import_module(_WITH_MUJOCO[name]), name)
    except ImportError as error:
        from lanekit.errors import MissingExtra

        raise MissingExtra(
            f"lanekit.engine.{name} needs MuJoCo 4 or newer ({error}); "
            "install it with: pip install 'lanekit[engine]'"
        ) from error
