"""Every bundled competition is complete, gradable, and gives no answer away."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from wmrl_gym.envs.mle_dojo.catalogue import CATALOGUE, held_out_competitions, train_competitions
from wmrl_gym.envs.mle_dojo.catalogue.leaderboards import reference_scores, split_boards
from wmrl_gym.envs.mle_dojo.competition import load_competition

every_competition = pytest.mark.parametrize("name", CATALOGUE)


def _tables(root: Path, name: str) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    data = root / name / "data"
    files = (data / "public" / "train.csv", data / "public" / "test.csv", data / "private" / "test_answer.csv")
    train, test, answers = (pd.read_csv(file) for file in files)
    return train, test, answers


def test_catalogue_has_enough_of_each_kind() -> None:
    kinds = Counter(spec.category for spec in CATALOGUE.values())
    assert kinds["tabular"] >= 8 and kinds["text"] >= 4 and kinds["image"] >= 4
    assert len(train_competitions()) >= 12 and len(held_out_competitions()) >= 4
    assert {CATALOGUE[name].category for name in held_out_competitions()} == {"tabular", "text", "image"}
    assert not set(train_competitions()) & set(held_out_competitions())


def test_importing_the_catalogue_loads_nothing_heavy() -> None:
    script = (
        "import sys, wmrl_gym.envs.mle_dojo.catalogue as c; "
        "print([m for m in ('pandas', 'sklearn', 'PIL', 'torch', 'river', 'matplotlib') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@every_competition
def test_sample_submission_is_valid_and_far_below_the_answers(root: Path, name: str) -> None:
    competition = load_competition(root, name)
    public = root / name / "data" / "public"
    sample = competition.grade((public / "sample_submission.csv").read_bytes())
    perfect = competition.grade((root / name / "data" / "private" / "test_answer.csv").read_bytes())
    assert sample.problem is None and perfect.problem is None
    assert perfect.percentile == 1.0
    assert sample.percentile is not None and sample.percentile < 0.4


@every_competition
def test_overview_finds_target_metric_and_kind(root: Path, name: str) -> None:
    spec, overview = CATALOGUE[name], load_competition(root, name).overview
    assert overview.target_columns == (spec.target,)
    assert (overview.metric, overview.higher_is_better) == (spec.metric, spec.higher_is_better)
    assert overview.modality == spec.category
    assert overview.contract.columns == (spec.id_column, spec.target)


@every_competition
def test_no_test_example_occurs_in_train(root: Path, name: str) -> None:
    spec = CATALOGUE[name]
    train, test, _ = _tables(root, name)
    public = root / name / "data" / "public"
    if spec.category == "image":
        train_keys = {(public / "train" / f"{i}.png").read_bytes() for i in train[spec.id_column]}
        test_keys = {(public / "test" / f"{i}.png").read_bytes() for i in test[spec.id_column]}
    else:
        features = [column for column in test.columns if column != spec.id_column]
        train_keys, test_keys = (set(table[features].map(repr).agg("|".join, axis=1)) for table in (train, test))
    assert not train_keys & test_keys


@every_competition
def test_ids_and_row_order_say_nothing_about_the_target(root: Path, name: str) -> None:
    spec = CATALOGUE[name]
    train, test, answers = _tables(root, name)
    assert train[spec.id_column].tolist() == list(range(1, len(train) + 1))
    assert test[spec.id_column].tolist() == list(range(len(train) + 1, len(train) + len(test) + 1))
    assert test[spec.id_column].tolist() == answers[spec.id_column].tolist()
    for table in (train, answers):
        target = table[spec.target]
        indicators = [target] if spec.answer == "number" else [target == label for label in target.unique()]
        for indicator in indicators:
            correlation = np.corrcoef(table[spec.id_column], indicator.astype(float))[0, 1]
            assert abs(correlation) < 4 / np.sqrt(len(table))


@every_competition
def test_public_part_holds_no_answer(root: Path, name: str) -> None:
    spec = CATALOGUE[name]
    _, test, answers = _tables(root, name)
    public = root / name / "data" / "public"
    sample = pd.read_csv(public / "sample_submission.csv")
    assert spec.target not in test.columns
    assert sample[spec.target].nunique() == 1 and answers[spec.target].nunique() > 1
    assert not any("answer" in path.name or "leaderboard" in path.name for path in public.rglob("*"))


@every_competition
def test_no_feature_is_a_copy_of_the_target(root: Path, name: str) -> None:
    spec = CATALOGUE[name]
    train, _, _ = _tables(root, name)
    codes = train[spec.target].astype("category").cat.codes
    for column in train.columns.drop([spec.id_column, spec.target]):
        levels = train[column].nunique()
        if spec.answer != "number" and levels <= train[spec.target].nunique() * 2:
            assert train.groupby(column, dropna=False)[spec.target].nunique().max() > 1, column
        if train[column].dtype.kind in "if":
            assert abs(train[column].corr(codes.astype(float))) < 0.99, column


@every_competition
def test_description_explains_columns_metric_and_submission(root: Path, name: str) -> None:
    spec = CATALOGUE[name]
    text = " ".join((root / name / "data" / "public" / "description.txt").read_text().split())
    sample = (root / name / "data" / "public" / "sample_submission.csv").read_text()
    assert "## Evaluation" in text and sample.splitlines()[0] in text
    assert "higher is better" in text.lower() if spec.higher_is_better else "lower is better" in text.lower()
    assert set(spec.fields) >= {spec.target}


@every_competition
def test_sizes_keep_a_script_short(root: Path, name: str) -> None:
    train, test, _ = _tables(root, name)
    assert len(train) + len(test) <= (1500 if CATALOGUE[name].category == "image" else 2500)
    assert len(test) >= 50


@every_competition
def test_leaderboards_hold_forty_reference_scores_that_differ(name: str) -> None:
    spec, scores = CATALOGUE[name], reference_scores(name)
    public, private = split_boards(spec, scores)
    assert len(scores) >= 40 and sorted(public + private) == sorted(scores)
    assert len(set(scores)) >= 25
    for board in (public, private):
        assert board == sorted(board, reverse=spec.higher_is_better) and len(board) >= 20


@pytest.mark.parametrize("name", ["photo_patches", "ground_textures", "patch_depth"])
def test_patches_of_train_and_test_do_not_touch(name: str) -> None:
    from wmrl_gym.envs.mle_dojo.catalogue.images import _patches

    size, block, shape = {
        "photo_patches": (12, 72, (427, 640)),
        "ground_textures": (20, 128, (512, 512)),
        "patch_depth": (14, 70, (500, 741)),
    }[name]
    owner = np.zeros(shape, int)
    for rows, columns, is_test in _patches(shape, size, block, seed=0):
        assert rows.stop <= shape[0] and columns.stop <= shape[1]
        owner[rows, columns] = 2 if is_test else 1
    assert {1, 2} <= set(np.unique(owner))
    for step in range(1, size):  # a gap of at least one patch, along both axes
        for a, b in ((owner[step:], owner[:-step]), (owner[:, step:], owner[:, :-step])):
            assert not ((a * b) == 2).any()
