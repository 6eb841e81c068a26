"""vLLM inside this process as an engine: structured outputs, prefix caching, one engine for agent and world model."""

from __future__ import annotations

import gc
import json
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from wmrl_gym.engines.chat_prompt import NO_THINKING, encode, prompt_seed
from wmrl_gym.engines.engine import Answer, Prompt, Sampling

_AGENTS: weakref.WeakValueDictionary[str, VLLMEngine] = weakref.WeakValueDictionary()
"""By model, the engine with which an agent in this process generates."""
NOT_FROZEN = (
    "the vLLM of {path} has the weights that the agent learns, and a world model must not change with the agent\n"
    "  Train an adapter (policy.lora_rank=16), which leaves other answers as they were, or give the world model an "
    "engine of its own."
)


class VLLMEngine:
    """Serves a model with vLLM in this process. Nothing is loaded before the first `generate`.

    vLLM finds common beginnings of prompts by itself, across batches too, and says how many tokens it found again.
    Implements `engines.engine.Engine`.

    Args:
        path: directory or hub name of the model.
        llm: an existing ``vllm.LLM`` of this model to share, for example with the agent: its adapter goes with the
            agent's requests and not with these, so the world model stays the frozen backbone. It is not closed here.
        send_seed: whether each prompt has a seed of its own. vLLM's CPU build (0.32) dies of it where it reads long
            prompts in pieces ("CPU Generator does not use offset").
        template_arguments: passed to the chat template.
        **settings: passed to ``vllm.LLM``, for example ``gpu_memory_utilization=0.4``, ``max_model_len=8192``,
            ``tensor_parallel_size=2``, ``enable_lora=True``, ``enable_sleep_mode=True`` (on a GPU).

    Raises:
        ValueError: if settings are given for an engine that exists already.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        llm: Any = None,
        send_seed: bool = True,
        template_arguments: Mapping[str, Any] = NO_THINKING,
        **settings: Any,
    ) -> None:
        if llm is not None and settings:
            raise ValueError(f"{', '.join(settings)} cannot be set on a vllm.LLM that exists: set it where it is made")
        self.path = str(path)
        self.send_seed = send_seed
        self.template_arguments = template_arguments
        self.settings = {
            "enable_prefix_caching": True,
            # A small model that may put white space anywhere puts it everywhere; the same grammars as our own engine's.
            "structured_outputs_config": {"backend": "guidance", "disable_any_whitespace": True},
        } | settings
        self._llm = llm
        self._given = llm is not None
        self._slept: int | None = None
        self._agent_learns_all = False
        self.overwritten = False
        """Whether an agent has written weights of its own over the model's: it then is nobody's frozen judge."""
        self.lock = threading.Lock()
        """Held while `llm` is used, which only one thread at a time may do."""

    @property
    def model(self) -> str:
        """Path or name of the model."""
        return self.path

    @property
    def llm(self) -> Any:
        """The ``vllm.LLM``, loaded if need be, to share with an agent.

        Raises:
            ImportError: if vLLM is not installed.
        """
        if self._llm is None:
            vllm = _vllm()
            self._llm = vllm.LLM(model=self.path, **self.settings)
            self._slept, self.overwritten = None, False
        return self._llm

    @property
    def can_sleep(self) -> bool:
        """Whether vLLM is loaded and made so that it can give its memory back for a while (``enable_sleep_mode``)."""
        config = getattr(getattr(self._llm, "llm_engine", None), "vllm_config", None)
        enabled = getattr(getattr(config, "model_config", None), "enable_sleep_mode", False)
        return bool(enabled) and all(callable(getattr(self._llm, name, None)) for name in ("sleep", "wake_up"))

    @property
    def sleep_level(self) -> int | None:
        """How deeply vLLM sleeps: 1 or 2; None while it is awake."""
        return self._slept

    def sleep(self, level: int = 1) -> bool:
        """Give the GPU's memory back until the next prompt. Nothing may be generated meanwhile in another thread.

        Args:
            level: 1 keeps the weights in the machine's memory, 2 drops them: they are then read, or handed over, anew.

        Returns:
            Whether vLLM sleeps now; not if it cannot, is not loaded yet, or sleeps already less deeply.
        """
        if level not in (1, 2):
            raise ValueError(f"level is {level}: 1 keeps the weights in the machine's memory, 2 drops them")
        with self.lock:
            if self._slept is None and self.can_sleep:
                self._llm.sleep(level=level)
                self._slept = level
            return self._slept is not None and self._slept >= level

    def wake(self, hand_over: Callable[[Any], None] | None = None) -> None:
        """Have vLLM's memory back, if it sleeps. The caller holds `lock`.

        Args:
            hand_over: gives the ``vllm.LLM`` its weights where they were dropped; None reads the model's own again.
        """
        if self._slept is None:
            return
        if self._slept == 1:
            self._llm.wake_up()
        else:
            # Weights first, the cache after: while they are handed over, there may be no room for it.
            self._llm.wake_up(tags=["weights"])
            (hand_over or self._read_again)(self._llm)
            self._llm.wake_up(tags=["kv_cache"])
        self._slept = None

    def _read_again(self, llm: Any) -> None:
        llm.collective_rpc("reload_weights", kwargs={"weights_path": self.path})
        self.overwritten = False

    def serve_agent(self, *, learns_all: bool) -> None:
        """Be found by `agents_engine` from now on, which refuses an agent that learns all weights."""
        self._agent_learns_all = learns_all
        _AGENTS[_key(self.path)] = self

    def generate(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[Answer]:
        """One answer per prompt, in order; see `Engine.generate`.

        Raises:
            ImportError: if vLLM is not installed.
            ValueError: if an agent's weights have been written over the model's.
        """
        started = time.perf_counter()
        answers: dict[int, Answer] = {}
        with self.lock:
            if self.overwritten:
                raise ValueError(NOT_FROZEN.format(path=self.path))
            self.wake()
            requests: dict[int, tuple[list[int], Any]] = {}
            for i, prompt in enumerate(prompts):
                prepared = self._prepare(prompt, sampling)
                if isinstance(prepared, Answer):
                    answers[i] = prepared
                else:
                    requests[i] = prepared
            answers |= self._run(requests)
        share = (time.perf_counter() - started) / max(1, len(prompts))
        return [replace(answers[i], seconds=share) for i in range(len(prompts))]

    def close(self) -> None:
        """Free the model's memory, unless the engine was given from outside."""
        with self.lock:
            if self._llm is None or self._given:
                return
            # vLLM has no public way to end an LLM; dropping it ends its worker once nothing refers to it.
            core: Any = getattr(getattr(self._llm, "llm_engine", None), "engine_core", None)
            if hasattr(core, "shutdown"):
                core.shutdown()
            self._llm, self._slept = None, None
            gc.collect()

    def _prepare(self, prompt: Prompt, sampling: Sampling) -> tuple[list[int], Any] | Answer:
        vllm, tokenizer, context = _vllm(), self.llm.get_tokenizer(), _context_length(self.llm)
        try:
            ids = encode(tokenizer, prompt, self.template_arguments).tolist()
            schema = None if prompt.schema is None else json.dumps(prompt.schema, default=dict)
        except Exception as error:
            return Answer(None, error=f"the prompt cannot be used: {type(error).__name__}: {error}")
        if len(ids) >= context:
            return Answer(
                None,
                prompt_tokens=len(ids),
                error=f"a prompt of {len(ids)} tokens leaves no room for an answer in a context of {context}",
            )
        constraint = None
        if schema is not None:
            constraint = vllm.sampling_params.StructuredOutputsParams(json=schema)
        return ids, vllm.SamplingParams(
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=sampling.top_k,
            presence_penalty=sampling.presence_penalty,
            max_tokens=min(sampling.max_tokens, context - len(ids)),
            seed=prompt_seed(prompt, sampling.seed) if self.send_seed else None,
            structured_outputs=constraint,
        )

    def _run(self, requests: Mapping[int, tuple[list[int], Any]]) -> dict[int, Answer]:
        """Answers by index. vLLM refuses a whole batch for one bad request: it is halved until that one is found."""
        if not requests:
            return {}
        try:
            outputs = self.llm.generate(
                [{"prompt_token_ids": ids} for ids, _ in requests.values()],
                [parameters for _, parameters in requests.values()],
                use_tqdm=False,
            )
        except _refusals() as error:
            items = list(requests.items())
            if len(items) == 1:
                return {items[0][0]: Answer(None, error=f"the prompt cannot be used: {error}")}
            half = len(items) // 2
            return self._run(dict(items[:half])) | self._run(dict(items[half:]))
        return {index: _answer(output) for index, output in zip(requests, outputs, strict=True)}


def agents_engine(path: str | Path) -> VLLMEngine:
    """The engine with which an agent of this model generates in this process, for a world model to share.

    The agent's adapter goes with the agent's requests alone, so the world model asks the frozen model, which is in
    memory once. Make the agent first.

    Args:
        path: of the model, as the agent's; where the agent started from an adapter, of the model below it.

    Raises:
        ValueError: if no agent here generates with it, or one that trains all weights does.
    """
    engine = _AGENTS.get(_key(path))
    if engine is None:
        raise ValueError(
            f"no agent in this process generates with a vLLM of {path} (there are: {', '.join(_AGENTS) or 'none'})\n"
            "  Use policy=causal_lm_vllm with the same path and a lora_rank, or wmrl_gym.engines.VLLMEngine."
        )
    if engine._agent_learns_all:
        raise ValueError(NOT_FROZEN.format(path=path))
    return engine


def _key(path: str | Path) -> str:
    return str(Path(path).expanduser())


def _answer(output: Any) -> Answer:
    best = output.outputs[0]
    if best.finish_reason not in ("stop", "length"):
        return Answer(None, error=f"vLLM ended the request with finish_reason {best.finish_reason!r}")
    return Answer(
        text=best.text,
        prompt_tokens=len(output.prompt_token_ids),
        cached_tokens=output.num_cached_tokens,
        generated_tokens=len(best.token_ids),
        finished=best.finish_reason == "stop",
    )


def _context_length(llm: Any) -> int:
    config = getattr(llm, "model_config", None) or llm.llm_engine.model_config
    return int(config.max_model_len)


def _refusals() -> tuple[type[Exception], ...]:
    """What vLLM raises for a request that is wrong: a ValueError once, a class of its own since."""
    import vllm

    own = getattr(getattr(vllm, "exceptions", None), "VLLMClientError", ValueError)
    return ValueError, own


def _vllm() -> Any:
    try:
        import vllm
        import vllm.sampling_params
    except ImportError as error:
        raise ImportError(
            "VLLMEngine needs vLLM 0.11 or newer, which wants an environment of its own: docs/engines.md tells how.\n"
            "  Without it use TransformersEngine, or OpenAIEngine with a server that runs elsewhere."
        ) from error
    return vllm
