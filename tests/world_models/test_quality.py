"""Better solutions are expected to rank better."""

from __future__ import annotations

import pytest

from tests.scriptcheck.sound_scripts import HEAD
from tests.scriptcheck.worlds import World
from wmrl_gym.core import Submission
from wmrl_gym.world_models.static_analysis import StaticAnalysis
from wmrl_gym.world_models.verdicts import QUALITY_BUCKETS


def _percentile(worlds: dict[str, World], world: str, body: str) -> float:
    submission = Submission(world, HEAD + body, {"overview": worlds[world].overview})
    outcome = StaticAnalysis(quality="continuous").predict([submission])[0]
    assert outcome.status == "valid", outcome.details["problem"]
    return outcome.details["percentile"]


def _houses(model: str, columns: str = "['rooms', 'balance']", extra: str = "") -> str:
    name = model.partition("(")[0]
    module = {"Dummy": "dummy", "Decisi": "tree", "KNeigh": "neighbors", "Ridge": "linear_model"}
    where = next((m for prefix, m in module.items() if name.startswith(prefix)), "ensemble")
    return (
        f"from sklearn.{where} import {name}\n{extra}cols = {columns}\n"
        f"model = {model}.fit(train[cols].fillna(0), train['price'])\n"
        "pd.DataFrame({'id': test['id'], 'price': model.predict(test[cols].fillna(0))})"
        ".to_csv(SUBMISSION_PATH, index=False)\n"
    )


def test_families_are_ordered(worlds: dict[str, World]) -> None:
    models = ["DummyRegressor()", "DecisionTreeRegressor(max_depth=1)", "Ridge()", "GradientBoostingRegressor()"]
    found = [_percentile(worlds, "houses", _houses(model)) for model in models]
    assert found == sorted(found) and len(set(found)) == len(found)


def test_more_of_the_columns_are_better(worlds: dict[str, World]) -> None:
    few = _percentile(worlds, "houses", _houses("Ridge()", "['rooms']"))
    many = _percentile(worlds, "houses", _houses("Ridge()", "['rooms', 'balance', 'area']"))
    assert few < many


def test_too_few_trees_are_worse(worlds: dict[str, World]) -> None:
    few = _percentile(worlds, "houses", _houses("RandomForestRegressor(n_estimators=2)"))
    many = _percentile(worlds, "houses", _houses("RandomForestRegressor(n_estimators=200)"))
    assert few < many


CHURN = """\
from sklearn.ensemble import RandomForestClassifier
cols = ["months", "spend"]
model = RandomForestClassifier().fit(train[cols], train["left"])
p = {prediction}
pd.DataFrame({{"customer": test["customer"], "left": p}}).to_csv(SUBMISSION_PATH, index=False)
"""


def test_a_ranking_metric_wants_probabilities(worlds: dict[str, World]) -> None:
    labels = _percentile(worlds, "churn", CHURN.format(prediction="model.predict(test[cols])"))
    ranks = _percentile(worlds, "churn", CHURN.format(prediction="model.predict_proba(test[cols])[:, 1]"))
    assert labels < ranks


def test_a_logarithm_that_is_never_undone_is_hopeless(worlds: dict[str, World]) -> None:
    body = _houses("Ridge()")
    logged = body.replace("train['price']", "np.log1p(train['price'])")
    undone = logged.replace("model.predict(test[cols].fillna(0))", "np.expm1(model.predict(test[cols].fillna(0)))")
    assert _percentile(worlds, "houses", logged) < 0.1 < _percentile(worlds, "houses", undone)


def test_the_untouched_sample_submission_is_worth_nothing(worlds: dict[str, World]) -> None:
    body = "pd.read_csv(DATA_DIR + '/sample_submission.csv').to_csv(SUBMISSION_PATH, index=False)\n"
    assert _percentile(worlds, "houses", body) < 0.1


@pytest.mark.parametrize("model", ["DummyRegressor()", "Ridge()", "RandomForestRegressor()"])
def test_buckets_stand_for_their_percentile(worlds: dict[str, World], model: str) -> None:
    submission = Submission("houses", HEAD + _houses(model), {"overview": worlds["houses"].overview})
    outcome = StaticAnalysis(quality="bucket").predict([submission])[0]
    assert outcome.details["percentile"] in QUALITY_BUCKETS.values()
    assert outcome.score == pytest.approx(0.5 + 0.5 * outcome.details["percentile"])
