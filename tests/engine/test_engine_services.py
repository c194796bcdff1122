"""The services, each against MuJoCo itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import mujoco
import numpy as np
import pytest
from served_engine import Serve

from lanekit import RemoteError, WaitTimeout
from lanekit.command import messages as m
from lanekit.engine import EngineClient, SimulationContract
from patience import patience

Connect = Callable[[], EngineClient]
TOLERANCE = {"rtol": 1e-6, "atol": 1e-6}  # the messages carry single precision


@pytest.fixture
def humanoid(serve: Serve, client: Connect) -> tuple[EngineClient, mujoco.MjModel, mujoco.MjData]:
    """A trainer after some steps, and MuJoCo with the state of environment 2."""
    served = serve("humanoid", 3)
    trainer = client()
    trainer.reset(seed=5)
    for step in range(8):
        actions = np.random.default_rng(step).uniform(-1, 1, (3, 17)).astype(np.float32)
        trainer.step(actions)
    data = served.simulation.batch.get_data(2)
    mujoco.mj_forward(served.simulation.model, data)
    return trainer, served.simulation.model, data


# --- Agent ----------------------------------------------------------------------------------------


def test_the_schema_tells_what_the_model_has(serve: Serve, client: Connect) -> None:
    served = serve("hopper", 7)
    schema = client().schema()
    model = served.simulation.model
    assert schema.observation_size == len(schema.observation_names) == 11
    assert list(schema.action_names) == ["hip", "knee", "ankle"]
    np.testing.assert_array_equal(schema.action_low, model.actuator_ctrlrange[:, 0])
    np.testing.assert_array_equal(schema.action_high, model.actuator_ctrlrange[:, 1])
    assert (schema.num_envs, schema.observation_dtype, schema.action_dtype) == (7, "<f4", "<f4")
    assert schema.step_seconds == 4 * model.opt.timestep
    assert schema.episode_steps == 500


def test_a_reset_with_a_contract_tells_what_each_environment_got(
    serve: Serve, client: Connect
) -> None:
    served = serve("hopper", 5)
    trainer = client()
    contract = SimulationContract(friction=(0.5, 1.5), mass_scale=(0.8, 1.2), gravity_scale=0.5)
    report = trainer.reset_agent(contract, [3, 1], seed=4)
    assert report.env_ids.tolist() == [3, 1]
    for place, env in enumerate((3, 1)):
        model = served.simulation.batch.get_model(env)
        assert model.geom_friction[0, 0] == pytest.approx(report.friction[place])
        scale = model.body_mass[1] / served.simulation.model.body_mass[1]
        assert scale == pytest.approx(report.mass_scale[place])
        assert report.gravity_scale[place] == pytest.approx(0.5)
        assert report.motor_strength[place] == 1.0
    first = trainer.obs.copy()
    trainer.reset_agent(contract, [3, 1], seed=4)
    np.testing.assert_array_equal(trainer.obs, first)


def test_seeds_that_do_not_go_round_are_refused_by_every_reset(
    serve: Serve, client: Connect
) -> None:
    serve("hopper", 3)
    trainer = client()
    last = 2**64 - 1
    trainer.reset([2], seed=last)
    expected = trainer.obs[2].copy()
    trainer.reset_agent(None, [2], seed=last)
    np.testing.assert_array_equal(trainer.obs[2], expected)
    with pytest.raises(ValueError, match=r"from 0 to 2\*\*64 - 1"):
        trainer.reset([0, 1], seed=last)
    with pytest.raises(RemoteError, match=r"seeds end at 2\*\*64 - 1"):
        trainer.reset_agent(None, [0, 1], seed=last)
    with pytest.raises(RemoteError, match=r"seeds end at 2\*\*64 - 1"):
        trainer.reset_scene(env_ids=[0, 1], seed=last)


def test_actions_that_are_set_ahead_count_for_one_step(serve: Serve, client: Connect) -> None:
    served = serve("hopper", 3)
    trainer = client()
    trainer.reset(seed=1)
    trainer.set_action_group([0.75, -0.5], [0, 2], [1])
    trainer.step(np.full((3, 3), 0.25, np.float32))
    expected = np.full((3, 3), 0.25)
    expected[1] = [0.75, 0.25, -0.5]
    np.testing.assert_array_equal(served.simulation.state.ctrl, expected)
    trainer.step(np.full((3, 3), 0.25, np.float32))
    np.testing.assert_array_equal(served.simulation.state.ctrl, np.full((3, 3), 0.25))
    with pytest.raises(RemoteError, match="actions are numbered from 0 to 2"):
        trainer.set_action_group([1.0], [3])
    with pytest.raises(RemoteError, match="they go in pairs"):
        trainer.set_action_group([1.0, 2.0], [1])


def test_progress_that_is_reported_is_kept(serve: Serve, client: Connect) -> None:
    served = serve("cartpole", 1)
    assert client().report_progress(m.ReportProgressRequest(run_id="r", phase="running"))
    assert served.engine.agent.progress is not None
    assert served.engine.agent.progress.phase == "running"


def test_a_task_that_the_engine_does_is_valid_and_another_is_told_why_not(
    serve: Serve, client: Connect
) -> None:
    serve("hopper", 1)
    trainer = client()
    good = trainer.validate_task(
        m.TaskContract(
            task_id="hopper",
            scene="hopper",
            required_observations=[m.ObservationTerm("qpos/*")],
            optional_observations=[m.ObservationTerm("qvel/knee"), m.ObservationTerm("lidar")],
            actions=[m.ActionTerm(joint_pattern="*")],
            engine_rewards=[m.RewardTerm("hopper")],
            terminations=[m.TerminationTerm("time_limit", is_timeout=True)],
            simulation=m.SimulationContract(friction_range=m.Range(0.5, 1.0)),
        )
    )
    assert good.is_valid
    assert not good.errors
    assert list(good.resolved_optionals) == ["qvel/knee"]
    assert list(good.unresolved_optionals) == ["lidar"]
    bad = trainer.validate_task(
        m.TaskContract(
            task_id="walker",
            robot="spot",
            required_observations=[m.ObservationTerm("lidar")],
            actions=[m.ActionTerm(joint_pattern="wheel*")],
            engine_rewards=[m.RewardTerm("speed")],
            terminations=[m.TerminationTerm("bored")],
            simulation=m.SimulationContract(terrain_type="stairs"),
            custom_randomizations=[m.CustomRandomization("colour")],
        )
    )
    assert not bad.is_valid
    assert [finding.component for finding in bad.errors] == [
        *("task", "robot", "observations", "actions", "rewards", "terminations"),
        *("randomizations", "simulation"),
    ]


# --- Mujoco ---------------------------------------------------------------------------------------


def test_joint_states_are_mujocos(
    humanoid: tuple[EngineClient, mujoco.MjModel, mujoco.MjData],
) -> None:
    trainer, _, data = humanoid
    state = trainer.joint_state(2)
    np.testing.assert_allclose(state.positions, data.qpos, **TOLERANCE)
    np.testing.assert_allclose(state.velocities, data.qvel, **TOLERANCE)
    full = trainer.full_state(2)
    np.testing.assert_allclose(full.qpos, data.qpos, **TOLERANCE)
    np.testing.assert_allclose(full.ctrl, data.ctrl, **TOLERANCE)
    assert full.time == data.time
    with trainer.stream_joint_state(2, fps=200) as stream:
        for _ in range(3):
            item = stream.next(timeout=patience())
            assert item is not None
            assert item.state is not None
            np.testing.assert_allclose(item.state.positions, data.qpos, **TOLERANCE)


def test_the_models_description_is_mujocos(
    humanoid: tuple[EngineClient, mujoco.MjModel, mujoco.MjData],
) -> None:
    trainer, model, _ = humanoid
    info = trainer.mujoco_info()
    assert (info.nq, info.nv, info.nu) == (model.nq, model.nv, model.nu)
    found = trainer.model_info()
    assert len(found.joints) == model.njnt
    for joint in found.joints:
        own = model.joint(joint.index)
        assert joint.name == own.name == info.joint_names[joint.index]
        assert joint.qpos_adr == own.qposadr[0]
        assert joint.qvel_adr == own.dofadr[0]
        assert int(joint.type) == int(own.type[0])
        assert (joint.range is not None) == bool(own.limited[0])
        if joint.range is not None:
            np.testing.assert_allclose([joint.range.min, joint.range.max], own.range, **TOLERANCE)
    for actuator in found.actuators:
        target = model.joint(actuator.target_joint_index)
        assert target.name == actuator.name
        assert actuator.ctrl_range == m.Range(-1.0, 1.0)


def test_positions_can_be_set_all_or_some(serve: Serve, client: Connect) -> None:
    served = serve("humanoid", 2)
    trainer = client()
    trainer.reset(seed=1)
    knee = int(served.simulation.model.joint("left_knee").qposadr[0])
    other = served.simulation.state.qpos[0].copy()
    assert trainer.set_qpos([0.5], [knee], env=1) == 1
    assert served.simulation.state.qpos[1, knee] == 0.5
    np.testing.assert_array_equal(served.simulation.state.qpos[0], other)
    wanted = served.simulation.model.qpos0.copy()
    wanted[3:7] = [2.0, 0.0, 0.0, 0.0]
    assert trainer.set_qpos(wanted, env=1) == len(wanted)
    np.testing.assert_array_equal(served.simulation.state.qpos[1, 3:7], [1.0, 0.0, 0.0, 0.0])
    with pytest.raises(RemoteError, match="positions for"):
        trainer.set_qpos([1.0, 2.0], env=1)
    with pytest.raises(RemoteError, match="finite"):
        trainer.set_qpos([np.nan], [knee])
    with pytest.raises(RemoteError, match="from 0 to 25"):
        trainer.set_qpos([0.0], [26])


def test_a_scene_is_reset_to_a_keyframe(serve: Serve, client: Connect, tmp_path: Path) -> None:
    path = tmp_path / "arm.xml"
    path.write_text(
        "<mujoco><worldbody><body><joint name='elbow' axis='0 1 0'/>"
        "<geom size='0.1' pos='0.3 0 0'/></body></worldbody>"
        "<actuator><motor joint='elbow'/></actuator>"
        "<keyframe><key name='bent' qpos='0.5'/></keyframe></mujoco>"
    )
    serve(str(path), 2)
    trainer = client()
    trainer.reset_scene("bent", [1])
    np.testing.assert_allclose(trainer.obs[:, 0], [0.0, 0.5])
    trainer.reset_scene()
    np.testing.assert_allclose(trainer.obs[:, 0], [0.0, 0.0])
    with pytest.raises(RemoteError, match="no keyframe 'upside down'; it has bent"):
        trainer.reset_scene("upside down")


def test_controls_must_fit_the_actuators(serve: Serve, client: Connect) -> None:
    served = serve("hopper", 2)
    trainer = client()
    trainer.send_control([0.1, 0.2, 0.3], env=1)
    np.testing.assert_allclose(served.simulation.state.ctrl[1], [0.1, 0.2, 0.3], **TOLERANCE)
    with pytest.raises(RemoteError, match="there are 3 actuators"):
        trainer.send_control([0.1])
    with pytest.raises(RemoteError, match="finite"):
        trainer.send_control([0.1, np.inf, 0.0])


# --- Telemetry ------------------------------------------------------------------------------------


def test_telemetry_streams_the_signals_that_mujoco_computes(
    humanoid: tuple[EngineClient, mujoco.MjModel, mujoco.MjData],
) -> None:
    trainer, model, data = humanoid
    names = list(trainer.telemetry_schema().signal_names)
    assert len(names) == len(set(names)) == model.nq + model.nv + model.nu + model.nsensordata + 4
    with trainer.stream_telemetry(env=2) as stream:
        frame = stream.next(timeout=patience())
    assert frame is not None
    signals = dict(zip(names, frame.values.tolist(), strict=True))
    expected = np.concatenate([data.qpos, data.qvel, data.ctrl, data.sensordata])
    np.testing.assert_allclose(frame.values[: len(expected)], expected, rtol=1e-5, atol=1e-5)
    assert signals["time"] == pytest.approx(data.time)
    assert signals["reward"] == trainer.lane.rewards[2]
    assert signals["episode_length"] == 8
    gyro = data.sensor("gyro").data
    assert [signals[f"sensor/gyro.{i}"] for i in range(3)] == pytest.approx(gyro, abs=1e-5)
    with trainer.stream_telemetry(["sensor/gyro.1", "qpos/left_knee"], env=2, fps=100) as stream:
        for _ in range(3):
            frame = stream.next(timeout=patience())
            assert frame is not None
            knee = data.joint("left_knee").qpos[0]
            assert frame.values.tolist() == pytest.approx([gyro[1], knee], abs=1e-5)


def test_telemetry_follows_the_steps_and_keeps_to_its_rate(serve: Serve, client: Connect) -> None:
    serve("cartpole", 1)
    trainer = client()
    trainer.reset(seed=1)
    with trainer.stream_telemetry(["episode_length"], fps=50) as stream:
        lengths, stamps = [], []
        while len(lengths) < 6:
            trainer.step(np.zeros((1, 1), np.float32))
            try:
                frame = stream.next(timeout=0.001)
            except WaitTimeout:
                continue
            assert frame is not None
            lengths.append(frame.values[0])
            stamps.append(frame.timestamp_ms)
    assert stamps[-1] - stamps[0] >= 4 * 20  # never faster than asked
    assert len(set(lengths)) > 1


def test_an_unknown_signal_is_told_with_one_like_it(serve: Serve, client: Connect) -> None:
    serve("hopper", 1)
    trainer = client()
    with pytest.raises(RemoteError, match="no signal 'knee'; is 'qpos/knee' meant"):
        trainer.stream_telemetry(["knee"]).next(timeout=patience())


# --- Scene ----------------------------------------------------------------------------------------


def test_entities_are_where_mujoco_has_the_bodies(
    humanoid: tuple[EngineClient, mujoco.MjModel, mujoco.MjData],
) -> None:
    trainer, model, data = humanoid
    info = trainer.scene_info()
    assert (info.scene_name, info.entity_count) == ("humanoid", model.nbody - 1)
    entities = trainer.entities(2, components=True)
    assert [entity.id for entity in entities] == list(range(1, model.nbody))
    for entity in entities:
        assert entity.transform is not None
        at, turn = entity.transform.position, entity.transform.rotation
        assert at is not None
        assert turn is not None
        np.testing.assert_allclose([at.x, at.y, at.z], data.xpos[entity.id], **TOLERANCE)
        quaternion = [turn.w, turn.x, turn.y, turn.z]
        np.testing.assert_allclose(quaternion, data.xquat[entity.id], **TOLERANCE)
        assert entity.name == model.body(entity.id).name
    shin = trainer.entity("left_shin", env=2)
    assert list(shin.components) == ["joint:left_knee", "geom:left_shin"]
    assert trainer.entity(shin.id, env=2) == shin
    assert all(entity.transform is None for entity in trainer.entities(transforms=False))


def test_a_free_body_can_be_placed_and_one_on_joints_can_not(serve: Serve, client: Connect) -> None:
    served = serve("humanoid", 2)
    trainer = client()
    trainer.set_entity_transform("torso", (1.0, 2.0, 3.0), (0.0, 0.0, 1.0, 1.0), env=1)
    at = served.simulation.state.qpos[1, :7]
    half = np.sqrt(0.5)
    np.testing.assert_allclose(at, [1.0, 2.0, 3.0, half, 0.0, 0.0, half])
    trainer.set_entity_transform("torso", (0.0, 0.0, 1.5), env=1)
    np.testing.assert_allclose(served.simulation.state.qpos[1, 3:7], [half, 0.0, 0.0, half])
    assert served.simulation.state.qpos[0, 0] == 0.0
    with pytest.raises(RemoteError, match="hangs on its joints"):
        trainer.set_entity_transform("left_shin", (0.0, 0.0, 0.0))
    with pytest.raises(RemoteError, match="no position and no rotation"):
        trainer.set_entity_transform("torso")
    with pytest.raises(RemoteError, match="quaternion of length 1"):
        trainer.set_entity_transform("torso", rotation=(0.0, 0.0, 0.0, 0.0))


def test_a_mocap_body_can_be_placed(serve: Serve, client: Connect, tmp_path: Path) -> None:
    path = tmp_path / "target.xml"
    path.write_text(
        "<mujoco><worldbody><body name='target' mocap='true'><geom size='.1'/></body>"
        "<body><joint name='j' type='slide'/><geom size='.1' pos='1 0 0'/></body></worldbody>"
        "<actuator><motor joint='j'/></actuator></mujoco>"
    )
    serve(str(path), 2)
    trainer = client()
    trainer.set_entity_transform("target", (0.5, 0.25, 0.125), env=1)
    trainer.step(np.zeros((2, 1), np.float32))
    moved, stayed = (trainer.entity("target", env=env).transform for env in (1, 0))
    assert moved is not None
    assert stayed is not None
    assert moved.position == m.Vec3(0.5, 0.25, 0.125)
    assert stayed.position == m.Vec3(0.0, 0.0, 0.0)


@pytest.mark.parametrize("which", ["nobody", 99])
def test_an_unknown_entity_is_told_with_those_that_are_there(
    serve: Serve, client: Connect, which: int | str
) -> None:
    serve("cartpole", 1)
    with pytest.raises(RemoteError, match=r"cart, pole|from 1 to 2"):
        client().entity(which)


def test_an_environment_that_is_not_there_is_refused_by_every_service(
    serve: Serve, client: Connect
) -> None:
    serve("cartpole", 2)
    trainer = client()
    calls: list[Callable[[], object]] = [
        lambda: trainer.joint_state(2),
        lambda: trainer.full_state(2),
        lambda: trainer.set_qpos([0.0, 0.0], env=2),
        lambda: trainer.send_control([0.0], env=2),
        lambda: trainer.entities(2),
        lambda: trainer.entity("cart", 2),
        lambda: trainer.set_entity_transform(1, (0.0, 0.0, 0.0), env=2),
        lambda: trainer.draw(env=2),
        lambda: trainer.stream_joint_state(2).next(timeout=patience()),
        lambda: trainer.stream_telemetry(env=2).next(timeout=patience()),
        lambda: trainer.stream_viewport(env=2).next(timeout=patience()),
    ]
    for call in calls:
        with pytest.raises(RemoteError, match="numbered from 0 to 1, not 2"):
            call()
    for wrong in ([2], [-1]):
        with pytest.raises(ValueError, match="numbered from 0 to 1"):
            trainer.reset_agent(env_ids=wrong)
    assert trainer.joint_state(1).positions.shape == (2,)
