"""Every given initial state of a suite: begins, comes to rest, steps and renders; writes what was found.

``python benchmarks/libero_states.py`` writes ``benchmarks/results/libero_states.md``; about a third of a CPU second per
state and four per task.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from wmrl_gym.envs.libero.jobs import WAIT, Job, JobResult, View
from wmrl_gym.envs.libero.pool import SimulatorPool
from wmrl_gym.envs.libero.tasks import LIBERO_LONG, TaskReference, given_initial_states, instruction, task_names
from wmrl_gym.envs.libero.versions import installed_versions

RESULTS = Path(__file__).parent / "results" / "libero_states.md"
STEPS = 8


def results(pool: SimulatorPool, task: TaskReference) -> Iterator[tuple[JobResult, JobResult]]:
    """Each initial state at rest, and after some random actions."""
    waiting = np.tile(np.array(WAIT), (10, 1))
    job = Job(task, given_initial_states(task)[0], waiting, View(("agentview",), 128), stop_at_success=False)
    for number, state in enumerate(given_initial_states(task)):
        settled = pool.submit(dataclasses.replace(job, start=state)).result()
        actions = np.random.default_rng(number).uniform(-1, 1, (STEPS, 7))
        yield settled, pool.submit(dataclasses.replace(job, start=settled.snapshot, actions=actions)).result()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--suite", default=LIBERO_LONG)
    options = parser.parse_args()
    pool = SimulatorPool(1, 600.0, 1)
    rows = []
    for index in range(len(task_names(options.suite))):
        task = TaskReference(options.suite, index)
        pairs = list(results(pool, task))
        states = {settled.snapshot.key for settled, _ in pairs}
        pictures = {moved.frames["agentview"].tobytes() for _, moved in pairs}
        reached = sum(all(settled.predicates) for settled, _ in pairs)
        progress = np.mean([settled.goal_progress for settled, _ in pairs])
        steps = 1000 * np.mean([(moved.cpu_seconds) / STEPS for _, moved in pairs])
        counts = f"{len(pairs)} | {len(states)} | {len(pictures)} | {reached}"
        rows.append(f"| {index} | {instruction(task)} | {counts} | {progress:.2f} | {steps:.0f} |")
        print(rows[-1], flush=True)
    versions = ", ".join(f"{name} {version}" for name, version in installed_versions().items())
    RESULTS.write_text(
        f"# Initial states of {options.suite}\n\n`python benchmarks/libero_states.py`: each given state was begun, let "
        f"settle for 10 steps, stepped {STEPS} times at random and rendered (128×128). {versions}. Processes replaced "
        f"on the way: {pool.restarts}.\n\n"
        "| task | instruction | states simulated | different at rest | different images | goal held at the start "
        "| mean goal progress at the start | CPU ms per step, image included |\n"
        "| --- | --- | --- | --- | --- | --- | --- | --- |\n" + "\n".join(rows) + "\n",
        encoding="utf-8",
    )
    pool.close()


if __name__ == "__main__":
    main()
