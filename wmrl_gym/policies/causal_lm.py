"""Any Hugging Face causal language model as an agent that can act and be trained.

It acts in batches with one random stream per decision, keeps the token ids and their log-probabilities, and gives
the same log-probabilities back with gradients. What the environment said is conditioned on and never learned from.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers.cache_utils import DynamicCache

from wmrl_gym.core import Decision
from wmrl_gym.engines.conversation import Conversation, stop_tokens
from wmrl_gym.engines.decoding import Sampled, forward_with_shared_prompts, sample
from wmrl_gym.engines.packing import pack


class CausalLMPolicy:
    """A causal language model that reads observations and writes actions as text. Implements `core.Policy`.

    Args:
        model: a `transformers` causal language model, or a PEFT model around one.
        tokenizer: its tokenizer.
        max_new_tokens: longest answer of a turn.
        chat: use the tokenizer's chat template; False joins plain text with newlines.
        system_prompt: put before the conversation, if given.
        device: where the model is moved to.
        batch_size: most rows generated at the same time; None for all.
        context_length: longest prompt plus answer; None for the model's own limit.

    Raises:
        ValueError: if there is no chat template although `chat` is asked for, or no token that ends a turn.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        max_new_tokens: int = 512,
        *,
        chat: bool = True,
        system_prompt: str | None = None,
        device: torch.device | str = "cpu",
        batch_size: int | None = None,
        context_length: int | None = None,
    ) -> None:
        self.model = model.to(device).eval()
        self.tokenizer = tokenizer
        self.max_new_tokens = max_new_tokens
        self.device = torch.device(device)
        self.batch_size = batch_size
        self.context_length = context_length or getattr(model.config, "max_position_embeddings", None)
        stop_ids = stop_tokens(model, tokenizer)
        if not stop_ids:
            raise ValueError("neither the tokenizer nor the model names a token that ends a turn: set eos_token_id")
        self.conversation = Conversation(tokenizer, chat, system_prompt, stop_ids)
        self._pad_id = stop_ids[0]

    @property
    def concurrency(self) -> int:
        """Episodes that keep it busy: on an accelerator a batch of many takes hardly longer than one of few."""
        return self.batch_size or (1 if self.device.type == "cpu" else 64)

    def act(
        self,
        observations: Sequence[str],
        *,
        histories: Sequence[Sequence[Decision]],
        seeds: Sequence[tuple[int, ...]],
        temperature: float = 1.0,
    ) -> list[Decision]:
        """Decide for a batch of episodes at once; see `core.Policy.act`.

        Raises:
            ValueError: if the lengths differ, or a prompt leaves no room for an answer in the model's context.
        """
        if not len(observations) == len(histories) == len(seeds):
            raise ValueError(
                f"act got {len(observations)} observations, {len(histories)} histories and {len(seeds)} seeds: "
                "give one of each per episode"
            )
        decisions: list[Decision] = []
        size = self.batch_size or max(1, len(observations))
        for start in range(0, len(observations), size):
            chunk = slice(start, start + size)
            decisions += self._act_batch(observations[chunk], histories[chunk], seeds[chunk], temperature)
        return decisions

    def _act_batch(
        self,
        observations: Sequence[str],
        histories: Sequence[Sequence[Decision]],
        seeds: Sequence[tuple[int, ...]],
        temperature: float,
    ) -> list[Decision]:
        prompts = [self.prompt_ids(*pair) for pair in zip(observations, histories, strict=True)]
        sampled = self._sample(prompts, histories, seeds, temperature)
        return [
            Decision(
                observation=observation,
                action=self.conversation.decode(row.token_ids),
                prompt_ids=prompt,
                token_ids=row.token_ids,
                log_probs=row.log_probs,
                finished=row.finished,
            )
            for observation, prompt, row in zip(observations, prompts, sampled, strict=True)
        ]

    def _sample(
        self,
        prompts: Sequence[np.ndarray],
        histories: Sequence[Sequence[Decision]],
        seeds: Sequence[tuple[int, ...]],
        temperature: float,
    ) -> list[Sampled]:
        """Continue each prompt; the opening prompts of the episodes say what they share."""
        opening = [
            history[0].prompt_ids if history else prompt for history, prompt in zip(histories, prompts, strict=True)
        ]
        return sample(
            self.model,
            # The last token of the opening prompt goes with the tail, because the first answer's logits come from it.
            [first[:-1] for first in opening],
            [prompt[len(first) - 1 :] for first, prompt in zip(opening, prompts, strict=True)],
            seeds=seeds,
            max_new_tokens=self._room(max(len(prompt) for prompt in prompts)),
            temperature=temperature,
            stop_ids=self.conversation.stop_ids,
            pad_id=self._pad_id,
            device=self.device,
        )

    def prompt_ids(self, observation: str, history: Sequence[Decision]) -> np.ndarray:
        """Token ids of the next prompt of an episode, shape (P,)."""
        if not history:
            return self.conversation.first_prompt(observation)
        return self.conversation.next_prompt(history[-1].prompt_ids, history[-1].token_ids, observation)

    def _room(self, longest_prompt: int) -> int:
        if self.context_length is None:
            return self.max_new_tokens
        room = min(self.max_new_tokens, self.context_length - longest_prompt)
        if room < 1:
            raise ValueError(
                f"a prompt of {longest_prompt} tokens leaves no room in the model's context of {self.context_length}.\n"
                "  Shorten the overview or the feedback, take fewer turns, or use a model with a longer context."
            )
        return room

    def log_probs(
        self, decisions: Sequence[Decision], *, temperature: float = 1.0
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Log-probability and entropy of every produced token under the current weights, with gradients.

        Decisions of one episode are packed into one sequence and equal opening prompts are run once, so pass whole
        episodes of a group together. Memory grows with tokens times vocabulary: split large batches.

        Args:
            decisions: what was decided, length N.
            temperature: the temperature they were sampled at (for 0, use 1).

        Returns:
            (log_probs, entropy, mask), each of shape (N, T_max), on the policy's device.
        """
        sequences = pack(decisions)
        opening = [sequence.token_ids[: sequence.prompt_length - 1] for sequence in sequences]
        tails = [sequence.token_ids[sequence.prompt_length - 1 : -1] for sequence in sequences]
        state = forward_with_shared_prompts(
            self.model,
            opening,
            tails,
            cache=DynamicCache(config=self.model.config),
            pad_id=self._pad_id,
            device=self.device,
        )
        width = state.logits.shape[1]
        source_rows, source_columns, target_rows, target_columns = [], [], [], []
        for row, (sequence, tail) in enumerate(zip(sequences, tails, strict=True)):
            padding = width - len(tail)
            for index in sequence.members:
                count = len(decisions[index].token_ids)
                # Logits at position p predict token p + 1; the tail begins at position prompt_length - 1.
                start = padding + len(decisions[index].prompt_ids) - sequence.prompt_length
                source_rows.append(np.full(count, row))
                source_columns.append(start + np.arange(count))
                target_rows.append(np.full(count, index))
                target_columns.append(np.arange(count))
        source = self._index(source_rows), self._index(source_columns)
        target = self._index(target_rows), self._index(target_columns)
        token_ids = self._index([decisions[index].token_ids for s in sequences for index in s.members])
        table = torch.log_softmax(state.logits[source].float() / temperature, dim=-1)
        shape = (len(decisions), max(len(decision.token_ids) for decision in decisions))
        empty = torch.zeros(shape, device=self.device)
        log_probs = empty.index_put(target, table.gather(-1, token_ids[:, None])[:, 0])
        entropy = empty.index_put(target, -(table.exp() * table).sum(-1))
        mask = empty.index_put(target, torch.ones(len(token_ids), device=self.device))
        return log_probs, entropy, mask

    def _index(self, parts: Sequence[np.ndarray]) -> torch.Tensor:
        return torch.from_numpy(np.concatenate(parts).astype(np.int64)).to(self.device)

    def parameters(self) -> Iterator[torch.nn.Parameter]:
        """The parameters that are trained."""
        return (parameter for parameter in self.model.parameters() if parameter.requires_grad)

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Weights to restore the policy: all of them, or the adapter's alone for a PEFT model."""
        if hasattr(self.model, "peft_config"):
            from peft import get_peft_model_state_dict

            return dict(get_peft_model_state_dict(self.model))
        return dict(self.model.state_dict())

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        """Restore what `state_dict` gave."""
        if hasattr(self.model, "peft_config"):
            from peft import set_peft_model_state_dict

            set_peft_model_state_dict(self.model, dict(state))
        else:
            self.model.load_state_dict(state)

    def save_pretrained(self, directory: str | Path) -> None:
        """Write model (or adapter) and tokenizer in Hugging Face's layout."""
        self.model.save_pretrained(directory)
        self.tokenizer.save_pretrained(directory)

    def frozen_copy(self) -> CausalLMPolicy:
        """A copy whose weights never change: the reference policy of a KL term."""
        twin = copy.copy(self)
        twin.model = copy.deepcopy(self.model).eval().requires_grad_(False)
        return twin


def load_causal_lm(
    path: str | Path,
    max_new_tokens: int = 512,
    *,
    chat: bool = True,
    system_prompt: str | None = None,
    device: torch.device | str = "cpu",
    dtype: str = "float32",
    batch_size: int | None = None,
    lora_rank: int | None = None,
    lora_alpha: int | None = None,
    local_files_only: bool = False,
) -> CausalLMPolicy:
    """Load a policy from a directory or a model hub.

    Args:
        path: directory or hub name.
        max_new_tokens: longest answer of a turn.
        chat: use the chat template.
        system_prompt: put before the conversation, if given.
        device: where the model is moved to.
        dtype: a torch dtype's name. Plain CPUs want "float32".
        batch_size: most rows generated at the same time; None for all.
        lora_rank: train low-rank adapters of this rank on every linear layer instead of all weights; needs the extra
            `wmrl-gym[lora]`.
        lora_alpha: scale of the adapters; None for twice the rank.
        local_files_only: never reach for the network.
    """
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(path, local_files_only=local_files_only)
    model = AutoModelForCausalLM.from_pretrained(path, dtype=getattr(torch, dtype), local_files_only=local_files_only)
    if lora_rank is not None:
        model = add_lora(model, lora_rank, lora_alpha)
    return CausalLMPolicy(
        model, tokenizer, max_new_tokens, chat=chat, system_prompt=system_prompt, device=device, batch_size=batch_size
    )


def add_lora(model: Any, rank: int, alpha: int | None = None) -> Any:
    """Wrap a model so that only low-rank adapters of its linear layers are trained.

    Raises:
        ImportError: if `peft` is missing.
    """
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError as error:
        raise ImportError("LoRA needs the package 'peft': pip install 'wmrl-gym[lora]'") from error
    settings = LoraConfig(
        r=rank, lora_alpha=2 * rank if alpha is None else alpha, target_modules="all-linear", task_type="CAUSAL_LM"
    )
    return get_peft_model(model, settings)
