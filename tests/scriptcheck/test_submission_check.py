"""What a script leaves behind: right file, right columns, right rows, right ids."""

from __future__ import annotations

import pytest

from tests.scriptcheck.sound_scripts import HEAD
from tests.scriptcheck.worlds import World
from wmrl_gym.core import Outcome, Submission
from wmrl_gym.world_models.static_analysis import StaticAnalysis

MODEL = """\
from sklearn.linear_model import Ridge
cols = ["rooms", "balance"]
model = Ridge().fit(train[cols], train["price"])
p = model.predict(test[cols])
"""


def _predict(worlds: dict[str, World], body: str, **options: bool) -> Outcome:
    submission = Submission("houses", HEAD + MODEL + body, {"overview": worlds["houses"].overview})
    return StaticAnalysis(**options).predict([submission])[0]  # type: ignore[arg-type]


INVALID = {
    "never written": "print(p)\n",
    "written elsewhere": "pd.DataFrame({'id': test['id'], 'price': p}).to_csv('output.csv', index=False)\n",
    "wrong prediction column": "pd.DataFrame({'id': test['id'], 'target': p}).to_csv(SUBMISSION_PATH, index=False)\n",
    "no ids": "pd.DataFrame({'price': p}).to_csv(SUBMISSION_PATH, index=False)\n",
    "rows of the training table": (
        "q = model.predict(train[cols])\n"
        "pd.DataFrame({'id': train['id'], 'price': q}).to_csv(SUBMISSION_PATH, index=False)\n"
    ),
    "the first rows only": (
        "pd.DataFrame({'id': test['id'], 'price': p}).head(10).to_csv(SUBMISSION_PATH, index=False)\n"
    ),
    "ids of the training table": (
        "pd.DataFrame({'id': train['id'][:60], 'price': p}).to_csv(SUBMISSION_PATH, index=False)\n"
    ),
    "another column as id": ("pd.DataFrame({'id': test['rooms'], 'price': p}).to_csv(SUBMISSION_PATH, index=False)\n"),
    "no header": "pd.DataFrame({'id': test['id'], 'price': p}).to_csv(SUBMISSION_PATH, index=False, header=False)\n",
    "tabs": "pd.DataFrame({'id': test['id'], 'price': p}).to_csv(SUBMISSION_PATH, index=False, sep='\\t')\n",
    "missing predictions": (
        "pd.DataFrame({'id': test['id'], 'price': test['area']}).to_csv(SUBMISSION_PATH, index=False)\n"
    ),
    "text as predictions": (
        "pd.DataFrame({'id': test['id'], 'price': test['district']}).to_csv(SUBMISSION_PATH, index=False)\n"
    ),
    "a fault swallowed before the write": (
        "try:\n    p = model.predict(test[['missing']])\n"
        "    pd.DataFrame({'id': test['id'], 'price': p}).to_csv(SUBMISSION_PATH, index=False)\n"
        "except Exception as error:\n    print(error)\n"
    ),
    "left before the write": (
        "import sys\nsys.exit(0)\npd.DataFrame({'id': test['id'], 'price': p}).to_csv(SUBMISSION_PATH, index=False)\n"
    ),
}


@pytest.mark.parametrize("name", INVALID)
def test_invalid_submission_is_found(name: str, worlds: dict[str, World]) -> None:
    outcome = _predict(worlds, INVALID[name])
    assert outcome.status == "invalid_submission", outcome.details["problem"]
    assert outcome.score == 0.2
    assert "invalid" in outcome.feedback


VALID = {
    "columns in another order": ("pd.DataFrame({'price': p, 'id': test['id']}).to_csv(SUBMISSION_PATH, index=False)\n"),
    "relative path to the working directory": (
        "pd.DataFrame({'id': test['id'], 'price': p}).to_csv('submission.csv', index=False)\n"
    ),
    "ids as the index": ("pd.DataFrame({'id': test['id'], 'price': p}).set_index('id').to_csv(SUBMISSION_PATH)\n"),
    "two writes, the last one right": (
        "test.to_csv(SUBMISSION_PATH)\n"
        "pd.DataFrame({'id': test['id'], 'price': p}).to_csv(SUBMISSION_PATH, index=False)\n"
    ),
    "a fault repaired before the write": (
        "try:\n    p = model.predict(test[['missing']])\nexcept KeyError:\n    p = model.predict(test[cols])\n"
        "pd.DataFrame({'id': test['id'], 'price': p}).to_csv(SUBMISSION_PATH, index=False)\n"
    ),
}


@pytest.mark.parametrize("name", VALID)
def test_unusual_but_valid_submission_passes(name: str, worlds: dict[str, World]) -> None:
    outcome = _predict(worlds, VALID[name])
    assert outcome.status == "valid", outcome.details["problem"]


def test_a_written_index_counts_only_where_graders_mind_extra_columns(worlds: dict[str, World]) -> None:
    body = "pd.DataFrame({'id': test['id'], 'price': p}).to_csv(SUBMISSION_PATH)\n"
    assert _predict(worlds, body, extra_columns=True).status == "valid"
    assert _predict(worlds, body, extra_columns=False).status == "invalid_submission"


def test_a_file_written_by_code_that_is_not_followed_is_not_held_against_the_script(worlds: dict[str, World]) -> None:
    body = "import torch\ntorch.save(p, SUBMISSION_PATH)\n"
    outcome = _predict(worlds, body)
    submission = next(v for v in outcome.details["verdicts"] if v["check"] == "submission")
    assert submission["passed"] is None
    assert outcome.status == "valid"
