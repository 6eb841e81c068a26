"""Tasks are named, numbered, and may name their initial state."""

from __future__ import annotations

import pytest

from wmrl_gym.envs.libero.tasks import (
    TaskReference,
    given_initial_states,
    instruction,
    libero_long_categories,
    libero_long_tasks,
    parse_task,
    split_initial_states,
    task_names,
    with_initial_states,
)


def test_train_and_held_out_states_share_none_and_leave_none_out() -> None:
    train, held_out = split_initial_states(50, 10)
    assert sorted(train + held_out) == list(range(50))
    assert len(held_out) == 10
    with pytest.raises(ValueError, match="hold out"):
        split_initial_states(50, 50)


def test_every_task_with_every_state() -> None:
    assert with_initial_states(["3", "4"], [40, 41]) == ["3@40", "3@41", "4@40", "4@41"]


@pytest.mark.sim
def test_a_task_is_found_by_name_and_by_index() -> None:
    names = libero_long_tasks()
    assert len(names) == len(set(names)) == 10
    for index, name in enumerate(names):
        assert parse_task(name) == parse_task(str(index)) == (TaskReference("libero_10", index), None)
    assert parse_task("3@12") == parse_task(f"{names[3]}@12") == (TaskReference("libero_10", 3), 12)
    assert instruction(TaskReference("libero_10", 8)) == "put both moka pots on the stove"


@pytest.mark.sim
@pytest.mark.parametrize("text", ["10", "-1", "3@", "3@x", "PICK_UP", ""])
def test_an_unknown_task_is_answered_with_all_known_ones(text: str) -> None:
    with pytest.raises(ValueError, match="LIVING_ROOM_SCENE1_put_both"):
        parse_task(text)


@pytest.mark.sim
def test_every_task_has_fifty_given_states_and_a_scene() -> None:
    assert {len(given_initial_states(TaskReference("libero_10", i))) for i in range(10)} == {50}
    assert set(libero_long_categories().values()) == {"living room", "kitchen", "study"}
    assert list(libero_long_categories()) == libero_long_tasks()


@pytest.mark.sim
def test_suites_of_other_initial_states_hold_the_same_number_of_tasks() -> None:
    assert len(task_names("libero_10_swap")) == 10
    with pytest.raises(ValueError, match="libero_10_swap"):
        task_names("libero_11")
