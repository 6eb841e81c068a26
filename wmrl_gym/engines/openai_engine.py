"""Any server that speaks OpenAI's chat protocol as an engine: vLLM, llama.cpp, SGLang, a paid service."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from wmrl_gym.engines.chat_prompt import NO_THINKING, chat_messages, prompt_seed
from wmrl_gym.engines.engine import Answer, Prompt, Sampling
from wmrl_gym.engines.openai_reply import read_completion, retry_after, says_context_is_full

StructuredOutputs = Literal["response_format", "structured_outputs", "guided_json", "off"]
TokenLimitField = Literal["max_tokens", "max_completion_tokens"]

NO_THINKING_BODY: Mapping[str, Any] = {"chat_template_kwargs": dict(NO_THINKING)}

LONGEST_WAIT = 30.0
"""Most seconds between two tries where the server does not say how many it wants."""


class OpenAIEngine:
    """Serves a model that runs elsewhere. What cannot be answered, for whatever reason, comes back as unknown.

    A model that was asked and gave no text *has* answered: it spent its tokens on thoughts, refused, called a tool, or
    its context is too short for the conversation. Such an answer has the text there was, "" if none, and says why in
    `Answer.reason`. It is asked for once.

    Every batch opens connections of its own, so that a server that was restarted is found again at the next call.
    Implements `engines.engine.Engine`.

    Args:
        base_url: where the server is, for example "http://127.0.0.1:8000/v1".
        model: the name under which it serves the model.
        api_key: None takes the environment's ``OPENAI_API_KEY``; servers of one's own usually want none.
        timeout: seconds one try may take in all, however slowly the server talks.
        connect_timeout: seconds within which a connection must stand.
        retries: further tries of a prompt after the first one. Only faults that may pass are tried again.
        backoff: seconds before the second try, doubled with each one; at most `LONGEST_WAIT`. A server's own
            ``Retry-After`` goes before it.
        longest_wait: most seconds to wait where the server says how many it wants.
        concurrency: most requests under way at the same time.
        structured_outputs: how the server is told of a schema: "response_format" (OpenAI's own, vLLM, llama.cpp),
            "structured_outputs" (vLLM since 0.11), "guided_json" (older vLLM), or "off".
        token_limit_field: under which name the longest answer is sent. OpenAI's reasoning models take
            "max_completion_tokens" only, many other servers "max_tokens" only.
        send_top_k: whether to send ``top_k``, which is not OpenAI's own but which most other servers know.
        send_seed: whether to send a seed. vLLM's CPU build (0.32) must not get one where it reads long prompts in
            pieces: the server dies of it ("CPU Generator does not use offset").
        extra_body: further fields of every request. The default switches thinking off where the server's template
            knows how; give ``{}`` for servers that refuse unknown fields.

    Raises:
        ValueError: for settings that make no sense.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        api_key: str | None = None,
        *,
        timeout: float = 120.0,
        connect_timeout: float = 10.0,
        retries: int = 4,
        backoff: float = 0.5,
        concurrency: int = 32,
        structured_outputs: StructuredOutputs = "response_format",
        send_top_k: bool = True,
        send_seed: bool = True,
        extra_body: Mapping[str, Any] = NO_THINKING_BODY,
        token_limit_field: TokenLimitField = "max_tokens",
        longest_wait: float = 120.0,
    ) -> None:
        if structured_outputs not in get_args(StructuredOutputs):
            raise ValueError(
                f"structured_outputs is {structured_outputs!r}: choose one of {', '.join(get_args(StructuredOutputs))}"
            )
        if token_limit_field not in get_args(TokenLimitField):
            raise ValueError(
                f"token_limit_field is {token_limit_field!r}: choose one of {', '.join(get_args(TokenLimitField))}"
            )
        if not (timeout > 0 and connect_timeout > 0 and min(retries, backoff, longest_wait) >= 0 and concurrency >= 1):
            raise ValueError(
                f"timeout={timeout}, connect_timeout={connect_timeout}, retries={retries}, backoff={backoff}, "
                f"longest_wait={longest_wait}, concurrency={concurrency}: give positive time-outs, at least 0 retries "
                "and seconds, and 1 request at a time"
            )
        self.base_url = base_url
        self.served_name = model
        self._api_key = api_key
        self.timeout = timeout
        self.connect_timeout = connect_timeout
        self.retries = retries
        self.backoff = backoff
        self.concurrency = concurrency
        self.structured_outputs = structured_outputs
        self.send_top_k = send_top_k
        self.send_seed = send_seed
        self.extra_body = extra_body
        self.token_limit_field = token_limit_field
        self.longest_wait = longest_wait

    @property
    def model(self) -> str:
        """The name under which the server knows the model."""
        return self.served_name

    def generate(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[Answer]:
        """One answer per prompt, in order; see `Engine.generate`.

        Raises:
            ImportError: if the extra ``openai`` is not installed.
        """
        return self.generate_each(prompts, [sampling] * len(prompts))

    def generate_each(self, prompts: Sequence[Prompt], samplings: Sequence[Sampling]) -> list[Answer]:
        """`generate` with sampling settings for each prompt: equal prompts with other seeds get other answers.

        Raises:
            ImportError: if the extra ``openai`` is not installed.
        """
        try:
            import openai  # noqa: F401
        except ImportError as error:
            raise ImportError("OpenAIEngine needs the package 'openai': pip install 'wmrl-gym[openai]'") from error
        if not prompts:
            return []
        started = time.perf_counter()
        # A thread of its own, because the caller may already run an event loop (a notebook does).
        with ThreadPoolExecutor(1, thread_name_prefix="openai-engine") as thread:
            answers = thread.submit(asyncio.run, self._all(prompts, samplings)).result()
        share = (time.perf_counter() - started) / len(prompts)
        return [replace(answer, seconds=share) for answer in answers]

    def close(self) -> None:
        """Nothing is held between calls."""

    async def _all(self, prompts: Sequence[Prompt], samplings: Sequence[Sampling]) -> list[Answer]:
        from openai import AsyncOpenAI, Timeout

        key = self._api_key or os.environ.get("OPENAI_API_KEY") or "none"
        batch = _Batch(asyncio.Semaphore(self.concurrency))
        async with AsyncOpenAI(
            base_url=self.base_url,
            api_key=key,
            max_retries=0,  # ours know of broken bodies too
            timeout=Timeout(self.timeout, connect=self.connect_timeout),
        ) as client:
            pairs = zip(prompts, samplings, strict=True)
            return await asyncio.gather(*(self._one(client, prompt, sampling, batch) for prompt, sampling in pairs))

    async def _one(self, client: Any, prompt: Prompt, sampling: Sampling, batch: _Batch) -> Answer:
        async with batch.turn:
            # With a server that is gone, each prompt that is left tries once, instead of waiting out all its retries.
            tries = 1 if batch.gone else self.retries + 1
            problem = ""
            for attempt in range(tries):
                try:
                    completion = await asyncio.wait_for(
                        client.chat.completions.create(**self._request(prompt, sampling)), self.timeout
                    )
                    answer = read_completion(completion)
                    batch.gone = False
                    return answer
                except Exception as error:
                    problem = _describe(error, self.timeout)
                    if says_context_is_full(error):
                        batch.gone = False
                        # The error goes with it, so that nobody keeps it: the context may be longer tomorrow.
                        return Answer("", finished=False, error=f"{self.base_url}: {problem}", reason="context")
                    if not _may_pass(error):
                        break
                    if attempt + 1 < tries:
                        await asyncio.sleep(self._pause(error, attempt))
                    else:
                        batch.gone = batch.gone or _unreachable(error)
            return Answer(None, error=f"{self.base_url}: {problem}")

    def _request(self, prompt: Prompt, sampling: Sampling) -> dict[str, Any]:
        extra = dict(self.extra_body)
        if self.send_top_k:
            extra["top_k"] = sampling.top_k if sampling.top_k > 0 else -1
        request: dict[str, Any] = {
            "model": self.served_name,
            "messages": chat_messages(prompt),
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "presence_penalty": sampling.presence_penalty,
            self.token_limit_field: sampling.max_tokens,
        }
        if self.send_seed:
            request["seed"] = prompt_seed(prompt, sampling.seed)
        if prompt.schema is not None:
            schema = dict(prompt.schema)
            if self.structured_outputs == "response_format":
                described = {"name": "answer", "schema": schema, "strict": True}
                request["response_format"] = {"type": "json_schema", "json_schema": described}
            elif self.structured_outputs == "structured_outputs":
                extra["structured_outputs"] = {"json": schema}
            elif self.structured_outputs == "guided_json":
                extra["guided_json"] = schema
        return request | {"extra_body": extra}

    def _pause(self, error: Exception, attempt: int) -> float:
        """Seconds until the next try: what the server asks for, else doubling, with jitter against a stampede."""
        asked = retry_after(error)
        if asked is not None:
            return min(self.longest_wait, asked)
        return min(LONGEST_WAIT, self.backoff * 2**attempt) * random.uniform(0.5, 1.0)


@dataclass
class _Batch:
    """What the requests of one batch share."""

    turn: asyncio.Semaphore
    gone: bool = False
    """Whether a prompt used up its tries without reaching the server, and nothing was answered since."""


def _may_pass(error: Exception) -> bool:
    """Whether trying again may help: not where the server says that the request itself is wrong."""
    status = getattr(error, "status_code", None)
    return not isinstance(status, int) or status in (408, 409, 425, 429) or status >= 500 or status < 400


def _unreachable(error: Exception) -> bool:
    """Whether the server did not answer at all."""
    from openai import APIConnectionError

    return isinstance(error, APIConnectionError | TimeoutError)


def _describe(error: Exception, timeout: float) -> str:
    if isinstance(error, TimeoutError):
        return f"no whole answer within {timeout:g} seconds"
    cause = f" ({error.__cause__})" if str(error.__cause__ or "") else ""
    return f"{type(error).__name__}: {error}{cause}"[:500]
