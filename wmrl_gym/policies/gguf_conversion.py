"""From a GGUF file of a Llama to Hugging Face's layout: weights, tokenizer and configuration.

The weights are dequantised to float32, so that they can be trained, and the order of rows that llama.cpp gives the
query and key projections is undone. Only what such a file of the Llama family needs is here: no biases, no experts, a
byte-level BPE.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

CONTROL_TOKEN = 3
"""GGUF's token type of special tokens."""
PRE_TOKENIZERS = ("smollm",)
"""Splitting rules that `tokenizer_from` knows."""
_IN_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_OUTSIDE = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}


class ConversionError(ValueError):
    """A GGUF file holds something that cannot be converted. Says what, and in which file."""


def convert_gguf(source: Path, directory: Path) -> None:
    """Write the model of a GGUF file into an existing folder, as ``from_pretrained`` reads it.

    Raises:
        ConversionError: if it is not a Llama with a tokenizer that is known here.
        ImportError: if the package `gguf` is missing.
    """
    from safetensors.numpy import save_file

    try:
        from gguf import GGUFReader
    except ImportError as error:
        raise ImportError("reading a GGUF file needs the package 'gguf': pip install 'wmrl-gym[smollm2]'") from error
    reader = GGUFReader(source)
    fields = {name: field.contents() for name, field in reader.fields.items()}
    if fields.get("general.architecture") != "llama":
        raise ConversionError(f"{source} holds a '{fields.get('general.architecture')}': only 'llama' is converted")
    weights = _weights(reader, fields, source)
    config = _config(fields, tied="lm_head.weight" not in weights)
    config.save_pretrained(directory)
    _generation_config(fields).save_pretrained(directory)
    tokenizer_from(fields, source).save_pretrained(directory)
    save_file(weights, directory / "model.safetensors", metadata={"format": "pt"})


def _weights(reader: Any, fields: dict[str, Any], source: Path) -> dict[str, NDArray[np.float32]]:
    from gguf import dequantize

    heads = {"attn_q": fields["llama.attention.head_count"], "attn_k": fields["llama.attention.head_count_kv"]}
    weights: dict[str, NDArray[np.float32]] = {}
    for tensor in reader.tensors:
        name = hugging_face_name(tensor.name)
        if name is None:
            raise ConversionError(f"{source} has a tensor '{tensor.name}' that no Llama of transformers has")
        values = np.asarray(dequantize(tensor.data, tensor.tensor_type), np.float32)
        kind = tensor.name.split(".")[-2]
        weights[name] = undo_rotary_permutation(values, heads[kind]) if kind in heads else values
    return weights


def hugging_face_name(name: str) -> str | None:
    """Name in transformers' Llama of a tensor of a GGUF file; None if there is none."""
    parts = name.split(".")
    if parts[-1] != "weight":
        return None
    if len(parts) == 4 and parts[0] == "blk" and parts[2] in _IN_LAYER:
        return f"model.layers.{parts[1]}.{_IN_LAYER[parts[2]]}.weight"
    return f"{_OUTSIDE[parts[0]]}.weight" if len(parts) == 2 and parts[0] in _OUTSIDE else None


def undo_rotary_permutation(weight: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """Rows of a query or key projection in transformers' order, shape unchanged.

    Rotary embeddings turn pairs of coordinates. llama.cpp keeps the two of a pair side by side (0, 1), (2, 3), ...;
    transformers keeps all first ones in the first half of a head and all second ones in the other. The shapes agree
    either way, so a forgotten permutation shows only in what the model says.

    Args:
        weight: shape (heads * head size, width).
        heads: of this projection: keys have fewer than queries where heads share them.
    """
    pairs = weight.shape[0] // heads // 2
    side_by_side = weight.reshape(heads, pairs, 2, -1)
    return np.ascontiguousarray(side_by_side.transpose(0, 2, 1, 3).reshape(weight.shape))


def _config(fields: dict[str, Any], tied: bool) -> Any:
    from transformers import LlamaConfig

    width, heads = fields["llama.embedding_length"], fields["llama.attention.head_count"]
    return LlamaConfig(
        architectures=["LlamaForCausalLM"],
        vocab_size=len(fields["tokenizer.ggml.tokens"]),
        hidden_size=width,
        intermediate_size=fields["llama.feed_forward_length"],
        num_hidden_layers=fields["llama.block_count"],
        num_attention_heads=heads,
        num_key_value_heads=fields["llama.attention.head_count_kv"],
        head_dim=fields.get("llama.rope.dimension_count", width // heads),
        max_position_embeddings=fields["llama.context_length"],
        # Stored in single precision: 1e-5 reads as 9.999999747378752e-06.
        rms_norm_eps=float(f"{fields['llama.attention.layer_norm_rms_epsilon']:.6g}"),
        rope_parameters={"rope_type": "default", "rope_theta": float(fields["llama.rope.freq_base"])},
        tie_word_embeddings=tied,
        bos_token_id=fields["tokenizer.ggml.bos_token_id"],
        eos_token_id=fields["tokenizer.ggml.eos_token_id"],
        pad_token_id=fields["tokenizer.ggml.padding_token_id"],
        dtype="float32",
    )


def _generation_config(fields: dict[str, Any]) -> Any:
    from transformers import GenerationConfig

    return GenerationConfig(
        bos_token_id=fields["tokenizer.ggml.bos_token_id"],
        eos_token_id=fields["tokenizer.ggml.eos_token_id"],
        pad_token_id=fields["tokenizer.ggml.padding_token_id"],
    )


def tokenizer_from(fields: dict[str, Any], source: Path) -> Any:
    """The tokenizer, its special tokens and its chat template, from the fields of a GGUF file.

    Returns:
        A `transformers.PreTrainedTokenizerFast` that pads on the left, as generation needs it.

    Raises:
        ConversionError: if the file's kind of tokenizer is not known.
    """
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    kind, rule = fields.get("tokenizer.ggml.model"), fields.get("tokenizer.ggml.pre")
    if kind != "gpt2" or rule not in PRE_TOKENIZERS:
        raise ConversionError(
            f"{source} has a tokenizer '{kind}' that splits text by the rule '{rule}'\n"
            f"  known is 'gpt2' (byte-level BPE) with one of: {', '.join(PRE_TOKENIZERS)}."
        )
    tokens = fields["tokenizer.ggml.tokens"]
    merges = [tuple(pair.split(" ", 1)) for pair in fields["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE(vocab={token: index for index, token in enumerate(tokens)}, merges=merges))
    # The rule "smollm": every digit stands alone, then GPT-2's words.
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    special = [
        token for token, kind in zip(tokens, fields["tokenizer.ggml.token_type"], strict=True) if kind == CONTROL_TOKEN
    ]
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=tokens[fields["tokenizer.ggml.bos_token_id"]],
        eos_token=tokens[fields["tokenizer.ggml.eos_token_id"]],
        pad_token=tokens[fields["tokenizer.ggml.padding_token_id"]],
        unk_token=tokens[fields["tokenizer.ggml.unknown_token_id"]],
        chat_template=fields["tokenizer.chat_template"],
        clean_up_tokenization_spaces=False,
        padding_side="left",
        model_max_length=fields["llama.context_length"],
    )
