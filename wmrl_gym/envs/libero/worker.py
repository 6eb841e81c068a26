"""A simulator process: takes jobs from a pipe, one after the other, and remembers nothing but loaded tasks.

Started as ``python -m wmrl_gym.envs.libero.worker <descriptor> <tasks kept loaded>``. A fresh interpreter, because a
graphics context does not survive a fork; and not `multiprocessing`'s, because that would run the user's script again.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import traceback
from collections import OrderedDict
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wmrl_gym.envs.libero.simulator import Simulator
    from wmrl_gym.envs.libero.tasks import TaskReference


def serve(connection: Connection, capacity: int) -> None:
    """Answer jobs until the other side closes: "loaded" once the task is there, then "done" or "failed"."""
    simulators: OrderedDict[TaskReference, Simulator] = OrderedDict()
    # The other side is gone: nobody is left to be told.
    with contextlib.suppress(EOFError, ConnectionError):
        while True:
            job = connection.recv()
            try:
                simulator = _loaded(simulators, job.task, capacity)
                connection.send(("loaded", tuple(simulators)))
                connection.send(("done", simulator.run(job)))
            except ConnectionError:
                raise
            except Exception:
                connection.send(("failed", traceback.format_exc()))


def _loaded(simulators: OrderedDict[TaskReference, Simulator], task: TaskReference, capacity: int) -> Simulator:
    if task not in simulators:
        from wmrl_gym.envs.libero.simulator import Simulator

        while len(simulators) >= capacity:
            simulators.popitem(last=False)[1].close()
        simulators[task] = Simulator(task)
    simulators.move_to_end(task)
    return simulators[task]


def _import_quietly() -> None:
    from wmrl_gym.envs.libero.package import answer_its_question

    answer_its_question()
    # robosuite greets everybody with a warning about a file nobody needs.
    logging.disable(logging.WARNING)
    with contextlib.suppress(ImportError):  # what is missing is told by the first job, with its name
        import libero.libero.envs.env_wrapper  # noqa: F401
    logging.disable(logging.NOTSET)


def main() -> None:
    """Serve the pipe whose descriptor is the first argument."""
    # What LIBERO prints must not end up in somebody's data.
    os.dup2(2, 1)
    _import_quietly()
    serve(Connection(int(sys.argv[1])), int(sys.argv[2]))
    # Skips the destructors of graphics contexts, which complain at exit.
    os._exit(0)


if __name__ == "__main__":
    main()
