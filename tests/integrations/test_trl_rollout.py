"""Episodes of several turns inside TRL: tokens, masks, log-probabilities and advantages are those of our rollout."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("trl")

from tests.integrations import trl_small
from tests.integrations.trl_small import TASKS, N, Words, proxy, several_turns, tiny_llama, tokenizer, values
from wmrl_gym import RewardProxyVectorEnv
from wmrl_gym.core import Decision
from wmrl_gym.integrations import TRLRollout
from wmrl_gym.policies import CausalLMPolicy, load_nano_agent
from wmrl_gym.world_models import StaticAnalysis

pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore:You are using 'rollout_func'"),
]


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def _expected(rollout: TRLRollout, steps: list[Any], normalise_by_std: bool = False) -> list[list[float]]:
    """What a proxy of its own makes of the groups that were played."""
    judge = proxy()
    return [values(judge.score(step, groups), normalise_by_std) for step, groups in enumerate(steps)]


def _keep_groups(rollout: TRLRollout) -> list[Any]:
    """The groups of every generation batch, as they are played."""
    kept, play = [], rollout._train

    def keeping(prompts: Sequence[Any]) -> Any:
        output = play(prompts)
        kept.append(rollout.groups)
        return output

    rollout._train = keeping  # type: ignore[method-assign]
    return kept


@pytest.mark.parametrize(
    ("normalise_by_std", "lost", "changes"),
    [
        (False, 0.4, {"max_steps": 4}),
        (True, 0.8, {"max_steps": 4}),
        (False, 0.4, {"n_environments": 5, "per_device_train_batch_size": 2, "gradient_accumulation_steps": 8}),
    ],
)
def test_what_trl_trains_on_is_weight_times_advantage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, normalise_by_std: bool, lost: float, changes: dict[str, Any]
) -> None:
    monkeypatch.setattr(trl_small, "LOST", lost)
    trainer, rollout = several_turns(tmp_path, normalise_by_std=normalise_by_std, **changes)
    kept = _keep_groups(rollout)
    trainer.train()
    np.testing.assert_allclose(trainer.advantages, _expected(rollout, kept, normalise_by_std), atol=1e-6)
    metrics = rollout.scoring.proxy.metrics()
    assert metrics["anchor_failures"] and metrics["dropped_groups" if lost > 0.5 else "residual"]
    assert rollout.scoring.step == len(kept) == trainer.state.global_step


def test_tokens_and_log_probabilities_in_trl_are_those_of_the_rollout(tmp_path: Path) -> None:
    trainer, rollout = several_turns(tmp_path, max_steps=1, learning_rate=1e-9)
    trainer.train()
    batch = trainer.seen[0]
    mask = (batch["tool_mask"] * batch["completion_mask"]).bool()
    trajectories = [t for group in rollout.groups for t in group.trajectories]
    with torch.no_grad():
        trainer.model.eval()
        log_probs = trainer._get_per_token_logps_and_entropies(
            trainer.model,
            torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1),
            torch.cat([batch["prompt_mask"], batch["completion_mask"]], 1),
            batch["completion_ids"].shape[1],
        )[0]
    for row, trajectory in enumerate(trajectories):
        decisions = [turn.decision for turn in trajectory.turns]
        assert len(decisions) == 2
        ids = np.concatenate([d.token_ids for d in decisions])
        assert batch["completion_ids"][row][mask[row]].tolist() == ids.tolist()
        expected = np.concatenate([d.log_probs for d in decisions])
        np.testing.assert_allclose(log_probs[row][mask[row]].numpy(), expected, atol=1e-4)
    said = tokenizer().decode(batch["completion_ids"][0][(batch["completion_mask"][0].bool()) & ~mask[0]])
    assert "again" in said  # what the environment said is conditioned on and not learned


class Odd(CausalLMPolicy):
    """Gives up at once in some episodes, forces its first token, and wastes its last one."""

    def act(self, observations: Sequence[str], *, histories: Any, seeds: Any, temperature: float = 1.0) -> Any:
        decisions = super().act(observations, histories=histories, seeds=seeds, temperature=temperature)
        return [self._odd(d, len(h), seed) for d, h, seed in zip(decisions, histories, seeds, strict=True)]

    def _odd(self, decision: Decision, turn: int, seed: tuple[int, ...]) -> Decision:
        episode = seed[3]
        if (episode % N == 0 and turn == 0) or (episode % N == 1 and turn == 1):
            return dataclasses.replace(decision, gives_up="tired")
        forced = np.zeros(len(decision.token_ids), bool)
        forced[0] = True
        return dataclasses.replace(decision, forced=forced)

    def tokens_taken(self, decision: Decision) -> int:
        return len(decision.token_ids) - 1


def test_what_was_not_chosen_or_had_no_effect_is_not_learned(tmp_path: Path) -> None:
    policy = Odd(tiny_llama(), tokenizer(), max_new_tokens=5)
    trainer, rollout = several_turns(tmp_path, policy=policy, max_steps=2)
    kept = _keep_groups(rollout)
    trainer.train()
    batch = trainer.seen[-1]
    learned = (batch["tool_mask"] * batch["completion_mask"]).sum(1).tolist()
    trajectories = [t for group in rollout.groups for t in group.trajectories]
    # of every answer neither the first token, which was forced, nor the last
    assert learned == [sum(len(turn.decision.token_ids) - 2 for turn in t.turns) for t in trajectories]
    assert [len(t.turns) for t in trajectories] == [0, 1, 2, 2] * 4
    assert learned[0] == 0
    np.testing.assert_allclose(trainer.advantages, _expected(rollout, kept), atol=1e-6)
    assert trainer.state.log_history[0]["wmrl/gave_up"] == 0.5
    assert all(torch.isfinite(p).all() for p in trainer.model.parameters())


def test_a_policy_that_rewrites_the_conversation_is_refused(tmp_path: Path) -> None:
    class Forgetful(CausalLMPolicy):
        def prompt_ids(self, observation: str, history: Any) -> Any:
            return super().prompt_ids(observation, [])

    policy = Forgetful(tiny_llama(), tokenizer(), max_new_tokens=5)
    trainer, _ = several_turns(tmp_path, policy=policy, max_steps=1)
    with pytest.raises(ValueError, match="does not begin with the conversation before it"):
        trainer.train()


def test_an_evaluation_returns_scores_and_leaves_no_trace(tmp_path: Path) -> None:
    trainer, rollout = several_turns(tmp_path, max_steps=2, per_device_eval_batch_size=4)
    trainer.train()
    before, asked = rollout.state_dict(), rollout.world_model.asked
    Words.executed.clear()
    trainer.model.eval()
    first, second = trainer.evaluate(), trainer.evaluate()
    assert first["eval_reward"] == second["eval_reward"] > 0  # the same random streams, and the same weights
    assert len(Words.executed) == 2 * 2 * 2 * N and len(trainer.seen_in_evaluation) == 4
    batches = [batch["completion_ids"].tolist() for batch in trainer.seen_in_evaluation]
    assert batches[0] != batches[1] and batches[:2] == batches[2:]
    assert rollout.state_dict() == before and rollout.world_model.asked == asked


def test_evaluations_in_between_change_no_training(tmp_path: Path) -> None:
    plain, _ = several_turns(tmp_path)
    plain.train()
    evaluated, _ = several_turns(tmp_path, eval_strategy="steps", eval_steps=1, evaluation="predicted")
    evaluated.train()
    assert len(evaluated.seen_in_evaluation) == 3 and evaluated.advantages == plain.advantages


def test_playing_leaves_the_model_in_training(tmp_path: Path) -> None:
    trainer, _ = several_turns(tmp_path, max_steps=1)
    trainer.train()  # Watched compares the mode before and after
    assert len(trainer.seen) == 1 and not trainer.seen_in_evaluation and trainer.model.training


def test_a_resumed_run_goes_on_as_if_never_stopped(tmp_path: Path) -> None:
    saving = {"save_strategy": "steps", "save_steps": 1, "max_steps": 3}
    whole, whole_rollout = several_turns(tmp_path, **saving)
    whole.train()
    trainer, rollout = several_turns(tmp_path, **saving)
    trainer.train(resume_from_checkpoint=str(tmp_path / "checkpoint-1"))
    assert trainer.advantages == whole.advantages[1:]
    assert rollout.state_dict() == whole_rollout.state_dict()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"scale_rewards": "group"}, "scale_rewards"),
        ({"top_p": 0.9}, "top_p is 0.9"),
        ({"top_k": 5}, "top_k is 5"),
        ({"generation_kwargs": {"no_repeat_ngram_size": 2}}, "generation_kwargs"),
        ({"mask_truncated_completions": True}, "mask_truncated_completions"),
        ({"n_environments": 3}, "3 environments cannot play a group of 4"),
    ],
)
def test_settings_that_would_be_ignored_are_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        several_turns(tmp_path, **changes)


def test_a_group_that_straddles_processes_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer, rollout = several_turns(tmp_path)
    monkeypatch.setattr(trainer.args, "per_device_train_batch_size", 3)
    monkeypatch.setattr(trainer.args, "steps_per_generation", 2)
    with pytest.raises(ValueError, match="each process plays 6 episodes"):
        trainer.train()
    trainer.model.train()
    for prompts in (["red"] * 6, ["red", "red", "green", "green"]):
        with pytest.raises(ValueError, match="no whole groups of num_generations"):
            rollout(prompts, trainer)


def test_prompts_that_name_no_task_are_refused(tmp_path: Path) -> None:
    trainer, rollout = several_turns(tmp_path)
    trainer.model.train()
    with pytest.raises(ValueError, match="the data set's 'prompt' is a task's name"):
        rollout([[{"role": "user", "content": "red"}]] * N, trainer)


def test_several_tasks_need_to_be_told_to_the_environment(tmp_path: Path) -> None:
    trainer, rollout = several_turns(tmp_path)
    rollout.reset_options = None
    with pytest.raises(ValueError, match="give reset_options"):
        trainer.train()


def test_another_model_or_rollout_is_refused(tmp_path: Path) -> None:
    trainer, _ = several_turns(tmp_path)
    policy = CausalLMPolicy(tiny_llama(), tokenizer(), max_new_tokens=5)
    stranger = TRLRollout(policy, several_turns(tmp_path)[1].vector_env, proxy())
    trainer.reward_funcs = [stranger.reward]
    with pytest.raises(ValueError, match=r"(?s)rollout_func is another one.*the trainer's model is not the policy's"):
        stranger.attach(trainer)
    with pytest.raises(TypeError, match="has no model of its own"):
        TRLRollout(object(), stranger.vector_env, proxy())  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="were not played by the TRLRollout"):
        stranger.reward(prompts=TASKS, completions=TASKS)


def test_a_model_of_another_family(tmp_path: Path) -> None:
    from transformers import Qwen2Config, Qwen2ForCausalLM

    words = tokenizer()
    torch.manual_seed(0)
    model = Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=len(words), hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
            num_key_value_heads=1, eos_token_id=words.eos_token_id, pad_token_id=words.pad_token_id, bos_token_id=None,
        )
    )  # fmt: skip
    trainer, rollout = several_turns(tmp_path, policy=CausalLMPolicy(model, words, max_new_tokens=5), max_steps=2)
    kept = _keep_groups(rollout)
    trainer.train()
    np.testing.assert_allclose(trainer.advantages, _expected(rollout, kept), atol=1e-6)


def test_a_low_rank_adapter_is_what_learns(tmp_path: Path) -> None:
    pytest.importorskip("peft")
    from wmrl_gym.policies.causal_lm_loading import add_lora

    policy = CausalLMPolicy(add_lora(tiny_llama(), 2, None), tokenizer(), max_new_tokens=5)
    before = {name: p.detach().clone() for name, p in policy.model.named_parameters()}
    saving = {"save_strategy": "steps", "save_steps": 1, "max_steps": 2, "beta": 0.04}
    trainer, _ = several_turns(tmp_path, policy=policy, **saving)
    trainer.train()
    after = dict(policy.model.named_parameters())  # TRL has added an adapter for its reference
    changed = {name for name in before if not torch.equal(after[name], before[name])}
    assert changed and all("lora_" in name for name in changed)
    again = CausalLMPolicy(add_lora(tiny_llama(), 2, None), tokenizer(), max_new_tokens=5)
    resumed, _ = several_turns(tmp_path, policy=again, **saving)
    resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-1"))
    assert resumed.advantages == trainer.advantages[1:]


def test_the_nano_agent_on_competitions(tmp_path: Path, smoke_data: None) -> None:
    import gymnasium as gym
    from datasets import Dataset

    tasks = ["titanic_survival", "diabetes_progression"]
    made = {"competition": tasks, "max_turns": 2, "overview_style": "compact", "sandbox_start": "warm"}
    policy = load_nano_agent(max_new_tokens=80)
    environments = RewardProxyVectorEnv(
        [lambda: gym.make("wmrl/MLEDojo-v0", **made)] * 8, StaticAnalysis(feedback_style="compact")
    )
    rollout = TRLRollout(policy, environments, proxy(), reset_options=lambda task: {"competition": task})
    trainer = trl_small.Watched(
        model=policy.model, reward_funcs=rollout.reward, processing_class=policy.tokenizer, rollout_func=rollout,
        args=trl_small.settings(tmp_path, max_steps=1, gradient_accumulation_steps=2, learning_rate=1e-4),
        train_dataset=Dataset.from_dict({"prompt": tasks}),
    )  # fmt: skip
    kept = _keep_groups(rollout)
    rollout.attach(trainer).train()
    np.testing.assert_allclose(trainer.advantages, _expected(rollout, kept), atol=1e-6)
    assert {group.task_id for group in rollout.groups} == set(tasks)
    for group in rollout.groups:
        submitted = [turn.submission for t in group.trajectories for turn in t.turns if turn.submission is not None]
        assert submitted and {submission.task_id for submission in submitted} == {group.task_id}
