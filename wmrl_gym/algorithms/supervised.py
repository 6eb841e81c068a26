"""Supervised fine-tuning of a causal language model on conversations: the cold start before reinforcement learning.

The loss counts the tokens of the answers alone. Conversations are tokenised exactly as the policy will see them when
it acts: the prompt of a later turn is the earlier prompt, the answer's tokens, and the tokens of the new observation.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from wmrl_gym.engines.conversation import ConversationTurns
from wmrl_gym.policies.causal_lm import CausalLMPolicy

Batch = TypeVar("Batch")

POOL_BATCHES = 4
"""Conversations of so many batches are sorted by length: more saves padding, and makes batches less alike."""


@dataclass(frozen=True)
class SupervisedSettings:
    """Settings of `fine_tune` and of `behaviour_cloning.clone`.

    Raises:
        ValueError: if a count or rate is not positive.
    """

    steps: int = 1000
    """Updates of the weights."""
    batch_size: int = 16
    """Conversations, or demonstrated decisions, per step."""
    learning_rate: float = 1e-3
    """Peak; reached after `warmup_steps`, then a cosine to `final_share` of it."""
    matrix_learning_rate: float | None = None
    """Peak for the weight matrices inside the model, which Muon then trains; None trains everything with AdamW. A
    model that is trained from nothing learns faster per token with it; 4e-3 is a good value."""
    warmup_steps: int = 50
    """Steps in which the learning rate rises to its peak, in a straight line."""
    final_share: float = 0.05
    """Share of the peak that the learning rate ends at."""
    weight_decay: float = 0.01
    """Of AdamW, and of Muon where it is used."""
    max_grad_norm: float = 1.0
    """A gradient with a larger norm is scaled down to it."""
    seed: int = 0
    """Of the order of examples, and of whatever the model draws."""
    max_tokens: int = 1024
    """Longer conversations are cut at the end."""

    def __post_init__(self) -> None:
        for name in ("steps", "batch_size", "learning_rate", "max_grad_norm", "max_tokens"):
            if getattr(self, name) <= 0:
                raise ValueError(f"SupervisedSettings.{name} is {getattr(self, name)}: give a positive number")


@dataclass(frozen=True)
class SupervisedStep:
    """What one step did."""

    step: int
    loss: float
    """Mean negative log-likelihood per answer token, in nats."""
    learning_rate: float
    tokens: int
    """Answer tokens learned from."""
    seconds: float
    """Since training began."""


@dataclass(frozen=True)
class EncodedConversation:
    """Token ids and which of them are to be learned, both of shape (L,)."""

    token_ids: NDArray[np.int64]
    learned: NDArray[np.bool_]


def encode_conversation(policy: CausalLMPolicy, turns: ConversationTurns) -> EncodedConversation:
    """Tokenise a conversation as the policy will see it. Every answer ends with the end-of-turn token."""
    conversation = policy.conversation
    parts: list[tuple[NDArray[np.int64], bool]] = []
    prompt = np.zeros(0, np.int64)
    answer = np.zeros(0, np.int64)
    for position, (observation, text) in enumerate(turns):
        if position == 0:
            whole = conversation.first_prompt(observation)
        else:
            whole = conversation.next_prompt(prompt, answer, observation)
        parts.append((whole[len(prompt) + len(answer) :], False))
        prompt = whole
        answer = conversation.encode_answer(text)
        parts.append((answer, True))
    return EncodedConversation(
        token_ids=np.concatenate([ids for ids, _ in parts]),
        learned=np.concatenate([np.full(len(ids), learned) for ids, learned in parts]),
    )


def fine_tune(
    policy: CausalLMPolicy,
    conversations: Iterable[ConversationTurns],
    settings: SupervisedSettings,
    on_step: Callable[[SupervisedStep], None] | None = None,
) -> list[SupervisedStep]:
    """Train the policy in place.

    Args:
        policy: whose weights are trained.
        conversations: a sequence, which is shuffled and repeated as often as the steps ask for; or an iterator, which
            is drawn from in order and ends the training early if it runs out.
        settings: see `SupervisedSettings`.
        on_step: called after every step, for example to log it or to save the weights.

    Returns:
        A record of each step.
    """
    batches = _batches(policy, conversations, settings)
    return descend(policy, batches, lambda batch: answer_loss(policy, batch), settings, on_step)


class SupervisedPolicy(Protocol):
    """What a policy needs to be trained here."""

    @property
    def model(self) -> torch.nn.Module:
        """The network, which is set to training and back."""
        ...

    def parameters(self) -> Iterator[torch.nn.Parameter]:
        """The parameters that are trained."""
        ...


def descend(
    policy: SupervisedPolicy,
    batches: Iterable[Batch],
    loss_of: Callable[[Batch], tuple[torch.Tensor, int]],
    settings: SupervisedSettings,
    on_step: Callable[[SupervisedStep], None] | None = None,
) -> list[SupervisedStep]:
    """One optimiser step per batch, whatever a batch is.

    Args:
        policy: whose weights are trained in place.
        batches: what is learned from, as long as they last.
        loss_of: the mean loss per token of a batch, with gradients, and its number of tokens.
        settings: see `SupervisedSettings`.
        on_step: called after every step.
    """
    parameters = list(policy.parameters())
    optimizers = _optimizers(policy, settings)
    torch.manual_seed(settings.seed)
    history: list[SupervisedStep] = []
    started = time.perf_counter()
    policy.model.train()
    try:
        for step, batch in enumerate(batches):
            rate = learning_rate_at(step, settings)
            loss, count = loss_of(batch)
            policy.model.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(parameters, settings.max_grad_norm)
            for optimizer, peak in optimizers:
                for group in optimizer.param_groups:
                    group["lr"] = peak * rate / settings.learning_rate
                optimizer.step()
            history.append(SupervisedStep(step, loss.item(), rate, count, time.perf_counter() - started))
            if on_step is not None:
                on_step(history[-1])
    finally:
        policy.model.eval()
    return history


def _optimizers(policy: SupervisedPolicy, settings: SupervisedSettings) -> list[tuple[torch.optim.Optimizer, float]]:
    """Optimizers and the peaks of their learning rates."""
    embeddings = {id(module.weight) for module in policy.model.modules() if isinstance(module, torch.nn.Embedding)}
    matrices: list[torch.nn.Parameter] = []
    rest: list[torch.nn.Parameter] = []
    for parameter in policy.parameters():
        by_muon = settings.matrix_learning_rate is not None and parameter.ndim == 2 and id(parameter) not in embeddings
        (matrices if by_muon else rest).append(parameter)
    optimizers: list[tuple[torch.optim.Optimizer, float]] = []
    if settings.matrix_learning_rate is not None:
        muon = torch.optim.Muon(
            matrices,
            lr=settings.matrix_learning_rate,
            weight_decay=settings.weight_decay,
            adjust_lr_fn="match_rms_adamw",
        )
        optimizers.append((muon, settings.matrix_learning_rate))
    adamw = torch.optim.AdamW(rest, lr=settings.learning_rate, betas=(0.9, 0.98), weight_decay=settings.weight_decay)
    return [*optimizers, (adamw, settings.learning_rate)]


def learning_rate_at(step: int, settings: SupervisedSettings) -> float:
    """Linear warm-up, then a cosine down to a share of the peak."""
    if step < settings.warmup_steps:
        return settings.learning_rate * (step + 1) / settings.warmup_steps
    span = max(1, settings.steps - settings.warmup_steps)
    share = 0.5 * (1 + math.cos(math.pi * min(1.0, (step - settings.warmup_steps) / span)))
    return settings.learning_rate * (settings.final_share + (1 - settings.final_share) * share)


def answer_loss(policy: CausalLMPolicy, batch: Sequence[EncodedConversation]) -> tuple[torch.Tensor, int]:
    """Mean negative log-likelihood of the answer tokens of a batch, and how many there are."""
    width = max(len(item.token_ids) for item in batch)
    ids = np.zeros((len(batch), width), np.int64)
    learned = np.zeros((len(batch), width), bool)
    mask = np.zeros((len(batch), width), np.int64)
    for row, item in enumerate(batch):
        ids[row, : len(item.token_ids)] = item.token_ids
        learned[row, : len(item.token_ids)] = item.learned
        mask[row, : len(item.token_ids)] = 1
    device = policy.device
    ids_tensor = torch.from_numpy(ids).to(device)
    output: Any = policy.model(input_ids=ids_tensor, attention_mask=torch.from_numpy(mask).to(device), use_cache=False)
    # The logits at position p predict the token at p + 1.
    target_mask = torch.from_numpy(learned[:, 1:]).to(device)
    logits = output.logits[:, :-1][target_mask].float()
    return torch.nn.functional.cross_entropy(logits, ids_tensor[:, 1:][target_mask]), int(learned[:, 1:].sum())


def _batches(
    policy: CausalLMPolicy, conversations: Iterable[ConversationTurns], settings: SupervisedSettings
) -> Iterator[list[EncodedConversation]]:
    """Batches of conversations of about the same length, so that little is padded."""
    rng = np.random.default_rng(settings.seed)
    encoded = _encoded(policy, _stream(conversations, rng), settings.max_tokens)
    made = 0
    while made < settings.steps:
        pool = list(itertools.islice(encoded, POOL_BATCHES * settings.batch_size))
        if not pool:
            return
        pool.sort(key=lambda item: len(item.token_ids))
        batches = [pool[start : start + settings.batch_size] for start in range(0, len(pool), settings.batch_size)]
        for index in rng.permutation(len(batches))[: settings.steps - made]:
            yield batches[index]
            made += 1


def _stream(conversations: Iterable[ConversationTurns], rng: np.random.Generator) -> Iterator[ConversationTurns]:
    if not isinstance(conversations, Sequence):
        yield from conversations
        return
    while conversations:
        for index in rng.permutation(len(conversations)):
            yield conversations[index]


def _encoded(
    policy: CausalLMPolicy, conversations: Iterable[ConversationTurns], max_tokens: int
) -> Iterator[EncodedConversation]:
    for turns in conversations:
        item = encode_conversation(policy, turns)
        if item.learned[:max_tokens].any():
            yield EncodedConversation(item.token_ids[:max_tokens], item.learned[:max_tokens])
