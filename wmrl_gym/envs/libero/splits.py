"""Which tasks and initial states an experiment trains on, and which it is measured on.

LIBERO gives fifty initial states of each task, and published runs train and evaluate on the same ones. Here the last
ten of each task are held out. The functions are for ``tasks.train``, ``tasks.held_out`` and ``tasks.categories``; each
task with an initial state is a task of its own there ("name@12"), and its category is the name.
"""

from __future__ import annotations

from wmrl_gym.envs.libero.scripted_control import SCRIPTS
from wmrl_gym.envs.libero.tasks import libero_long_tasks, split_initial_states, with_initial_states

DRAWERS = tuple(SCRIPTS)
"""Two tasks of "libero_90" that are done in less than fifty environment steps: close the top drawer of a cabinet, which
stands on the left in one scene and on the right in the other."""


def libero_long_train() -> list[str]:
    """LIBERO-Long's ten tasks, each with the initial states that are trained on."""
    return with_initial_states(libero_long_tasks(), split_initial_states()[0])


def libero_long_held_out() -> list[str]:
    """LIBERO-Long's ten tasks, each with the initial states that are held out."""
    return with_initial_states(libero_long_tasks(), split_initial_states()[1])


def libero_long_task_of_each() -> dict[str, str]:
    """The task of each of `libero_long_held_out`."""
    return {name: name.partition("@")[0] for name in libero_long_held_out()}


def drawers_train() -> list[str]:
    """The two drawers, each with the initial states that are trained on."""
    return with_initial_states(DRAWERS, split_initial_states()[0])


def drawers_held_out() -> list[str]:
    """The two drawers, each with the initial states that are held out."""
    return with_initial_states(DRAWERS, split_initial_states()[1])


def drawers_task_of_each() -> dict[str, str]:
    """The task of each of `drawers_held_out`."""
    return {name: name.partition("@")[0] for name in drawers_held_out()}
