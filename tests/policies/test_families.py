"""Every family of language models acts, is scored, trained and resumed alike, through `load_causal_lm` from a folder.

What is expected is always computed in the plainest way: one sequence at a time, without padding, packing or a cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.policies.families import CONTEXT, FAMILIES, STOP_IDS, save
from wmrl_gym.core import Decision
from wmrl_gym.engines.packing import whole_sequence
from wmrl_gym.policies import CausalLMPolicy, load_causal_lm

OBSERVATIONS = [
    "x",  # shorter than a convolution's kernel
    "a long overview, longer than a sliding window and than a chunk of a linear attention, for it has 100 letters.",
    "some words about columns",
    "some words about columns",  # of the same group as the one before
    "y",
]
FEEDBACK = ["ok", "got 0.5", "an error at line 3 of the second cell", "", "got 0.25"]
NEW_TOKENS = 14


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    """Models this small are slowed down by threads that wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module", params=FAMILIES)
def family(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def folder(family: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(family, tmp_path_factory.mktemp(family), STOP_IDS)


@pytest.fixture
def policy(folder: Path) -> CausalLMPolicy:
    return load(folder)


def load(folder: Path, max_new_tokens: int = NEW_TOKENS, lora_rank: int | None = None) -> CausalLMPolicy:
    return load_causal_lm(folder, max_new_tokens, chat=False, lora_rank=lora_rank, local_files_only=True)


def first_turn(policy: CausalLMPolicy, rows: list[int], seed: int = 0) -> list[Decision]:
    return policy.act(
        [OBSERVATIONS[row] for row in rows], histories=[()] * len(rows), seeds=[(seed, row, 0) for row in rows]
    )


def second_turn(
    policy: CausalLMPolicy, rows: list[int], histories: list[tuple[Decision]], seed: int = 0
) -> list[Decision]:
    return policy.act([FEEDBACK[row] for row in rows], histories=histories, seeds=[(seed, row, 1) for row in rows])


def two_turns(policy: CausalLMPolicy, seed: int = 0) -> tuple[list[Decision], list[Decision]]:
    rows = list(range(len(OBSERVATIONS)))
    first = first_turn(policy, rows, seed)
    return first, second_turn(policy, rows, [(decision,) for decision in first], seed)


def some_decisions(policy: CausalLMPolicy) -> list[Decision]:
    """Decisions of several episodes and turns in any order; of two episodes one turn alone."""
    first, second = two_turns(policy)
    return [second[1], first[0], first[2], second[0], first[3], first[1], second[3], second[4]]


def plain_table(policy: CausalLMPolicy, decision: Decision) -> torch.Tensor:
    """Log-probabilities of all tokens at each place of an answer: one plain pass over one sequence."""
    ids = torch.from_numpy(whole_sequence(decision))[None]
    logits = policy.model(input_ids=ids, use_cache=False).logits[0, len(decision.prompt_ids) - 1 : -1]
    return logits.log_softmax(-1)


def plain_log_probs(policy: CausalLMPolicy, decision: Decision) -> torch.Tensor:
    return plain_table(policy, decision).gather(-1, torch.from_numpy(decision.token_ids)[:, None])[:, 0]


def assert_same(one: Decision, other: Decision) -> None:
    np.testing.assert_array_equal(one.prompt_ids, other.prompt_ids)
    np.testing.assert_array_equal(one.token_ids, other.token_ids)
    np.testing.assert_allclose(one.log_probs, other.log_probs, atol=1e-4)
    assert (one.action, one.finished) == (other.action, other.finished)


def assert_identical(some: list[Decision], others: list[Decision]) -> None:
    for one, other in zip(some, others, strict=True):
        np.testing.assert_array_equal(one.token_ids, other.token_ids)
        np.testing.assert_array_equal(one.log_probs, other.log_probs)


def assert_scored_as_sampled(policy: CausalLMPolicy, decisions: list[Decision]) -> None:
    log_probs, _, _ = policy.log_probs(decisions)
    for row, decision in enumerate(decisions):
        got = log_probs[row, : len(decision.token_ids)].detach()
        np.testing.assert_allclose(got, decision.log_probs, atol=1e-4)


def train(policy: CausalLMPolicy, decisions: list[Decision], steps: int) -> list[float]:
    """Make given decisions likelier; the loss before each step."""
    optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-2)
    losses = []
    for _ in range(steps):
        log_probs, _, mask = policy.log_probs(decisions)
        loss = -log_probs.sum() / mask.sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    return losses


def test_a_decision_is_the_same_alone_and_in_a_batch(policy: CausalLMPolicy) -> None:
    first, second = two_turns(policy)
    assert len({len(decision.token_ids) for decision in [*first, *second]}) > 1  # some rows end before others
    for row in range(len(OBSERVATIONS)):
        assert_same(first_turn(policy, [row])[0], first[row])
        assert_same(second_turn(policy, [row], [(first[row],)])[0], second[row])


def test_what_is_sampled_follows_the_plain_model(policy: CausalLMPolicy) -> None:
    first, second = two_turns(policy)
    for decision in [*first, *second]:
        with torch.no_grad():
            expected = plain_log_probs(policy, decision)
        np.testing.assert_allclose(decision.log_probs, expected, atol=1e-4)


def test_a_batch_is_scored_as_each_decision_alone(policy: CausalLMPolicy) -> None:
    decisions = some_decisions(policy)
    log_probs, entropy, mask = policy.log_probs(decisions)
    for row, decision in enumerate(decisions):
        count = len(decision.token_ids)
        with torch.no_grad():
            table = plain_table(policy, decision)
        expected = table.gather(-1, torch.from_numpy(decision.token_ids)[:, None])[:, 0]
        torch.testing.assert_close(log_probs[row, :count].detach(), expected, atol=1e-4, rtol=0)
        torch.testing.assert_close(entropy[row, :count].detach(), -(table.exp() * table).sum(-1), atol=1e-4, rtol=0)
        assert mask[row].sum() == count and mask[row, :count].all()
    assert_scored_as_sampled(policy, decisions)


def test_the_gradient_of_a_batch_is_the_sum_of_plain_gradients(policy: CausalLMPolicy) -> None:
    decisions = some_decisions(policy)
    # A weight of its own for every token, so that no two can be exchanged.
    weights = torch.randn(len(decisions), NEW_TOKENS, generator=torch.Generator().manual_seed(0))
    for row, decision in enumerate(decisions):
        (plain_log_probs(policy, decision) * weights[row, : len(decision.token_ids)]).sum().backward()
    expected = {name: _gradient(parameter) for name, parameter in policy.model.named_parameters()}
    largest = max(float(gradient.abs().max()) for gradient in expected.values())
    for recomputed in (False, True):
        if recomputed:
            policy.model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        policy.model.zero_grad()
        log_probs, _, _ = policy.log_probs(decisions)
        (log_probs * weights[:, : log_probs.shape[1]]).sum().backward()
        for name, parameter in policy.model.named_parameters():
            found = _gradient(parameter)
            scale = max(float(expected[name].abs().max()), 1e-3 * largest)
            assert found.isfinite().all(), name
            assert float((found - expected[name]).abs().max()) < 1e-3 * scale, name


def _gradient(parameter: torch.nn.Parameter) -> torch.Tensor:
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.clone()


def test_training_makes_given_decisions_likelier(policy: CausalLMPolicy) -> None:
    decisions = some_decisions(policy)
    losses = train(policy, decisions, steps=5)
    assert np.isfinite(losses).all()
    assert losses[-1] < losses[0] - 0.3
    assert_scored_as_sampled(policy, some_decisions(policy))


def test_a_resumed_policy_acts_as_the_one_that_was_saved(policy: CausalLMPolicy, folder: Path, tmp_path: Path) -> None:
    before, _ = two_turns(policy, seed=1)
    train(policy, before, steps=3)
    torch.save(policy.state_dict(), tmp_path / "state.pt")
    resumed = load(folder)
    resumed.load_state_dict(torch.load(tmp_path / "state.pt"))
    first, second = two_turns(policy, seed=1)
    assert any(not np.array_equal(one.token_ids, other.token_ids) for one, other in zip(before, first, strict=True))
    resumed_first, resumed_second = two_turns(resumed, seed=1)
    assert_identical([*first, *second], [*resumed_first, *resumed_second])
    policy.save_pretrained(tmp_path / "saved")
    assert_identical(first, two_turns(load(tmp_path / "saved"), seed=1)[0])


def test_what_was_found_of_a_fresh_model_holds_once_it_has_learned(
    policy: CausalLMPolicy, family: str, tmp_path: Path
) -> None:
    grown = load(save(family, tmp_path, STOP_IDS, fresh=True))
    grown.load_state_dict(policy.state_dict())
    first, second = two_turns(grown)
    for decision in [*first, *second]:
        with torch.no_grad():
            expected = plain_log_probs(policy, decision)
        np.testing.assert_allclose(decision.log_probs, expected, atol=1e-4)
    assert_scored_as_sampled(grown, [*first, *second])


def test_half_precision_hides_no_shortcut_that_is_wrong(policy: CausalLMPolicy, folder: Path) -> None:
    coarse = load_causal_lm(folder, NEW_TOKENS, chat=False, compute_dtype="bfloat16", local_files_only=True)
    assert coarse.architecture == policy.architecture


def test_an_adapter_alone_is_trained_and_restored(policy: CausalLMPolicy, folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("peft")
    decisions = some_decisions(policy)
    adapted = load(folder, lora_rank=2)
    trained = {name for name, parameter in adapted.model.named_parameters() if parameter.requires_grad}
    assert trained and all("lora_" in name for name in trained)
    assert len(list(adapted.parameters())) == len(trained)
    assert_scored_as_sampled(adapted, decisions)  # a new adapter changes nothing
    losses = train(adapted, decisions, steps=4)
    assert losses[-1] < losses[0]
    changed = some_decisions(adapted)
    assert_scored_as_sampled(adapted, changed)
    state = adapted.state_dict()
    assert state and all("lora_" in name for name in state)
    restored = load(folder, lora_rank=2)
    restored.load_state_dict({name: value.clone() for name, value in state.items()})
    assert_identical(changed, some_decisions(restored))
    adapted.save_pretrained(tmp_path / "adapter")
    assert_identical(changed, some_decisions(load(tmp_path / "adapter")))


def test_a_long_prompt_beside_short_ones_writes_to_the_end_of_the_context(family: str, tmp_path: Path) -> None:
    policy = load(save(family, tmp_path), max_new_tokens=40)
    policy.context_length = policy.context_length or CONTEXT  # some families have no limit of their own
    observations = ["short", "long " * 32, "brief", "terse", "long " * 34, "long " * 36]
    seeds = [(7, row) for row in range(len(observations))]
    together = policy.act(observations, histories=[()] * len(observations), seeds=seeds)
    for row, decision in enumerate(together):
        # A row's room is its own: a longer neighbour does not shorten its answer.
        assert decision.finished or len(decision.token_ids) == min(40, CONTEXT - len(decision.prompt_ids))
        assert_same(policy.act([observations[row]], histories=[()], seeds=[seeds[row]])[0], decision)
    assert any(len(whole_sequence(decision)) == CONTEXT for decision in together)
    assert any(len(decision.token_ids) == 40 for decision in together)
    assert_scored_as_sampled(policy, together)
