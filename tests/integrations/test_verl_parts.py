"""What of the integration needs no verl: settings, rows, the scorer, and the error where verl is missing."""

from __future__ import annotations

import math
import subprocess
import sys
import threading
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.integrations.verl_world import settings
from tests.proxy.guessing import PASS, GuessEnv, truth
from wmrl_gym.core import ExecutorError, Outcome, Submission, WorldModelError
from wmrl_gym.integrations import (
    EnvironmentScorer,
    FinishedTrajectory,
    GroupScoring,
    VerlConfigError,
    VerlPluginError,
    check_verl,
)
from wmrl_gym.integrations.verl.rows import DrawnGroup, FailureWatch, RowScore, score_rows
from wmrl_gym.integrations.verl.settings import build_scorer, build_scoring, chosen_route, scorer_threads
from wmrl_gym.proxy import RandomAnchors, RewardProxy

# ---- settings ------------------------------------------------------------------------------------------------------


def test_both_routes_are_known_by_their_names() -> None:
    assert chosen_route(settings()) == "trainer" and chosen_route(settings("estimator")) == "estimator"


@pytest.mark.parametrize(
    ("route", "changes", "said"),
    [
        ("trainer", {"trainer__v1__trainer_mode": "sync"}, "exactly one"),
        ("trainer", {"algorithm__adv_estimator": "wmrl_grpo"}, "exactly one"),
        ("trainer", {"algorithm__adv_estimator": "gae"}, "adv_estimator=grpo"),
        ("trainer", {"reward__reward_manager__name": "naive"}, "reward_manager.name=wmrl"),
        ("trainer", {"trainer__use_v1": False}, "use_v1=true"),
        ("trainer", {"algorithm__use_kl_in_reward": True}, "use_kl_loss=true"),
        ("trainer", {"algorithm__filter_groups__enable": True}, "filter_groups.enable"),
        ("trainer", {"skip__rollout_tq__enable": True}, "rollout_tq"),
        ("trainer", {"reward__reward_model__enable": True}, "reward_model"),
        ("trainer", {"actor_rollout_ref__rollout__n": 1}, "at least 2"),
        ("estimator", {"trainer__v1__trainer_mode": "colocate_async"}, "trainer_mode=sync"),
        ("estimator", {"trainer__checkpoint_callback_class": None}, "ProxyCheckpoint"),
    ],
)
def test_what_would_undo_the_proxys_work_is_refused(route: str, changes: Mapping[str, Any], said: str) -> None:
    with pytest.raises(VerlConfigError, match=said):
        chosen_route(settings(route, **changes))


def test_proxy_and_scorer_come_from_the_configuration() -> None:
    scoring = build_scoring(settings(algorithm__norm_adv_by_std_in_grpo=True))
    assert scoring.normalise_by_std and scoring.proxy.anchors.fraction == 0.4 and scoring.proxy.debiaser is not None
    assert not build_scoring(settings()).normalise_by_std
    assert build_scorer(settings())(FinishedTrajectory("a", "", {}), True)[1] is not None
    assert scorer_threads(settings()) == 8 and scorer_threads(settings(wmrl__threads=3)) == 3


@pytest.mark.parametrize("part", ["proxy", "scorer"])
def test_a_part_that_is_missing_or_of_the_wrong_kind_is_named(part: str) -> None:
    build = {"proxy": build_scoring, "scorer": build_scorer}[part]
    with pytest.raises(VerlConfigError, match=f"wmrl.{part} is missing"):
        build(settings(**{f"wmrl__{part}": None}))
    wrong = {"_target_": "builtins.dict"}
    with pytest.raises(VerlConfigError, match=f"wmrl.{part} makes a dict"):
        build(settings(**{f"wmrl__{part}": wrong}))


def test_the_estimator_refuses_a_minimum_of_anchors_that_it_cannot_count() -> None:
    with pytest.raises(VerlConfigError, match="min_per_step is 1"):
        build_scoring(settings("estimator", wmrl__proxy__anchors__min_per_step=1))
    with pytest.raises(VerlConfigError, match="threads is -1"):
        scorer_threads(settings(wmrl__threads=-1))


# ---- rows ----------------------------------------------------------------------------------------------------------

DRAWN = {"a": DrawnGroup("0:x", True, 0.4), "b": DrawnGroup("1:x", False, 0.4)}


def _scoring() -> GroupScoring:
    return GroupScoring(RewardProxy(RandomAnchors(0.4), None, None))


def _rows() -> dict[str, RowScore | None]:
    return {
        "b_0_0": RowScore(0.1, None, False),
        "a_0_0": RowScore(0.5, 0.2, True),
        "pad1_0_0": None,
        "a_1_0": RowScore(0.5, 0.8, True),
        "b_2_0": RowScore(None, None, False, "lost"),
        "b_1_0": RowScore(0.3, None, False),
        "b_1_1": RowScore(0.3, None, False),
    }


def _score(rows: Mapping[str, RowScore | None], scoring: GroupScoring | None = None) -> list[float | None]:
    scoring = scoring if scoring is not None else _scoring()
    return score_rows(scoring, list(rows), list(rows.values()), DRAWN, FailureWatch()).advantages


def test_rows_find_their_groups_by_key() -> None:
    expected = [-0.1, -0.3, None, 0.3, None, 0.1, 0.1]
    assert [None if a is None else round(a, 9) for a in _score(_rows())] == expected


@pytest.mark.parametrize(
    ("key", "row", "said"),
    [
        ("c_0_0", RowScore(0.1, None, False), "not drawn in this step"),
        ("b_1_1", RowScore(0.4, None, False), "other scores than the first"),
        ("b_3_0", RowScore(0.4, 0.4, True), "drawn otherwise"),
        ("b_3_0", RowScore(math.nan, None, False), "finite"),
        ("b", RowScore(0.4, None, False), "not of the form"),
    ],
)
def test_rows_that_cannot_be_right_are_refused_and_teach_nothing(key: str, row: RowScore, said: str) -> None:
    scoring = _scoring()
    before = scoring.state_dict()
    with pytest.raises(ValueError, match=said):
        _score({**_rows(), key: row}, scoring)
    assert scoring.state_dict() == before


@pytest.mark.parametrize(
    "row", [RowScore(0.25, None, False), RowScore(None, 0.5, True), RowScore(None, None, True, "e")]
)
def test_scores_travel_beside_a_row_as_numbers(row: RowScore) -> None:
    info = row.to_extra_info()
    assert all(isinstance(value, str) or math.isfinite(value) for value in info.values())
    assert RowScore.from_extra_info(info, "a_0_0") == row


@pytest.mark.parametrize("info", [None, {}, {"acc": 1.0}])
def test_rows_of_another_reward_manager_are_refused(info: Any) -> None:
    with pytest.raises(ValueError, match=r"reward_manager\.name=wmrl"):
        RowScore.from_extra_info(info, "a_0_0")


def test_dead_scorers_stop_the_run_and_single_failures_do_not() -> None:
    lost, watch = RowScore(0.5, None, True, "SandboxUnavailable: no bwrap"), FailureWatch()
    watch.look([lost] * 15)
    watch.look([RowScore(0.5, 0.5, True)])
    watch.look([lost] * 15)
    with pytest.raises(ExecutorError, match="no bwrap"):
        watch.look([lost])
    dead = RowScore(None, None, False, "ConnectionError: refused")
    with pytest.raises(WorldModelError, match="refused"):
        FailureWatch().look([dead, RowScore(None, 0.5, True)])
    FailureWatch().look([dead, RowScore(0.1, None, False)])
    executed = [RowScore(None, 0.5, True), RowScore(None, None, True, "OSError: one lost")]
    FailureWatch().look(executed)  # where all is executed, nothing is predicted
    silent, watch = [RowScore(None, None, False), RowScore(None, 0.5, True)], FailureWatch()
    watch.look(silent)
    watch.look(silent)
    with pytest.raises(WorldModelError, match="no trajectory"):
        watch.look(silent)
    with pytest.raises(RuntimeError, match="nothing to learn"):
        _score({"b_0_0": RowScore(0.1, None, False), "b_1_0": RowScore(None, None, False)})


# ---- the scorer ----------------------------------------------------------------------------------------------------


class Halved:
    """A world model that predicts half the truth, and counts what it is asked at once."""

    def __init__(self) -> None:
        self.batches: list[int] = []
        self.busy = threading.Lock()

    def predict(self, submissions: Any) -> list[Outcome]:
        assert self.busy.acquire(blocking=False), "asked by two threads at once"
        self.batches.append(len(submissions))
        outcomes = [Outcome((truth(submission).score or 0.0) / 2, "predicted") for submission in submissions]
        self.busy.release()
        return outcomes


def _scorer(**options: Any) -> EnvironmentScorer:
    return EnvironmentScorer(lambda secret: GuessEnv(2, secret=int(secret)), Halved(), option="secret", **options)


def _trajectory(action: int, secret: str = "40") -> FinishedTrajectory:
    return FinishedTrajectory(str(action), "guessing", {"secret": secret})


def test_an_answer_is_predicted_and_an_anchor_executed_too() -> None:
    scorer = _scorer()
    score = truth(Submission("guess", 30, {"secret": 40})).score
    assert scorer(_trajectory(30), False) == (score / 2, None)
    assert scorer(_trajectory(30), True) == (score / 2, score)
    assert scorer(_trajectory(PASS), True) == (0.0, 0.0)  # the environment judged it by itself
    assert scorer(_trajectory(30, "30"), True) == (0.5, 1.0)


def test_many_threads_get_what_one_gets() -> None:
    scorer = _scorer()
    asked = [(_trajectory(n % 90, str(n % 7)), n % 3 == 0) for n in range(200)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda one: scorer(*one), asked))
    assert found == [_scorer()(*one) for one in asked]


def test_a_failed_execution_is_unknown_and_a_failed_world_model_raises() -> None:
    class Broken:
        capacity = 1

        def submit(self, submission: Submission) -> Future[Outcome]:
            raise OSError("no machine")

        def close(self) -> None: ...

        def predict(self, submissions: Any) -> list[Outcome]:
            raise OSError("no model")

    predicted, executed = _scorer(executor=Broken())(_trajectory(30), True)
    assert predicted is not None and executed is None
    dead = EnvironmentScorer(lambda secret: GuessEnv(), Broken(), option="secret")
    with pytest.raises(WorldModelError, match="no model"):
        dead(_trajectory(30), False)


def test_a_prompt_without_a_task_is_named() -> None:
    with pytest.raises(ValueError, match=r"extra_info\['secret'\] of a prompt from 'guessing' is None"):
        _scorer()(FinishedTrajectory("1", "guessing", {}), False)


def test_a_script_is_judged_by_static_analysis_and_really_executed(smoke_root: Path) -> None:
    from wmrl_gym.envs import MLEDojoEnv
    from wmrl_gym.world_models import StaticAnalysis

    name = sorted(folder.name for folder in smoke_root.iterdir() if folder.is_dir())[0]
    scorer = EnvironmentScorer(
        lambda competition: MLEDojoEnv(competition, smoke_root, max_turns=1), StaticAnalysis(), max_executions=1
    )
    scores = [
        scorer(FinishedTrajectory(f"```python\n{code}\n```", name, {"competition": name}), True)
        for code in ("raise ValueError", "print(1)")
    ]
    assert [executed for _, executed in scores] == [0.1, 0.2]  # the ladder: an error, nothing handed in
    assert all(predicted is not None for predicted, _ in scores)


# ---- without verl --------------------------------------------------------------------------------------------------


def test_the_room_does_not_import_verl() -> None:
    names = "EnvironmentScorer, FinishedTrajectory, TrajectoryScorer, VerlConfigError, VerlPluginError, check_verl"
    code = f"import sys; from wmrl_gym.integrations import {names}; print({{'verl', 'ray'}} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_a_missing_verl_is_an_error_that_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "verl", None)
    with pytest.raises(VerlPluginError, match=r"cannot be imported(.|\n)*make verl-env"):
        check_verl()
