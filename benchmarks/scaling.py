"""A step of 10,000 trajectories on 1,000 sandbox slots: where it queues, what late anchors save, what the proxy costs.

    python benchmarks/scaling.py > benchmarks/results/scaling.md      # a few minutes on one core

The queues are simulated and repeat to the last digit; the seconds of the proxy are measured on this machine.
"""

from __future__ import annotations

import json
import time
from dataclasses import replace

import numpy as np

from wmrl_gym.configs import compose_config
from wmrl_gym.configs.capacity_schema import PlanConfig
from wmrl_gym.configs.validation import to_dataclass
from wmrl_gym.proxy import InverseVarianceFusion, IsotonicDebiaser, RandomAnchors, RewardProxy
from wmrl_gym.runs import Planned, plan_capacity

STEPS = 5
COLUMNS = ("mode", "anchors", "slots", "step s", "run h", "executed a step", "wait s", "95 %", "slots used", "engine")


def main() -> None:
    cluster = to_dataclass(PlanConfig, compose_config("plan", ["capacity=cluster"])).capacity
    print("# Ten thousand trajectories a step\n")
    print("[What this means](../../docs/scaling.md). Made by `python benchmarks/scaling.py`.\n")
    print("## Who waits for executions\n")
    modes = [replace(cluster, mode=mode) for mode in ("lockstep", "async", "late")]
    fractions = [0.05, 0.1, 0.2, 1.0]
    table([line for mode in modes for line in plan_capacity(mode, fractions, simulated_steps=STEPS)])
    print("\n## How many slots\n")
    slots = [125, 250, 500, 1000, 4000]
    table([line for mode in modes[1:] for line in plan_capacity(mode, [0.1], slots, simulated_steps=STEPS)])
    print("\n## What the proxy costs\n")
    proxy_cost()


def table(lines: list[Planned]) -> None:
    print("| " + " | ".join(COLUMNS) + " |\n| --- " + "| ---: " * (len(COLUMNS) - 1) + "|")
    for line in lines:
        times, capacity = line.times, line.capacity
        cells = (
            capacity.mode,
            f"{capacity.anchor_fraction:.0%}",
            capacity.slots,
            f"{times.step:,.0f}",
            f"{line.hours:,.1f}",
            f"{times.executions:,.0f}",
            f"{times.wait:,.0f}",
            f"{times.wait_95:,.0f}",
            f"{times.slots_used:.0%}",
            f"{times.engine_used:.0%}",
        )
        print("| " + " | ".join(map(str, cells)) + " |")


def proxy_cost(groups: int = 1250, size: int = 8, steps: int = 10) -> None:
    rng = np.random.default_rng(0)
    proxy = RewardProxy(RandomAnchors(0.1), IsotonicDebiaser(), InverseVarianceFusion())
    keys = [f"{g}:task" for g in range(groups)]
    seconds = []
    for step in range(steps):
        predicted = rng.random((groups, size))
        executed = np.clip(predicted**2 + rng.normal(0, 0.1, predicted.shape), 0, 1)
        started = time.perf_counter()
        draw = proxy.draw(step, keys)
        proxy.score_arrays(step, keys, draw.is_anchor, predicted.tolist(), executed.tolist(), draw.propensity)
        seconds.append(time.perf_counter() - started)
    state = len(json.dumps(proxy.state_dict()))
    print(
        f"{groups} groups of {size}: drawing anchors and scoring took {np.median(seconds):.2f} s a step (median of "
        f"{steps}), with {len(proxy.ledger):,} pairs in the ledger and {state / 2**20:.1f} MiB of state at the end."
    )


if __name__ == "__main__":
    main()
