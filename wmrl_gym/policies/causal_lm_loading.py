"""Loads a causal language model as a policy: whole, with a new adapter, or with one that was trained before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from wmrl_gym.policies.batching import available_device
from wmrl_gym.policies.causal_lm import CausalLMPolicy, dtype_named

ADAPTER_FILE = "adapter_config.json"
PAST_THE_MODULE = ("mamba", "mamba2", "falcon_mamba", "falcon_h1", "nemotron_h")
"""Model types whose kernels read the weight of ``out_proj`` past the module, so that an adapter there has no effect."""


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
    template_arguments: dict[str, Any] | None = None,
    max_observation_tokens: int | None = None,
    max_thinking_tokens: int | None = None,
    local_files_only: bool = False,
) -> CausalLMPolicy:
    """Load a policy from a directory or a model hub.

    Args:
        path: directory or hub name of a model, or the directory of an adapter, which then is trained further.
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
        template_arguments: of the chat template, for example ``{"enable_thinking": False}``.
        max_observation_tokens: longest observation; the middle of a longer one is left out. None for no limit.
        max_thinking_tokens: longest thought of an answer; one that is still open then is closed. None for no limit.
        local_files_only: never reach for the network.

    Raises:
        ImportError: if an adapter is wanted and ``peft`` is missing.
        ValueError: if a new adapter would be laid over one that is there; or see `CausalLMPolicy`.
    """
    from transformers import AutoModelForCausalLM, AutoTokenizer

    check_settings(path, device=device, dtype=dtype, compute_dtype=compute_dtype)
    settings: dict[str, Any] = {"dtype": dtype_named(dtype), "local_files_only": local_files_only}
    if attn_implementation is not None:
        settings["attn_implementation"] = attn_implementation
    path = Path(path).expanduser() if str(path).startswith("~") else path
    tokenizer = AutoTokenizer.from_pretrained(path, local_files_only=local_files_only)
    if is_adapter(path):
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
        # The name within transformers 5; the layers' own flag is what `engines.token_log_probs` reads.
        enable = getattr(model, "activation_checkpointing_enable", None) or model.gradient_checkpointing_enable
        enable()
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
        template_arguments=template_arguments,
        max_observation_tokens=max_observation_tokens,
        max_thinking_tokens=max_thinking_tokens,
    )


def check_settings(
    path: str | Path,
    *,
    device: torch.device | str = "cpu",
    dtype: str = "float32",
    compute_dtype: str | None = None,
    lora_rank: int | None = None,
    training: bool = False,
    **_: Any,
) -> None:
    """Refuse what would fail late, before anything is loaded.

    Args:
        path: of the model; looked for here if it is a path and no name.
        device: must exist.
        dtype: of the weights.
        compute_dtype: of matrix products.
        lora_rank: None if the weights themselves learn.
        training: whether the policy is to be trained.

    Raises:
        ValueError: if it cannot work here.
    """
    available_device(device)
    for name in (dtype, *([] if compute_dtype is None else [compute_dtype])):
        dtype_named(name)
    local = Path(path).expanduser()
    if (local.is_absolute() or str(path).startswith((".", "~"))) and not local.is_dir():
        raise ValueError(f"path is {str(path)!r}, and there is no such folder")
    if training and dtype != "float32" and lora_rank is None and not is_adapter(path):
        raise ValueError(
            f"dtype is {dtype!r}, and all weights are to learn: small updates are rounded away in it\n"
            "  use dtype=float32 compute_dtype=bfloat16, or train an adapter (lora_rank=16)."
        )


load_causal_lm.check_arguments = check_settings  # type: ignore[attr-defined]


def is_adapter(path: str | Path) -> bool:
    """Whether a folder holds an adapter and no model of its own."""
    return (Path(path).expanduser() / ADAPTER_FILE).is_file()


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
        r=rank,
        lora_alpha=2 * rank if alpha is None else alpha,
        target_modules="all-linear",
        exclude_modules=_without_adapter(model) or None,
        task_type="CAUSAL_LM",
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return get_peft_model(model, settings)


def _without_adapter(model: Any) -> list[str]:
    """Linear layers on which an adapter has no effect, or fails: routers of experts may hand on tuples."""
    past = ["out_proj"] if getattr(model.config, "model_type", None) in PAST_THE_MODULE else []
    routed = any(name.rpartition(".")[2] == "router" for name, _ in model.named_modules())
    return [*past, *(["router"] if routed else [])]


def _require_peft() -> None:
    try:
        import peft  # noqa: F401
    except ImportError as error:
        raise ImportError("LoRA needs the package 'peft': pip install 'wmrl-gym[lora]'") from error
