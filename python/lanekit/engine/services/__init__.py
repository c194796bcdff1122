"""The seven services of the command lane, each over the simulation itself."""

from lanekit.engine.services.agent import AgentService
from lanekit.engine.services.camera import CameraService
from lanekit.engine.services.debug import DebugService
from lanekit.engine.services.physics import MujocoService
from lanekit.engine.services.scene import SceneService
from lanekit.engine.services.telemetry import TelemetryService
from lanekit.engine.services.viewport import ViewportService

__all__ = [
    "AgentService",
    "CameraService",
    "DebugService",
    "MujocoService",
    "SceneService",
    "TelemetryService",
    "ViewportService",
]
