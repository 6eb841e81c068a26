"""The nano agent's corpus: overviews are the environment's own, names vary, mistakes are one visible choice each."""

from __future__ import annotations

import collections
import difflib

import numpy as np
import pytest

from wmrl_gym.corpus.generator.authors import AUTHORS, draw_author, draw_plan
from wmrl_gym.corpus.generator.conversations import draw_conversation
from wmrl_gym.corpus.generator.facts import TaskFacts, parse_facts
from wmrl_gym.corpus.generator.mistakes import MISTAKES, draw_faulty
from wmrl_gym.corpus.generator.naming import rename
from wmrl_gym.corpus.generator.scripts import render_plan
from wmrl_gym.policies.nano_tokenizing import train_tokenizer

TABULAR = TaskFacts(
    "tabular", "rmse", "patient_id", "progression", 300, 140, ("age", "bmi"), ("sex", "site"), missing=True
)
BINARY = TaskFacts("tabular", "auc", "id", "is_ill", 300, 140, ("age", "bmi"), ())
TEXT = TaskFacts("text", "log_loss", "name_id", "is_female", 1000, 500, text_column="name")
IMAGE = TaskFacts("image", "accuracy", "image_id", "digit", 1000, 500, image_size=(8, 8))
TASKS = [TABULAR, BINARY, TEXT, IMAGE]


@pytest.mark.parametrize("facts", TASKS)
def test_facts_survive_being_rendered_and_read(facts: TaskFacts) -> None:
    assert parse_facts(facts.render()) == facts


def test_what_is_not_a_compact_overview_is_refused() -> None:
    with pytest.raises(ValueError, match="not a compact overview"):
        parse_facts("# Description\nPredict something.")


def test_renamed_competitions_share_no_name_with_the_original() -> None:
    rng = np.random.default_rng(0)
    seen = set()
    for _ in range(200):
        facts = rename(TABULAR, rng)
        names = [facts.target, *facts.numeric, *facts.categorical]
        assert len(set(names)) == len(names) and facts.id_column not in names
        assert not set(names) & {"progression", "bmi", "site"}
        seen.add(facts.target)
        assert parse_facts(facts.render()).target == facts.target
    assert len(seen) > 150


def test_plans_that_should_run_compile_and_name_the_tasks_own_columns() -> None:
    rng = np.random.default_rng(1)
    for facts in TASKS:
        for _ in range(100):
            script = render_plan(draw_plan(facts, draw_author(rng), rng))
            compile(script, "script", "exec")
            assert f'"{facts.target}"' in script
            assert f'"{facts.id_column}"' in script or "sample_submission.csv" in script
            assert 8 <= script.count("\n") <= 30


def test_versed_authors_err_least_and_choose_stronger_estimators() -> None:
    hurried, learned, versed = AUTHORS
    assert hurried.mistake_rate > learned.mistake_rate > versed.mistake_rate
    assert hurried.tiers[3] < learned.tiers[3] < versed.tiers[3]
    assert sum(author.share for author in AUTHORS) == pytest.approx(1)


def test_every_mistake_occurs_and_changes_few_lines_of_the_script_that_would_run() -> None:
    rng = np.random.default_rng(2)
    changes = collections.defaultdict(list)
    for facts in [*TASKS, *(rename(task, rng) for task in TASKS for _ in range(10))]:
        for _ in range(60):
            plan = draw_plan(facts, draw_author(rng), rng)
            mistake, faulty = draw_faulty(plan, rng)
            lines = difflib.ndiff(render_plan(plan).split("\n"), faulty.script.split("\n"))
            changes[mistake.name].append(sum(line.startswith("+ ") for line in lines))
    assert set(changes) == {mistake.name for mistake in MISTAKES}
    assert {mistake.check for mistake in MISTAKES} == set(range(8))
    assert max(np.mean(counts) for counts in changes.values()) <= 4


def test_a_corpus_is_the_same_for_the_same_seed_and_has_second_turns_that_mend() -> None:
    first = [draw_conversation(TASKS, np.random.default_rng(3), turns=2) for _ in range(1)]
    again = [draw_conversation(TASKS, np.random.default_rng(3), turns=2) for _ in range(1)]
    assert first == again
    rng = np.random.default_rng(4)
    drawn = [draw_conversation(TASKS, rng, turns=2) for _ in range(300)]
    kinds = collections.Counter(turns[1].observation.split(" ")[0] for turns in drawn)
    assert 10 < kinds["ok"] < kinds["error"] and kinds["error"] > 60 and kinds["invalid"] > 5  # most first scripts fail
    changed = [turns for turns in drawn if turns[1].observation.startswith("error")]
    same = sum(turns[0].response == turns[1].response for turns in changed)
    assert 0.1 < same / len(changed) < 0.35  # some do not see what was wrong


def test_tokenizer_cuts_a_name_alike_in_overview_and_script() -> None:
    rng = np.random.default_rng(5)
    conversations = [[(turn.observation, turn.response) for turn in draw_conversation(TASKS, rng)] for _ in range(400)]
    tokenizer = train_tokenizer(conversations, vocabulary=1024)
    for name in ("Survived", "mpg", "verse_id", "QqZz9_x"):
        alone = tokenizer(name, add_special_tokens=False)["input_ids"]
        for text in (f"target\t{name}\ntrain", f'y = train["{name}"]\n', f"id\tab\nsubmit\tab\t{name}"):
            ids = tokenizer(text, add_special_tokens=False)["input_ids"]
            assert any(ids[i : i + len(alone)] == alone for i in range(len(ids))), (name, text)
    script = conversations[0][0][1]
    ids = tokenizer(script, add_special_tokens=False)["input_ids"]
    assert tokenizer.decode(ids) == script
    assert len(ids) < len(script) / 6
