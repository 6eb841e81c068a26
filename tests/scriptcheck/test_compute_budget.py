from __future__ import annotations

import pytest

from tests.scriptcheck.sound_scripts import HEAD
from tests.scriptcheck.worlds import World
from wmrl_gym.core import Outcome, Submission
from wmrl_gym.scriptcheck.cost import Size, fit_seconds
from wmrl_gym.scriptcheck.values import Const, Estimator
from wmrl_gym.world_models.static_analysis import StaticAnalysis

NUMBERS = 'X, T, y = train[["rooms", "balance"]], test[["rooms", "balance"]], train["price"]\n'


def _predict(worlds: dict[str, World], body: str, seconds: float = 20.0) -> Outcome:
    submission = Submission("houses", HEAD + NUMBERS + body, {"overview": worlds["houses"].overview})
    return StaticAnalysis(budget_seconds=seconds).predict([submission])[0]


SLOW = {
    "a hundred thousand trees": (
        "from sklearn.ensemble import RandomForestRegressor\nRandomForestRegressor(n_estimators=100000).fit(X, y)\n"
    ),
    "a huge grid": (
        "from sklearn.ensemble import GradientBoostingRegressor\nfrom sklearn.model_selection import GridSearchCV\n"
        "grid = {'n_estimators': [500, 1000], 'max_depth': [2, 3, 4, 5], 'learning_rate': [0.1, 0.05, 0.01],\n"
        "        'subsample': [0.5, 0.7, 1.0]}\n"
        "GridSearchCV(GradientBoostingRegressor(), grid, cv=10).fit(X, y)\n"
    ),
    "a fit for every row": (
        "from sklearn.ensemble import RandomForestRegressor\nfor i in train['id']:\n"
        "    RandomForestRegressor(200).fit(X, y)\n"
    ),
    "a loop without an end": "while True:\n    x = 1\n",
    "a condition that stays true": "n = 3\nwhile n > 0:\n    print('x')\n",
}


@pytest.mark.parametrize("name", SLOW)
def test_hopeless_script_times_out(name: str, worlds: dict[str, World]) -> None:
    outcome = _predict(worlds, SLOW[name])
    assert outcome.status == "timeout", outcome.details["problem"]
    assert outcome.score == 0.1
    assert "20s" in outcome.feedback


def test_a_longer_limit_lets_the_same_script_pass(worlds: dict[str, World]) -> None:
    body = "from sklearn.ensemble import RandomForestRegressor\nRandomForestRegressor(20000).fit(X, y)\n"
    assert _predict(worlds, body, 10.0).status == "timeout"
    assert _predict(worlds, body, 10000.0).status == "invalid_submission"


def test_a_loop_that_ends_is_no_timeout(worlds: dict[str, World]) -> None:
    body = "n = 3\nwhile n > 0:\n    n -= 1\nwhile True:\n    if n == 0:\n        break\n"
    assert _predict(worlds, body).status == "invalid_submission"


def test_an_array_larger_than_the_memory_runs_out_of_it(worlds: dict[str, World]) -> None:
    assert _predict(worlds, "a = np.zeros((100000, 100000))\n").status == "out_of_memory"


def test_a_timeout_is_not_caught_by_a_broad_except(worlds: dict[str, World]) -> None:
    body = "try:\n    while True:\n        pass\nexcept Exception:\n    pass\n"
    assert _predict(worlds, body).status == "timeout"


def test_a_fault_before_the_slow_line_comes_first(worlds: dict[str, World]) -> None:
    outcome = _predict(worlds, "print(train['none'])\nwhile True:\n    pass\n")
    assert (outcome.status, outcome.details["exception"]) == ("runtime_error", "KeyError")


@pytest.mark.parametrize("name", ["RandomForestRegressor", "GradientBoostingClassifier", "SVC", "LogisticRegression"])
def test_more_rows_never_cost_less(name: str) -> None:
    from sklearn.utils import all_estimators

    cls = dict(all_estimators())[name]
    costs = [fit_seconds(Estimator(cls, {}), Size(rows, 20.0, 1.0, None)) for rows in (100.0, 1000.0, 10000.0)]
    assert costs == sorted(costs) and costs[0] < costs[-1]


def test_more_trees_cost_in_proportion() -> None:
    from sklearn.ensemble import RandomForestClassifier

    size = Size(1000.0, 20.0, 1.0, None)
    few, many = (fit_seconds(Estimator(RandomForestClassifier, {"n_estimators": Const(n)}), size) for n in (10, 1000))
    assert many == pytest.approx(100 * few)
