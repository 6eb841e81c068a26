from __future__ import annotations

import json
from pathlib import Path

from rich.console import Console

from wmrl_gym.core import Measure
from wmrl_gym.reporting.table import Cost, FinalTable, LanguageModelCost, quantities_of, quantity, tasks_without_result
from wmrl_gym.runs.records.run_directory import RunDirectory

PERCENTILE = Measure("percentile", is_share=True, is_graded=True)
SUCCESS = Measure("success", is_share=True)
BEFORE = {"a": [0.0, 0.2, 0.0, 0.2], "b": [0.1, 0.1, 0.3, 0.3]}
AFTER = {"a": [0.5, 0.7, 0.5, 0.7], "b": [0.6, 0.6, 0.8, 0.8]}


def table() -> FinalTable:
    cost = Cost(trajectories=640, executed_trajectories=80, executions=150, seconds={"rollout": 100.4, "update": 50.2})
    measures = (quantity("percentile", BEFORE, AFTER), quantity("valid", BEFORE, None))
    return FinalTable("quickstart, seed 0", 4, measures, cost)


def test_table_says_gain_with_interval_and_cost_in_every_form(tmp_path: Path) -> None:
    console = Console(width=120, record=True, file=(tmp_path / "out").open("w"))
    table().print(console)
    for text in (console.export_text(), table().markdown()):
        assert "15.0%" in text and "65.0%" in text and "+50.0 (+" in text
        assert "80 of 640 training trajectories (12.5%), 150 executions" in text and "total 151" in text


def test_quantity_that_was_not_measured_after_has_no_gain() -> None:
    assert table().rows()[1][2:] == ("-", "-")


def test_table_is_kept_as_data(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path, "x", 0, {})
    table().write(run)
    data = json.loads((run.path / "table.json").read_text())
    assert data["executed_share"] == 0.125
    assert abs(data["measures"][0]["gain"]["estimate"] - 0.5) < 1e-12


def test_cost_of_a_language_model_is_added_up_over_the_steps() -> None:
    step = {"asked": 10, "prompt_tokens": 1000, "cached_tokens": 250, "generated_tokens": None, "seconds": 2.5,
            "abstentions": 1, "suspicious": 2}  # fmt: skip
    records = [{f"world_model/{name}": value for name, value in step.items()}] * 2
    cost = LanguageModelCost.from_records([*records, {"reward": 0.5}])
    assert cost is not None and cost.generated_tokens is None
    assert cost.line() == (
        "language model: 20 scripts judged, 2,000 prompt tokens (25% computed before), an unknown number of generated, "
        "5 s; 2 abstentions, 4 suspicious strings"
    )
    assert LanguageModelCost.from_records([{"reward": 0.5}]) is None


def test_percentiles_are_told_with_the_valid_share_and_successes_with_those_of_all_and_any() -> None:
    result = {"scores": {"a": [0.0, 1.0], "b": [1.0, 1.0], "lost": []}, "achieved": {"a": [1.0, 1.0], "b": [1.0, 1.0]}}
    named = {measure.name: measure for measure in quantities_of(SUCCESS, None, result)}
    assert list(named) == ["success", "all of k succeed", "any of k succeeds"]
    estimates = [measure.after.estimate for measure in named.values() if measure.after is not None]
    assert estimates == [0.75, 0.5, 1.0] and all(measure.before is None for measure in named.values())
    told = quantities_of(PERCENTILE, result, result, success_status="valid")
    assert [measure.name for measure in told] == ["percentile", "valid share"]
    graded = {**result, "scores": {"a": [0.25], "b": [1.0]}}
    assert [measure.name for measure in quantities_of(Measure("goal progress"), graded, None)] == ["goal progress"]
    assert quantities_of(SUCCESS, None, None) == []


def test_categories_are_weighed_alike_only_where_every_task_has_one() -> None:
    result = {"scores": {"a": [0.0], "b": [0.0], "c": [1.0]}, "achieved": {}}
    weighed = quantities_of(Measure("score"), None, result, {"a": "x", "b": "x", "c": "y"})
    assert [measure.after and measure.after.estimate for measure in weighed[:2]] == [1 / 3, 0.5]
    assert weighed[1].name == "score, categories weighed alike"
    some = quantities_of(Measure("score"), None, result, {"a": "x"})
    assert "score, categories weighed alike" not in {measure.name for measure in some}


def test_a_task_that_lost_all_its_episodes_is_left_out_before_and_after_and_named() -> None:
    before = {"scores": {"a": [0.25], "b": [], "c": [1.0]}, "achieved": {"a": [1.0], "b": [], "c": [1.0]}}
    after = {"scores": {"a": [0.5], "b": [1.0], "c": []}, "achieved": {"a": [1.0], "b": [1.0], "c": []}}
    score, valid = quantities_of(PERCENTILE, before, after, success_status="valid")
    assert score.gain is not None and score.gain.estimate == 0.25
    assert valid.before is not None and valid.before.estimate == 1.0
    left_out = tasks_without_result(before, None, after)
    assert left_out == ("b", "c") and tasks_without_result(before) == ("b",)
    assert "no result of them: b, c" in FinalTable("t", 1, (score,), table().cost, left_out).markdown()
    nothing = {"scores": {"a": []}, "achieved": {"a": []}}
    assert quantities_of(PERCENTILE, nothing, after | {"scores": {"a": [0.1]}}) == []


def test_without_word_of_what_was_achieved_the_scores_are_told_alone() -> None:
    earlier, now = {"scores": {"a": [0.25]}}, {"scores": {"a": [0.5]}, "achieved": {"a": [1.0]}}
    told = quantities_of(PERCENTILE, earlier, now, success_status="valid")
    assert [(one.name, one.gain and one.gain.estimate) for one in told] == [("percentile", 0.25)]


def test_gain_in_tasks_that_succeed_is_paired_by_task() -> None:
    """Every task that failed still fails: drawing tasks apart before and after would make up a spread."""
    scores = {f"{index}": [float(index % 2)] for index in range(10)}
    gains = [m.gain for m in quantities_of(SUCCESS, {"scores": scores}, {"scores": scores})[1:]]
    assert [(gain.low, gain.high) for gain in gains if gain is not None] == [(0.0, 0.0)] * 2


def test_a_reward_of_any_range_is_written_as_a_number_and_shares_beside_it_as_percentages() -> None:
    before, after = ({"scores": {"a": [value], "b": [2.0]}, "achieved": {}} for value in (-1.0, 5.5))
    categories = {"a": "x", "b": "y"}
    for told in quantities_of(Measure("reward"), before, after, categories):
        assert not told.share
        rows = FinalTable("t", 1, (told, quantity("valid share", BEFORE, AFTER)), table().cost).rows()
        assert rows[0][1:] == ("0.5", "3.75", "+3.25 (+3.25 to +3.25)") and rows[1][1] == "15.0%"
    won = quantities_of(Measure("won"), None, {"scores": {"a": [0.0, 1.0]}, "achieved": {}})
    assert all(told.share for told in won)
