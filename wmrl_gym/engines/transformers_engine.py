"""Any Hugging Face causal language model as an engine, on a CPU too, held to JSON schemas by a grammar."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wmrl_gym.engines.chat_prompt import NO_THINKING, encode, prompt_seed
from wmrl_gym.engines.engine import Answer, Prompt, Sampling

if TYPE_CHECKING:
    from wmrl_gym.engines.architecture import Architecture
    from wmrl_gym.engines.constrained_sampling import Row
    from wmrl_gym.engines.grammar import JSONGrammars


class TransformersEngine:
    """Serves a model with `transformers`; prompts that begin alike have their beginning computed once.

    Nothing is loaded before the first `generate`. Implements `engines.engine.Engine`.

    Args:
        path: directory or hub name of the model.
        device: where it is moved to.
        dtype: a torch dtype's name. Plain CPUs want "float32".
        batch_size: most answers generated at the same time.
        threads: torch threads while generating; None leaves them as they are.
        share_prefixes: compute common beginnings once. Only models whose every layer attends to all that
            went before do.
        context_length: longest prompt plus answer; None for the model's own limit.
        template_arguments: passed to the chat template.
        local_files_only: never reach for the network.
    """

    def __init__(
        self,
        path: str | Path,
        device: str = "cpu",
        dtype: str = "float32",
        *,
        batch_size: int = 16,
        threads: int | None = None,
        share_prefixes: bool = True,
        context_length: int | None = None,
        template_arguments: Mapping[str, Any] = NO_THINKING,
        local_files_only: bool = False,
    ) -> None:
        if batch_size < 1 or (threads is not None and threads < 1):
            raise ValueError(f"batch_size is {batch_size} and threads is {threads}: give at least 1")
        self.path = str(path)
        self.device = device
        self.dtype = dtype
        self.batch_size = batch_size
        self.threads = threads
        self.share_prefixes = share_prefixes
        self.context_length = context_length
        self.template_arguments = template_arguments
        self.local_files_only = local_files_only
        self._given = False
        self._model: Any = None
        self._tokenizer: Any = None
        self._grammars: JSONGrammars | None = None
        self._found: Architecture | None = None
        self._lock = threading.Lock()

    @classmethod
    def around(cls, model: Any, tokenizer: Any, name: str, **settings: Any) -> TransformersEngine:
        """An engine around a model that is in memory already, for example a policy's frozen backbone.

        Adapters of a PEFT model are off while the engine generates, so that training them changes no answer.

        Args:
            model: a `transformers` causal language model, or a PEFT model around one.
            tokenizer: its tokenizer.
            name: the model's name, for the record.
            **settings: those of the constructor that are not about loading.
        """
        engine = cls(name, str(model.device), **settings)
        engine._model, engine._tokenizer, engine._given = model, tokenizer, True
        return engine

    @property
    def model(self) -> str:
        """Path or name of the model."""
        return self.path

    def generate(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[Answer]:
        """One answer per prompt, in order; see `Engine.generate`.

        Raises:
            ImportError: if a prompt has a schema and the extra ``llm`` is not installed.
            OSError: if the model cannot be loaded.
        """
        started = time.perf_counter()
        answers: dict[int, Answer] = {}
        with self._lock, self._ready():
            rows: dict[int, Row] = {}
            for i, prompt in enumerate(prompts):
                prepared = self._prepare(prompt, sampling)
                if isinstance(prepared, Answer):
                    answers[i] = prepared
                else:
                    rows[i] = prepared
            # Sorted, so that prompts that begin alike meet in a batch.
            order = sorted(rows, key=lambda i: tuple(rows[i].prompt_ids.tolist()))
            for start in range(0, len(order), self.batch_size):
                answers |= self._run({i: rows[i] for i in order[start : start + self.batch_size]}, sampling)
        share = (time.perf_counter() - started) / max(1, len(prompts))
        return [replace(answers[i], seconds=share) for i in range(len(prompts))]

    def close(self) -> None:
        """Let go of the model; the next `generate` loads it again, unless it was given from outside."""
        with self._lock:
            if not self._given:
                self._model = self._tokenizer = self._found = None
            self._grammars = None

    @contextlib.contextmanager
    def _ready(self) -> Iterator[None]:
        """The model loaded, in evaluation mode, adapters off; torch's thread count as asked for."""
        import torch

        if self._model is None:
            self._load()
        was_training, threads = self._model.training, torch.get_num_threads()
        off = self._model.disable_adapter() if hasattr(self._model, "peft_config") else contextlib.nullcontext()
        try:
            if self.threads is not None:
                torch.set_num_threads(self.threads)
            if was_training:
                self._model.eval()
            with off:
                yield
        finally:
            if was_training:
                self._model.train()
            torch.set_num_threads(threads)

    def _load(self) -> None:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer

        self._tokenizer = AutoTokenizer.from_pretrained(self.path, local_files_only=self.local_files_only)
        model: Any = AutoModelForCausalLM.from_pretrained(
            self.path, dtype=getattr(torch, self.dtype), local_files_only=self.local_files_only
        )
        self._model = model.to(self.device).eval().requires_grad_(False)

    def _architecture(self) -> Architecture:
        from wmrl_gym.engines.examination import examine

        if self._found is None:
            self._found = examine(self._model, self._model.device)
        return self._found

    def _stop_ids(self) -> tuple[int, ...]:
        from wmrl_gym.engines.conversation import stop_tokens

        found = stop_tokens(self._model, self._tokenizer)
        if not found:
            raise ValueError(
                f"{self.path}: neither the tokenizer nor the model names a token that ends a turn: set eos_token_id"
            )
        return found

    def _prepare(self, prompt: Prompt, sampling: Sampling) -> Row | Answer:
        from wmrl_gym.engines.constrained_sampling import Row
        from wmrl_gym.engines.grammar import JSONGrammars

        if prompt.schema is not None and self._grammars is None:
            vocabulary = self._model.get_output_embeddings().weight.shape[0]
            self._grammars = JSONGrammars(self._tokenizer, vocabulary, self._stop_ids())
        try:
            ids = encode(self._tokenizer, prompt, self.template_arguments)
            grammar = None
            if prompt.schema is not None and self._grammars is not None:
                grammar = self._grammars.start(prompt.schema)
        except Exception as error:
            return Answer(None, error=f"the prompt cannot be used: {type(error).__name__}: {error}")
        from wmrl_gym.engines.traits import context_length

        context = self.context_length or context_length(self._model)
        room = sampling.max_tokens if context is None else min(sampling.max_tokens, context - len(ids))
        if room < 1:
            return Answer(
                None,
                prompt_tokens=len(ids),
                error=f"a prompt of {len(ids)} tokens leaves no room for an answer in a context of {context}",
            )
        return Row(ids, prompt_seed(prompt, sampling.seed), room, grammar)

    def _run(self, rows: Mapping[int, Row], sampling: Sampling) -> dict[int, Answer]:
        """Answers by index. A batch that the device's memory does not hold is halved."""
        import torch

        try:
            return self._run_batch(rows, sampling)
        except torch.OutOfMemoryError as error:
            problem = str(error).splitlines()[0]
        # Outside of the handler, whose traceback would keep the failed batch's tensors alive.
        items = list(rows.items())
        if len(items) == 1:
            return {items[0][0]: Answer(None, prompt_tokens=len(items[0][1].prompt_ids), error=problem)}
        half = len(items) // 2
        return self._run(dict(items[:half]), sampling) | self._run(dict(items[half:]), sampling)

    def _run_batch(self, rows: Mapping[int, Row], sampling: Sampling) -> dict[int, Answer]:
        from wmrl_gym.engines.constrained_sampling import ConstrainedSampler
        from wmrl_gym.engines.decoding import decode
        from wmrl_gym.engines.shared_prefix import MOST_LEVELS, shared_paths, tokens_computed_before

        batch = [row.fresh() for row in rows.values()]
        prompts = [row.prompt_ids for row in batch]
        method = self._architecture().decoding
        levels = MOST_LEVELS if self.share_prefixes and method == "shared" else 0
        paths = shared_paths(prompts, levels=levels)
        stop_ids = self._stop_ids()
        decode(
            self._model,
            prompts,
            ConstrainedSampler(batch, sampling, stop_ids),
            limits=[row.limit for row in batch],
            method=method,
            pad_id=stop_ids[0],
            levels=levels,
            device=self._model.device,
        )
        return {
            index: Answer(
                text=str(self._tokenizer.decode(row.token_ids, skip_special_tokens=True)),
                prompt_tokens=len(row.prompt_ids),
                cached_tokens=tokens_computed_before(place, path),
                generated_tokens=row.generated,
                finished=row.finished,
            )
            for place, (index, row, path) in enumerate(zip(rows, batch, paths, strict=True))
        }
