"""The weak world model: what it looks at it gets right, and it holds nothing against a script that it cannot know."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import SMOKE_COMPETITIONS
from tests.scriptcheck.sound_scripts import HEAD, SOUND
from tests.scriptcheck.worlds import World
from wmrl_gym.configs import compose_config
from wmrl_gym.configs.validation import Component
from wmrl_gym.core import Outcome, Submission, WorldModel
from wmrl_gym.corpus.file import read_corpus
from wmrl_gym.envs.mle_dojo.competition import load_competition
from wmrl_gym.world_models import CheapChecks

END = "\ntest[['id']].assign(price=1.0).to_csv(SUBMISSION_PATH, index=False)\n"


def _predict(worlds: dict[str, World], script: str) -> Outcome:
    return CheapChecks().predict([Submission("houses", script, {"overview": worlds["houses"].overview})])[0]


def test_it_is_a_world_model_and_can_be_chosen() -> None:
    assert isinstance(CheapChecks(), WorldModel)
    chosen = compose_config("train", ["experiment=smoke", "world_model=cheap_checks"])["world_model"]
    assert isinstance(Component.from_mapping(chosen, "world_model").build(), CheapChecks)


@pytest.mark.parametrize(
    ("script", "status", "exception"),
    [
        ("", "no_code", None),
        ("x = (", "syntax_error", "SyntaxError"),
        ("import nowhere_to_be_found.deep\n", "runtime_error", "ModuleNotFoundError"),
        ("from nowhere_to_be_found import x\n", "runtime_error", "ModuleNotFoundError"),
        ("import os\nx = pd.read_csv(os.path.join(DATA_DIR, 'trian.csv'))\n", "runtime_error", "FileNotFoundError"),
        ("pd.read_csv(f'{DATA_DIR}/trian.csv')\n", "runtime_error", "FileNotFoundError"),
        (HEAD + "y = train['pricee']\n", "runtime_error", "KeyError"),
        (HEAD + "y = train['price']\n", "invalid_submission", None),
        (HEAD + "y = train['price']\n" + END, "valid", None),
    ],
)  # fmt: skip
def test_what_it_looks_at(worlds: dict[str, World], script: str, status: str, exception: str | None) -> None:
    outcome = _predict(worlds, script)
    assert (outcome.status, outcome.details["exception"]) == (status, exception), outcome
    assert outcome.source == "world_model" and outcome.score is not None
    if exception not in (None, "SyntaxError"):
        assert exception in outcome.feedback and "Traceback" in outcome.feedback


@pytest.mark.parametrize(
    "line",
    [
        "try:\n    import nowhere_to_be_found\nexcept ImportError:\n    pass",
        "train['made'] = 1\ny = train['made']",
        "train.insert(0, 'made', 1)\ny = train['made']",
        "train = train.rename(columns={'price': 'p'})\ny = train['p']",
        "train = other(train)\ny = train['anything']",
        "def f(train):\n    return train['anything']",
        "pd.read_csv(name_of_a_file())",
    ],
)
def test_what_it_cannot_know_it_passes(worlds: dict[str, World], line: str) -> None:
    assert _predict(worlds, HEAD + line + END).status == "valid"


@pytest.mark.parametrize("name", sorted(SOUND))
def test_sound_scripts_pass(worlds: dict[str, World], name: str) -> None:
    world, script = SOUND[name]
    submission = Submission(world, script, {"overview": worlds[world].overview})
    assert CheapChecks().predict([submission])[0].status == "valid"


def test_on_executed_scripts_it_beats_a_constant_guess_and_accuses_no_valid_one(smoke_root: Path) -> None:
    corpus = read_corpus(Path(__file__).parents[2] / "benchmarks" / "data" / "corpus.jsonl.gz")
    overviews = {name: load_competition(smoke_root, name).overview for name in SMOKE_COMPETITIONS}
    records = [record for record in corpus.records if record.task in overviews]
    submissions = [Submission(r.task, r.script, {"overview": overviews[r.task]}) for r in records]
    predicted = [outcome.status for outcome in CheapChecks().predict(submissions)]
    executed = [record.status for record in records]
    right = sum(p == e for p, e in zip(predicted, executed, strict=True))
    assert len(records) > 50 and right > max(executed.count(status) for status in set(executed))
    assert not [p for p, e in zip(predicted, executed, strict=True) if e == "valid" and p != "valid"]


def test_what_cannot_be_read_is_unknown(worlds: dict[str, World]) -> None:
    outcomes = CheapChecks().predict([Submission("houses", "x = 1"), Submission("houses", "x = 1\n" * 50_000)])
    assert [outcome.score for outcome in outcomes] == [None, None]
