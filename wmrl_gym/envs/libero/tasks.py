"""The tasks of a suite: their names, instructions and given initial states."""

from __future__ import annotations

import contextlib
import dataclasses
import io
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmrl_gym.envs.libero.package import answer_its_question
from wmrl_gym.envs.libero.versions import installed_versions

LIBERO_LONG = "libero_10"


@dataclasses.dataclass(frozen=True, order=True)
class TaskReference:
    """A task of a suite, as simulators know it."""

    suite: str
    index: int


@cache
def load_suite(name: str) -> Any:
    """LIBERO's own description of a suite, in its default task order.

    Raises:
        ImportError: if LIBERO is not installed.
        UnsupportedSimulator: if it is, but with a simulator whose results are not comparable.
        ValueError: if there is no such suite.
    """
    installed_versions()
    answer_its_question()
    # What it prints while it is imported and built is noise.
    with contextlib.redirect_stdout(io.StringIO()):
        from libero.libero import benchmark

        suites = benchmark.get_benchmark_dict()
        if name not in suites:
            known = ", ".join(sorted(key for key in suites if key.startswith("libero_10"))) or ", ".join(sorted(suites))
            raise ValueError(f"LIBERO has no suite {name!r}\n  there are: {known}")
        suite = suites[name]()
    if not suite.n_tasks:
        raise ValueError(f"suite {name!r} of the installed LIBERO holds no tasks: choose another one")
    return suite


def task_names(suite: str = LIBERO_LONG) -> list[str]:
    """Names of a suite's tasks, in order; a task's index is its place in this list."""
    loaded = load_suite(suite)
    return [str(loaded.get_task(index).name) for index in range(loaded.n_tasks)]


def instruction(task: TaskReference) -> str:
    """What the robot is told to do."""
    return str(load_suite(task.suite).get_task(task.index).language)


def bddl_file(task: TaskReference) -> Path:
    """The file that describes the scene and the goal."""
    described = load_suite(task.suite).get_task(task.index)
    with contextlib.redirect_stdout(io.StringIO()):
        from libero.libero import get_libero_path

        return Path(get_libero_path("bddl_files")) / described.problem_folder / described.bddl_file


@cache
def given_initial_states(task: TaskReference) -> NDArray[np.float64]:
    """The initial states LIBERO gives for a task: (time, qpos, qvel) flattened, shape (50, 1 + nq + nv)."""
    with contextlib.redirect_stdout(io.StringIO()):
        states = np.asarray(load_suite(task.suite).get_task_init_states(task.index), np.float64)
    states.flags.writeable = False
    return states


def parse_task(text: str, suite: str = LIBERO_LONG) -> tuple[TaskReference, int | None]:
    """Read a task's name or index, which may name an initial state: "3", "3@12", "LIVING_ROOM_...@7".

    Returns:
        The task, and the index of the initial state, or None if none is named.

    Raises:
        ValueError: if there is no such task.
    """
    name, has_state, state = str(text).partition("@")
    names = task_names(suite)
    index = int(name) if name.isdecimal() else names.index(name) if name in names else -1
    if not 0 <= index < len(names) or (has_state and not state.isdecimal()):
        listed = "\n".join(f"    {i}  {known}" for i, known in enumerate(names))
        raise ValueError(
            f"suite {suite!r} has no task {text!r}\n  give a name or an index, and after @ the initial state if it is "
            f"to be a certain one, as in '3@12':\n{listed}"
        )
    return TaskReference(suite, index), int(state) if has_state else None


def libero_long_tasks() -> list[str]:
    """Names of LIBERO-Long's ten tasks, for ``tasks.train`` and ``tasks.held_out``."""
    return task_names(LIBERO_LONG)


def libero_long_categories() -> dict[str, str]:
    """The scene of each task ("kitchen", "living room", "study"), for ``tasks.categories``."""
    return {name: name.partition("_SCENE")[0].replace("_", " ").lower() for name in libero_long_tasks()}


def split_initial_states(count: int = 50, held_out: int = 10) -> tuple[list[int], list[int]]:
    """Indices of the initial states for training and those held out: the last ones of each task.

    The given states are exchangeable draws, so it does not matter which are held out, only that they are.

    Args:
        count: how many there are.
        held_out: how many training must never see.
    """
    if not 0 < held_out < count:
        raise ValueError(f"held_out is {held_out}: hold out at least one of {count} states, and keep at least one")
    return list(range(count - held_out)), list(range(count - held_out, count))


def with_initial_states(tasks: Sequence[str], states: Sequence[int]) -> list[str]:
    """Every task with every initial state, in the notation of `parse_task`: "name@0" and so on."""
    return [f"{task}@{state}" for task in tasks for state in states]
