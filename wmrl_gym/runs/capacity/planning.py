"""What if? One capacity, with other anchor fractions and other numbers of slots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from wmrl_gym.configs.capacity_schema import Capacity
from wmrl_gym.runs.capacity.simulation import StepTimes, simulate


@dataclass(frozen=True)
class Planned:
    """One line of a plan."""

    capacity: Capacity
    times: StepTimes

    @property
    def hours(self) -> float:
        """Length of the run."""
        return self.capacity.steps * self.times.step / 3600

    @property
    def gpu_hours(self) -> float:
        """What the run costs, on the devices that are reserved for it."""
        return self.hours * self.capacity.gpus


def plan_capacity(
    capacity: Capacity,
    fractions: Sequence[float],
    slots: Sequence[int] | None = None,
    *,
    simulated_steps: int = 50,
    seed: int = 0,
) -> list[Planned]:
    """Simulate every anchor fraction with every number of slots.

    Args:
        capacity: everything else.
        fractions: anchor fractions; 1 executes everything and predicts nothing, 0 the other way round.
        slots: numbers of executions at the same time; None takes the capacity's own.
        simulated_steps: steps of each simulation.
        seed: of lengths and anchors.
    """
    variants = [
        replace(capacity, anchor_fraction=float(fraction), slots=count)
        for fraction in fractions
        for count in slots or [capacity.slots]
    ]
    return [Planned(variant, simulate(variant, simulated_steps, seed)) for variant in variants]
