from __future__ import annotations

import itertools
import json
import re
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from wmrl_gym.algorithms.evaluation import EpisodeRecord, Evaluation
from wmrl_gym.core import Measure
from wmrl_gym.reporting.evaluation_files import latex, markdown, show, write_evaluation
from wmrl_gym.reporting.evaluation_tables import EvaluationTables, Number, Row, evaluation_tables, share
from wmrl_gym.reporting.pass_at_k import all_at_k, curve, pass_at_k


@pytest.mark.parametrize("successes", range(7))
@pytest.mark.parametrize("k", range(1, 7))
def test_estimates_are_the_mean_over_every_choice_of_k_attempts(successes: int, k: int) -> None:
    attempts = [True] * successes + [False] * (6 - successes)
    choices = list(itertools.combinations(attempts, k))
    expected = sum(map(any, choices)) / len(choices), sum(map(all, choices)) / len(choices)
    assert (pass_at_k(6, successes, k), all_at_k(6, successes, k)) == pytest.approx(expected)
    assert curve(attempts)[k] == pytest.approx(expected)


def test_fewer_attempts_than_k_say_nothing_and_impossible_counts_are_refused() -> None:
    assert pass_at_k(3, 1, 4) is None and all_at_k(3, 3, 4) is None
    for numbers in ((3, 4, 1), (3, -1, 1), (3, 1, 0)):
        with pytest.raises(ValueError, match="attempts"):
            pass_at_k(*numbers)


def record(task: str, *turns: float | None, known: bool = True, gap: float | None = None) -> EpisodeRecord:
    best = max((value for value in turns if value is not None), default=None)
    others = {} if gap is None else {"relative_gap": gap}
    return EpisodeRecord(task, best, known, ("",) * len(turns), turns, others)


RECORDS = (
    record("a", None, 0.2),
    record("a", 0.6, 0.4),
    record("b", None, None),
    record("b", None, 1.0),
    record("c", 0.5, None),
    record("c", 0.0, 0.0),
    record("c", 0.9, 0.9, known=False),
)
CATEGORIES = {"a": "tabular", "b": "tabular", "c": "text"}

PERCENTILE = Measure("percentile", is_share=True, is_graded=True)


def tables(records: tuple[EpisodeRecord, ...] = RECORDS, **settings: Any) -> EvaluationTables:
    measure, status = settings.pop("measure", PERCENTILE), settings.pop("success_status", "valid")
    kind = {"measure": asdict(measure), "success_status": status}
    data = {**asdict(Evaluation(records, 2, 0.8, 12, 3.4)), **kind}
    return evaluation_tables(data, title="nano_agent: held-out", **{"categories": CATEGORIES, **settings})


def rows(records: tuple[EpisodeRecord, ...] = RECORDS, **settings: Any) -> dict[str, Row]:
    return {row.name: row for row in tables(records, **settings).rows}


def value(number: Number | None) -> float:
    assert number is not None
    return number.value


def test_task_category_and_both_averages() -> None:
    found = rows()
    scores = {name: value(row.score) for name, row in found.items()}
    assert scores == pytest.approx(
        {"a": 0.4, "b": 0.5, "c": 0.25, "tabular": 0.45, "text": 0.25,
         "mean over tasks": 1.15 / 3, "mean over categories": 0.35}
    )  # fmt: skip
    assert [value(found[name].achieved) for name in "abc"] == [1.0, 0.5, 1.0]
    assert found["c"].episodes == 2 and tables().unknown == 1
    mean = found["mean over tasks"].score
    assert mean is not None and mean.low is not None and mean.high is not None and mean.low < mean.value < mean.high


def test_success_is_a_valid_submission_or_a_bound_on_the_score() -> None:
    def both(**settings: Any) -> list[tuple[float, float]]:
        found = rows(**settings)
        return [(value(found[name].pass_at_k), value(found[name].all_at_k)) for name in "abc"]

    assert both() == [(1, 1), (1, 0), (1, 1)]
    assert both(success=0.5) == [(1, 0), (1, 0), (1, 0)]
    assert both(success=0.5, k=1) == [(0.5, 0.5)] * 3
    assert value(rows(success=0.7)["mean over tasks"].pass_at_k) == pytest.approx(1 / 3)
    assert value(rows(success=0.7)["mean over categories"].pass_at_k) == pytest.approx(1 / 4)
    assert "percentile of 0.5 or more" in tables(success=0.5).notes()[1]


def test_successes_of_0_or_1_need_no_bound_and_have_no_valid_share() -> None:
    records = (record("a", 1.0), record("a", 1.0), record("b", 0.0), record("b", 1.0))
    found = tables(records, measure=Measure("success", is_share=True), categories=None, success=0.2)
    assert found.headings() == ["task", "category", "success", "pass@2", "All@2"]
    assert [value(row.all_at_k) for row in found.rows] == [1.0, 0.0, 0.5]
    assert found.curve == {1: (0.75, 0.75), 2: (1.0, 0.5)}


def test_gaps_that_are_all_zero_are_no_failures_of_a_success() -> None:
    gap = Measure("relative_gap", is_share=True, is_graded=True)
    found = tables((record("a", 0.0), record("a", None)), measure=gap, categories=None)
    assert found.success_status == "valid"
    assert value(found.rows[0].pass_at_k) == 1.0 and value(found.rows[0].all_at_k) == 0.0


def test_a_hundred_turns_are_no_columns() -> None:
    many = tables((record("a", *[0.1] * 100),), categories=None)
    assert len(many.turns) == 100 and "turn 1" not in markdown(many)
    assert "turn 2" in markdown(tables())


def test_best_so_far_never_falls_and_a_short_episode_keeps_what_it_reached() -> None:
    turns = tables((*RECORDS[:4], record("c", 0.5), record("c", 0.0, 0.0))).turns
    assert [turn.best.value for turn in turns] == pytest.approx([(0.3 + 0 + 0.25) / 3, (0.4 + 0.5 + 0.25) / 3])
    assert [turn.achieved.value for turn in turns] == pytest.approx([(0.5 + 0 + 1) / 3, (1 + 0.5 + 1) / 3])
    assert RECORDS[1].best_so_far == (0.6, 0.6) and RECORDS[2].best_so_far == (0.0, 0.0)


def test_a_task_without_a_result_counts_in_no_average() -> None:
    found = rows((*RECORDS, record("d", 0.9, known=False)), categories={**CATEGORIES, "d": "image"})
    assert found["d"].score is None and found["image"].score is None
    assert value(found["mean over categories"].score) == pytest.approx(0.35)
    assert share(found["d"].score) == "-"


def test_a_task_that_is_in_no_average_is_named() -> None:
    lost = tables((*RECORDS, record("d", 0.9, known=False)), categories={**CATEGORIES, "d": "image"})
    assert "In no mean, because no episode has a result: d." in markdown(lost)
    assert "In no mean" not in markdown(tables())


def test_a_task_that_lost_an_episode_has_no_pass_at_k_of_them_all() -> None:
    found = rows((record("a", 0.4), record("a", 0.4, known=False)), categories=None)
    assert found["a"].pass_at_k is None and found["mean over tasks"].pass_at_k is None
    assert value(rows((record("a", 0.4), record("a", 0.4, known=False)), categories=None, k=1)["a"].pass_at_k) == 1.0


def test_a_second_measure_stands_beside_the_first() -> None:
    found = tables((record("a", 0.4, gap=0.8), record("a", None, gap=0.0)), categories=None)
    assert found.headings()[2:4] == ["percentile", "relative gap"]
    assert value(found.rows[0].others["relative_gap"]) == 0.4


def test_files_hold_the_same_numbers_and_the_tables_can_be_made_again(tmp_path: Path) -> None:
    kind = {"measure": asdict(PERCENTILE), "success_status": "valid"}
    data = {**asdict(Evaluation(RECORDS, 2, 0.8, 12, 3.4)), **kind}
    paths = write_evaluation(tmp_path / "new", "evaluation", data, tables(), {"seed": 0})
    assert [path.name for path in paths] == ["evaluation.json", "evaluation.md", "evaluation.tex"]
    read = json.loads(paths[0].read_text())
    again = evaluation_tables(read, title="nano_agent: held-out", categories=CATEGORIES)
    assert markdown(again) == paths[1].read_text() == markdown(tables())
    assert read["summary"]["rows"][0]["score"]["value"] == pytest.approx(0.4)
    assert "| **mean over categories** |  | 35.0% [" in paths[1].read_text()


def test_latex_is_escaped_and_every_line_has_every_column() -> None:
    text = latex(tables())
    assert r"nano\_agent" in text and r"40.0\%" in text and "booktabs" in text
    lines = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert len(lines) == 8 and {line.count(" & ") for line in lines} == {5}
    assert text.count(r"\midrule") == 3


def test_terminal_of_80_columns_shows_names_and_numbers_whole(tmp_path: Path) -> None:
    console = Console(width=80, record=True, file=(tmp_path / "out").open("w"))
    long = tuple(EpisodeRecord("a_rather_long_competition_name", 0.4, True, ("",), (0.4,)) for _ in range(2))
    show(tables((*RECORDS, *long), categories=None), console)
    text = console.export_text()
    assert "a_rather_long_competition_name" in text and "pass@2" in text and "40.0%" in text
    assert "percentile, mean over tasks: 38." in text


def test_a_reward_of_any_range_is_written_as_a_number_and_shares_beside_it_as_percentages(tmp_path: Path) -> None:
    records = (record("a", -2.5, 12.5, gap=0.5), record("a", 7.5, gap=0.5))
    found = tables(records, categories=None, measure=Measure("reward"))
    assert found.cells(found.rows[0], intervals=False)[2:] == ["10", "50.0%", "100.0%", "100.0%", "100.0%"]
    assert found.turn_lines(intervals=False)[1] == [["reward", "2.5", "10"], ["valid", "100.0%", "100.0%"]]
    # Two episodes tell little.
    assert re.search(r"\| 10 \[-[\d.]+, [\d.]+\] \|", markdown(found)) and "& 10 &" in latex(found)
    console = Console(width=120, record=True, file=(tmp_path / "out").open("w"))
    show(found, console)
    assert re.search(r"reward, mean over tasks: 10 \[-[\d.]+, [\d.]+\]", console.export_text())
    assert not found.share and tables().share
    assert tables((record("a", 1.0), record("a", 0.0)), measure=Measure("won")).share


def test_answers_without_their_whole_text_are_counted_by_reason() -> None:
    spent = replace(record("a", None, None), shortfalls=("length", "context"))
    lost = replace(record("b", None, known=False), shortfalls=("refusal",))
    made = tables((spent, replace(spent, shortfalls=("length",)), record("b", 0.2), lost))
    assert made.shortfalls == {"length": 2, "context": 1}
    assert "2 at the limit of tokens, 1 for which the context was too short" in made.notes()[-1]
    older = [{name: value for name, value in asdict(item).items() if name != "shortfalls"} for item in RECORDS]
    data = {**asdict(Evaluation(RECORDS, 2, 0.8, 12, 3.4)), "measure": asdict(PERCENTILE), "records": older}
    assert not evaluation_tables(data, title="t").shortfalls
    assert not any("whole text" in note for note in tables().notes())
