"""Contracts: what can be asked for, and how it travels."""

from __future__ import annotations

import math

import pytest

from lanekit import LanekitError
from lanekit.command import messages as m
from lanekit.engine import SimulationContract
from lanekit.engine.contract_message import contract_from, message_of


def test_a_single_number_is_a_range_of_that_number() -> None:
    assert SimulationContract(friction=0.8).friction == (0.8, 0.8)
    assert SimulationContract(mass_scale=(0.9, 1.1)).changed == {"mass_scale": (0.9, 1.1)}


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"friction": (2.0, 1.0)}, "the smaller number is first"),
        ({"friction": -0.1}, "outside of what can be simulated, 0 to 10"),
        ({"mass_scale": 0.0}, "mass_scale: 0 to 0 is outside"),
        ({"gravity_scale": (0.0, 6.0)}, "gravity_scale"),
        ({"motor_strength": math.nan}, "finite"),
        ({"motor_offset": (0.0, math.inf)}, "finite"),
        ({"friction": (1.0, 2.0, 3.0)}, "is a pair"),
        ({"joint_position_noise": -1.0}, "standard deviation from 0"),
        ({"joint_velocity_noise": 1e9}, "standard deviation"),
        ({"pose_position_noise": (1.0, 2.0)}, "three numbers"),
        ({"pose_position_noise": 0.1}, "three numbers"),
        ({"push_velocity": 1.0}, "needs both"),
    ],
)
def test_a_contract_that_makes_no_sense_is_refused(asked: dict[str, object], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        SimulationContract(**asked)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", ["1", True, [None, 1.0], object()])
def test_what_is_no_number_is_a_type_error(value: object) -> None:
    with pytest.raises(TypeError, match="friction takes numbers"):
        SimulationContract(friction=value)  # type: ignore[arg-type]


def test_a_contract_comes_back_from_its_message_as_it_was() -> None:
    contract = SimulationContract(
        friction=(0.5, 1.5),
        mass_scale=(0.75, 1.25),
        com_offset=(-0.125, 0.125),
        motor_strength=(0.5, 1.0),
        motor_offset=(-0.5, 0.5),
        gravity_scale=(0.5, 1.0),
        push_interval=(1.0, 2.0),
        push_velocity=(0.25, 0.5),
        pose_position_noise=(0.5, 0.25, 0.0),
        pose_orientation_noise=0.125,
        joint_position_noise=0.25,
        joint_velocity_noise=0.5,
    )
    assert contract_from(message_of(contract)) == contract
    assert contract_from(message_of(SimulationContract())) == SimulationContract()


@pytest.mark.parametrize(
    "message",
    [
        m.SimulationContract(restitution_range=m.Range(0.0, 1.0)),
        m.SimulationContract(terrain_type="stairs"),
        m.SimulationContract(vel_command_x_range=m.Range(-1.0, 1.0)),
        m.SimulationContract(vel_command_standing_probability=0.1),
    ],
)
def test_what_this_engine_can_not_vary_is_refused_with_the_reason(
    message: m.SimulationContract,
) -> None:
    with pytest.raises(LanekitError, match=r"can not be kept: .*; leave it out"):
        contract_from(message)
