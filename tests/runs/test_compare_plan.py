"""What a command line of `wmrl compare` asks for, without running it."""

from __future__ import annotations

from pathlib import Path

import pytest

from wmrl_gym.cli.main import main
from wmrl_gym.configs.validation import ConfigError
from wmrl_gym.runs.arms import plan_comparison
from wmrl_gym.runs.comparing import _first_evaluation


@pytest.mark.parametrize("experiment", ["quickstart", "smollm2", "mledojo_qwen35_4b"])
def test_arms_are_made_of_any_experiment(experiment: str) -> None:
    plan = plan_comparison([f"experiment={experiment}", "seeds=[3]", "tasks.held_out=[x]"])

    def parts(arm: str) -> tuple[bool, float, bool, bool]:
        config = plan.config(arm, 3)
        assert config.seed == 3 and config.experiment_name == f"{experiment}-{arm}"
        proxy = config.proxy.build()
        executed = proxy.anchors.fraction
        return config.world_model is not None, executed, proxy.debiaser is not None, proxy.fusion is not None

    assert {arm: parts(arm) for arm in plan.arms} == {
        "grpo": (False, 1.0, False, False),
        "world_model": (True, 0.0, False, False),
        "mixed": (True, 0.1, False, False),
        "fusion": (True, 0.1, False, True),
        "debias": (True, 0.1, True, False),
        "wmrl": (True, 0.1, True, True),
    }
    assert plan.reference == "grpo" and plan.folder == Path("runs") / f"compare-{experiment}"


def test_world_model_arm_never_executes_even_one_group() -> None:
    proxy = plan_comparison(["only=[world_model]"]).config("world_model", 0).proxy.build()
    assert not any(proxy.draw(step, [f"{g}" for g in range(8)]).is_anchor.any() for step in range(20))


def test_every_value_of_a_sweep_is_an_arm_and_two_sweeps_make_a_grid() -> None:
    plan = plan_comparison(["sweep.proxy.anchors.fraction=[0.02,1.0]", "sweep.algorithm.group_size=[4,8]"])
    assert plan.arms == [
        "fraction=0.02,group_size=4",
        "fraction=0.02,group_size=8",
        "fraction=1.0,group_size=4",
        "fraction=1.0,group_size=8",
    ]
    config = plan.config("fraction=0.02,group_size=8", 1)
    assert config.proxy.build().anchors.fraction == 0.02 and config.algorithm.build().group_size == 8
    assert plan.reference == "fraction=1.0,group_size=4", "the first in which everything is executed"


def test_members_of_a_group_can_be_swept_beside_chosen_arms() -> None:
    plan = plan_comparison(["only=[grpo]", "sweep.world_model=[static_analysis,distorted_static_analysis]"])
    assert plan.arms == ["grpo", "world_model=static_analysis", "world_model=distorted_static_analysis"]
    assert "Distorted" in plan.runs["world_model=distorted_static_analysis", 0]["world_model"]["_target_"]


def test_paths_can_be_swept_although_no_folder_is_called_like_one() -> None:
    plan = plan_comparison(["policy=causal_lm", "sweep.policy.path=[/models/a,/models/b]"])
    assert plan.arms == ["path=models_a", "path=models_b"]
    assert plan.runs["path=models_b", 0]["policy"]["path"] == "/models/b"


def test_only_evaluations_of_the_same_thing_are_shared_before_training() -> None:
    def before(*words: str) -> str:
        return _first_evaluation(plan_comparison(["only=[wmrl]", *words]).runs["wmrl", 0])

    assert before() == before("proxy.anchors.fraction=0.3", "tasks.train=[titanic_survival]")
    others = ["tasks.measure=score", "tasks.also=[relative_gap]", "evaluation.samples=3", "env.max_turns=1"]
    assert len({before(), *map(before, others)}) == 1 + len(others)


def test_what_an_arm_says_prevails_over_the_command_line() -> None:
    words = ["only=[grpo,wmrl]", "world_model=distorted_static_analysis", "world_model.noise=0.2"]
    plan = plan_comparison([*words, "proxy.anchors.fraction=0.3"])
    assert plan.config("grpo", 0).world_model is None
    assert plan.runs["wmrl", 0]["world_model"]["noise"] == 0.2
    assert [plan.runs[arm, 0]["proxy"]["anchors"]["fraction"] for arm in plan.arms] == [1.0, 0.3]


def test_own_arms_can_be_added_and_the_reference_chosen() -> None:
    plan = plan_comparison(['arms.mine=["proxy.anchors.fraction=0.3"]', "only=[mine,wmrl]", "reference=wmrl"])
    assert plan.arms == ["mine", "wmrl"] and plan.reference == "wmrl"
    assert plan_comparison(["only=[wmrl]"]).reference is None


def test_evaluations_come_evenly_unless_it_is_said_when() -> None:
    def every(*words: str) -> int:
        plan = plan_comparison(["only=[wmrl]", "algorithm.steps=20", *words])
        return int(plan.runs["wmrl", 0]["evaluation"]["every"])

    assert (every(), every("evaluations=1"), every("evaluations=99"), every("evaluation.every=7")) == (4, 10, 1, 7)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["seed=1"], "seeds=\\[0,1,2\\]"),
        (["seeds=[1,1]"], "each once"),
        (["seds=[1]"], "did you mean 'seeds'"),
        (["only=[grop]"], "did you mean 'arms.grpo'"),
        (["only=[]"], "no arm"),
        (["only=[wmrl]", "reference=grpo"], "no arm here"),
        (["sweep.proxy.anchors.fraction=0.1"], "list of values"),
        (["sweep.proxy.anchors.fraction=0.1,0.2"], "is 0.1,0.2: give a list of values"),
        (["sweep.proxy.anchors.fraction=[0.1,0.1]"], "two arms of the sweep would be called 'fraction=0.1'"),
        (["sweep.proxy.anchors.fractoin=[0.1]"], "arm 'fractoin=0.1'.*\n?.*did you mean 'proxy.anchors.fraction'"),
        (["algorithm.stesp=3"], "did you mean 'algorithm.steps'"),
        (["evaluation.before=false"], "evaluated before and after"),
        (["level=95"], "0.95"),
    ],
)
def test_what_cannot_be_right_is_refused(words: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        plan_comparison(words)


def test_plan_can_be_shown_without_being_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "experiment=smoke", f"folder={tmp_path / 'new'}", "--show"]) == 0
    shown = capsys.readouterr().out
    assert "reference: grpo" in shown and "- proxy.debiaser=null" in shown and not (tmp_path / "new").exists()
