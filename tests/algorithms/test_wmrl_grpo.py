from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from wmrl_gym.algorithms.grpo import GRPOSettings
from wmrl_gym.algorithms.wmrl_grpo import WMRLGRPO, WMRLGRPOSettings
from wmrl_gym.core import Outcome, Submission, WorldModelError
from wmrl_gym.execution.local import LocalExecutor
from wmrl_gym.proxy import InverseVarianceFusion, IsotonicDebiaser, RandomAnchors, RewardProxy, RewardProxyVectorEnv

from .letters import GAMED, TRUTH, LetterEnv, LetterPolicy, TableWorldModel


def trainer(
    world_model: Any = None,
    proxy: RewardProxy | None = None,
    directory: Path | None = None,
    on_step: Any = None,
    **settings: Any,
) -> WMRLGRPO:
    chosen: dict[str, Any] = {"steps": 60, "learning_rate": 0.1, "checkpoint_every": 5, **settings}
    return WMRLGRPO(
        LetterPolicy(),
        RewardProxyVectorEnv([LetterEnv] * 64, world_model),
        ["letters"],
        proxy or full_proxy(),
        WMRLGRPOSettings(loss=GRPOSettings(kl_coefficient=0.0, entropy_coefficient=0.0), **chosen),
        directory=directory,
        on_step=on_step,
    )


def full_proxy(fraction: float = 0.1) -> RewardProxy:
    return RewardProxy(
        RandomAnchors(fraction, min_per_step=1 if fraction else 0),
        IsotonicDebiaser(min_pairs=16, refit_every=8),
        InverseVarianceFusion(half_life=16, warmup=8),
    )


def test_execution_alone_learns() -> None:
    run = trainer(None, RewardProxy(RandomAnchors(1.0)))
    before = run.policy.expected_truth()
    run.train()
    assert run.policy.expected_truth() > before + 0.3


@pytest.mark.slow
def test_anchors_repair_a_world_model_that_is_gamed() -> None:
    alone = trainer(TableWorldModel(GAMED), RewardProxy(RandomAnchors(0.0, 0)))
    alone.train()
    corrected = trainer(TableWorldModel(GAMED))
    corrected.train()
    assert alone.policy.expected_truth() < 0.3, "the world model alone leads to the letter it overrates"
    assert corrected.policy.expected_truth() > 0.6
    assert corrected.vector_env.n_executions < 0.25 * 60 * 64 * 2


def test_without_world_model_and_without_executions_nothing_is_executed() -> None:
    run = trainer(TableWorldModel(TRUTH), RewardProxy(RandomAnchors(0.0, 0)), steps=1)
    run.train()
    assert run.vector_env.n_executions == 0


def test_settings_that_cannot_train_are_refused() -> None:
    with pytest.raises(ValueError, match="group_size"):
        WMRLGRPOSettings(group_size=1)
    with pytest.raises(ValueError, match="as many environments"):
        trainer(group_size=9)


def test_tasks_come_equally_often() -> None:
    run = trainer(TableWorldModel(TRUTH), groups_per_step=3)
    run.tasks = ["a", "b", "c", "d", "e"]
    drawn = [plan.task_id for step in range(5) for plan in run.plan(step)]
    assert sorted(drawn) == sorted(run.tasks * 3)


def test_a_world_model_that_dies_leaves_the_last_checkpoint_intact(tmp_path: Path) -> None:
    class Dying(TableWorldModel):
        calls = 0

        def predict(self, submissions: Sequence[Submission]) -> list[Outcome]:
            Dying.calls += 1
            if Dying.calls > 15:
                raise OSError("the model's server is gone")
            return super().predict(submissions)

    with pytest.raises(WorldModelError, match="Dying"):
        trainer(Dying(TRUTH), directory=tmp_path).train()
    healthy = trainer(TableWorldModel(TRUTH), directory=tmp_path, steps=12)
    assert healthy.resume() == 5
    healthy.train()
    assert healthy.next_step == 12


def test_a_step_in_which_every_execution_fails_teaches_nothing() -> None:
    class Failing(LetterEnv):
        def execute(self, submission: Submission) -> Outcome:
            return Outcome(None, "unknown")

    policy = LetterPolicy()
    vector_env = RewardProxyVectorEnv([Failing] * 4, None, max_consecutive_failures=1000)
    run = WMRLGRPO(
        policy,
        vector_env,
        ["letters"],
        RewardProxy(RandomAnchors(1.0)),
        WMRLGRPOSettings(steps=1, groups_per_step=1, group_size=4, learning_rate=0.1),
    )
    metrics = run.step(0)
    assert metrics["dropped_groups"] == 1 and metrics["loss"] is None and metrics["reward"] is None
    assert policy.logits.abs().max() == 0


def test_other_settings_cannot_resume(tmp_path: Path) -> None:
    trainer(TableWorldModel(TRUTH), directory=tmp_path, steps=5).train()
    with pytest.raises(ValueError, match="other settings"):
        trainer(TableWorldModel(TRUTH), directory=tmp_path, steps=9, learning_rate=0.2).resume()


class FailingExecutor:
    """Dies on every submission."""

    capacity = 1

    def submit(self, submission: Submission) -> Future[Outcome]:
        future: Future[Outcome] = Future()
        future.set_exception(OSError("the worker died"))
        return future

    def close(self) -> None:
        """Nothing to free."""


def test_failed_anchors_are_excluded_and_counted() -> None:
    proxy = full_proxy()
    vector_env = RewardProxyVectorEnv(
        [LetterEnv] * 64, TableWorldModel(TRUTH), FailingExecutor(), max_consecutive_failures=10_000
    )
    run = WMRLGRPO(LetterPolicy(), vector_env, ["letters"], proxy, WMRLGRPOSettings(steps=1, learning_rate=0.1))
    metrics = run.step(0)
    assert metrics["proxy/pairs"] == 0
    assert metrics["proxy/anchor_failures"] == 8 * metrics["dropped_groups"] > 0


def test_without_world_model_groups_that_are_not_executed_are_refused() -> None:
    with pytest.raises(ValueError, match="no world model"):
        trainer(None, full_proxy(0.5))


@pytest.mark.parametrize("name", ["steps", "epochs", "minibatch", "microbatch", "keep_checkpoints", "learning_rate"])
def test_numbers_that_cannot_train_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        WMRLGRPOSettings(**{name: 0})


def metrics_of(run: WMRLGRPO) -> list[dict[str, Any]]:
    seen: list[dict[str, Any]] = []
    run.on_step = lambda step, metrics: seen.append(
        {name: value for name, value in metrics.items() if not name.startswith("seconds/")}
    )
    run.train()
    return seen


def test_microbatches_change_nothing_but_rounding() -> None:
    whole, parts = (
        metrics_of(trainer(TableWorldModel(GAMED), steps=3, microbatch=microbatch)) for microbatch in (64, 5)
    )
    for one, other in zip(whole, parts, strict=True):
        assert one.keys() == other.keys()
        known = [name for name, value in one.items() if value is not None]
        assert [one[name] for name in known] == pytest.approx([other[name] for name in known], rel=1e-4, abs=1e-6)


@pytest.mark.parametrize(("epochs", "minibatch", "updates"), [(1, None, 1), (2, None, 2), (1, 24, 3), (2, 32, 4)])
def test_one_update_per_step_unless_asked_for_more(epochs: int, minibatch: int | None, updates: int) -> None:
    run = trainer(TableWorldModel(TRUTH), steps=1, epochs=epochs, minibatch=minibatch)
    before = run.policy.expected_truth()
    (metrics,) = metrics_of(run)
    assert metrics["updates"] == updates
    assert (metrics["importance_ratio"] == pytest.approx(1, abs=1e-6)) == (updates == 1), "only the first is on-policy"
    assert run.policy.expected_truth() > before


@pytest.mark.slow
def test_the_reference_stays_where_it_was_and_pulls_back() -> None:
    def moved(coefficient: float) -> float:
        run = trainer(TableWorldModel(TRUTH), steps=20)
        loss = GRPOSettings(kl_coefficient=coefficient, entropy_coefficient=0.0)
        run = WMRLGRPO(
            run.policy, run.vector_env, ["letters"], run.proxy, WMRLGRPOSettings(steps=20, learning_rate=0.1, loss=loss)
        )
        metrics = metrics_of(run)
        if coefficient:
            assert metrics[0]["kl"] == pytest.approx(0, abs=1e-6) and metrics[-1]["kl"] > 0.001
        else:
            assert metrics[-1]["kl"] is None
        return float(run.policy.logits.detach().abs().max())

    assert moved(1.0) < 0.8 * moved(0.0)


def test_asynchronous_training_gives_the_same_metrics() -> None:
    """A table of logits has no batched arithmetic, so not even rounding differs."""

    def run(mode: Any) -> list[dict[str, Any]]:
        def execute(submission: Submission) -> Outcome:
            time.sleep(0.002 * "hgfedcba".index(submission.content))
            return LetterEnv().execute(submission)

        executor = LocalExecutor(execute, max_workers=3)
        vector_env = RewardProxyVectorEnv([LetterEnv] * 32, TableWorldModel(GAMED), executor, mode=mode)
        settings = WMRLGRPOSettings(steps=4, groups_per_step=4, learning_rate=0.1)
        try:
            return metrics_of(WMRLGRPO(LetterPolicy(), vector_env, ["letters"], full_proxy(0.5), settings))
        finally:
            executor.close()

    assert run("async") == run("lockstep")


def test_tasks_and_anchors_of_a_step_are_a_function_of_seed_and_step() -> None:
    def plans(seed: int) -> list[list[tuple[str, bool]]]:
        run = trainer(TableWorldModel(TRUTH), RewardProxy(RandomAnchors(0.3, seed=seed)), seed=seed)
        run.tasks = list("abcde")
        return [[(plan.key, plan.is_anchor) for plan in run.plan(step)] for step in (5, 2, 5)]

    assert plans(0)[0] == plans(0)[2] and plans(0) == plans(0)
    assert plans(0) != plans(1) and plans(0)[0] != plans(0)[1]


def test_after_a_world_model_has_died_the_resumed_run_equals_one_without_the_accident(tmp_path: Path) -> None:
    class DyingOnce(TableWorldModel):
        calls = 0

        def predict(self, submissions: Sequence[Submission]) -> list[Outcome]:
            self.calls += 1
            if self.calls == 16:  # the second turn of step 7
                raise OSError("the model's server is gone")
            return super().predict(submissions)

    quiet = metrics_of(trainer(TableWorldModel(GAMED), steps=12))
    with pytest.raises(WorldModelError):
        trainer(DyingOnce(GAMED), directory=tmp_path, steps=12).train()
    resumed = trainer(TableWorldModel(GAMED), directory=tmp_path, steps=12)
    first = resumed.resume()
    assert metrics_of(resumed) == quiet[first:] and first == 5


def test_a_world_model_that_remembers_goes_on_from_the_checkpoint_and_its_numbers_are_logged(tmp_path: Path) -> None:
    class Counting(TableWorldModel):
        """Predicts a little more with every batch it has seen, so that a lost count would change the training."""

        batches = 0

        def predict(self, submissions: Sequence[Submission]) -> list[Outcome]:
            self.batches += 1
            return [
                dataclasses.replace(outcome, score=(outcome.score or 0.0) ** (1 + self.batches / 10))
                for outcome in super().predict(submissions)
            ]

        def state_dict(self) -> dict[str, Any]:
            return {"batches": self.batches}

        def load_state_dict(self, state: dict[str, Any]) -> None:
            self.batches = state["batches"]

        def metrics(self) -> dict[str, float | None]:
            return {"batches": float(self.batches), "tokens": None}

    whole = metrics_of(trainer(Counting(TRUTH), steps=6))
    assert whole[-1]["world_model/batches"] == 12 and whole[-1]["world_model/tokens"] is None
    trainer(Counting(TRUTH), directory=tmp_path, steps=3).train()
    resumed = trainer(Counting(TRUTH), directory=tmp_path, steps=6)
    assert resumed.resume() == 3
    assert metrics_of(resumed) == whole[3:]


def test_a_linear_learning_rate_falls_to_nothing_and_ties_a_run_to_its_number_of_steps(tmp_path: Path) -> None:
    settings = {"learning_rate_schedule": "linear", "steps": 4, "checkpoint_every": 2}
    run = trainer(TableWorldModel(TRUTH), directory=tmp_path, **settings)
    assert [run.learning_rate(step) for step in range(4)] == pytest.approx([0.1, 0.075, 0.05, 0.025])
    run.train()
    assert run.updater.optimizer.param_groups[0]["lr"] == pytest.approx(0.025)
    with pytest.raises(ValueError, match="if the learning rate is constant"):
        trainer(TableWorldModel(TRUTH), directory=tmp_path, **(settings | {"steps": 8})).resume()
    with pytest.raises(ValueError, match="learning_rate_schedule"):
        WMRLGRPOSettings(learning_rate_schedule="cosine")  # type: ignore[arg-type]


def test_a_gradient_that_is_not_finite_leaves_the_weights_alone() -> None:
    class Overflowing(LetterPolicy):
        def log_probs(self, decisions: Any, *, temperature: float = 1.0) -> Any:
            log_probs, entropy, mask = super().log_probs(decisions, temperature=temperature)
            return log_probs * float("inf"), entropy, mask

    run = trainer(TableWorldModel(TRUTH), steps=1)
    run.updater.policy = policy = Overflowing()
    with pytest.raises(FloatingPointError, match="not finite"):
        run.train()
    assert policy.logits.abs().max() == 0


NAMES = ("reward", "loss", "grad_norm", "clip_fraction", "entropy", "proxy/pairs", "proxy/rho", "proxy/bias_after")
TRACE = {
    0: (0.971875, -0.017582, 0.056886, 0.148438, 2.067326, 8.0, 1.0, 0.0),
    3: (0.833907, -0.002511, 0.019254, 0.011719, 1.760983, 40.0, 1.0, 0.113551),
    11: (0.822301, 0.00035, 0.013947, 0.0, 1.265293, 128.0, 2.104662, 0.028718),
}
"""Step -> values. Where they change, the algorithm has changed: say so in the changelog."""


def test_a_training_trace_is_frozen() -> None:
    run = trainer(TableWorldModel(GAMED), steps=12, epochs=2, minibatch=32, seed=7)
    trace = metrics_of(run)
    for step, expected in TRACE.items():
        assert [trace[step][name] for name in NAMES] == pytest.approx(expected, rel=1e-3, abs=2e-6)
    assert run.policy.expected_truth() == pytest.approx(0.785668, rel=1e-4)


def test_training_in_slices_is_training_in_one_go_and_leaves_a_checkpoint_after_each(tmp_path: Path) -> None:
    whole: list[Any] = []
    trainer(TableWorldModel(GAMED), on_step=lambda step, metrics: whole.append(metrics["reward"]), steps=7).train()
    sliced: list[Any] = []
    for until, done in ((3, 3), (3, 3), (5, 5), (99, 7)):
        part = trainer(
            TableWorldModel(GAMED),
            directory=tmp_path,
            on_step=lambda step, metrics: sliced.append(metrics["reward"]),
            steps=7,
        )
        part.resume()
        part.train(until)
        assert part.next_step == done
        assert (tmp_path / f"step-{done:06d}").is_dir()
    assert sliced == whole


def test_seconds_of_executions_are_added_up_and_predictions_are_not() -> None:
    class Slow(LetterEnv):
        def execute(self, submission: Submission) -> Outcome:
            return Outcome(TRUTH[submission.content], "valid", seconds=2.0)

    run = WMRLGRPO(
        LetterPolicy(),
        RewardProxyVectorEnv([Slow] * 8, TableWorldModel(TRUTH)),
        ["letters"],
        RewardProxy(RandomAnchors(0.01, min_per_step=1)),
        WMRLGRPOSettings(steps=1, groups_per_step=2, group_size=4, learning_rate=0.1),
    )
    metrics = run.step(0)
    assert metrics["executions"] and metrics["executed_seconds"] == 2.0 * metrics["executions"]


def test_world_model_that_never_knows_stops_the_run_with_what_it_said() -> None:
    class Ignorant(TableWorldModel):
        known = 0

        def predict(self, submissions: Sequence[Submission]) -> list[Outcome]:
            if self.known > 0:
                self.known -= 1
                return super().predict(submissions)
            return [Outcome(None, "unknown", "no goal progress was revealed", "world_model") for _ in submissions]

    model = Ignorant(GAMED)
    run = trainer(model)
    with pytest.raises(WorldModelError, match=r"(?s)in 3 steps no episode.*no goal progress was revealed"):
        run.train()
    assert run.next_step == 2
    model.known = 2  # a step of two turns with predictions begins the count anew
    with pytest.raises(WorldModelError):
        run.train()
    assert run.next_step == 5
