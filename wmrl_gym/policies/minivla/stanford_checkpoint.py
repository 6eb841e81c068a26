"""MiniVLA's run folders as Stanford-ILIAD/openvla-mini writes and publishes them.

A run folder holds config.json (the training command's settings, "vla" among them), dataset_statistics.json and
checkpoints/step-*.pt with {"model": {"vision_backbone": ..., "projector": ..., "llm_backbone": ...}}. Sizes are read
off the weights; what no shape tells (attention heads, rotary base) is the architecture's and stands here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from wmrl_gym.policies.minivla.action_scale import ActionScale
from wmrl_gym.policies.minivla.action_tokens import ActionCodec, BinnedActions
from wmrl_gym.policies.minivla.action_vq import ActionVQ, VQActions
from wmrl_gym.policies.minivla.images import CROP_AREA
from wmrl_gym.policies.minivla.model import MiniVLAConfig, MiniVLAModel
from wmrl_gym.policies.minivla.prompting import add_action_tokens
from wmrl_gym.policies.minivla.timm_weights import dino_weights, siglip_weights, vision_settings
from wmrl_gym.policies.minivla.weights import load_weights

BASE_MODELS = {
    "prism-qwen25-extra-dinosiglip-224px+0_5b": ("Qwen/Qwen2.5-0.5B", True),
    "prism-qwen25-dinosiglip-224px+0_5b": ("Qwen/Qwen2.5-0.5B", False),
}
"""Base model -> (hub name of its language model, whether 256 action tokens were added)."""
VISION_HEADS = 16
"""Attention heads of both ViT-L/14 (DINOv2) and ViT-SO400M/14 (SigLIP)."""
LANGUAGE_HEAD_SIZE = 64
"""Width of an attention head of Qwen2.5-0.5B."""


def read_stanford_checkpoint(
    path: Path,
    settings: Mapping[str, Any],
    *,
    statistics_key: str | None,
    vq_path: str | Path | None,
    tokenizer_path: str | Path | None,
    local_files_only: bool,
) -> dict[str, Any]:
    """Model, tokenizer and conventions of a run folder, or of one of its checkpoints.

    Raises:
        ValueError: if the checkpoint is of another model, or lacks a part.
    """
    vla = settings["vla"]
    hub_name, has_action_tokens = BASE_MODELS[_base_model(vla["base_vlm"])]
    checkpoint = path if path.suffix == ".pt" else latest_checkpoint(path)
    run_folder = checkpoint.parent.parent
    tokenizer = _tokenizer(tokenizer_path or hub_name, has_action_tokens, local_files_only)
    action_tokenizer = vla.get("action_tokenizer", "action_tokenizer")
    # Without the extra tokens, bins overwrite the end of the base vocabulary, which does not count special tokens.
    tokens_end = len(tokenizer) if "extra" in action_tokenizer else tokenizer.vocab_size
    codec: ActionCodec
    if vq_path is not None or "vq" in action_tokenizer:
        if vq_path is None:
            raise ValueError(
                f"{run_folder} writes actions in codes ({action_tokenizer}): name its quantiser as vq_path"
            )
        codec = VQActions(tokens_end, ActionVQ.load(vq_path))
    else:
        codec = BinnedActions(tokens_end)
    statistics = json.loads((run_folder / "dataset_statistics.json").read_text())
    return {
        "model": _model(checkpoint, len(tokenizer)),
        "tokenizer": tokenizer,
        "codec": codec,
        "scale": ActionScale.from_statistics(statistics, statistics_key),
        "cameras": _cameras(vla),
        # The middle of a picture is cut out for models that were trained on random cuts.
        "crop_area": CROP_AREA if settings.get("image_aug", False) else None,
    }


def _base_model(name: str) -> str:
    """Which of the known base models a configuration names, by its id or by a folder called after it."""
    for known in BASE_MODELS:
        if known.replace("+", "-") in name.replace("+", "-"):
            return known
    raise ValueError(f"the checkpoint's base model is {name!r}; those that can be loaded are {sorted(BASE_MODELS)}")


def latest_checkpoint(run_folder: Path) -> Path:
    """The checkpoint of the highest step.

    Raises:
        FileNotFoundError: if there is none.
    """
    files = sorted((run_folder / "checkpoints").glob("*.pt"))
    if not files:
        raise FileNotFoundError(
            f"no checkpoint in {run_folder / 'checkpoints'}: step-<number>-epoch-….pt is looked for"
        )
    return files[-1]


def _tokenizer(path: str | Path, has_action_tokens: bool, local_files_only: bool) -> Any:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(path, local_files_only=local_files_only)
    if has_action_tokens:
        add_action_tokens(tokenizer)
    return tokenizer


def _cameras(vla: Mapping[str, Any]) -> tuple[str, ...]:
    wrist, images = bool(vla.get("use_wrist_image", False)), int(vla.get("image_sequence_len", 1))
    cameras = ("agentview", "robot0_eye_in_hand") if wrist else ("agentview",)
    if images != len(cameras):
        raise ValueError(
            f"the checkpoint looks at {images} pictures of {len(cameras)} camera(s): a history of pictures is not "
            "supported, only the newest of each camera"
        )
    return cameras


def _model(checkpoint: Path, token_count: int) -> MiniVLAModel:
    parts = torch.load(checkpoint, map_location="cpu", weights_only=True)["model"]
    if missing := {"vision_backbone", "projector", "llm_backbone"} - set(parts):
        raise ValueError(
            f"{checkpoint} has no weights of {sorted(missing)}: it was saved while they were frozen, and only says "
            "what changed. Save it with all parts, or give a checkpoint of a full fine-tune."
        )
    dino, siglip = (_part(parts["vision_backbone"], f"{name}_featurizer.") for name in ("dino", "siglip"))
    language, projector = _part(parts["llm_backbone"], "llm."), _part(parts["projector"], "projector.")
    rows = language["model.embed_tokens.weight"].shape[0]
    if rows != -(-token_count // 64) * 64:
        raise ValueError(
            f"{checkpoint} embeds {rows} tokens, and the tokenizer has {token_count} (padded to a multiple of 64): "
            "it is not the tokenizer this model was trained with; name the right one as tokenizer_path"
        )
    model = MiniVLAModel(
        MiniVLAConfig(
            dino=vision_settings(dino, VISION_HEADS),
            siglip=vision_settings(siglip, VISION_HEADS),
            language=language_settings(language),
        )
    )
    weights = {f"vision.dino.{name}": values for name, values in dino_weights(dino).items()}
    weights |= {f"vision.siglip.{name}": values for name, values in siglip_weights(siglip).items()}
    weights |= {f"language.{name}": values for name, values in language.items()}
    weights |= {f"projector.{name}": values for name, values in projector.items()}
    load_weights(model, weights, checkpoint)
    return model


def _part(weights: Mapping[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    return {name.removeprefix(prefix): values for name, values in weights.items() if name.startswith(prefix)}


def language_settings(weights: Mapping[str, torch.Tensor]) -> dict[str, Any]:
    """Settings of a Qwen2.5-0.5B, with the sizes of its weights."""
    layers = {name.split(".")[2] for name in weights if name.startswith("model.layers.")}
    attention = "model.layers.0.self_attn"
    return {
        "vocab_size": weights["model.embed_tokens.weight"].shape[0],
        "hidden_size": weights["model.embed_tokens.weight"].shape[1],
        "intermediate_size": weights["model.layers.0.mlp.gate_proj.weight"].shape[0],
        "num_hidden_layers": len(layers),
        "num_attention_heads": weights[f"{attention}.q_proj.weight"].shape[0] // LANGUAGE_HEAD_SIZE,
        "num_key_value_heads": weights[f"{attention}.k_proj.weight"].shape[0] // LANGUAGE_HEAD_SIZE,
        "max_position_embeddings": 32768,
        "rms_norm_eps": 1e-6,
        # Once by transformers 4's name, once by 5's.
        "rope_theta": 1_000_000.0,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1_000_000.0},
        "tie_word_embeddings": True,
        "bos_token_id": None,
        "eos_token_id": None,
        "pad_token_id": None,
    }
