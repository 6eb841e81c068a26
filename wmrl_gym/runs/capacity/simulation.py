"""Steps of training as a simulation of discrete events: where do trajectories wait, and what is a step's length?

Four things take time: the policy's engine (shared by all that generate), the world model, the sandbox slots, and the
update. A trajectory goes round between them, turn by turn. Nothing is learned here; only the clock runs.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from dataclasses import dataclass, field

import numpy as np

from wmrl_gym.configs.capacity_schema import Capacity
from wmrl_gym.runs.capacity.shared_server import SharedServer


@dataclass(frozen=True)
class StepTimes:
    """Means over the simulated steps, in seconds where nothing else is said."""

    step: float
    """Length of a step."""
    update: float
    """Of that, the update and what else a step takes."""
    executions: float
    """Executions of a step."""
    execution: float | None
    """Length of an execution; None if there was none."""
    wait: float | None
    """Mean time that an execution waited for a slot; None if there was none."""
    wait_95: float | None
    """In 95 of 100 cases it was less; None if there was none."""
    slots_used: float
    """Share of the slots' time that was used."""
    engine_used: float
    """Share of the engine's throughput that was used."""


def simulate(capacity: Capacity, steps: int = 8, seed: int = 0) -> StepTimes:
    """Run the clock over some steps.

    Args:
        capacity: what they ask for and have.
        steps: how many; the first is left out of the means if there are more, for nothing is carried into it.
        seed: of lengths and anchors.
    """
    return _Simulation(capacity, np.random.default_rng(seed)).run(steps)


@dataclass
class _Row:
    step: int
    is_anchor: bool
    turn: int = 0
    pending: int = 0
    """Scores that the turn still waits for."""


@dataclass
class _Step:
    rows: range
    left: dict[bool, int] = field(default_factory=dict)
    """Trajectories that are not finished, by whether they are anchors."""
    generating: int = 0
    scoring: int = 0
    tokens: float = 0.0


class _Simulation:
    def __init__(self, capacity: Capacity, rng: np.random.Generator) -> None:
        self.capacity, self.rng = capacity, rng
        self.engine = SharedServer(capacity.generation_tokens_per_second, capacity.row_tokens_per_second)
        self.world_model = SharedServer(1.0)
        self.now = 0.0
        self.rows: list[_Row] = []
        self.steps: list[_Step] = []
        self.running: list[tuple[float, int]] = []
        self.queue: deque[tuple[float, int]] = deque()
        self.waits: list[float] = []
        self.lengths: list[float] = []
        self.held: dict[int, list[int]] = {}
        """Lock-step: rows of a step that have answered, and wait for the others."""

    def run(self, steps: int) -> StepTimes:
        starts, updates = [], []
        marks: list[tuple[float, int, float]] = []
        for step in range(steps):
            starts.append(self.now)
            marks.append((self.engine.busy_seconds, len(self.lengths), sum(self.lengths)))
            self._begin(step)
            while not self._may_update(step):
                self._advance(self._next_time())
            seconds = self.steps[step].tokens / self.capacity.update_tokens_per_second + self.capacity.other_seconds
            updates.append(seconds)
            end = self.now + seconds
            while self._next_time() <= end:  # executions under way do not stop for an update
                self._advance(self._next_time())
            self.now = end
        first = 1 if steps > 1 else 0
        counted, span = steps - first, self.now - starts[first]
        _, started, used = marks[first]
        lengths, waits = self.lengths[started:], self.waits[started:]
        return StepTimes(
            step=span / counted,
            update=float(np.mean(updates[first:])),
            executions=len(lengths) / counted,
            execution=float(np.mean(lengths)) if lengths else None,
            wait=float(np.mean(waits)) if waits else None,
            wait_95=float(np.quantile(waits, 0.95)) if waits else None,
            slots_used=min((sum(self.lengths) - used) / (span * self.capacity.slots), 1.0),
            engine_used=(self.engine.busy_seconds - marks[first][0]) / span,
        )

    def _begin(self, step: int) -> None:
        capacity = self.capacity
        groups = capacity.groups_per_step
        count = int(self.rng.binomial(groups, capacity.anchor_fraction))
        if capacity.anchor_fraction > 0:
            count = min(max(count, capacity.anchors_per_step), groups)
        is_anchor = [g < count for g in range(groups) for _ in range(capacity.group_size)]
        first = len(self.rows)
        self.rows += [_Row(step, anchor) for anchor in is_anchor]
        rows, anchors = range(first, len(self.rows)), sum(is_anchor)
        self.steps.append(_Step(rows, {True: anchors, False: len(rows) - anchors}))
        for row in rows:
            self._generate(row)

    def _may_update(self, step: int) -> bool:
        left = self.steps[step].left
        if self.capacity.mode == "late" and self.capacity.predicts:
            before = self.steps[step - 1].left[True] if step else 0
            return left[False] == 0 and before == 0
        return left[False] + left[True] == 0

    def _next_time(self) -> float:
        execution = self.running[0][0] if self.running else math.inf
        return min(self.engine.next_time(), self.world_model.next_time(), execution)

    def _advance(self, time: float) -> None:
        self.now = time
        if self.running and self.running[0][0] <= time:
            _, row = heapq.heappop(self.running)
            self._start_executions()
            self._scored(row)
        elif self.world_model.next_time() <= time:
            self._scored(self.world_model.pop(time))
        else:
            self._answered(self.engine.pop(time))

    def _generate(self, row: int) -> None:
        tokens = self._length(self.capacity.tokens_per_turn, self.capacity.tokens_spread)
        step = self.steps[self.rows[row].step]
        step.tokens += tokens
        step.generating += 1
        self.engine.add(self.now, row, tokens)

    def _answered(self, row: int) -> None:
        """An answer is complete: have it scored; in lock-step, when all are."""
        number = self.rows[row].step
        step = self.steps[number]
        step.generating -= 1
        if self.capacity.mode != "lockstep":
            self._score([row])
            return
        self.held.setdefault(number, []).append(row)
        if step.generating == 0:
            self._score(self.held.pop(number))

    def _score(self, rows: list[int]) -> None:
        for index in rows:
            row = self.rows[index]
            self.steps[row.step].scoring += 1
            row.pending = int(row.is_anchor) + int(self.capacity.predicts)
            if row.is_anchor:
                self.queue.append((self.now, index))
            if self.capacity.predicts:
                self.world_model.add(self.now, index, self.capacity.prediction_seconds)
        self._start_executions()

    def _start_executions(self) -> None:
        while self.queue and len(self.running) < self.capacity.slots:
            since, row = self.queue.popleft()
            seconds = self._length(self.capacity.execution_seconds, self.capacity.execution_spread)
            seconds = min(seconds, self.capacity.execution_limit or math.inf)
            self.waits.append(self.now - since)
            self.lengths.append(seconds)
            heapq.heappush(self.running, (self.now + seconds, row))

    def _scored(self, index: int) -> None:
        """One score of a turn has come: the trajectory goes on when it has all of them."""
        row = self.rows[index]
        row.pending -= 1
        if row.pending:
            return
        row.turn += 1
        step = self.steps[row.step]
        step.scoring -= 1
        if row.turn == self.capacity.turns:
            step.left[row.is_anchor] -= 1
        elif self.capacity.mode != "lockstep":
            self._generate(index)
        elif step.scoring == 0:
            for other in step.rows:
                self._generate(other)

    def _length(self, mean: float, spread: float) -> float:
        """A log-normal length: positive, with a long tail, as answers and executions have."""
        if spread == 0:
            return mean
        variance = math.log1p(spread**2)
        return float(self.rng.lognormal(math.log(mean) - variance / 2, math.sqrt(variance)))
