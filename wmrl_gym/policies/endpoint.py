"""A model behind any server that speaks OpenAI's chat protocol, as an agent: it acts and is not trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wmrl_gym.core import Decision, fingerprint
from wmrl_gym.engines.engine import Answer, Message, Prompt, Sampling
from wmrl_gym.engines.openai_engine import OpenAIEngine, TokenLimitField
from wmrl_gym.policies.acting import ActingPolicy, UnansweredDecision, text_decision, unanswered

NO_TEXT = "(no answer)"
"""Stands in the conversation for an earlier answer without a text."""


class EndpointError(RuntimeError):
    """The endpoint left so many requests unanswered that going on would measure nothing."""


class EndpointPolicy(ActingPolicy):
    """An agent whose answers come from a chat endpoint: vLLM, llama.cpp, SGLang, a paid service.

    An episode is one conversation: observations are the user's messages, actions the assistant's. A request that stays
    without an answer after all its tries gives an `UnansweredDecision`: evaluation leaves that episode out and counts
    it, for nobody knows what the agent would have written. A model that answers without a text (its tokens went into
    thoughts, it refused, it called a tool, the conversation is longer than its context) *has* answered: its
    `IncompleteDecision` says why, and counts as an answer without code.

    The key, where one is needed, is taken from the environment variable ``OPENAI_API_KEY`` and never from a
    configuration, which is written down.

    Args:
        base_url: where the server is, for example "http://127.0.0.1:8000/v1".
        model: the name under which it serves the model.
        max_new_tokens: longest answer of a turn.
        top_p: mass of the tokens sampled from.
        top_k: how many tokens are sampled from, 0 for all; sent only if it is given, for it is not OpenAI's own.
        system_prompt: put before the conversation, if given.
        timeout: seconds that one try may take.
        retries: further tries of a request.
        concurrency: most requests under way at the same time.
        send_seed: whether to send a seed with each request; leave it off for servers that refuse or misuse it.
        extra_body: further fields of every request, for example ``{chat_template_kwargs: {enable_thinking: false}}``.
        max_consecutive_failures: requests in a row without an answer that end the evaluation; so do that many
            conversations too long for the model's context before anything was answered.
        token_limit_field: "max_tokens", or "max_completion_tokens" for OpenAI's reasoning models.
        longest_wait: most seconds to wait where the server asks to be left alone (``Retry-After``).

    Raises:
        ValueError: for settings that make no sense.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        max_new_tokens: int = 4096,
        *,
        top_p: float = 1.0,
        top_k: int = 0,
        system_prompt: str | None = None,
        timeout: float = 600.0,
        retries: int = 4,
        concurrency: int = 16,
        send_seed: bool = True,
        extra_body: Mapping[str, Any] | None = None,
        max_consecutive_failures: int = 16,
        token_limit_field: TokenLimitField = "max_tokens",
        longest_wait: float = 120.0,
    ) -> None:
        if max_consecutive_failures < 1:
            raise ValueError(f"max_consecutive_failures is {max_consecutive_failures}: give at least 1")
        self.max_new_tokens = max_new_tokens
        self.top_p = top_p
        self.top_k = top_k
        self.system_prompt = system_prompt
        self.max_consecutive_failures = max_consecutive_failures
        self.concurrency = concurrency
        self.failures = 0
        """Requests in a row that were left without an answer."""
        self._answered = False
        self.engine = OpenAIEngine(
            base_url,
            model,
            timeout=timeout,
            retries=retries,
            concurrency=concurrency,
            structured_outputs="off",
            send_top_k=top_k > 0,
            send_seed=send_seed,
            extra_body=extra_body or {},
            token_limit_field=token_limit_field,
            longest_wait=longest_wait,
        )
        self._sampling(0, 1.0)  # refuses what cannot be sampled with, before anything is asked

    def act(
        self,
        observations: Sequence[str],
        *,
        histories: Sequence[Sequence[Decision]],
        seeds: Sequence[tuple[int, ...]],
        temperature: float = 1.0,
    ) -> list[Decision]:
        """Decide for a batch of episodes, all requests at the same time; see `core.Policy.act`.

        Raises:
            ImportError: if the extra ``openai`` is not installed.
            EndpointError: if too many requests in a row are left without an answer.
        """
        lost = [any(isinstance(decision, UnansweredDecision) for decision in history) for history in histories]
        asked = [index for index, gone in enumerate(lost) if not gone]
        answers = self.engine.generate_each(
            [self.prompt(observations[index], histories[index]) for index in asked],
            [self._sampling(int(fingerprint(seeds[index])[:8], 16), temperature) for index in asked],
        )
        given = dict(zip(asked, answers, strict=True))
        return [
            self._decision(observation, given[index])
            if index in given
            else unanswered(observation, "an earlier turn of this episode was left without an answer")
            for index, observation in enumerate(observations)
        ]

    def prompt(self, observation: str, history: Sequence[Decision]) -> Prompt:
        """The conversation so far and the new observation."""
        messages = [] if self.system_prompt is None else [Message("system", self.system_prompt)]
        for decision in history:
            # Many servers refuse an empty message.
            answer = str(decision.action) or NO_TEXT
            messages += [Message("user", str(decision.observation)), Message("assistant", answer)]
        return Prompt((*messages, Message("user", observation)))

    def _sampling(self, seed: int, temperature: float) -> Sampling:
        return Sampling(
            temperature=temperature,
            top_p=self.top_p,
            top_k=self.top_k,
            presence_penalty=0.0,
            max_tokens=self.max_new_tokens,
            seed=seed,
        )

    def _decision(self, observation: str, answer: Answer) -> Decision:
        if answer.text is not None and (self._answered or answer.reason != "context"):
            self.failures = 0
            self._answered = True
            return text_decision(observation, answer.text, answer.finished, answer.reason)
        self.failures += 1
        if self.failures >= self.max_consecutive_failures:
            if answer.reason == "context":
                advice = "lower policy.max_new_tokens, which counts, too, or shorten the overview"
            else:
                advice = "see that the server runs and serves this model, or raise policy.timeout, policy.retries"
            raise EndpointError(
                f"{self.failures} requests in a row were left without an answer; the last one: {answer.error}\n"
                f"  {advice} or policy.max_consecutive_failures."
            )
        if answer.text is not None:
            return text_decision(observation, answer.text, answer.finished, answer.reason)
        return unanswered(observation, answer.error or "no answer")
