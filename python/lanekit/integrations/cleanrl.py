"""Watch and steer scripts in the style of CleanRL: one line where an environment is made.

    from lanekit.integrations.cleanrl import watch

    def make_env(env_id, idx):
        def thunk():
            env = gym.make(env_id, render_mode="rgb_array")
            env = gym.wrappers.RecordEpisodeStatistics(env)
            return watch(env, idx)
        return thunk

``watch`` shows pictures, and reports steps and episodes if a daemon started the script. With a
second line ``lanekit control`` can pause and stop the training loop: ``steering = Steering()``
before it, and ``if not steering.keep_going(): break`` within.
"""

from __future__ import annotations

from typing import Any

import gymnasium

from lanekit.integrations.launch import watch_env
from lanekit.integrations.steering import Steering

__all__ = ["Steering", "watch"]


def watch(
    env: gymnasium.Env[Any, Any], idx: int, run_id: str | None = None, **options: Any
) -> gymnasium.Env[Any, Any]:
    """Have environment number `idx` of the run watched.

    Without a launcher that asks for more, environment 0 is shown. Call it where the environment is
    made, also in the processes of an ``AsyncVectorEnv``. Further options are those of
    :func:`lanekit.integrations.watch_env`.
    """
    return watch_env(env, run_id, slot=idx, **options)
