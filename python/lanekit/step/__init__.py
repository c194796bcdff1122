"""The step lane: a simulation engine and a trainer in lock-step on the same memory."""

from lanekit.step.client import StepClient, StepResult
from lanekit.step.config import StepGpu, StepLaneConfig, StepLaneStatus, inspect_steps
from lanekit.step.exchange import StepExchange, StepState
from lanekit.step.server import StepServer

__all__ = [
    "StepClient",
    "StepExchange",
    "StepGpu",
    "StepLaneConfig",
    "StepLaneStatus",
    "StepResult",
    "StepServer",
    "StepState",
    "inspect_steps",
]
