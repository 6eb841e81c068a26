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

StructuredOutputs = Literal["response_format", "structured_outputs", "guided_json", "off"]

NO_THINKING_BODY: Mapping[str, Any] = {"chat_template_kwargs": dict(NO_THINKING)}

LONGEST_WAIT = 30.0
"""Most seconds between two tries."""


class OpenAIEngine:
    """Serves a model that runs elsewhere. What cannot be answered, for whatever reason, comes back as unknown.

    Every batch opens connections of its own, so that a server that was restarted is found again at the next call.
    Implements `engines.engine.Engine`.

    Args:
        base_url: where the server is, for example "http://127.0.0.1:8000/v1".
        model: the name under which it serves the model.
        api_key: None takes the environment's ``OPENAI_API_KEY``; servers of one's own usually want none.
        timeout: seconds one try may take in all, however slowly the server talks.
        connect_timeout: seconds within which a connection must stand.
        retries: further tries of a prompt after the first one. Only faults that may pass are tried again.
        backoff: seconds before the second try, doubled with each one; a server's own ``Retry-After`` goes before it.
        concurrency: most requests under way at the same time.
        structured_outputs: how the server is told of a schema: "response_format" (OpenAI's own, vLLM, llama.cpp),
            "structured_outputs" (vLLM since 0.11), "guided_json" (older vLLM), or "off".
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
    ) -> None:
        if structured_outputs not in get_args(StructuredOutputs):
            raise ValueError(
                f"structured_outputs is {structured_outputs!r}: choose one of {', '.join(get_args(StructuredOutputs))}"
            )
        if not (timeout > 0 and connect_timeout > 0 and retries >= 0 and backoff >= 0 and concurrency >= 1):
            raise ValueError(
                f"timeout={timeout}, connect_timeout={connect_timeout}, retries={retries}, backoff={backoff}, "
                f"concurrency={concurrency}: give positive time-outs, at least 0 retries and 1 request at a time"
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
                    answer = _read(completion)
                    batch.gone = False
                    return answer
                except Exception as error:
                    problem = _describe(error, self.timeout)
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
            "max_tokens": sampling.max_tokens,
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
        headers = getattr(getattr(error, "response", None), "headers", None) or {}
        try:
            asked = float(headers.get("retry-after", ""))
        except ValueError:  # a date, or nothing at all
            asked = -1.0
        if 0 <= asked <= LONGEST_WAIT:
            return asked
        return min(LONGEST_WAIT, self.backoff * 2**attempt) * random.uniform(0.5, 1.0)


@dataclass
class _Batch:
    """What the requests of one batch share."""

    turn: asyncio.Semaphore
    gone: bool = False
    """Whether a prompt used up its tries without reaching the server, and nothing was answered since."""


class _BrokenAnswer(ValueError):
    """The server said something that is no chat completion."""


def _read(completion: Any) -> Answer:
    """An answer from a completion, of which nothing is taken on trust: the client library checks no types."""
    try:
        choice = completion.choices[0]
        text = choice.message.content
        reason = choice.finish_reason
    except (AttributeError, TypeError, IndexError, KeyError) as error:
        raise _BrokenAnswer(f"the reply is no chat completion: {str(completion)[:200]!r}") from error
    if not isinstance(text, str):
        refusal = getattr(choice.message, "refusal", None)
        raise _BrokenAnswer(f"the reply holds no text (finish_reason {reason!r}, refusal {refusal!r})")
    usage = getattr(completion, "usage", None)
    details = getattr(usage, "prompt_tokens_details", None)
    return Answer(
        # Lone surrogates are legal in JSON, and nowhere that the text may be written to later.
        text=text.encode("utf-8", "replace").decode("utf-8"),
        prompt_tokens=_count(usage, "prompt_tokens"),
        cached_tokens=_count(details, "cached_tokens"),
        generated_tokens=_count(usage, "completion_tokens"),
        finished=reason != "length",
    )


def _count(holder: Any, name: str) -> int | None:
    value = getattr(holder, name, None)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


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
