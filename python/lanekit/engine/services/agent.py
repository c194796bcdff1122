"""Agent: what it observes and does, how it is reset, what it is told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fnmatch import fnmatch
from typing import Any

import mujoco
import numpy as np

from lanekit.command import Agent
from lanekit.command import messages as m
from lanekit.engine.contract import RANGES
from lanekit.engine.contract_message import contract_from, message_of, unknown_parts
from lanekit.engine.dice import Ids, seeds_from
from lanekit.engine.model_file import names_of
from lanekit.engine.simulation import StepArrays, VectorSimulation
from lanekit.engine.tasks import TASKS
from lanekit.errors import EngineError

_TIME_LIMIT = "time_limit"


class AgentService:
    """Answers for the one agent that a lane has; it is called after the task."""

    def __init__(self, simulation: VectorSimulation, out: StepArrays) -> None:
        """Serve a simulation whose observations go to `out`."""
        self._simulation = simulation
        self._out = out
        model = simulation.model
        self._actuators = names_of(model, mujoco.mjtObj.mjOBJ_ACTUATOR, model.nu)
        self.progress: m.ReportProgressRequest | None = None
        """What the trainer has said last."""

    def handlers(self) -> Mapping[Any, Callable[[Any], Any]]:
        """Return the methods."""
        return {
            Agent.GetAgentSchema: self.schema,
            Agent.ResetAgent: self.reset,
            Agent.SetActionGroup: self.set_action_group,
            Agent.ReportProgress: self.report_progress,
            Agent.ValidateTaskContract: self.validate,
        }

    def schema(self, request: m.GetAgentSchemaRequest) -> m.GetAgentSchemaResponse:
        """Tell names, sizes, types and limits."""
        self._check_name(request.agent_name)
        simulation = self._simulation
        low, high = simulation.action_limits()
        unbounded = np.full(simulation.obs_size, np.inf, np.float32)
        return m.GetAgentSchemaResponse(
            schema=m.AgentSchema(
                agent_name=simulation.task.name,
                observation_names=simulation.observation_names,
                action_names=self._actuators,
                observation_size=simulation.obs_size,
                action_size=simulation.act_size,
                observation_dtype=self._out.obs.dtype.str,
                action_dtype=np.dtype(np.float32).str,
                observation_low=-unbounded,
                observation_high=unbounded,
                action_low=low,
                action_high=high,
                num_envs=simulation.num_envs,
                task_name=simulation.task.name,
                step_seconds=simulation.step_seconds,
                episode_steps=simulation.episode_steps,
            )
        )

    def reset(self, request: m.ResetAgentRequest) -> m.ResetAgentResponse:
        """Reset environments, under another contract if there is one; tell what they got."""
        self._check_name(request.agent_name)
        simulation = self._simulation
        ids = self._ids(request.env_ids)
        said = request.simulation_contract
        contract = None if said is None else contract_from(said)
        seeds = seeds_from(request.seed, len(ids)) if request.seeded else None
        simulation.reset(self._out, ids, seeds=seeds, contract=contract)
        values = simulation.randomisation.values
        return m.ResetAgentResponse(
            success=True,
            message=f"{len(ids)} environments were reset",
            simulation_contract=message_of(simulation.randomisation.contract_of(int(ids[0]))),
            env_ids=ids.astype(np.uint32),
            **{name: found[ids].astype(np.float32) for name, found in values.items()},
        )

    def set_action_group(self, request: m.SetActionGroupRequest) -> m.SetActionGroupResponse:
        """Set some actions for the next step, whatever the trainer sends for them."""
        self._check_name(request.agent_name)
        places, values = np.asarray(request.action_indices, np.intp), request.actions
        if not len(places):
            places = np.arange(self._simulation.act_size)
        if len(places) != len(values):
            raise EngineError(
                f"{len(values)} actions for {len(places)} places; they go in pairs, and without "
                "places all actions are given"
            )
        if len(places) and places.max() >= self._simulation.act_size:
            raise EngineError(f"actions are numbered from 0 to {self._simulation.act_size - 1}")
        if not np.isfinite(values).all():
            raise EngineError("actions are finite numbers")
        ids = self._ids(request.env_ids)
        self._simulation.override(ids, places, values)
        return m.SetActionGroupResponse(
            success=True, message=f"{len(places)} actions of {len(ids)} environments"
        )

    def report_progress(self, request: m.ReportProgressRequest) -> m.ReportProgressResponse:
        """Keep what the trainer says, for whoever shows it."""
        self.progress = request
        return m.ReportProgressResponse(accepted=True)

    def validate(self, request: m.ValidateTaskContractRequest) -> m.ValidateTaskContractResponse:
        """Tell whether this engine does a task as it is wanted."""
        wanted = request.contract
        if wanted is None:
            raise EngineError("there is no contract in the request")
        errors = [*self._findings(wanted)]
        names = self._simulation.observation_names
        optional = [term.name for term in wanted.optional_observations]
        warnings = [
            m.ContractFinding("observations", name, "is not observed", _like(name, names))
            for name in optional
            if not _matches(name, names)
        ]
        return m.ValidateTaskContractResponse(
            is_valid=not errors,
            errors=errors,
            warnings=warnings,
            resolved_optionals=[name for name in optional if _matches(name, names)],
            unresolved_optionals=[name for name in optional if not _matches(name, names)],
        )

    def _findings(self, wanted: m.TaskContract) -> list[m.ContractFinding]:
        simulation = self._simulation
        task, scene = simulation.task.name, simulation.path.stem
        found = []

        def add(component: str, name: str, message: str, suggestion: str = "") -> None:
            found.append(m.ContractFinding(component, name, message, suggestion))

        if wanted.task_id and wanted.task_id != task:
            there = "is another task" if wanted.task_id in TASKS else "is no task"
            add("task", wanted.task_id, f"{there}; this engine does {task}", task)
        for what, name in (("robot", wanted.robot), ("scene", wanted.scene)):
            if name and name not in (scene, simulation.path.name):
                add(what, name, f"this engine simulates {scene}", scene)
        for observed in wanted.required_observations:
            if not _matches(observed.name, simulation.observation_names):
                suggestion = _like(observed.name, simulation.observation_names)
                add("observations", observed.name, "is not observed", suggestion)
        for action in wanted.actions:
            if not _matches(action.joint_pattern, self._actuators):
                known = ", ".join(self._actuators)
                add("actions", action.joint_pattern, f"no actuator is called so: {known}")
        for reward in wanted.engine_rewards:
            if reward.name != task:
                add("rewards", reward.name, f"the engine's one reward is {task}", task)
        for end in wanted.terminations:
            limited = simulation.episode_steps > 0
            if end.name != task and not (end.name == _TIME_LIMIT and limited):
                known = f"{task}, {_TIME_LIMIT}" if limited else task
                add("terminations", end.name, f"episodes end by {known}")
        for custom in wanted.custom_randomizations:
            if custom.name not in RANGES:
                add("randomizations", custom.name, f"can be varied: {', '.join(RANGES)}")
        if wanted.simulation is not None:
            for name, why in unknown_parts(wanted.simulation).items():
                add("simulation", name, why)
            if not unknown_parts(wanted.simulation):
                try:
                    simulation.randomisation.check(contract_from(wanted.simulation))
                except (ValueError, EngineError) as error:
                    add("simulation", "", str(error))
        return found

    def _ids(self, env_ids: Any) -> Ids:
        count = self._simulation.num_envs
        ids: Ids = np.arange(count) if not len(env_ids) else np.asarray(env_ids, np.intp)
        if ids.max() >= count:
            raise EngineError(f"environments are numbered from 0 to {count - 1}, not {ids.max()}")
        return ids

    def _check_name(self, name: str) -> None:
        if name not in ("", self._simulation.task.name):
            raise EngineError(f"there is no agent {name!r} but {self._simulation.task.name!r}")


def _matches(pattern: str, names: list[str]) -> bool:
    return any(fnmatch(name, pattern) for name in names)


def _like(name: str, names: list[str]) -> str:
    return next((known for known in names if name.split("/")[-1] in known), "")
