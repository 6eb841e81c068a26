"""A zoo of language-model families: tiny random models with every kind of layer their family has, saved to folders.

Each is saved as a user's would be, so what is tested begins with `load_causal_lm`. The weights are large and nothing in
them is 0 or 1 by convention: a token at a wrong position, a padded token that is seen, or a state that lost its row
changes the log-probabilities far beyond rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.algorithms.tiny_lm import byte_tokenizer

CONTEXT = 192
"""Tokens of context of the families that have a limit."""
WINDOW = 16
"""Tokens a sliding-window layer sees: fewer than the longer prompts of the tests have."""
STOP_IDS = tuple(range(0, 257, 20))
"""Tokens that end a turn: several, so that rows end at different times and the batch shrinks on the way."""

SHAPE = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
GATED_DELTA_NET = {
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "layer_types": ["linear_attention", "full_attention", "linear_attention"],
}
QWEN_EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "norm_topk_prob": True}


def _llama(**common: Any) -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(LlamaConfig(**SHAPE, **common))


def _qwen2(**common: Any) -> Any:
    """Full attention below, a sliding window above, as its settings allow; biases on queries, keys and values."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    window = {"use_sliding_window": True, "sliding_window": WINDOW, "max_window_layers": 1}
    return Qwen2ForCausalLM(Qwen2Config(**SHAPE, **window, **common))


def _qwen3(**common: Any) -> Any:
    from transformers import Qwen3Config, Qwen3ForCausalLM

    return Qwen3ForCausalLM(Qwen3Config(**SHAPE, head_dim=16, **common))


def _qwen3_5(**common: Any) -> Any:
    from transformers import Qwen3_5ForCausalLM, Qwen3_5TextConfig

    rope = {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5, "mrope_section": [2, 1, 1]}
    shape = {**SHAPE, "num_hidden_layers": 3, "head_dim": 16}
    return Qwen3_5ForCausalLM(Qwen3_5TextConfig(**shape, **GATED_DELTA_NET, rope_parameters=rope, **common))


def _qwen3_next(**common: Any) -> Any:
    from transformers import Qwen3NextConfig, Qwen3NextForCausalLM

    shape = {**SHAPE, "num_hidden_layers": 3, "head_dim": 16, "shared_expert_intermediate_size": 32}
    return Qwen3NextForCausalLM(Qwen3NextConfig(**shape, **GATED_DELTA_NET, **QWEN_EXPERTS, **common))


def _qwen3_moe(**common: Any) -> Any:
    from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

    return Qwen3MoeForCausalLM(Qwen3MoeConfig(**SHAPE, head_dim=8, **QWEN_EXPERTS, **common))


def _mixtral(**common: Any) -> Any:
    from transformers import MixtralConfig, MixtralForCausalLM

    return MixtralForCausalLM(MixtralConfig(**SHAPE, num_local_experts=4, num_experts_per_tok=2, **common))


def _mistral(**common: Any) -> Any:
    from transformers import MistralConfig, MistralForCausalLM

    return MistralForCausalLM(MistralConfig(**SHAPE, sliding_window=WINDOW, **common))


def _gemma2(**common: Any) -> Any:
    from transformers import Gemma2Config, Gemma2ForCausalLM

    return Gemma2ForCausalLM(
        Gemma2Config(**SHAPE, head_dim=8, query_pre_attn_scalar=8, sliding_window=WINDOW, **common)
    )


def _gemma3(**common: Any) -> Any:
    from transformers import Gemma3ForCausalLM, Gemma3TextConfig

    layers = {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": WINDOW}
    return Gemma3ForCausalLM(Gemma3TextConfig(**SHAPE, head_dim=8, query_pre_attn_scalar=8, **layers, **common))


def _phi3(**common: Any) -> Any:
    from transformers import Phi3Config, Phi3ForCausalLM

    return Phi3ForCausalLM(Phi3Config(**SHAPE, original_max_position_embeddings=CONTEXT, **common))


def _gpt2(**common: Any) -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(GPT2Config(n_embd=32, n_layer=2, n_head=4, **common))


def _bloom(*, max_position_embeddings: int, **common: Any) -> Any:
    """Positions are biases that fall with the distance, so there is no limit."""
    from transformers import BloomConfig, BloomForCausalLM

    return BloomForCausalLM(BloomConfig(hidden_size=32, n_layer=2, n_head=4, **common))


def _lfm2(*, conv_bias: bool = False, **common: Any) -> Any:
    from transformers import Lfm2Config, Lfm2ForCausalLM

    layers = {"layer_types": ["conv", "full_attention", "conv"], "block_auto_adjust_ff_dim": False}
    shape = {**SHAPE, "num_hidden_layers": 3}
    return Lfm2ForCausalLM(Lfm2Config(**shape, **layers, conv_bias=conv_bias, **common))


def _lfm2_conv_bias(**common: Any) -> Any:
    """With a bias a padded token is not nothing to the convolution, whatever the mask says."""
    return _lfm2(conv_bias=True, **common)


def _granite_hybrid(**common: Any) -> Any:
    from transformers import GraniteMoeHybridConfig, GraniteMoeHybridForCausalLM

    state_space = {"mamba_n_heads": 4, "mamba_d_head": 16, "mamba_d_state": 8, "mamba_chunk_size": 16}
    experts = {"num_local_experts": 4, "num_experts_per_tok": 2, "shared_intermediate_size": 32}
    return GraniteMoeHybridForCausalLM(
        GraniteMoeHybridConfig(
            **{**SHAPE, "num_hidden_layers": 3},
            **state_space,
            **experts,
            layer_types=["linear_attention", "full_attention", "linear_attention"],
            position_embedding_type="rope",
            attention_multiplier=0.3,
            logits_scaling=0.8,
            **common,
        )
    )


def _mamba(*, max_position_embeddings: int, **common: Any) -> Any:
    """A state and no positions, so there is no limit."""
    from transformers import MambaConfig, MambaForCausalLM

    return MambaForCausalLM(MambaConfig(hidden_size=32, num_hidden_layers=2, state_size=8, **common))


def _gpt_oss(**common: Any) -> Any:
    from transformers import GptOssConfig, GptOssForCausalLM

    experts = {"num_local_experts": 4, "num_experts_per_tok": 2}
    rope = {"rope_type": "default", "rope_theta": 1e4}
    shape = {**SHAPE, "head_dim": 8, "sliding_window": WINDOW}
    return GptOssForCausalLM(GptOssConfig(**shape, **experts, rope_parameters=rope, **common))


def _phi3_longrope(**common: Any) -> Any:
    """Rotates by other factors as soon as a pass is longer than its first context, so every log-probability changes."""
    from transformers import Phi3Config, Phi3ForCausalLM

    factors = {"short_factor": [1.0] * 4, "long_factor": [1.5, 2.0, 3.0, 4.0]}
    rope = {"rope_type": "longrope", "rope_theta": 1e4, "partial_rotary_factor": 1.0, **factors}
    limits = {"original_max_position_embeddings": CONTEXT, "max_position_embeddings": 4 * CONTEXT}
    return Phi3ForCausalLM(Phi3Config(**SHAPE, rope_parameters=rope, **{**common, **limits}))


def _phi3_longrope_window(**common: Any) -> Any:
    """Likewise, with a window so wide that it never matters, as published: it is padded instead of shared."""
    return _phi3_longrope(**common, sliding_window=1024 * CONTEXT)


def _dynamic_rope(**common: Any) -> Any:
    """Rotates more slowly as soon as any row of a pass is longer than the context."""
    from transformers import MistralConfig, MistralForCausalLM

    rope = {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 4.0}
    return MistralForCausalLM(MistralConfig(**SHAPE, rope_parameters=rope, sliding_window=4 * CONTEXT, **common))


def _gpt_neo(**common: Any) -> Any:
    """Local attention of which neither the cache nor `layer_types` knows."""
    from transformers import GPTNeoConfig, GPTNeoForCausalLM

    layers = {"num_layers": 2, "attention_types": [[["global", "local"], 1]], "window_size": 3 * WINDOW}
    dropout = {"resid_dropout": 0.1, "embed_dropout": 0.1, "attention_dropout": 0.1}
    return GPTNeoForCausalLM(GPTNeoConfig(hidden_size=32, num_heads=4, **layers, **dropout, **common))


def _mpt(*, max_position_embeddings: int, initializer_range: float, **common: Any) -> Any:
    """Positions are biases by column, padding included, so there is no place for padding within a row."""
    from transformers import MptConfig, MptForCausalLM

    shape = {"d_model": 32, "n_heads": 4, "n_layers": 2, "max_seq_len": max_position_embeddings}
    return MptForCausalLM(MptConfig(**shape, initializer_range=initializer_range, **common))


def _recurrent_gemma(*, max_position_embeddings: int, initializer_range: float, **common: Any) -> Any:
    """Its recurrence begins at position 0, wherever the mask does, so nothing may be padded on the left."""
    from transformers import RecurrentGemmaConfig, RecurrentGemmaForCausalLM

    layers = {"block_types": ["recurrent", "attention"], "attention_window_size": WINDOW, "lru_width": 32}
    scale = {"w_init_variance_scale": SHAPE["hidden_size"] * initializer_range**2}
    return RecurrentGemmaForCausalLM(RecurrentGemmaConfig(**SHAPE, **layers, **scale, **common))


def _llama4(**common: Any) -> Any:
    """Attention within chunks, layers without positions, one expert beside a shared one."""
    from transformers import Llama4ForCausalLM, Llama4TextConfig

    layers = {"layer_types": ["chunked_attention", "full_attention"], "attention_chunk_size": 2 * WINDOW}
    positions = {"no_rope_layers": [1, 0], "floor_scale": 32}
    experts = {"num_local_experts": 4, "num_experts_per_tok": 1, "interleave_moe_layer_step": 2}
    settings = {**layers, **positions, **experts, "intermediate_size_mlp": 64}
    return Llama4ForCausalLM(Llama4TextConfig(**SHAPE, head_dim=8, **settings, **common))


def _deepseek_v3(**common: Any) -> Any:
    """Keys and values of different widths, from a compressed state; one dense layer before the experts."""
    from transformers import DeepseekV3Config, DeepseekV3ForCausalLM

    heads = {"qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 16, "q_lora_rank": 16, "kv_lora_rank": 16}
    experts = {"n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 2, "topk_group": 1}
    shape = {**SHAPE, "num_key_value_heads": 4, "moe_intermediate_size": 32, "first_k_dense_replace": 1}
    return DeepseekV3ForCausalLM(DeepseekV3Config(**shape, **heads, **experts, **common))


def _mamba2(*, max_position_embeddings: int, **common: Any) -> Any:
    from transformers import Mamba2Config, Mamba2ForCausalLM

    shape = {"hidden_size": 32, "num_hidden_layers": 2, "num_heads": 4, "head_dim": 16, "n_groups": 2}
    return Mamba2ForCausalLM(Mamba2Config(**shape, state_size=8, chunk_size=16, **common))


def _falcon_h1(**common: Any) -> Any:
    """Attention and a state space side by side in every layer; multiplies what it puts out."""
    from transformers import FalconH1Config, FalconH1ForCausalLM

    state_space = {"mamba_d_ssm": 32, "mamba_n_heads": 4, "mamba_d_head": 8, "mamba_d_state": 8, "mamba_chunk_size": 16}
    return FalconH1ForCausalLM(FalconH1Config(**SHAPE, **state_space, lm_head_multiplier=0.7, **common))


def _nemotron_h(**common: Any) -> Any:
    """A layer is a state space, attention, experts or a dense network; only the first two have a cache."""
    from transformers import NemotronHConfig, NemotronHForCausalLM

    layers = {"layer_types": ["linear_attention", "mlp", "full_attention", "moe"]}
    state_space = {"mamba_num_heads": 4, "mamba_head_dim": 16, "ssm_state_size": 8, "chunk_size": 16, "n_groups": 2}
    experts = {"n_routed_experts": 4, "moe_intermediate_size": 32, "moe_shared_expert_intermediate_size": 32}
    shape = {name: size for name, size in SHAPE.items() if name != "num_hidden_layers"}
    # With its default of 0.001 its cached step differs from its own forward pass, which alone clamps the time step.
    return NemotronHForCausalLM(
        NemotronHConfig(**shape, head_dim=8, **layers, **state_space, **experts, time_step_min=1e-9, **common)
    )


def _gemma4(**common: Any) -> Any:
    """Two sizes of heads, and the last layers read keys and values of earlier ones."""
    from transformers import Gemma4ForCausalLM, Gemma4TextConfig

    kinds = ["sliding_attention", "full_attention"]
    layers = {"num_hidden_layers": 4, "layer_types": 2 * kinds, "num_kv_shared_layers": 2, "sliding_window": WINDOW}
    inputs = {"hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": common["vocab_size"]}
    return Gemma4ForCausalLM(
        Gemma4TextConfig(**{**SHAPE, **layers}, head_dim=8, global_head_dim=16, **inputs, **common)
    )


def _gemma3_with_vision(**common: Any) -> Any:
    """As published: the text model within one that also sees, whose settings are a level deeper."""
    from transformers import Gemma3Config, Gemma3ForConditionalGeneration

    vision = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    images = {"mm_tokens_per_image": 4, "image_token_index": 256, "boi_token_index": 255, "eoi_token_index": 254}
    text = _gemma3(**common).config.to_dict()
    picture = {**vision, "image_size": 16, "patch_size": 8}
    return Gemma3ForConditionalGeneration(Gemma3Config(text_config=text, vision_config=picture, **images))


FAMILIES: dict[str, Callable[..., Any]] = {
    "llama": _llama,
    "qwen2": _qwen2,
    "qwen3": _qwen3,
    "qwen3_5": _qwen3_5,
    "qwen3_next": _qwen3_next,
    "qwen3_moe": _qwen3_moe,
    "mixtral": _mixtral,
    "mistral": _mistral,
    "gemma2": _gemma2,
    "gemma3": _gemma3,
    "phi3": _phi3,
    "gpt2": _gpt2,
    "bloom": _bloom,
    "lfm2": _lfm2,
    "lfm2_conv_bias": _lfm2_conv_bias,
    "granite_hybrid": _granite_hybrid,
    "mamba": _mamba,
    "gpt_oss": _gpt_oss,
    "phi3_longrope": _phi3_longrope,
    "phi3_longrope_window": _phi3_longrope_window,
    "dynamic_rope": _dynamic_rope,
    "gpt_neo": _gpt_neo,
    "mpt": _mpt,
    "recurrent_gemma": _recurrent_gemma,
    "llama4": _llama4,
    "deepseek_v3": _deepseek_v3,
    "mamba2": _mamba2,
    "falcon_h1": _falcon_h1,
    "nemotron_h": _nemotron_h,
    "gemma4": _gemma4,
    "gemma3_with_vision": _gemma3_with_vision,
}


def tiny(family: str, vocabulary: int, stop_ids: tuple[int, ...] = (0,), *, fresh: bool = False, seed: int = 0) -> Any:
    """A random model of a family; fresh as training would begin with it, else as if it had learned something."""
    import torch

    torch.manual_seed(seed)
    model = FAMILIES[family](
        vocab_size=vocabulary,
        max_position_embeddings=CONTEXT,
        initializer_range=0.02 if fresh else 0.3,
        bos_token_id=None,
        eos_token_id=0,
        pad_token_id=None,
    )
    model.generation_config.eos_token_id = list(stop_ids)
    if fresh:
        return model
    with torch.no_grad():
        for parameter in model.parameters():
            # Norms, biases and gates begin as all 0 or all 1, behind which a wrong row or a seen padding would hide.
            if parameter.numel() > 1 and bool((parameter == parameter.flatten()[0]).all()):
                parameter.add_(0.2 * torch.randn_like(parameter))
        for name, parameter in model.named_parameters():
            # A gated delta net sums decays over a chunk and takes differences, so steep ones cost single precision its
            # fourth decimal; gentle ones also keep what they saw, so that a lost state shows.
            if name.endswith("linear_attn.A_log"):
                parameter.uniform_(-4.0, -1.0)
    return model


def save(family: str, folder: Path, stop_ids: tuple[int, ...] = (0,), *, fresh: bool = False) -> Path:
    """Write a random model of a family with its tokenizer into a folder that `load_causal_lm` reads."""
    tokenizer = byte_tokenizer()
    # As in published models, there are more embeddings than the tokenizer has tokens.
    tiny(family, len(tokenizer) + 7, stop_ids, fresh=fresh).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
