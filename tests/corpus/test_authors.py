from __future__ import annotations

import ast
import csv
from pathlib import Path

import numpy as np
import pytest

from wmrl_gym.corpus.authors import WRITERS, write_draft
from wmrl_gym.corpus.mutations import mutate
from wmrl_gym.corpus.reference_scripts import reference_recipes, reference_script
from wmrl_gym.envs.mle_dojo.catalogue import CATALOGUE, prepare
from wmrl_gym.envs.mle_dojo.catalogue.leaderboards import leaderboard_file
from wmrl_gym.envs.mle_dojo.competition import Competition, load_competition

TASKS = ("diabetes_progression", "titanic_survival", "first_name_gender", "digits_8x8")


@pytest.fixture(scope="module")
def competitions(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Competition]:
    root = tmp_path_factory.mktemp("competitions")
    for name in TASKS:
        prepare(name, root)
    return {name: load_competition(root, name) for name in TASKS}


@pytest.mark.parametrize("name", list(CATALOGUE))
def test_every_recipe_becomes_a_script_that_needs_nothing_of_ours(name: str) -> None:
    recipes = reference_recipes(CATALOGUE[name])
    assert len(recipes) > 20
    for recipe in recipes[::4]:
        script = reference_script(CATALOGUE[name], recipe, "text")
        compile(script, "script", "exec")
        assert "wmrl_gym" not in script and "SUBMISSION_PATH" in script


@pytest.mark.parametrize(
    ("name", "recipe"),
    [
        ("diabetes_progression", "squares:linear_weak"),
        ("titanic_survival", "engineered:linear"),
        ("first_name_gender", "length:linear"),
        ("digits_8x8", "edges_and_statistics:linear"),
    ],
)
def test_script_of_a_recipe_scores_what_its_solution_scored_on_the_leaderboard(
    name: str, recipe: str, competitions: dict[str, Competition], tmp_path: Path
) -> None:
    competition = competitions[name]
    with leaderboard_file(name).open(newline="") as lines:
        board = {row["solution"]: float(row["score"]) for row in csv.DictReader(lines)}
    columns = (competition.public_dir / "test.csv").read_text().splitlines()[0].split(",")
    text = next((column for column in columns if column != CATALOGUE[name].id_column), None)
    script = reference_script(CATALOGUE[name], recipe, text)
    exec(compile(script, "s", "exec"), {"DATA_DIR": str(competition.public_dir), "SUBMISSION_PATH": tmp_path / "s.csv"})
    grade = competition.grade((tmp_path / "s.csv").read_bytes())
    assert grade.valid and grade.raw_score == pytest.approx(board[recipe], abs=2e-6)


def test_mutation_changes_one_thing_and_leaves_python() -> None:
    script = "import os\nx = [1, 2]\nfor i in x:\n    print(i, os.getcwd(), sep='-')\n"
    rng = np.random.default_rng(0)
    seen = set()
    for _ in range(200):
        changed = mutate(script, rng)
        assert changed is not None
        seen.add(changed[1])
        ast.parse(changed[0])
        assert changed[0] != ast.unparse(ast.parse(script)) + "\n"
    assert len(seen) >= 9


def test_nothing_to_mutate_gives_none() -> None:
    assert mutate("", np.random.default_rng(0)) is None


@pytest.mark.parametrize("author", WRITERS)
def test_same_stream_gives_the_same_draft(author: str, competitions: dict[str, Competition]) -> None:
    for name in TASKS:
        drafts = [write_draft(author, competitions[name], np.random.default_rng((5, 1))) for _ in range(2)]
        assert drafts[0] == drafts[1] and drafts[0] is not None
        assert drafts[0].author == author


def test_unknown_author_is_named(competitions: dict[str, Competition]) -> None:
    with pytest.raises(ValueError, match="no author is called 'nobody'"):
        write_draft("nobody", competitions[TASKS[0]], np.random.default_rng(0))
