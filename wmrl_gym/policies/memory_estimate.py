"""What a language model costs in memory: told from its configuration, without its weights.

Weights, gradients, moments and the reference are arithmetic. Activations differ from family to family and with every
setting, so they are not taken from a formula: an update and a turn are run on tensors that have shapes and no data
(torch's `FakeTensorMode`), through the functions that training and acting use, and the bytes that live at the same time
are counted.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from wmrl_gym.core import Decision
from wmrl_gym.engines.architecture import Architecture, plain_head
from wmrl_gym.engines.decoding import choose
from wmrl_gym.engines.preallocated_cache import base_model, forward_arguments
from wmrl_gym.engines.token_log_probs import LOGITS_AT_ONCE, token_log_probs
from wmrl_gym.engines.traits import attends_to_everything
from wmrl_gym.policies.causal_lm import dtype_named
from wmrl_gym.policies.causal_lm_loading import add_lora
from wmrl_gym.policies.live_bytes import LiveBytes

GIB = 2**30
SPARE = 0.1
"""Share of a GPU left to its context, to libraries and to gaps between tensors."""


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes that a language model needs. What an update, a step or a turn needs, it needs beside what is held."""

    parameters: int
    """How many the model has, adapters included."""
    learning: int
    """How many of them are trained."""
    weights: int
    """Held: the weights."""
    gradients: int
    """Held: their gradients, which stay until the next update begins."""
    moments: int
    """Held: AdamW's two moments of every weight that learns."""
    reference: int
    """Held: the reference policy. It shares what is frozen."""
    kept: int
    """Update: what a micro-batch keeps for its backward pass: activations, and weights cast to `compute_dtype`."""
    update_passing: int
    """Update: what lives at the worst moment beyond that, most of it logits, and gradients on their way."""
    logits: int
    """Of `update_passing`, the logits that exist at once, counted once in single precision."""
    step_passing: int
    """Step: what AdamW uses on a GPU, where it works on all weights together. On a CPU, next to nothing."""
    cache: int
    """Turn: keys and values, or states, of all rows at their full length."""
    turn_passing: int
    """Turn: what lives at the worst moment beyond that, reading the prompts or choosing tokens."""

    @property
    def held(self) -> int:
        """What is there all the time."""
        return self.weights + self.gradients + self.moments + self.reference

    @property
    def update(self) -> int:
        """While a micro-batch's gradients are computed."""
        return self.held + self.kept + self.update_passing

    @property
    def step(self) -> int:
        """While the optimiser moves the weights."""
        return self.held + self.step_passing

    @property
    def turn(self) -> int:
        """While a batch of answers is generated."""
        return self.held + self.cache + self.turn_passing

    @property
    def total(self) -> int:
        """The most of the three."""
        return max(self.update, self.step, self.turn)

    def fits(self, gib: float) -> bool:
        """Whether a GPU of so many GiB holds it, with `SPARE` left over."""
        return self.total <= gib * GIB * (1 - SPARE)

    def __str__(self) -> str:
        lines = [
            ("weights", self.weights),
            ("gradients", self.gradients),
            ("AdamW's moments", self.moments),
            ("reference", self.reference),
            ("held all the time", self.held),
            ("  an update keeps for its backward pass", self.kept),
            (f"  and in passing (logits at once: {self.logits / GIB:.2f})", self.update_passing),
            ("while updating", self.update),
            ("  AdamW in passing, on a GPU", self.step_passing),
            ("while stepping", self.step),
            ("  keys and values of a turn", self.cache),
            ("  and in passing", self.turn_passing),
            ("while generating", self.turn),
            ("the most", self.total),
        ]
        head = f"{self.parameters:,} parameters, {self.learning:,} of them learn"
        return "\n".join([head, *(f"{name:<44}{size / GIB:10.2f} GiB" for name, size in lines)])


def estimate_memory(
    model: str | Path | Any,
    *,
    lora_rank: int | None = None,
    dtype: str = "float32",
    compute_dtype: str | None = None,
    gradient_checkpointing: bool = False,
    microbatch: int = 4,
    prompt_tokens: int = 1024,
    answer_tokens: int = 512,
    episode_tokens: int | None = None,
    batch_size: int = 8,
    reference: bool = False,
    attn_implementation: str | None = None,
) -> MemoryEstimate:
    """What training and acting with a model need, as `load_causal_lm` and `algorithms.PolicyUpdate` go about it.

    Takes seconds and no memory to speak of, whatever the model's size.

    Args:
        model: a `transformers` configuration; or the folder, the ``config.json`` or the hub name of one.
        lora_rank: of adapters on every linear layer; None trains all weights.
        dtype: of the weights; adapters always are float32.
        compute_dtype: type that matrix products are computed in; None for the weights' own.
        gradient_checkpointing: whether layers are computed again in the backward pass.
        microbatch: episodes whose gradients are computed at the same time, all of one group.
        prompt_tokens: length of the prompt that opens them.
        answer_tokens: length of the longest answer of a turn.
        episode_tokens: length of an episode with all its turns; None for one turn. All of it behind the opening prompt
            counts as produced.
        batch_size: rows generated at the same time.
        reference: whether the loss has a KL term.
        attn_implementation: as for `load_causal_lm`. None takes what a CPU would; a GPU's own kernels keep as much.

    Raises:
        ImportError: if an adapter is wanted and ``peft`` is missing.
        ValueError: if a length makes no sense, a type does not exist, or the model takes decisions that depend on data
            and so cannot be run without any.
    """
    length = prompt_tokens + answer_tokens if episode_tokens is None else episode_tokens
    if min(prompt_tokens, answer_tokens, microbatch, batch_size) < 1 or length < prompt_tokens + answer_tokens:
        raise ValueError(
            f"microbatch={microbatch}, batch_size={batch_size}, prompt_tokens={prompt_tokens}, "
            f"answer_tokens={answer_tokens}, episode_tokens={episode_tokens}: each must be at least 1, and an episode "
            "holds its opening prompt and an answer"
        )
    config = _config(model)
    weights_dtype = dtype_named(dtype)
    precision: Callable[[], AbstractContextManager[Any]] = nullcontext
    if compute_dtype is not None:
        computed = dtype_named(compute_dtype)
        precision = lambda: torch.autocast("cpu", computed)  # noqa: E731
    network = _network(config, weights_dtype, attn_implementation, lora_rank, gradient_checkpointing)
    with FakeTensorMode(allow_non_fake_inputs=True), LiveBytes() as live, _quiet():
        _place(network)
        try:
            decisions = _decisions(microbatch, prompt_tokens, length - prompt_tokens)
            kept, update_passing = _update(network, decisions, precision, reference, live)
            cache, turn_passing = _turn(network, batch_size, length, length - answer_tokens, precision, live)
        except (RuntimeError, ValueError, TypeError) as error:
            raise ValueError(
                f"{type(base_model(network)).__name__} cannot be run without data: {type(error).__name__}: {error}\n"
                "  A mixture of experts can with dtype='bfloat16' and a lora_rank. Else measure it."
            ) from error
        learning = [p for p in network.parameters() if p.requires_grad]
        learning_bytes = sum(p.nbytes for p in learning)
        vocabulary = _vocabulary(network)
        produced = microbatch * (length - prompt_tokens)
        return MemoryEstimate(
            parameters=sum(p.numel() for p in network.parameters()),
            learning=sum(p.numel() for p in learning),
            weights=sum(p.nbytes for p in network.parameters()),
            gradients=learning_bytes,
            moments=2 * learning_bytes,
            reference=learning_bytes if reference else 0,
            kept=kept,
            update_passing=update_passing,
            logits=4 * vocabulary * min(produced, max(1, LOGITS_AT_ONCE // vocabulary)),
            step_passing=learning_bytes,
            cache=cache,
            turn_passing=turn_passing,
        )


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without torch's own traceback of what `estimate_memory` raises in its own words."""
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


def _config(model: str | Path | Any) -> Any:
    if not isinstance(model, (str, Path)):
        return model
    from transformers import AutoConfig

    return AutoConfig.from_pretrained(Path(model).expanduser() if str(model).startswith("~") else model)


def _network(config: Any, dtype: torch.dtype, attention: str | None, lora_rank: int | None, checkpointing: bool) -> Any:
    """The model as `load_causal_lm` would make it, on the meta device."""
    from transformers import AutoModelForCausalLM

    settings = {} if attention is None else {"attn_implementation": attention}
    with torch.device("meta"):
        network = AutoModelForCausalLM.from_config(config, dtype=dtype, **settings)
        if lora_rank is not None:
            network = add_lora(network, lora_rank)
    if checkpointing:
        enable = getattr(network, "activation_checkpointing_enable", None) or network.gradient_checkpointing_enable
        enable()
    return network.eval()


def _place(network: Any) -> None:
    """Move the model from the meta device to where it is pretended to live, with a gradient where one is going to be.

    Operations choose other kernels on the meta device. Weights that are tied stay so.
    """
    moved: dict[int, Any] = {}
    for module in network.modules():
        for name, weight in module._parameters.items():
            if weight is None:
                continue
            if id(weight) not in moved:
                here = torch.empty(weight.shape, dtype=weight.dtype)
                moved[id(weight)] = torch.nn.Parameter(here, requires_grad=weight.requires_grad)
                # From the second micro-batch of an update on, gradients are there from the start.
                if weight.requires_grad:
                    moved[id(weight)].grad = torch.empty_like(here)
            module._parameters[name] = moved[id(weight)]
        for name, buffer in module._buffers.items():
            if buffer is not None:
                module._buffers[name] = torch.empty(buffer.shape, dtype=buffer.dtype)


def _vocabulary(network: Any) -> int:
    return int(base_model(network).get_output_embeddings().weight.shape[0])


def _decisions(episodes: int, prompt: int, produced: int) -> list[Decision]:
    """Episodes of one group, each in one turn."""
    ids = np.zeros(prompt, np.int64)
    # Different, or they would be one sequence.
    answers = [np.full(produced, episode, np.int64) for episode in range(episodes)]
    return [Decision("", "", ids, answer, np.zeros(produced, np.float32)) for answer in answers]


def _update(
    network: Any,
    decisions: list[Decision],
    precision: Callable[[], AbstractContextManager[Any]],
    reference: bool,
    live: LiveBytes,
) -> tuple[int, int]:
    """Bytes that a micro-batch keeps for its backward pass, and those of the worst moment beyond."""
    # What `engines.examination` finds for nearly all of them.
    whole = attends_to_everything(network) and "position_ids" in forward_arguments(network)
    architecture = Architecture("shared" if whole else "padded", whole, True, plain_head, _vocabulary(network))

    def log_probs() -> torch.Tensor:
        with precision():
            found = token_log_probs(network, decisions, architecture, temperature=1.0, pad_id=0, device="cpu")
        return found[0] + found[1]  # the loss has an entropy bonus

    before = live.peak = live.now
    loss = log_probs().sum()
    kept = live.now - before
    if reference:
        with torch.no_grad(), _frozen(network):
            log_probs()
    loss.backward()  # type: ignore[no-untyped-call]
    return kept, live.peak - before - kept


@contextlib.contextmanager
def _frozen(network: Any) -> Iterator[None]:
    """As the reference is: autocasting keeps no casts of weights that do not learn."""
    learning = [parameter for parameter in network.parameters() if parameter.requires_grad]
    for parameter in learning:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in learning:
            parameter.requires_grad_(True)


@torch.no_grad()
def _turn(
    network: Any,
    rows: int,
    length: int,
    prompt: int,
    precision: Callable[[], AbstractContextManager[Any]],
    live: LiveBytes,
) -> tuple[int, int]:
    """Bytes of the key-value cache of all rows at full length, and those of the worst moment beyond."""
    extra = {"logits_to_keep": 1} if "logits_to_keep" in forward_arguments(network) else {}

    def read(tokens: int) -> tuple[int, int, torch.Tensor]:
        ids = torch.zeros((rows, tokens), dtype=torch.int64)
        before = live.peak = live.now
        with precision():
            output = network(input_ids=ids, use_cache=True, **extra)
        peak, logits = live.peak, output.logits[:, -1].clone()
        rest = [value for name, value in output.items() if name != "logits"]
        del output
        cache = live.now - before - logits.nbytes
        rest.clear()
        return cache, peak - before - cache, logits

    cache, _, _ = read(length)
    _, reading, logits = read(prompt)
    before = live.peak = live.now
    choose(logits, np.zeros(rows), 1.0)
    return cache, max(reading, logits.nbytes + live.peak - before)
