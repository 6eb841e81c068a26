"""Answers of one turn inside TRL: its advantages are ours, evaluations leave no trace, a resumed run goes on."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("trl")

from tests.integrations import trl_small
from tests.integrations.trl_small import Guess, Kept, N, Words, one_turn, oracle, proxy, tokenizer
from wmrl_gym import Outcome, Submission
from wmrl_gym.core import ExecutorError, WorldModelError
from wmrl_gym.execution import LocalExecutor
from wmrl_gym.integrations import OneTurn, TRLReward
from wmrl_gym.integrations.trl.one_turn import completion_text
from wmrl_gym.proxy import RandomAnchors, RewardProxy

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Threads on a busy machine wait for each other, and this model is too small to gain by them."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("normalise_by_std", "chat", "changes"),
    [
        (False, True, {}),
        (True, False, {}),
        (False, True, {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 8, "loss_type": "dapo"}),
        (False, True, {"steps_per_generation": 2, "generation_batch_size": None, "num_iterations": 2, "max_steps": 6}),
    ],
)
def test_what_trl_trains_on_is_weight_times_advantage(
    tmp_path: Path, normalise_by_std: bool, chat: bool, changes: dict[str, Any]
) -> None:
    trainer, reward = one_turn(tmp_path, normalise_by_std=normalise_by_std, chat=chat, **changes)
    trainer.train()
    steps = len(trainer.seen)
    assert reward.scoring.step == steps
    np.testing.assert_allclose(trainer.advantages, oracle(reward.hand_in, steps, normalise_by_std), atol=1e-6)
    metrics = reward.scoring.proxy.metrics()
    assert metrics["anchor_failures"] and metrics["refits"] and metrics["rho"] != 1


def test_dropped_groups_teach_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trl_small, "LOST", 0.8)
    trainer, reward = one_turn(tmp_path, max_steps=4)
    trainer.train()
    assert reward.scoring.proxy.metrics()["dropped_groups"]
    np.testing.assert_allclose(trainer.advantages, oracle(reward.hand_in, 4), atol=1e-6)


def test_a_step_of_the_proxy_is_a_generation_batch(tmp_path: Path) -> None:
    trainer, reward = one_turn(tmp_path, num_iterations=2, max_steps=4)
    trainer.train()
    assert (trainer.state.global_step, reward.scoring.step) == (4, 2)


def test_only_anchors_are_executed_and_each_once(tmp_path: Path) -> None:
    Words.executed.clear()
    trainer, reward = one_turn(tmp_path, max_steps=2)
    trainer.train()
    executed = []
    for step in range(2):
        draw = proxy().draw(step, [str(g) for g in range(4)])
        batch = reward.hand_in[step * 16 : (step + 1) * 16]
        executed += [s.content for i, s in enumerate(batch) if draw.is_anchor[i // N] and isinstance(s, Submission)]
    assert sorted(Words.executed) == sorted(executed) and executed


def test_metrics_stand_in_the_log_of_trl(tmp_path: Path) -> None:
    trainer, reward = one_turn(tmp_path, max_steps=1)
    trainer.train()
    logged = trainer.state.log_history[0]
    rewards = [r for row in reward.last_step.scored.rewards for r in row if r is not None]
    assert logged["wmrl/reward"] == pytest.approx(np.mean(rewards))
    assert logged["wmrl/executed_share"] == logged["wmrl/proxy/anchor_fraction"] > 0
    assert {"wmrl/predicted_score", "wmrl/proxy/rho", "wmrl/proxy/bias_after"} <= set(logged)
    assert abs(logged["reward"]) < 1e-6  # TRL's own is the mean of advantages


@pytest.mark.parametrize("evaluation", ["executed", "predicted"])
def test_an_evaluation_returns_scores_and_leaves_no_trace(tmp_path: Path, evaluation: str) -> None:
    trainer, reward = one_turn(tmp_path, evaluation=evaluation, max_steps=2, per_device_eval_batch_size=8)
    trainer.train()
    before, played = json.dumps(reward.state_dict()), len(reward.hand_in)
    asked = reward.world_model.asked
    Words.executed.clear()
    logged = trainer.evaluate()
    handed_in = reward.hand_in[played:]
    assert len(handed_in) == 2 * N and json.dumps(reward.state_dict()) == before and reward.world_model.asked == asked
    if evaluation == "executed":
        scores = [trl_small.true_score(s) for s in handed_in]
        assert len(Words.executed) == 2 * N
    else:
        scores = [reward.scoring.proxy.calibrate(Guess.guess(s)) for s in handed_in]
        assert not Words.executed
    assert logged["eval_reward"] == pytest.approx(np.mean([s for s in scores if s is not None]))
    assert not any(name.startswith("eval_wmrl") for name in logged)


def test_evaluations_between_steps_do_not_count_as_steps(tmp_path: Path) -> None:
    trainer, reward = one_turn(
        tmp_path, max_steps=3, eval_strategy="steps", eval_steps=1, eval_on_start=True, per_device_eval_batch_size=8
    )
    trainer.train()
    assert reward.scoring.step == 3 and len(trainer.seen_in_evaluation) == 4
    assert reward.scoring.proxy.metrics()["pairs"] == len(reward.scoring.proxy.ledger)
    training = [given for i, given in enumerate(reward.hand_in) if _is_training(i)]
    np.testing.assert_allclose(trainer.advantages, oracle(training, 3), atol=1e-6)


def _is_training(index: int) -> bool:
    """8 of an evaluation, then 16 of training, in turn."""
    return index % 24 >= 8


@pytest.mark.parametrize("moved", [False, True])
def test_a_resumed_run_goes_on_as_if_never_stopped(tmp_path: Path, moved: bool) -> None:
    saving = {"save_strategy": "steps", "save_steps": 2, "max_steps": 5}
    whole, whole_reward = one_turn(tmp_path, **saving)
    whole.train()
    checkpoint = tmp_path / "checkpoint-2"
    changes: dict[str, Any] = {}
    if moved:  # to where no trainer writes, and with a newer one of the same number in the way
        checkpoint = Path(shutil.move(checkpoint, tmp_path / "kept"))
        shutil.copytree(tmp_path / "checkpoint-4", tmp_path / "checkpoint-2")
        changes["restore_callback_states_from_checkpoint"] = True
    trainer, reward = one_turn(tmp_path, **saving, **changes)
    trainer.train(resume_from_checkpoint=str(checkpoint))
    assert trainer.advantages == whole.advantages[2:]
    assert reward.state_dict() == whole_reward.state_dict()
    assert reward.world_model.asked == whole_reward.world_model.asked > 0
    if moved:
        saved = json.loads((tmp_path / "checkpoint-5" / "trainer_state.json").read_text())
        assert saved["stateful_callbacks"]["WMRLState"]["attributes"]["saved"] == reward.state_dict()


def test_a_checkpoint_without_the_proxy_is_refused(tmp_path: Path) -> None:
    trainer, _ = one_turn(tmp_path, save_strategy="steps", save_steps=1, max_steps=1)
    trainer.train()
    path = tmp_path / "checkpoint-1" / "trainer_state.json"
    state = json.loads(path.read_text())
    del state["stateful_callbacks"]["WMRLState"]
    path.write_text(json.dumps(state))
    again, reward = one_turn(tmp_path, max_steps=2)
    with pytest.raises(ValueError, match="checkpoint of step 1 holds no state of the reward proxy"):
        again.train(resume_from_checkpoint=True)
    assert reward.scoring.step == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"scale_rewards": "group"}, "scale_rewards is 'group'"),
        ({"scale_rewards": "batch"}, "scale_rewards is 'batch'"),
        ({"scale_rewards": True}, "scale_rewards is 'group'"),
        ({"reward_weights": [0.5]}, r"reward_weights is \[0.5\]"),
        ({"multi_objective_aggregation": "normalize_then_sum"}, "multi_objective_aggregation"),
        ({"rows": 1}, "train_dataset has 3 rows, and a generation batch takes 4"),
    ],
)
def test_settings_that_would_change_advantages_are_refused(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        one_turn(tmp_path, **changes)


def test_settings_that_say_the_same_are_taken(tmp_path: Path) -> None:
    trainer, _ = one_turn(tmp_path, scale_rewards=False, reward_weights=[1.0])
    assert trainer.scale_rewards == "none"


def test_a_setting_changed_after_attaching_is_refused_when_training_begins(tmp_path: Path) -> None:
    trainer, _ = one_turn(tmp_path)
    trainer.scale_rewards = "group"
    with pytest.raises(ValueError, match="scale_rewards"):
        trainer.train()


def test_another_reward_function_beside_it_is_refused(tmp_path: Path) -> None:
    trainer, reward = one_turn(tmp_path)

    def brevity(completions: list[Any], **columns: Any) -> list[float]:
        return [0.0] * len(completions)

    other = _reward()
    beside = trl_small.Watched(
        model=trl_small.tiny_llama(), reward_funcs=[other, brevity], args=trl_small.settings(tmp_path),
        train_dataset=trainer.train_dataset, processing_class=tokenizer(),
    )  # fmt: skip
    with pytest.raises(ValueError, match=r"reward functions are \[wmrl, brevity\]"):
        other.attach(beside)
    with pytest.raises(ValueError, match="give reward_funcs this one alone"):
        _reward().attach(trainer)
    with pytest.raises(ValueError, match="attached to a trainer already"):
        reward.attach(trainer)
    with pytest.raises(TypeError, match=r"use trl\.GRPOTrainer"):
        _reward().attach(object())


def _reward(**changes: Any) -> TRLReward:
    hand_in = OneTurn(Words())
    return TRLReward(**{"scoring": proxy(), "world_model": Guess(), "hand_in": hand_in, **changes})


def test_what_is_not_attached_says_so_instead_of_training_unchecked(tmp_path: Path) -> None:
    reward = _reward()
    data = one_turn(tmp_path)[0].train_dataset
    trainer = trl_small.Watched(
        model=trl_small.tiny_llama(), reward_funcs=reward, args=trl_small.settings(tmp_path), train_dataset=data,
        processing_class=tokenizer(),
    )  # fmt: skip
    with pytest.raises(RuntimeError, match=r"call its attach\(trainer\)"):
        trainer.train()


def test_parts_that_cannot_score_are_refused() -> None:
    with pytest.raises(ValueError, match=r"no world model, but anchors\.fraction is 0\.4"):
        _reward(world_model=None)
    with pytest.raises(ValueError, match="nothing can execute"):
        _reward(hand_in=lambda prompt, completion, row: Outcome(0.0, "none"))
    with pytest.raises(ValueError, match="choose 'executed' or 'predicted'"):
        _reward(evaluation="none")


def test_without_a_world_model_everything_is_executed(tmp_path: Path) -> None:
    trainer, _ = one_turn(tmp_path)
    hand_in = Kept(OneTurn(Words()))
    reward = TRLReward(RewardProxy(RandomAnchors(1.0)), None, hand_in)
    trainer = trl_small.Watched(
        model=trl_small.tiny_llama(), reward_funcs=reward, args=trl_small.settings(tmp_path, max_steps=1),
        train_dataset=trainer.train_dataset, processing_class=tokenizer(),
    )  # fmt: skip
    reward.attach(trainer).train()
    scores = np.array([trl_small.true_score(s) for s in hand_in], float).reshape(4, N)  # None becomes NaN
    enough = (~np.isnan(scores)).sum(1) >= 2
    expected = np.where(enough[:, None], np.nan_to_num(scores - np.nanmean(scores, 1, keepdims=True)), 0.0)
    np.testing.assert_allclose(np.reshape(trainer.advantages[0], (4, N)), expected, atol=1e-6)


def test_a_memory_that_json_cannot_hold_is_refused_before_training(tmp_path: Path) -> None:
    class Arrays(Guess):
        def state_dict(self) -> dict[str, Any]:
            return {"seen": np.zeros(2)}

    with pytest.raises(TypeError, match="JSON"):
        one_turn(tmp_path, world_model=Arrays())


def test_a_world_model_that_is_down_stops_training_and_changes_nothing(tmp_path: Path) -> None:
    class Down(Guess):
        def predict(self, submissions: list[Submission]) -> list[Outcome]:
            raise ConnectionError("no answer")

    trainer, reward = one_turn(tmp_path, world_model=Down())
    before = reward.scoring.state_dict()
    with pytest.raises(WorldModelError, match="no answer"):
        trainer.train()
    assert reward.scoring.state_dict() == before


def test_a_world_model_that_never_knows_stops_training(tmp_path: Path) -> None:
    class Clueless(Guess):
        def predict(self, submissions: list[Submission]) -> list[Outcome]:
            return [Outcome(None, "unknown") for _ in submissions]

    trainer, reward = one_turn(tmp_path, world_model=Clueless(), max_steps=6)
    with pytest.raises(WorldModelError, match="3 generation batches"):
        trainer.train()
    assert reward.scoring.step == 2


def test_executions_that_all_fail_stop_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trl_small, "LOST", 1.0)
    trainer, _ = one_turn(tmp_path, max_steps=20)
    with pytest.raises(ExecutorError, match="executions in a row"):
        trainer.train()


def test_completions_that_are_no_groups_are_refused(tmp_path: Path) -> None:
    trainer, reward = one_turn(tmp_path)
    trainer.model.train()
    rows = trainer.train_dataset.to_list()
    mixed = [rows[i % 2] for i in range(N)]
    columns = {"wmrl_reset": [row["wmrl_reset"] for row in mixed]}
    with pytest.raises(ValueError, match="answer different prompts"):
        reward([row["prompt"] for row in mixed], ["abcd"] * N, **columns)
    with pytest.raises(ValueError, match="no equal shares of whole groups"):
        reward([rows[0]["prompt"]] * 3, ["abcd"] * 3, wmrl_reset=[rows[0]["wmrl_reset"]] * 3)
    assert reward.scoring.step == 0


def test_rows_of_one_turn_begin_the_same_episode_again() -> None:
    hand_in = OneTurn(Words())
    row = hand_in.rows([{"task": "red"}])[0]
    assert row["prompt"] == [{"role": "user", "content": "say red"}]
    assert hand_in(row["prompt"], [{"role": "assistant", "content": "crimson"}], row) == Submission("red", "crimson")
    assert hand_in(row["prompt"], "", row).score == 0.0  # an empty answer: the environment judges it by itself
    assert hand_in.rows(chat=False) == [{"prompt": "say none", "wmrl_reset": '{"seed": 0, "options": null}'}]
    with pytest.raises(KeyError, match=r"OneTurn\.rows"):
        hand_in("say red", "crimson", {})


def test_a_function_that_hands_in_nothing_is_an_error_and_no_unknown_score() -> None:
    reward = _reward(hand_in=lambda prompt, completion, row: None, executor=LocalExecutor(Words().execute))
    with pytest.raises(TypeError, match="hand_in returned a NoneType"):
        reward._play([("", "", {})], [True])


def test_an_environment_that_goes_on_is_no_one_turn() -> None:
    class Slow(Words):
        def advance(self, outcome: Outcome | None) -> Any:
            return "again", 0.0, False, False, {}

    hand_in = OneTurn(Slow())
    with pytest.raises(ValueError, match="goes on after one action"):
        hand_in("", "", hand_in.rows()[0])


@pytest.mark.parametrize(
    ("completion", "text"),
    [
        ("plain", "plain"),
        ([{"role": "assistant", "content": "said"}], "said"),
        ([{"role": "assistant", "content": [{"type": "text", "text": "in "}, {"text": "parts"}]}], "in parts"),
        ([{"role": "assistant", "content": None, "tool_calls": []}], ""),
        ([], ""),
    ],
)  # fmt: skip
def test_the_text_of_a_completion(completion: Any, text: str) -> None:
    assert completion_text(completion) == text


def test_a_model_of_another_family(tmp_path: Path) -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    words = tokenizer()
    gpt2 = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=len(words), n_positions=64, n_embd=16, n_layer=1, n_head=2, bos_token_id=words.eos_token_id,
            eos_token_id=words.eos_token_id,
        )
    )  # fmt: skip
    trainer, reward = one_turn(tmp_path, model=gpt2, max_steps=2)
    trainer.train()
    np.testing.assert_allclose(trainer.advantages, oracle(reward.hand_in, 2), atol=1e-6)


def test_without_trl_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "trl", None)
    with pytest.raises(ImportError, match=r"wmrl-gym\[trl\]"):
        _reward()


def test_executor_and_environment_execute_alike(tmp_path: Path) -> None:
    hand_in = OneTurn(Words())
    submissions = [Submission("red", f"word {i}") for i in range(8)]
    for executor in (None, LocalExecutor(hand_in.execute, 3)):
        reward = _reward(hand_in=lambda prompt, completion, row: completion, executor=executor) if executor else None
        reward = reward or _reward(hand_in=_Passing(hand_in))
        scores = reward._play([(None, s, {}) for s in submissions], [True] * 8)
        assert [executed for _, executed in scores] == [trl_small.true_score(s) for s in submissions]


class _Passing:
    def __init__(self, inner: OneTurn) -> None:
        self.execute = inner.execute

    def __call__(self, prompt: Any, completion: Any, row: Any) -> Any:
        return completion
