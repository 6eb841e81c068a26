"""The clock of a step: against what can be worked out by hand, and against what was measured or published."""

from __future__ import annotations

import json
import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from wmrl_gym.configs import compose_config
from wmrl_gym.configs.capacity_schema import Capacity, PlanConfig
from wmrl_gym.configs.validation import to_dataclass
from wmrl_gym.runs import plan_capacity, simulate
from wmrl_gym.runs.capacity.measured import fitted
from wmrl_gym.runs.capacity.shared_server import SharedServer

RESULTS = Path(__file__).parents[3] / "benchmarks" / "results"
SIMPLE = Capacity(
    steps=10,
    groups_per_step=1,
    group_size=4,
    turns=1,
    tokens_per_turn=100,
    tokens_spread=0,
    anchor_fraction=1.0,
    generation_tokens_per_second=100,
    prediction_seconds=0.5,
    execution_seconds=10,
    execution_spread=0,
    slots=2,
    update_tokens_per_second=100,
    gpus=3,
)


def test_items_share_a_server_and_none_is_faster_than_its_own_limit() -> None:
    server = SharedServer(rate=10, item_rate=8)
    server.add(0.0, 1, 16)
    assert server.next_time() == pytest.approx(2)  # alone at 8 a second
    server.add(1.0, 2, 30)  # both at 5 a second from here on
    assert server.next_time() == pytest.approx(1 + 8 / 5)
    assert server.pop(server.next_time()) == 1
    assert server.next_time() == pytest.approx(1 + 8 / 5 + 22 / 8)
    assert server.pop(server.next_time()) == 2 and len(server) == 0
    assert server.busy_seconds == pytest.approx((16 + 30) / 10)


def test_everything_executed_in_lock_step() -> None:
    times = simulate(replace(SIMPLE, mode="lockstep"), 3)
    assert times.step == pytest.approx(4 + 20 + 4)  # generate, two rounds of two executions, update
    assert times.executions == 4 and times.wait == pytest.approx(5) and times.update == pytest.approx(4)
    assert times.slots_used == pytest.approx(40 / (2 * 28))


def test_turns_of_a_lock_step_wait_for_each_other() -> None:
    times = simulate(replace(SIMPLE, mode="lockstep", turns=3, slots=4), 2)
    assert times.step == pytest.approx(3 * (4 + 10) + 12)


def test_predictions_and_executions_of_a_turn_run_beside_each_other() -> None:
    half = replace(SIMPLE, mode="lockstep", groups_per_step=2, anchor_fraction=1e-9, anchors_per_step=1, slots=4)
    assert simulate(half, 2).step == pytest.approx(8 + max(8 * 0.5, 10) + 8)
    assert simulate(replace(half, anchor_fraction=0.0), 2).step == pytest.approx(8 + 4 + 8)


def test_only_the_anchor_waits_for_its_execution_when_asynchronous() -> None:
    quick = replace(SIMPLE, mode="async", groups_per_step=2, turns=2, slots=4, prediction_seconds=1e-6)
    quick = replace(quick, anchor_fraction=1e-9, anchors_per_step=1, row_tokens_per_second=1.0)
    # Each row generates for 100 seconds a turn whatever the others do; anchors also execute twice.
    assert simulate(quick, 2).step == pytest.approx(2 * (100 + 10) + 16)
    # Nobody but the anchors' own update, which is the next step's: their executions hide behind generation.
    assert simulate(replace(quick, mode="late"), 4).step == pytest.approx(200 + 16, rel=0.02)


def test_late_anchors_are_waited_for_one_step_later() -> None:
    slow = replace(SIMPLE, mode="late", groups_per_step=2, slots=4, execution_seconds=1000, prediction_seconds=0)
    slow = replace(slow, anchor_fraction=1e-9, anchors_per_step=1)
    times = simulate(slow, 6)
    assert times.step < 1000 + 8 + 8 and times.step == pytest.approx(1000, rel=0.25)  # the backlog is one step, no more


def test_an_execution_ends_at_its_limit() -> None:
    assert simulate(replace(SIMPLE, execution_limit=4, mode="lockstep"), 2).execution == pytest.approx(4)


@pytest.mark.parametrize("mode", ["lockstep", "async", "late"])
def test_every_execution_happens_once_and_more_slots_never_cost_time(mode: Any) -> None:
    capacity = replace(SIMPLE, mode=mode, groups_per_step=4, turns=3, anchor_fraction=0.5, execution_spread=1.0)
    capacity = replace(capacity, tokens_spread=0.5)
    lines = plan_capacity(capacity, [1.0], [1, 4, 16], simulated_steps=20)
    assert [line.times.executions for line in lines] == [48, 48, 48]
    steps = [line.times.step for line in lines]
    assert steps == sorted(steps, reverse=True) and steps[0] > 48 * 9
    assert simulate(capacity, 5, seed=1) == simulate(capacity, 5, seed=1) != simulate(capacity, 5, seed=2)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"slots": 0}, "slots is 0"),
        ({"anchor_fraction": 1.2}, "anchor_fraction"),
        ({"execution_seconds": float("nan")}, "execution_seconds"),
        ({"mode": "sync"}, "lockstep"),
        ({"prediction_seconds": -1.0}, "prediction_seconds"),
    ],
)
def test_what_no_run_could_have_is_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(SIMPLE, **wrong)


@pytest.mark.parametrize(
    ("name", "published"),
    [("paper_4b", {0.0: 269, 0.1: 286, 1.0: 883}), ("paper_9b", {0.0: 330, 0.1: 349, 1.0: 1174})],
)
def test_the_papers_gpu_hours(name: str, published: dict[float, float]) -> None:
    config = to_dataclass(PlanConfig, compose_config("plan", [f"capacity={name}"]))
    for seed in range(3):
        for line in plan_capacity(config.capacity, list(published), simulated_steps=100, seed=seed):
            assert line.gpu_hours == pytest.approx(published[line.capacity.anchor_fraction], rel=0.15)


COMPARISONS = {
    # Comparison, the arm whose costs are taken, groups and steps of its arms.
    "comparison/comparison.json": ("wmrl", 12, {}),
    "comparison/anchor_fraction/comparison.json": ("wmrl", 12, {}),
    "cost_to_reach/comparison.json": ("wmrl", 20, {"wmrl": 16}),
}


@pytest.mark.parametrize("name", COMPARISONS)
def test_measured_runs_are_told_from_the_costs_of_another_arm(name: str) -> None:
    """Seconds of whole runs, on one core, in lock-step; only what an execution took is each arm's own."""
    fit_arm, steps, groups_of = COMPARISONS[name]
    arms = {arm["arm"]: arm for arm in json.loads((RESULTS / name).read_text())["arms"]}
    fit = _capacity(arms[fit_arm], steps, groups_of.get(fit_arm, 8))
    errors = {}
    for arm, found in arms.items():
        if arm.startswith("wmrl_plain_36"):  # of another length
            continue
        groups = groups_of.get(arm, 8)
        executions = found["cost"]["executions"]
        share = executions / (steps * groups * 12)
        mean = found["cost"]["executed_seconds"] / executions if executions else 1.0
        capacity = replace(
            fit, groups_per_step=groups, anchor_fraction=share, anchors_per_step=0, execution_seconds=mean
        )
        seconds = steps * simulate(capacity, 100).step
        errors[arm] = seconds / found["cost"]["seconds"] - 1
    assert len(errors) >= 2 and max(abs(error) for error in errors.values()) < 0.15, errors
    assert statistics.median(abs(error) for error in errors.values()) < 0.06, errors


def _capacity(arm: dict[str, Any], steps: int, groups: int) -> Capacity:
    """As from a run's records; the comparison kept only their sums, so an answer counts as one token."""
    record = {
        "turns": 2.0,
        "tokens_per_turn": 1.0,
        "executed_share": arm["cost"]["executions"] / (steps * groups * 12),
        "executed_seconds": arm["cost"]["executed_seconds"] / steps,
        **{f"seconds/{stage}": seconds / steps for stage, seconds in arm["stages"].items()},
    }
    return fitted([record] * steps, groups_per_step=groups, group_size=6, steps=steps, slots=1, mode="lockstep")
