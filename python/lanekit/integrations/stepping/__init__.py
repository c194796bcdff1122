"""Gymnasium environments through a step lane: the trainer here, the environments over there.

:class:`LaneVectorEnv` is the trainer's vector environment, :func:`serve_vector_env` (and the
command ``lanekit serve``) what runs the environments.
"""

try:
    from gymnasium.vector import AutoresetMode  # noqa: F401
except ModuleNotFoundError:
    raise
except ImportError as error:
    raise ImportError(
        f"{__name__} needs Gymnasium 1.1 or newer: pip install 'gymnasium>=1.1'"
    ) from error

from lanekit.integrations.stepping.description import LaneDescription
from lanekit.integrations.stepping.env_rows import EnvironmentFailed
from lanekit.integrations.stepping.lane_vector_env import LaneVectorEnv
from lanekit.integrations.stepping.serving import VectorEnvServer, serve_vector_env

__all__ = [
    "EnvironmentFailed",
    "LaneDescription",
    "LaneVectorEnv",
    "VectorEnvServer",
    "serve_vector_env",
]
