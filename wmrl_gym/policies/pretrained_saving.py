"""Writes a policy as a folder that other programs load: `transformers`, PEFT, TRL, vLLM.

What `CausalLMPolicy.save_pretrained` writes is enough to load the policy again. Other programs need more: an adapter
merged or with the place of its base, and in the generation settings where an answer ends.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from wmrl_gym.policies.causal_lm import CausalLMPolicy, dtype_named


def save_causal_lm(
    policy: CausalLMPolicy,
    directory: str | Path,
    *,
    merge: bool = True,
    dtype: str | None = None,
    temperature: float = 1.0,
) -> None:
    """Write model, tokenizer, chat template and generation settings in Hugging Face's layout.

    The policy is used up, so that a large model need not be copied: its adapter is merged and its weights change their
    type in place. It must neither act nor learn afterwards.

    Args:
        policy: what is written.
        directory: where.
        merge: write one model, an adapter merged into it; False writes the adapter alone, with the path of its base.
        dtype: a torch dtype's name, of the weights written; None for the policy's own. An adapter is merged in the
            wider of the two types.
        temperature: which the generation settings name for sampling; 0 is greedy.

    Raises:
        ValueError: if an adapter is asked for and there is none, or it has no base; or if it cannot be merged.
    """
    settings = _generation_settings(policy, temperature)
    wanted = None if dtype is None else dtype_named(dtype)
    model = policy.model
    if not merge:
        _name_base(model)
        for parameter in policy.parameters():
            parameter.data = parameter.data.to(wanted or parameter.dtype)
    else:
        model = _merged(model, wanted) if hasattr(model, "peft_config") else model
        model = model if wanted is None else model.to(wanted)
        model.generation_config = settings
    model.save_pretrained(directory)
    settings.save_pretrained(directory)  # an adapter's folder gets none by itself
    policy.tokenizer.save_pretrained(directory)


def save_whole(policy: Any, directory: str | Path, *, dtype: str | None = None) -> None:
    """Write any policy with its own ``save_pretrained``, its weights in another type if one is asked for.

    The policy is used up; see `save_causal_lm`.

    Args:
        policy: what is written. For another type it must have its network in ``model``.
        directory: where.
        dtype: a torch dtype's name; None for the policy's own.

    Raises:
        ValueError: if its weights cannot be given another type.
    """
    if dtype is not None:
        network = getattr(policy, "model", None)
        if not isinstance(network, torch.nn.Module):
            raise ValueError(
                f"dtype is {dtype!r}, but the weights of a {type(policy).__name__} cannot be reached: it has no torch "
                "module in 'model'\n  leave dtype at null, which writes them as they were trained."
            )
        language = getattr(network, "language", None)
        if hasattr(language, "merge_and_unload"):  # before its adapter is rounded
            network.language = _merged(language, dtype_named(dtype))
        network.to(dtype_named(dtype))
    policy.save_pretrained(directory)


def base_name(model: Any) -> str | None:
    """Folder (absolute) or hub name that a model, or the one below an adapter, was loaded from; None if unknown."""
    configs = getattr(model, "peft_config", {}).values()
    names = [config.base_model_name_or_path for config in configs]
    names.append(getattr(getattr(model, "config", None), "_name_or_path", None))
    name = next((str(name) for name in names if name), None)
    return str(Path(name).resolve()) if name is not None and Path(name).is_dir() else name


def _merged(model: Any, wanted: torch.dtype | None) -> Any:
    if not hasattr(model, "merge_and_unload"):
        kinds = ", ".join(sorted({type(config).__name__ for config in model.peft_config.values()}))
        raise ValueError(
            f"an adapter of this kind ({kinds}) cannot be merged into its model\n  write it alone with merge=false."
        )
    if wanted is not None and torch.promote_types(wanted, model.dtype) == wanted:
        model = model.to(wanted)
    return model.merge_and_unload()


def _name_base(model: Any) -> None:
    """Put the place of the base into the adapter's settings."""
    if not hasattr(model, "peft_config"):
        raise ValueError(
            "merge is false, but the policy has no adapter: all its weights were trained\n"
            "  leave merge at true, which writes the model as it is."
        )
    base = base_name(model)
    if base is None:
        raise ValueError(
            "merge is false, but it is unknown where the model below the adapter was loaded from\n"
            "  leave merge at true: then the base is part of what is written."
        )
    for config in model.peft_config.values():
        config.base_model_name_or_path = base


def _generation_settings(policy: CausalLMPolicy, temperature: float) -> Any:
    """Generation as the policy does it: the same ends of a turn, and no other filter of tokens than the temperature.

    What the base model came with is left behind. Its top_k or repetition penalty, which `generate` and vLLM's server
    would apply, never was part of the distribution that was trained.
    """
    from transformers import GenerationConfig

    ends = list(policy.conversation.stop_ids)
    padding = getattr(policy.tokenizer, "pad_token_id", None)
    sampling: dict[str, Any] = {"do_sample": False}
    if temperature > 0:
        sampling = {"do_sample": True, "temperature": temperature, "top_k": 0, "top_p": 1.0}
    return GenerationConfig(
        bos_token_id=getattr(policy.tokenizer, "bos_token_id", None),
        eos_token_id=ends[0] if len(ends) == 1 else ends,
        pad_token_id=policy.conversation.end_of_turn if padding is None else padding,
        **sampling,
    )
