"""Loads a causal language model as a policy: whole, with a new adapter, or with one that was trained before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from wmrl_gym.policies.batching import available_device
from wmrl_gym.policies.causal_lm import CausalLMPolicy, dtype_named

ADAPTER_FILE = "adapter_config.json"


def load_causal_lm(
    path: str | Path,
    max_new_tokens: int = 512,
    *,
    chat: bool = True,
    system_prompt: str | None = None,
    device: torch.device | str = "cpu",
    dtype: str = "float32",
    compute_dtype: str | None = None,
    batch_size: int | None = None,
    context_length: int | None = None,
    lora_rank: int | None = None,
    lora_alpha: int | None = None,
    seed: int = 0,
    attn_implementation: str | None = None,
    gradient_checkpointing: bool = False,
    local_files_only: bool = False,
) -> CausalLMPolicy:
    """Load a policy from a directory or a model hub.

    Args:
        path: directory or hub name of a model, or of an adapter, which then is trained further.
        max_new_tokens: longest answer of a turn.
        chat: use the chat template.
        system_prompt: put before the conversation, if given.
        device: where the model is moved to.
        dtype: a torch dtype's name, of the weights. Those that learn must be "float32"; below an adapter, which always
            is, "bfloat16" saves half the memory on a GPU.
        compute_dtype: type that matrix products are computed in, "bfloat16" on a GPU; None for the weights' own.
        batch_size: most rows generated at the same time; None for all.
        context_length: longest prompt plus answer; None for the model's own limit.
        lora_rank: train low-rank adapters of this rank on every linear layer instead of all weights; needs the extra
            `wmrl-gym[lora]`.
        lora_alpha: scale of the adapters; None for twice the rank.
        seed: of a new adapter's first weights.
        attn_implementation: "sdpa", "eager", "flash_attention_2"; None lets `transformers` choose.
        gradient_checkpointing: compute each layer again in the backward pass: a third more time, far less memory.
        local_files_only: never reach for the network.

    Raises:
        ImportError: if an adapter is wanted and ``peft`` is missing.
        ValueError: if a new adapter would be laid over one that is there; or see `CausalLMPolicy`.
    """
    from transformers import AutoModelForCausalLM, AutoTokenizer

    check_settings(device=device, dtype=dtype, compute_dtype=compute_dtype)
    settings: dict[str, Any] = {"dtype": dtype_named(dtype), "local_files_only": local_files_only}
    if attn_implementation is not None:
        settings["attn_implementation"] = attn_implementation
    tokenizer = AutoTokenizer.from_pretrained(path, local_files_only=local_files_only)
    if (Path(path) / ADAPTER_FILE).is_file():
        if lora_rank is not None:
            raise ValueError(
                f"{path} is an adapter, and policy.lora_rank={lora_rank} asks for another one on top of it\n"
                "  leave lora_rank out to train it further, or give the folder of the model below it."
            )
        model = _load_adapter(path, settings)
    else:
        model = AutoModelForCausalLM.from_pretrained(path, **settings)
        if lora_rank is not None:
            model = add_lora(model, lora_rank, lora_alpha, seed)
    if gradient_checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    return CausalLMPolicy(
        model,
        tokenizer,
        max_new_tokens,
        chat=chat,
        system_prompt=system_prompt,
        device=device,
        batch_size=batch_size,
        context_length=context_length,
        compute_dtype=compute_dtype,
    )


def check_settings(*, device: torch.device | str, dtype: str, compute_dtype: str | None) -> None:
    """Refuse what would fail late, before anything is loaded.

    Raises:
        ValueError: if there is no such device or type here.
    """
    available_device(device)
    dtype_named(dtype)
    if compute_dtype is not None:
        dtype_named(compute_dtype)


def _load_adapter(path: str | Path, settings: dict[str, Any]) -> Any:
    _require_peft()
    from peft import AutoPeftModelForCausalLM

    model = AutoPeftModelForCausalLM.from_pretrained(path, is_trainable=True, **settings)
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.float()
    return model


def add_lora(model: Any, rank: int, alpha: int | None = None, seed: int = 0) -> Any:
    """Wrap a model so that only low-rank adapters of its linear layers are trained.

    Args:
        model: a `transformers` causal language model.
        rank: of the adapters.
        alpha: their scale; None for twice the rank.
        seed: of their first weights.

    Raises:
        ImportError: if `peft` is missing.
    """
    _require_peft()
    from peft import LoraConfig, get_peft_model

    settings = LoraConfig(
        r=rank, lora_alpha=2 * rank if alpha is None else alpha, target_modules="all-linear", task_type="CAUSAL_LM"
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return get_peft_model(model, settings)


def _require_peft() -> None:
    try:
        import peft  # noqa: F401
    except ImportError as error:
        raise ImportError("LoRA needs the package 'peft': pip install 'wmrl-gym[lora]'") from error
