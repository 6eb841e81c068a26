"""Make the drawer agent from nothing: ``python benchmarks/make_libero_tiny.py``.

Records scripted demonstrations in LIBERO's simulator, writes them in LIBERO's HDF5 format, clones them with
`algorithms.behaviour_cloning`, and writes the checkpoint that ``experiment=libero_tiny`` starts from. The demonstrator
looks up where the drawer is, but aims a little off, by an error drawn once per demonstration, and hesitates now and
then, for no reason that a picture shows; demonstrations that miss are dropped, as they are in every data set. Only
initial states that training sees are used.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

from wmrl_gym.algorithms.behaviour_cloning import clone
from wmrl_gym.algorithms.supervised import SupervisedSettings, SupervisedStep
from wmrl_gym.envs.libero.demonstrations import DemonstrationExamples, write_demonstrations
from wmrl_gym.envs.libero.pool import SimulatorPool
from wmrl_gym.envs.libero.recording import record_demonstration
from wmrl_gym.envs.libero.splits import DRAWERS
from wmrl_gym.envs.libero.tasks import given_initial_states, parse_task, split_initial_states
from wmrl_gym.policies.drawers import CHUNK, DRAWER_AGENT_DIRECTORY, new_drawer_agent, save_drawer_agent
from wmrl_gym.policies.minivla.cloning_loss import action_token_loss

SUITE = "libero_90"


def record(folder: Path, per_task: int, seed: int, workers: int) -> None:
    """Write one file of demonstrations per task."""
    pool = SimulatorPool(workers, tasks_per_worker=1)
    for task in DRAWERS:
        given_initial_states(parse_task(task, SUITE)[0])

        def demonstrate(state_id: int, task: str = task):  # type: ignore[no-untyped-def]
            return record_demonstration(
                pool,
                SUITE,
                task,
                state_id,
                seed=seed,
                aim=0.006,
                hesitation=0.35,
                horizon=100,
                image_size=64,
            )

        with ThreadPoolExecutor(workers) as threads:
            tried = list(threads.map(demonstrate, split_initial_states()[0][:per_task]))
        reached = [demonstration for demonstration in tried if demonstration is not None]
        print(f"{task}: {len(reached)} of {len(tried)} demonstrations reached the goal", flush=True)
        write_demonstrations(folder / f"{task}_demo.hdf5", reached)
    pool.close()


def main(arguments: Sequence[str] | None = None) -> None:
    """Record, clone and write the checkpoint."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--demonstrations", type=Path, help="folder of HDF5 files that are there already")
    parser.add_argument("--per-task", type=int, default=16)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--learning-rate", type=float, default=3e-3)
    parser.add_argument("--matrix-learning-rate", type=float, default=4e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2, help="simulator processes")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--output", type=Path, default=DRAWER_AGENT_DIRECTORY)
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)

    with tempfile.TemporaryDirectory() as temporary:
        folder = options.demonstrations or Path(temporary)
        if options.demonstrations is None:
            record(folder, options.per_task, options.seed, options.workers)
        examples = DemonstrationExamples(folder, chunk=CHUNK)
        policy = new_drawer_agent(options.seed)
        settings = SupervisedSettings(
            steps=options.steps,
            batch_size=options.batch_size,
            learning_rate=options.learning_rate,
            matrix_learning_rate=options.matrix_learning_rate,
            warmup_steps=min(20, options.steps // 10),
            seed=options.seed,
        )
        print(f"{len(examples)} examples", flush=True)

        def log(step: SupervisedStep) -> None:
            if step.step % 10 == 0 or step.step == options.steps - 1:
                print(f"step {step.step}  loss {step.loss:.4f}  {step.seconds:.0f} s", flush=True)

        clone(policy, examples, action_token_loss, settings, log)
    save_drawer_agent(policy, options.output)
    print(f"wrote {options.output}")


if __name__ == "__main__":
    main()
