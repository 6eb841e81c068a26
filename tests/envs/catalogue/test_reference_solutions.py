"""The committed leaderboards are what running the solutions gives."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from wmrl_gym.envs.mle_dojo.catalogue import CATALOGUE
from wmrl_gym.envs.mle_dojo.catalogue import leaderboards as leaderboards_module
from wmrl_gym.envs.mle_dojo.catalogue.leaderboards import leaderboard_file, reference_scores
from wmrl_gym.envs.mle_dojo.catalogue.partition import partition
from wmrl_gym.envs.mle_dojo.catalogue.reference_solutions import (
    Entry,
    recipes,
    run_recipe,
    write_leaderboard,
)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("name", "recipe"),
    [
        ("births_per_woman", "ordinal:tree_medium"),
        ("titanic_survival", "onehot:linear"),
        ("presidential_vote_1996", "numeric:boost_short"),
        ("first_name_gender", "pieces:linear"),
        ("colour_brightness", "words:linear"),
        ("digits_8x8", "pixels:neighbours"),
        ("ground_textures", "statistics:linear"),
    ],
)
def test_running_a_solution_again_gives_its_committed_score(name: str, recipe: str) -> None:
    with leaderboard_file(name).open() as lines:
        committed = {row["solution"]: float(row["score"]) for row in csv.DictReader(lines)}
    spec = CATALOGUE[name]
    assert run_recipe(spec, partition(spec), recipe).score == pytest.approx(committed[recipe], rel=0.01)


@pytest.mark.parametrize("name", CATALOGUE)
def test_committed_solutions_are_in_the_pool(name: str) -> None:
    with leaderboard_file(name).open() as lines:
        committed = [row["solution"] for row in csv.DictReader(lines)]
    assert len(set(committed)) == len(committed)
    assert set(committed) <= set(recipes(CATALOGUE[name]))


def test_solution_trained_on_few_rows_sees_only_those() -> None:
    spec = CATALOGUE["titanic_survival"]
    parts = partition(spec)
    one_row = run_recipe(spec, parts, "onehot:neighbours@5")
    # Five neighbours of five rows: every prediction is the majority of the first five labels.
    majority = parts.train[spec.target][:5].mode()[0]
    assert one_row.score == pytest.approx((parts.answers[spec.target] == majority).mean())


def test_written_scores_are_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaderboards_module, "FOLDER", tmp_path)
    spec = CATALOGUE["titanic_survival"]
    write_leaderboard(spec, [Entry("a:b", 0.75, 1.0, b""), Entry("c:d", 0.5, 1.0, b"")])
    assert reference_scores(spec.name) == [0.75, 0.5]
    assert reference_scores("never_run") == []
