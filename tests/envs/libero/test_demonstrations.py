"""Demonstrations: LIBERO's file format written and read, and controllers that make some."""

from __future__ import annotations

import json
from pathlib import Path

import h5py
import numpy as np
import pytest

from wmrl_gym.envs.libero.demonstrations import (
    Demonstration,
    DemonstrationExamples,
    is_no_op,
    write_demonstrations,
)
from wmrl_gym.envs.libero.pool import SimulatorPool
from wmrl_gym.envs.libero.recording import record_demonstration
from wmrl_gym.envs.libero.scripted_control import SCRIPTS, script_for

STEPS = 6
SIZE = 8


def made_up(seed: int = 0, steps: int = STEPS, instruction: str = "close the drawer") -> Demonstration:
    rng = np.random.default_rng(seed)
    return Demonstration(
        instruction=instruction,
        images={"agentview": rng.integers(0, 256, (steps, SIZE, SIZE, 3), np.uint8)},
        robot_states=rng.normal(size=(steps, 8)).astype(np.float32),
        joints=rng.normal(size=(steps, 7)),
        states=rng.normal(size=(steps, 20)),
        actions=rng.uniform(-1, 1, (steps, 7)).astype(np.float32),
    )


def libero_style(path: Path, demonstration: Demonstration, **attributes: str) -> Path:
    """The file as LIBERO's own script writes it: every observation from after its row's action."""
    with h5py.File(path, "w") as file:
        data = file.create_group("data")
        data.attrs.update(attributes)
        group = data.create_group("demo_0")
        group["actions"] = demonstration.actions
        group["obs/agentview_rgb"] = demonstration.images["agentview"]
        group["obs/ee_states"] = demonstration.robot_states[:, :6]
        group["obs/gripper_states"] = demonstration.robot_states[:, 6:]
    return path


def test_what_is_written_is_read_as_the_environment_would_show_it(tmp_path: Path) -> None:
    given = [made_up(0), made_up(1, steps=4)]
    write_demonstrations(tmp_path / "task_demo.hdf5", given)
    examples = DemonstrationExamples(tmp_path, chunk=3)
    assert len(examples) == 10
    observation, actions = examples[1]
    np.testing.assert_array_equal(observation["agentview_image"], given[0].images["agentview"][1][::-1])
    np.testing.assert_allclose(observation["state"], given[0].robot_states[1], rtol=1e-6)
    assert observation["instruction"] == "close the drawer"
    np.testing.assert_array_equal(actions, given[0].actions[1:4])
    # What would lie beyond the end is the last action again, never another demonstration's first.
    np.testing.assert_array_equal(examples[5][1], given[0].actions[[5, 5, 5]])
    np.testing.assert_array_equal(examples[6][1], given[1].actions[:3])
    assert examples[0][1].dtype == np.float32 and examples[0][0]["agentview_image"].dtype == np.uint8


def test_file_has_the_groups_and_attributes_of_liberos_own(tmp_path: Path) -> None:
    write_demonstrations(tmp_path / "d.hdf5", [made_up()], env_name="Libero_Kitchen_Tabletop_Manipulation")
    with h5py.File(tmp_path / "d.hdf5") as file:
        data, group = file["data"], file["data/demo_0"]
        assert json.loads(data.attrs["problem_info"])["language_instruction"] == "close the drawer"
        assert (data.attrs["num_demos"], data.attrs["total"], data.attrs["macros_image_convention"]) == (1, 6, "opengl")
        assert {"actions", "states", "robot_states", "rewards", "dones", "obs"} == set(group)
        assert {"agentview_rgb", "ee_states", "ee_pos", "ee_ori", "gripper_states", "joint_states"} == set(group["obs"])
        assert group["robot_states"].shape == (STEPS, 9)
        assert group["dones"][:].tolist() == group["rewards"][:].tolist() == [0, 0, 0, 0, 0, 1]
        np.testing.assert_array_equal(group["states"][0], group.attrs["init_state"])
        # Fingers, position, quaternion of length one.
        np.testing.assert_allclose(np.linalg.norm(group["robot_states"][:, 5:], axis=1), 1.0)


def test_observation_from_after_an_action_is_answered_by_the_next_one(tmp_path: Path) -> None:
    given = made_up()
    path = libero_style(tmp_path / "KITCHEN_SCENE5_close_it_demo.hdf5", given)
    examples = DemonstrationExamples(path, chunk=2)
    assert len(examples) == STEPS - 1
    np.testing.assert_array_equal(examples[0][0]["agentview_image"], given.images["agentview"][0][::-1])
    np.testing.assert_array_equal(examples[0][1], given.actions[1:3])
    assert examples[0][0]["instruction"] == "close it"
    said = DemonstrationExamples(path, chunk=2, seen="before_action")
    assert len(said) == STEPS
    np.testing.assert_array_equal(said[0][1], given.actions[:2])


def test_instruction_noted_in_the_file_wins_over_its_name(tmp_path: Path) -> None:
    noted = json.dumps({"language_instruction": "shut the drawer"})
    path = libero_style(tmp_path / "other_demo.hdf5", made_up(), problem_info=noted)
    assert DemonstrationExamples(path)[0][0]["instruction"] == "shut the drawer"
    assert DemonstrationExamples(path)[0][1].shape == (7,)


@pytest.mark.parametrize(
    ("orientation", "turn"),
    [("raw", np.s_[:, :]), ("flip_vertical", np.s_[::-1, :]), ("rotate_180", np.s_[::-1, ::-1])],
)
def test_images_are_turned_as_asked(tmp_path: Path, orientation: str, turn: tuple[slice, slice]) -> None:
    given = made_up()
    write_demonstrations(tmp_path / "d.hdf5", [given])
    examples = DemonstrationExamples(tmp_path / "d.hdf5", orientation=orientation)  # type: ignore[arg-type]
    np.testing.assert_array_equal(examples[0][0]["agentview_image"], given.images["agentview"][0][turn])


def test_actions_that_do_nothing_are_left_out_where_asked(tmp_path: Path) -> None:
    given = made_up()
    given.actions[:, 6] = 1.0
    given.actions[[1, 3], :6] = 0.0
    given.actions[4:, 6] = -1.0
    given.actions[4, :6] = 0.0  # still, but the gripper opens
    np.testing.assert_array_equal(is_no_op(given.actions), [False, True, False, True, False, False])
    write_demonstrations(tmp_path / "d.hdf5", [given])
    examples = DemonstrationExamples(tmp_path / "d.hdf5", chunk=2, drop_no_ops=True)
    np.testing.assert_array_equal(np.stack([actions for _, actions in examples])[:, 0], given.actions[[0, 2, 4, 5]])
    np.testing.assert_array_equal(examples[0][1], given.actions[[0, 2]])


def test_first_demonstrations_of_each_file_are_taken_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    write_demonstrations(tmp_path / "d.hdf5", [made_up(i, steps=1) for i in range(11)])
    two = DemonstrationExamples(tmp_path / "d.hdf5", demonstrations=3)
    np.testing.assert_array_equal(two[2][1], made_up(2, steps=1).actions[0])  # not demo_10


def test_wrong_files_are_told(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        DemonstrationExamples(tmp_path / "nowhere.hdf5")
    with pytest.raises(FileNotFoundError, match="no HDF5 files"):
        DemonstrationExamples(tmp_path)
    with h5py.File(tmp_path / "other.hdf5", "w") as file:
        file["data/episode_0/actions"] = np.zeros((2, 7))
    with pytest.raises(ValueError, match="no file of demonstrations"):
        DemonstrationExamples(tmp_path / "other.hdf5")
    with pytest.raises(ValueError, match="one task"):
        write_demonstrations(tmp_path / "d.hdf5", [made_up(), made_up(instruction="open it")])


def test_task_without_a_script_is_told() -> None:
    with pytest.raises(ValueError, match="close_the_top_drawer"):
        script_for("make_coffee")


@pytest.mark.sim_long
def test_scripted_controller_closes_the_drawer_and_its_record_makes_examples(
    pool: SimulatorPool, tmp_path: Path
) -> None:
    task = next(iter(SCRIPTS))
    given = record_demonstration(pool, "libero_90", task, 40, image_size=32)
    assert given is not None and 30 <= len(given.actions) <= 45
    assert given.instruction == "close the top drawer of the cabinet"
    # The drawer's joint is the only one that closes by 14 cm.
    moved = given.states[-1] - given.states[0]
    assert np.isclose(moved, 0.145, atol=0.02).sum() == 1
    write_demonstrations(tmp_path / "d.hdf5", [given])
    observation, actions = DemonstrationExamples(tmp_path, chunk=8)[0]
    assert observation["agentview_image"].shape == (32, 32, 3) and actions.shape == (8, 7)
    assert record_demonstration(pool, "libero_90", task, 40, image_size=32, horizon=20) is None
