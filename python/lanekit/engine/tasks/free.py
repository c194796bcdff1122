"""Any model, without an aim: the state is observed, effort costs, nothing ends."""

from __future__ import annotations

import numpy as np

from lanekit.engine.tasks.task import Array, Rows, StateArrays, Task

_COST_OF_CONTROL = 0.01


class Free(Task):
    """Observes positions and velocities; each control costs its square."""

    name = "free"

    def judge(self, state: StateArrays, rows: Rows, rewards: Array, terminated: Array) -> None:
        """Charge for the controls; no episode ends."""
        controls = state.ctrl[rows]
        rewards[:] = -_COST_OF_CONTROL * np.einsum("ij,ij->i", controls, controls)
        terminated[:] = False
