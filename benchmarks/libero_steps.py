"""Environment steps per CPU second and memory per process: our simulators beside LIBERO used in the plain way.

``python benchmarks/libero_steps.py`` writes ``benchmarks/results/libero_steps.md``. Both sides take the same random
actions from the same initial state. Plain: `OffScreenRenderEnv` with both cameras at every step. Ours: jobs of a chunk
of 8 steps, both cameras (or one) at the end of each, and everything counted that this takes: rendering, snapshots,
pickling and the pipe, in the simulator's process and in this one. Blocks of both sides alternate, so that a busy
machine is busy for both.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import time
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np

from wmrl_gym.envs.libero.jobs import CAMERAS, Job, View
from wmrl_gym.envs.libero.pool import SimulatorPool
from wmrl_gym.envs.libero.tasks import LIBERO_LONG, TaskReference, bddl_file, given_initial_states
from wmrl_gym.envs.libero.versions import installed_versions

CHUNK = 8
RESULTS = Path(__file__).parent / "results" / "libero_steps.md"
ARMS = {"plain": "plain LIBERO, both cameras at every step", "both": "ours, both cameras every 8th step"}
ARMS |= {"one": "ours, one camera every 8th step"}


def plain_libero(connection: Connection, task: TaskReference, size: int) -> None:
    """The other side, in a process of its own: blocks of actions in, CPU seconds and memory (MB) out."""
    os.environ.setdefault("MUJOCO_GL", "egl")
    os.dup2(2, 1)
    bddl = str(bddl_file(task))
    from libero.libero.envs.env_wrapper import OffScreenRenderEnv

    env = OffScreenRenderEnv(bddl_file_name=bddl, camera_heights=size, camera_widths=size)
    env.seed(0)
    while (message := connection.recv()) is not None:
        state, actions = message
        started = time.process_time()
        env.reset()
        env.set_init_state(state)
        reset = time.process_time() - started
        started = time.process_time()
        for action in actions:
            env.step(action)
        connection.send((reset, time.process_time() - started, memory(os.getpid())))
    os._exit(0)


class Ours:
    """Our side: one simulator process."""

    def __init__(self, task: TaskReference, size: int) -> None:
        self.task, self.size = task, size
        self.pool = SimulatorPool(1, 600.0, 1)

    def block(self, state: np.ndarray, actions: np.ndarray, cameras: tuple[str, ...]) -> tuple[float, float, float]:
        """CPU seconds of beginning and of the steps, of both processes, and memory (MB) of the simulator's."""
        view = View(cameras, self.size)
        started = self.cpu()
        end = self.pool.submit(Job(self.task, state, actions[:0])).result()
        reset = self.cpu() - started
        started = self.cpu()
        for first in range(0, len(actions), CHUNK):
            end = self.pool.submit(Job(self.task, end.snapshot, actions[first : first + CHUNK], view)).result()
        return reset, self.cpu() - started, memory(self.pool.process_ids[0])

    def cpu(self) -> float:
        if not self.pool.process_ids:
            return time.process_time()
        fields = Path(f"/proc/{self.pool.process_ids[0]}/stat").read_text().rsplit(")", 1)[1].split()
        return time.process_time() + (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmRSS"))


def measure(task: TaskReference, rounds: int, steps: int, size: int) -> dict[str, list[tuple[float, float, float]]]:
    """Per arm one (CPU seconds of the reset, CPU seconds of the steps, MB) per round."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=plain_libero, args=(there, task, size), daemon=True)
    process.start()
    ours = Ours(task, size)
    state = given_initial_states(task)[0]
    measured: dict[str, list[Any]] = {arm: [] for arm in ARMS}
    for block in range(rounds + 1):
        actions = np.random.default_rng(block).uniform(-1, 1, (steps if block else CHUNK, 7))
        here.send((state, actions))
        row = {"plain": here.recv()}
        row |= {"both": ours.block(state, actions, CAMERAS), "one": ours.block(state, actions, CAMERAS[:1])}
        if block:  # the first block compiles, loads and opens renderers
            for arm, values in row.items():
                measured[arm].append(values)
    here.send(None)
    process.join(10)
    ours.pool.close()
    return measured


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, nargs="*", default=[0, 6, 9])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=48, help="environment steps per block")
    parser.add_argument("--size", type=int, default=224)
    options = parser.parse_args()
    rows, ratios = [], []
    for index in options.tasks:
        measured = measure(TaskReference(LIBERO_LONG, index), options.rounds, options.steps, options.size)
        rate = {arm: [options.steps / steps for _, steps, _ in blocks] for arm, blocks in measured.items()}
        for arm, blocks in measured.items():
            ratio = mean(rate[arm]) / mean(rate["plain"])
            ratios += [ratio] if arm == "both" else []
            spread = f"{min(rate[arm]):.1f} to {max(rate[arm]):.1f}"
            reset, megabytes = mean(block[0] for block in blocks), max(block[2] for block in blocks)
            rates = f"{mean(rate[arm]):.1f} ({spread}) | {ratio:.1f}"
            rows.append(f"| {index} | {ARMS[arm]} | {rates} | {reset:.2f} | {megabytes:.0f} |")
            print(rows[-1], flush=True)
    write(rows, ratios, options)


def write(rows: list[str], ratios: list[float], options: argparse.Namespace) -> None:
    versions = ", ".join(f"{name} {version}" for name, version in installed_versions().items())
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    RESULTS.write_text(
        "# Steps of LIBERO-Long\n\n"
        f"`python benchmarks/libero_steps.py`: {options.rounds} blocks of {options.steps} environment steps per row, "
        f"images of {options.size}×{options.size}, software rendering (EGL on llvmpipe), {os.cpu_count()} cores, load "
        f"{load}. {versions}. CPU seconds of all threads; the range over the blocks is in brackets. Memory is the "
        "process's resident set after its last block.\n\n"
        "| task | arm | steps per CPU second | times plain | CPU seconds of a reset | MB |\n"
        "| --- | --- | --- | --- | --- | --- |\n"
        + "\n".join(rows)
        + f"\n\nBoth cameras every 8th step: {min(ratios):.1f} to {max(ratios):.1f} times the steps of plain LIBERO.\n"
        "Plain LIBERO rebuilds its simulator at each reset (its default). Ours also renders without multisampling.\n",
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
