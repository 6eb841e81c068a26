"""The typed shape of the configuration of `wmrl plan`: what a step asks for, and what it has."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

Mode = Literal["lockstep", "async", "late"]


@dataclass(frozen=True)
class Capacity:
    """What a step asks for, and what it has."""

    steps: int = 200
    """Updates of the run."""
    groups_per_step: int = 8
    """Groups of a step."""
    group_size: int = 8
    """Trajectories of a group."""
    turns: int = 4
    """Answers of a trajectory, each of which is scored."""
    tokens_per_turn: float = 1000.0
    """Mean length of an answer, in tokens."""
    tokens_spread: float = 0.5
    """Standard deviation of that length, as a share of its mean."""
    anchor_fraction: float = 0.1
    """Share of the groups that is really executed."""
    anchors_per_step: int = 1
    """At least so many, unless the share is 0."""
    generation_tokens_per_second: float = 10_000.0
    """Of the whole engine, on all its devices."""
    row_tokens_per_second: float | None = None
    """Most tokens per second of one trajectory; null: only the engine's own limit."""
    prediction_seconds: float = 0.1
    """Seconds in which the world model, kept busy, deals with one answer: its cost, not its latency."""
    execution_seconds: float = 100.0
    """Mean length of an execution."""
    execution_spread: float = 1.0
    """Standard deviation of that length, as a share of its mean."""
    execution_limit: float | None = None
    """Seconds after which an execution is stopped; null: never."""
    slots: int = 24
    """Executions that run at the same time."""
    update_tokens_per_second: float = 20_000.0
    """Tokens of trajectories that the update learns from in a second, all passes over them included."""
    other_seconds: float = 0.0
    """What else a step takes: loading weights into the engine, the proxy, records."""
    mode: Mode = "async"
    """"lockstep": a turn begins when the last one is scored everywhere. "async": nobody waits for an execution but the
    anchor itself, and the update waits for all. "late": the update waits for the anchors of the step before."""
    gpus: float = 1.0
    """Devices that are reserved for the whole run."""

    def __post_init__(self) -> None:
        """Refuse what no run could have."""
        for name in ("steps", "groups_per_step", "group_size", "turns", "slots"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}: give at least 1")
        positive = ("tokens_per_turn", "generation_tokens_per_second", "execution_seconds", "update_tokens_per_second")
        for name in (*positive, "row_tokens_per_second", "execution_limit"):
            value = getattr(self, name)
            if value is not None and not (value > 0 and math.isfinite(value)):
                raise ValueError(f"{name} is {value}: give a positive number")
        for name in ("tokens_spread", "anchors_per_step", "prediction_seconds", "execution_spread", "other_seconds"):
            if not (getattr(self, name) >= 0 and math.isfinite(getattr(self, name))):
                raise ValueError(f"{name} is {getattr(self, name)}: give 0 or more")
        if not (self.gpus >= 0 and math.isfinite(self.gpus)):
            raise ValueError(f"gpus is {self.gpus}: give 0 or more")
        if not 0 <= self.anchor_fraction <= 1:
            raise ValueError(f"anchor_fraction is {self.anchor_fraction}: give a share between 0 and 1")
        if self.mode not in ("lockstep", "async", "late"):
            raise ValueError(f"mode is {self.mode!r}: choose 'lockstep', 'async' or 'late'")

    @property
    def predicts(self) -> bool:
        """Whether there is a world model: where everything is executed, nothing is left to predict."""
        return self.anchor_fraction < 1


@dataclass(frozen=True)
class PlanConfig:
    """All of `wmrl plan`."""

    capacity: Capacity
    """See the section capacity."""
    run: Path | None = None
    """A run's folder: what its records say takes the place of `capacity`."""
    fractions: list[float] = field(default_factory=lambda: [0.0, 0.1, 1.0])
    """Anchor fractions to compare."""
    slots: list[int] | None = None
    """Numbers of executions at the same time to compare; None is the capacity's own."""
    mode: Mode | None = None
    """None is the capacity's own."""
    simulated_steps: int = 50
    """Steps of each simulation."""
    seed: int = 0
    """Of lengths and anchors."""

    def __post_init__(self) -> None:
        """Refuse what would fail late."""
        if not self.fractions or not all(0 <= fraction <= 1 for fraction in self.fractions):
            raise ValueError(f"fractions is {self.fractions}: give shares between 0 and 1, at least one")
        if self.slots is not None and (not self.slots or min(self.slots) < 1):
            raise ValueError(f"slots is {self.slots}: give numbers of at least 1, or null")
        if self.simulated_steps < 1:
            raise ValueError(f"simulated_steps is {self.simulated_steps}: give at least 1")
