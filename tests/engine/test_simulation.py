"""The simulation: MuJoCo's own numbers, in many rows at once."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
import pytest

from lanekit.engine import SimulationContract, StepArrays, VectorSimulation
from lanekit.engine.dice import Dice
from lanekit.engine.simulation import silence_warnings
from lanekit.engine.tasks import TASKS
from lanekit.errors import EngineError, ModelError

MODELS = ("cartpole", "halfcheetah", "hopper", "humanoid")


@pytest.fixture(autouse=True)
def _no_log_file() -> None:
    silence_warnings()


def made(model: str | Path, count: int, **options: object) -> tuple[VectorSimulation, StepArrays]:
    simulation = VectorSimulation(model, count, **options)  # type: ignore[arg-type]
    out = StepArrays.allocate(count, simulation.obs_size)
    simulation.reset(out)
    return simulation, out


def actions_for(simulation: VectorSimulation, seed: int = 0, scale: float = 0.3) -> np.ndarray:
    shape = (simulation.num_envs, simulation.act_size)
    return np.random.default_rng(seed).uniform(-scale, scale, shape).astype(np.float32)


@pytest.mark.parametrize("model", MODELS)
def test_every_environment_moves_as_mujoco_moves_it_alone(model: str) -> None:
    simulation, out = made(model, 5, threads=2, seed=7)
    alone = [simulation.batch.get_data(env) for env in range(5)]
    for step in range(12):
        actions = actions_for(simulation, step)
        simulation.step(actions, out)
        assert not (out.dones | out.truncateds).any()
        for env, data in enumerate(alone):
            data.ctrl[:] = actions[env]
            for _ in range(simulation.task.frame_skip):
                mujoco.mj_step(simulation.model, data)
            np.testing.assert_array_equal(simulation.state.qpos[env], data.qpos)
            np.testing.assert_array_equal(simulation.state.qvel[env], data.qvel)
            assert simulation.state.time[env] == data.time


@pytest.mark.parametrize("task", sorted(TASKS))
def test_every_task_names_each_number_that_it_observes(task: str) -> None:
    simulation, out = made("humanoid" if "humanoid" in task else task.replace("free", "hopper"), 3)
    if task == "free":
        simulation, out = made("hopper", 3, task="free")
    assert len(set(simulation.observation_names)) == simulation.obs_size
    place = {name: i for i, name in enumerate(simulation.observation_names)}
    simulation.step(actions_for(simulation), out)
    joint = "qvel/" + mujoco.mj_id2name(
        simulation.model, mujoco.mjtObj.mjOBJ_JOINT, simulation.model.njnt - 1
    )
    seen = out.obs[:, place[joint]]
    np.testing.assert_array_equal(seen, simulation.state.qvel[:, -1].astype(np.float32))


def test_equal_seeds_give_equal_episodes_whoever_is_beside() -> None:
    few, out_few = made("hopper", 2)
    many, out_many = made("hopper", 9)
    few.reset(out_few, [1], seeds=[123])
    many.reset(out_many, [6, 2], seeds=[5, 123])
    np.testing.assert_array_equal(out_few.obs[1], out_many.obs[2])
    assert not np.array_equal(out_many.obs[2], out_many.obs[6])
    # Also the episodes after the first one.
    for _ in range(3):
        few.reset(out_few, [1])
        many.reset(out_many, [2])
        np.testing.assert_array_equal(out_few.obs[1], out_many.obs[2])


def test_the_dice_are_fair_and_neighbouring_seeds_have_nothing_in_common() -> None:
    dice = Dice(200, seed=0)
    numbers = dice.uniform(np.arange(200), 500)
    assert (numbers >= 0).all()
    assert (numbers < 1).all()
    assert abs(numbers.mean() - 0.5) < 0.005
    assert abs(np.corrcoef(numbers[:-1].ravel(), numbers[1:].ravel())[0, 1]) < 0.01
    normal = dice.normal(np.arange(200), 500)
    assert abs(normal.mean()) < 0.02
    assert abs(normal.std() - 1) < 0.02


def test_a_half_cheetah_is_paid_for_its_way_and_never_fails() -> None:
    simulation, out = made("halfcheetah", 4, episode_steps=60)
    place = mujoco.mj_name2id(simulation.model, mujoco.mjtObj.mjOBJ_JOINT, "root_x")
    for step in range(59):
        before = simulation.state.qpos[:, place].copy()
        actions = actions_for(simulation, step, scale=1.0)
        simulation.step(actions, out)
        way = simulation.state.qpos[:, place] - before
        expected = way / simulation.step_seconds - 0.1 * (actions.astype(float) ** 2).sum(axis=1)
        np.testing.assert_allclose(out.rewards, expected, rtol=1e-5, atol=1e-5)
        assert not (out.dones | out.truncateds).any()
    simulation.step(actions_for(simulation), out)
    assert out.truncateds.all()
    assert not out.infos["diverged"].any()


def test_a_half_cheetah_stands_on_its_paws_when_nothing_moves_it() -> None:
    simulation, out = made("halfcheetah", 2)
    for _ in range(400):
        simulation.step(np.zeros((2, 6), np.float32), out)
    names = simulation.observation_names
    pitch, height = (out.obs[:, names.index(f"qpos/root_{part}")] for part in ("pitch", "z"))
    assert (np.abs(pitch) < 0.3).all()
    assert (np.abs(height) < 0.2).all()
    assert (np.abs(out.obs[:, names.index("qvel/root_x")]) < 0.05).all()


def test_an_episode_that_ends_goes_on_as_the_next_within_the_step() -> None:
    simulation, out = made("cartpole", 3)
    simulation.state.qpos[1, 1] = 0.5  # has fallen
    fallen = simulation.state.qpos[1].copy()
    simulation.step(np.zeros((3, 1), np.float32), out)
    assert out.dones.tolist() == [False, True, False]
    assert not out.truncateds.any()
    assert out.final_obs is not None
    assert abs(out.final_obs[1, 1]) >= 0.35
    assert abs(out.final_obs[1, 0] - fallen[0]) < 0.1
    assert abs(out.obs[1, 1]) <= 0.05
    assert simulation.episode_length.tolist() == [1, 0, 1]
    assert out.infos["episode_length"].tolist() == [1, 1, 1]


def test_an_episode_at_its_limit_is_truncated_and_not_done() -> None:
    simulation, out = made("hopper", 3, episode_steps=4)
    simulation.reset(out, [0])
    for step in range(4):
        simulation.step(actions_for(simulation), out)
        assert out.truncateds.all() == (step == 3)
        assert not out.dones.any()
    assert (out.infos["episode_length"] == 4).all()
    assert (simulation.episode_length == 0).all()
    assert (out.infos["episode_return"] != 0).all()


def test_flagged_environments_are_reset_and_the_others_stepped() -> None:
    simulation, out = made("hopper", 4)
    flags, seeds = np.array([0, 1, 0, 2], np.uint8), np.array([0, 0, 0, 99], np.uint64)
    times = simulation.state.time.copy()
    simulation.step(actions_for(simulation), out, flags=flags, seeds=seeds)
    assert (simulation.state.time > times).tolist() == [True, False, True, False]
    assert out.rewards[[1, 3]].tolist() == [0.0, 0.0]
    other, out_other = made("hopper", 4)
    other.reset(out_other, [0], seeds=[99])
    np.testing.assert_array_equal(out.obs[3], out_other.obs[0])


@pytest.mark.parametrize(
    "poison",
    [np.nan, np.inf, 1e12],
)
def test_one_that_diverges_is_flagged_and_reset_and_the_others_go_on(poison: float) -> None:
    simulation, out = made("humanoid", 4, seed=3)
    twin, out_twin = made("humanoid", 4, seed=3)
    before = out.obs[2].copy()
    simulation.state.qvel[2, 3] = poison
    actions = actions_for(simulation)
    simulation.step(actions, out)
    twin.step(actions, out_twin)
    assert out.dones.tolist() == [False, False, True, False]
    assert out.infos["diverged"].tolist() == [0, 0, 1, 0]
    assert out.rewards[2] == 0
    assert out.final_obs is not None
    np.testing.assert_array_equal(out.final_obs[2], before)
    assert np.isfinite(out.obs).all()
    others = [0, 1, 3]
    np.testing.assert_array_equal(out.obs[others], out_twin.obs[others])
    for step in range(5):
        simulation.step(actions_for(simulation, step), out)
        assert not out.infos["diverged"].any()
    assert simulation.divergences == 1


def test_an_action_that_is_no_number_ends_the_episode_of_its_environment_only() -> None:
    simulation, out = made("hopper", 3)
    actions = actions_for(simulation)
    actions[1, 0] = np.nan
    simulation.step(actions, out)
    assert out.infos["diverged"].tolist() == [0, 1, 0]
    assert out.dones.tolist() == [False, True, False]
    assert np.isfinite(out.obs).all()


def test_a_contract_changes_the_models_that_mujoco_steps() -> None:
    simulation, out = made("humanoid", 6)
    contract = SimulationContract(
        friction=(0.3, 0.6),
        mass_scale=(1.2, 1.5),
        motor_strength=(0.5, 0.8),
        gravity_scale=(0.4, 0.6),
        com_offset=(0.01, 0.02),
    )
    simulation.reset(out, [1, 4], contract=contract)
    own, values = simulation.model, simulation.randomisation.values
    for env in range(6):
        model = simulation.batch.get_model(env)
        if env not in (1, 4):
            np.testing.assert_array_equal(model.body_mass, own.body_mass)
            np.testing.assert_array_equal(model.geom_friction, own.geom_friction)
            np.testing.assert_array_equal(model.opt.gravity, own.opt.gravity)
            continue
        assert 0.3 <= values["friction"][env] <= 0.6
        np.testing.assert_allclose(model.geom_friction[:, 0], values["friction"][env])
        np.testing.assert_array_equal(model.geom_friction[:, 1:], own.geom_friction[:, 1:])
        assert 1.2 <= values["mass_scale"][env] <= 1.5
        np.testing.assert_allclose(model.body_mass, own.body_mass * values["mass_scale"][env])
        np.testing.assert_allclose(model.body_inertia, own.body_inertia * values["mass_scale"][env])
        gain = values["motor_strength"][env]
        np.testing.assert_allclose(model.actuator_gainprm, own.actuator_gainprm * gain)
        np.testing.assert_allclose(
            model.opt.gravity, own.opt.gravity * values["gravity_scale"][env]
        )
        moved = model.body_ipos[1] - own.body_ipos[1]
        assert (moved >= 0.01 - 1e-12).all()
        assert (moved <= 0.02 + 1e-12).all()
    # What MuJoCo derives from the masses was derived anew.
    heavy = simulation.batch.get_model(1)
    np.testing.assert_allclose(
        heavy.body_subtreemass[0], own.body_subtreemass[0] * values["mass_scale"][1]
    )


def test_a_varied_environment_moves_as_mujoco_moves_its_model() -> None:
    simulation, out = made("hopper", 3)
    contract = SimulationContract(mass_scale=(0.5, 2.0), gravity_scale=(0.5, 1.0), friction=0.4)
    simulation.reset(out, contract=contract)
    pairs = [(simulation.batch.get_model(env), simulation.batch.get_data(env)) for env in range(3)]
    for step in range(6):
        actions = actions_for(simulation, step)
        simulation.step(actions, out)
        for env, (model, data) in enumerate(pairs):
            data.ctrl[:] = actions[env]
            for _ in range(simulation.task.frame_skip):
                mujoco.mj_step(model, data)
            np.testing.assert_array_equal(simulation.state.qpos[env], data.qpos)


def test_without_a_range_the_models_own_values_come_back() -> None:
    simulation, out = made("hopper", 2)
    simulation.reset(
        out, contract=SimulationContract(mass_scale=2.0, gravity_scale=0.5, friction=0.1)
    )
    simulation.reset(out, [1], contract=SimulationContract())
    model = simulation.batch.get_model(1)
    np.testing.assert_array_equal(model.body_mass, simulation.model.body_mass)
    np.testing.assert_array_equal(model.opt.gravity, simulation.model.opt.gravity)
    np.testing.assert_array_equal(model.geom_friction, simulation.model.geom_friction)
    assert simulation.batch.get_model(0).body_mass[1] == 2 * simulation.model.body_mass[1]


def test_a_contract_holds_for_episodes_that_begin_by_themselves() -> None:
    simulation, out = made("cartpole", 2, episode_steps=2)
    simulation.reset(out, contract=SimulationContract(mass_scale=(0.5, 2.0)))
    seen = set()
    for _ in range(6):
        simulation.step(np.zeros((2, 1), np.float32), out)
        seen.add(simulation.randomisation.values["mass_scale"][0])
    assert len(seen) >= 3
    assert all(0.5 <= value <= 2.0 for value in seen)


def test_initial_noise_is_as_wide_as_asked_and_keeps_quaternions_whole() -> None:
    simulation, out = made("humanoid", 400, threads=2)
    contract = SimulationContract(
        pose_position_noise=(0.1, 0.2, 0.0), pose_orientation_noise=0.1, joint_velocity_noise=0.5
    )
    simulation.reset(out, contract=contract)
    spread = simulation.state.qpos[:, :3].std(axis=0)
    assert abs(spread[0] - 0.1) < 0.02
    assert abs(spread[1] - 0.2) < 0.04
    assert spread[2] < 1e-9
    np.testing.assert_allclose(np.linalg.norm(simulation.state.qpos[:, 3:7], axis=1), 1.0)
    assert simulation.state.qpos[:, 4:7].std() > 0.01
    assert abs(simulation.state.qvel[:, 6:].std() - 0.5) < 0.05


def test_noise_of_joints_stays_within_their_limits() -> None:
    simulation, out = made("hopper", 200)
    simulation.reset(out, contract=SimulationContract(joint_position_noise=1.0))
    knee = simulation.model.joint("knee")
    angles = simulation.state.qpos[:, knee.qposadr[0]]
    assert (angles >= knee.range[0]).all()
    assert (angles <= knee.range[1]).all()
    assert angles.std() > 0.2


def test_pushes_come_in_their_time_and_change_the_speed() -> None:
    simulation, out = made("humanoid", 3, task="free")
    simulation.reset(
        out, [1], contract=SimulationContract(push_interval=(0.02, 0.02), push_velocity=(3.0, 3.0))
    )
    for _ in range(8):
        simulation.step(np.zeros((3, simulation.act_size), np.float32), out)
    speeds = np.linalg.norm(simulation.state.qvel[:, :2], axis=1)
    assert speeds[1] > 1.0
    assert (speeds[[0, 2]] < 0.5).all()


@pytest.mark.parametrize(
    ("model", "contract", "told"),
    [
        ("hopper", {"push_interval": 1.0, "push_velocity": 1.0}, "no free body to push"),
        ("cartpole", {"pose_orientation_noise": 0.1}, "no free body"),
    ],
)
def test_what_a_model_can_not_do_is_refused_before_anything_is_reset(
    model: str, contract: dict[str, float], told: str
) -> None:
    simulation, out = made(model, 2)
    before = simulation.state.qpos.copy()
    with pytest.raises(EngineError, match=told):
        simulation.reset(out, contract=SimulationContract(**contract))  # type: ignore[arg-type]
    np.testing.assert_array_equal(simulation.state.qpos, before)


def test_thousands_of_contracts_are_not_all_kept() -> None:
    simulation, out = made("hopper", 8)
    for number in range(1000):
        contract = SimulationContract(friction=0.5 + number / 10_000)
        simulation.reset(out, [number % 8], contract=contract)
    assert len(simulation.randomisation._contracts) <= 64
    for env in range(8):
        expected = 0.5 + (992 + env) / 10_000
        assert simulation.randomisation.contract_of(env).friction == (expected, expected)


def test_a_file_of_ones_own_needs_no_task(tmp_path: Path) -> None:
    path = tmp_path / "arm.xml"
    path.write_text(
        "<mujoco><worldbody><body><joint name='elbow' axis='0 1 0'/>"
        "<geom size='0.1' pos='0.3 0 0'/></body></worldbody>"
        "<actuator><motor joint='elbow' name='pull'/></actuator></mujoco>"
    )
    simulation, out = made(path, 3)
    assert simulation.task.name == "free"
    assert simulation.observation_names == ["qpos/elbow", "qvel/elbow"]
    low, high = simulation.action_limits()
    assert (low.item(), high.item()) == (-np.inf, np.inf)
    simulation.step(np.full((3, 1), 2.0, np.float32), out)
    np.testing.assert_allclose(out.rewards, -0.04, rtol=1e-6)
    assert not out.dones.any()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("<mujoco><worldbody>", "MuJoCo can not load it"),
        ("this is no XML", "MuJoCo can not load it"),
        ("<mujoco><worldbody><geom size='.1'/></worldbody></mujoco>", "has no actuators"),
        (
            "<mujoco><worldbody><body><joint/></body></worldbody></mujoco>",
            "MuJoCo can not load it",
        ),
    ],
)
def test_a_broken_model_is_refused_with_what_is_wrong(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "model.xml"
    path.write_text(text)
    with pytest.raises(ModelError, match=told):
        VectorSimulation(path, 1)


def test_a_model_that_is_not_there_is_told_with_those_that_are(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="built in are cartpole, halfcheetah, hopper, humanoid"):
        VectorSimulation("humaniod", 1)
    with pytest.raises(ModelError, match="is a directory"):
        VectorSimulation(tmp_path, 1)
    with pytest.raises(ModelError, match="MuJoCo reads"):
        VectorSimulation(Path(__file__), 1)


def test_a_task_refuses_a_model_that_it_is_not_for() -> None:
    with pytest.raises(ModelError, match="needs joints that the model lacks: root_x"):
        VectorSimulation("cartpole", 1, task="hopper")
    with pytest.raises(ModelError, match="freejoint"):
        VectorSimulation("hopper", 1, task="humanoid-walk")
    with pytest.raises(ModelError, match="unknown task 'fly'"):
        VectorSimulation("hopper", 1, task="fly")


@pytest.mark.parametrize(
    "options",
    [{"num_envs": 0}, {"num_envs": 1, "threads": 0}, {"num_envs": 1, "episode_steps": -1}],
)
def test_impossible_numbers_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"not (0|-1)"):
        VectorSimulation("hopper", **options)
