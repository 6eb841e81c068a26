"""Any Hugging Face causal language model as an agent that can act and be trained.

It acts in batches with one random stream per decision, keeps the token ids and their log-probabilities, and gives
the same log-probabilities back with gradients. What the environment said is conditioned on and never learned from.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch

from wmrl_gym.core import Decision
from wmrl_gym.engines.conversation import Conversation, stop_tokens
from wmrl_gym.engines.decoding import decode
from wmrl_gym.engines.examination import examine, refuse_wrappers
from wmrl_gym.engines.stream_sampler import Sampled, StreamSampler, thought_budget
from wmrl_gym.engines.token_log_probs import token_log_probs
from wmrl_gym.engines.traits import context_length as own_context_length
from wmrl_gym.policies.batching import Stream, act_in_batches, available_device, episodes_that_keep_busy


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
        context_length: longest prompt plus answer; None for the model's own limit. A conversation that leaves no room
            for an answer ends its episode (`core.Decision.gives_up`).
        compute_dtype: type that matrix products are computed in, by autocasting, for example "bfloat16"; None for the
            weights' own. Weights that learn want single precision (`algorithms.weight_change`).
        template_arguments: of the chat template, for example ``{"enable_thinking": False}``.
        max_observation_tokens: longest observation; the middle of a longer one is left out. None for no limit.
        max_thinking_tokens: longest thought of an answer; one that is still open then is closed, and the answer goes
            on. None for no limit.

    Raises:
        ValueError: if there is no chat template although `chat` is asked for, no token that ends a turn, no such
            device or type, or no token may be produced.
        UnsupportedArchitecture: if the model cannot be run correctly; see `engines.examination`.
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
        compute_dtype: str | None = None,
        template_arguments: Mapping[str, Any] | None = None,
        max_observation_tokens: int | None = None,
        max_thinking_tokens: int | None = None,
    ) -> None:
        if max_new_tokens < 1:
            raise ValueError(f"max_new_tokens is {max_new_tokens}: give at least 1")
        refuse_wrappers(model)
        self.device = available_device(device)
        self.model = model.to(self.device).eval()
        self.tokenizer = tokenizer
        self.max_new_tokens = max_new_tokens
        self.batch_size = batch_size
        self.context_length = context_length or own_context_length(model)
        self.compute_dtype = None if compute_dtype is None else dtype_named(compute_dtype)
        self.conversation = Conversation(
            tokenizer,
            chat,
            system_prompt,
            stop_tokens(model, tokenizer),
            template_arguments or {},
            max_observation_tokens,
        )
        self._thinking = None if max_thinking_tokens is None else thought_budget(self.conversation, max_thinking_tokens)
        self._pad_id = self.conversation.end_of_turn
        # In the weights' own precision: rounding to half of it would hide what is wrong.
        flash = "flash" in str(getattr(model.config, "_attn_implementation", ""))
        with self._precision() if flash else nullcontext():
            self.architecture = examine(self.model, self.device)

    @property
    def concurrency(self) -> int:
        """Episodes that keep it busy."""
        return episodes_that_keep_busy(self.batch_size, self.device)

    def _precision(self) -> AbstractContextManager[Any]:
        return nullcontext() if self.compute_dtype is None else torch.autocast(self.device.type, self.compute_dtype)

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
            ValueError: if the lengths differ.
        """
        return act_in_batches(
            observations, histories, seeds, self.batch_size, lambda o, h, s: self._act_batch(o, h, s, temperature)
        )

    def _act_batch(
        self,
        observations: Sequence[str],
        histories: Sequence[Sequence[Decision]],
        seeds: Sequence[Stream],
        temperature: float,
    ) -> list[Decision]:
        prompts = [self.prompt_ids(*pair) for pair in zip(observations, histories, strict=True)]
        rooms = [self._room(len(prompt)) for prompt in prompts]
        fitting = [i for i, room in enumerate(rooms) if room > 0]
        sampled: dict[int, Sampled] = {}
        if fitting:
            rows = self._sample(
                [prompts[i] for i in fitting], [seeds[i] for i in fitting], [rooms[i] for i in fitting], temperature
            )
            sampled = dict(zip(fitting, rows, strict=True))
        return [
            self._decision(observation, prompt, sampled.get(i))
            for i, (observation, prompt) in enumerate(zip(observations, prompts, strict=True))
        ]

    def _decision(self, observation: str, prompt: np.ndarray, row: Sampled | None) -> Decision:
        if row is None:
            reason = f"a prompt of {len(prompt)} tokens leaves no room for an answer in a context of {self._context()}"
            nothing = np.empty(0, np.int64), np.empty(0, np.float32)
            return Decision(observation, "", prompt, *nothing, finished=False, gives_up=reason)
        return Decision(
            observation=observation,
            action=self.conversation.decode(row.token_ids),
            prompt_ids=prompt,
            token_ids=row.token_ids,
            log_probs=row.log_probs,
            finished=row.finished,
            forced=row.forced,
        )

    def _sample(
        self, prompts: Sequence[np.ndarray], seeds: Sequence[Stream], limits: Sequence[int], temperature: float
    ) -> list[Sampled]:
        """Continue each prompt by at most its limit of tokens."""
        sampler = StreamSampler(seeds, limits, temperature, self.conversation.stop_ids, self._thinking)
        with self._precision():
            decode(
                self.model,
                prompts,
                sampler,
                limits=limits,
                method=self.architecture.decoding,
                pad_id=self._pad_id,
                device=self.device,
            )
        return sampler.results()

    def prompt_ids(self, observation: str, history: Sequence[Decision]) -> np.ndarray:
        """Token ids of the next prompt of an episode, shape (P,)."""
        if not history:
            return self.conversation.first_prompt(observation)
        return self.conversation.next_prompt(history[-1].prompt_ids, history[-1].token_ids, observation)

    def _room(self, prompt_length: int) -> int:
        """Most tokens of an answer to a prompt of this length; 0 or less if there is no room."""
        context = self._context()
        return self.max_new_tokens if context is None else min(self.max_new_tokens, context - prompt_length)

    def _context(self) -> int | None:
        """Most tokens of a prompt and its answer; None for no limit."""
        return self.context_length

    def log_probs(
        self, decisions: Sequence[Decision], *, temperature: float = 1.0
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Log-probability and entropy of every produced token under the current weights, with gradients.

        Decisions of one episode are packed into one sequence and equal opening prompts are run once where the model
        allows it, so pass whole episodes of a group together. Memory grows with the tokens: split large batches.

        Args:
            decisions: what was decided, length N.
            temperature: the temperature they were sampled at (for 0, use 1).

        Returns:
            (log_probs, entropy, mask), each of shape (N, T_max), on the policy's device. The mask is 0 on tokens that
            were forced.
        """
        with self._precision():
            log_probs, entropy, mask = token_log_probs(
                self.model,
                decisions,
                self.architecture,
                temperature=temperature,
                pad_id=self._pad_id,
                device=self.device,
            )
        for row, decision in enumerate(decisions):
            if decision.forced is not None:
                mask[row, : len(decision.forced)] *= torch.from_numpy(~decision.forced).to(mask)
        return log_probs, entropy, mask

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
        """Restore what `state_dict` gave.

        Raises:
            ValueError: if the weights are not those of this policy's adapter.
            RuntimeError: if they are not those of this policy's model, or of another size.
        """
        if hasattr(self.model, "peft_config"):
            from peft import set_peft_model_state_dict

            # Peft would overlook what is missing or left over, and the policy would go on untrained.
            other = sorted(set(state) ^ set(self.state_dict()))
            if other:
                raise ValueError(
                    f"these are not the weights of the policy's adapter: {len(other)} names stand on one side only, "
                    f"'{other[0]}' for example\n  give the policy the lora_rank that it was trained with."
                )
            set_peft_model_state_dict(self.model, dict(state))
        else:
            self.model.load_state_dict(state)

    def save_pretrained(self, directory: str | Path) -> None:
        """Write model (or adapter) and tokenizer in Hugging Face's layout."""
        self.model.save_pretrained(directory)
        self.tokenizer.save_pretrained(directory)

    def frozen_copy(self) -> CausalLMPolicy:
        """A copy whose weights never change: the reference policy of a KL term.

        Weights that are frozen already are shared, so beside an adapter the reference costs no more than another
        adapter, whether that was trained before or not.
        """
        twin = copy.copy(self)
        frozen = {id(p): p for p in self.model.parameters() if not p.requires_grad}
        twin.model = copy.deepcopy(self.model, dict(frozen)).eval().requires_grad_(False)
        return twin


def dtype_named(name: str) -> torch.dtype:
    """The floating-point type of this name.

    Raises:
        ValueError: if torch has none.
    """
    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype) or not found.is_floating_point:
        raise ValueError(f"{name!r} is no floating-point type of torch: choose float32, bfloat16 or float16")
    return found
