"""State adapters: how to take an environment's state, and how to give it to a copy.

An adapter is registered for a class of environments and holds for its subclasses too, unless these
have a ``render()`` of their own. It must be importable from a module, because the process that
draws imports it.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class StateAdapter(Protocol):
    """Reads and writes all that an environment's picture depends on."""

    def get_state(self, env: Any) -> Any:
        """Return the state of an unwrapped environment; called in the training loop.

        It is made of None, bool, int, float, str, bytes, NumPy arrays and scalars of these, and
        tuples, lists and dicts: what :mod:`~lanekit.integrations.shadow.state_codec` can encode.
        """

    def set_state(self, env: Any, state: Any) -> None:
        """Make another environment of the same spec look like that; called before render().

        `state` equals what ``get_state`` returned; its arrays are read-only. It came through
        shared memory: an adapter that unpickles parts of it runs whatever somebody put there.
        """


# By the class's name, so that no environment needs to be imported to be known.
_ADAPTERS: dict[tuple[str, str], StateAdapter | str] = {
    ("gymnasium.envs.classic_control.cartpole", "CartPoleEnv"): "classic_control:PLAIN",
    ("gymnasium.envs.classic_control.mountain_car", "MountainCarEnv"): "classic_control:PLAIN",
    (
        "gymnasium.envs.classic_control.continuous_mountain_car",
        "Continuous_MountainCarEnv",
    ): "classic_control:PLAIN",
    ("gymnasium.envs.classic_control.acrobot", "AcrobotEnv"): "classic_control:PLAIN",
    ("gymnasium.envs.classic_control.pendulum", "PendulumEnv"): "classic_control:PENDULUM",
    ("gymnasium.envs.mujoco.mujoco_env", "MujocoEnv"): "mujoco_physics:MUJOCO",
    ("ale_py.env", "AtariEnv"): "atari:ATARI",
}


def register_state_adapter(environment: type, adapter: StateAdapter) -> None:
    """Let `adapter` serve environments of this class: they can then be drawn elsewhere.

    >>> class WalkerState:                                        # in a module of yours
    ...     def get_state(self, env): return {"position": env.position, "lap": env.lap}
    ...     def set_state(self, env, state):
    ...         env.position[:], env.lap = state["position"], state["lap"]
    >>> register_state_adapter(Walker, WalkerState())             # doctest: +SKIP
    """
    if not isinstance(adapter, StateAdapter):
        raise TypeError(
            f"an adapter has get_state(env) and set_state(env, state); {adapter!r} has not"
        )
    _ADAPTERS[environment.__module__, environment.__qualname__] = adapter


def adapter_for(bare: Any) -> StateAdapter | None:
    """Return the adapter that knows this unwrapped environment, None if none does.

    A subclass that draws by itself may show more than the adapter of its base class knows.
    """
    for kind in type(bare).__mro__:
        found = _ADAPTERS.get((kind.__module__, kind.__qualname__))
        if isinstance(found, str):
            return _load(found)
        if found is not None:
            return found
        if "render" in vars(kind):
            return None
    return None


def _load(reference: str) -> StateAdapter:
    from importlib import import_module

    module, _, name = reference.partition(":")
    adapter = getattr(import_module(f"lanekit.integrations.shadow.{module}"), name)
    assert isinstance(adapter, StateAdapter)
    return adapter
