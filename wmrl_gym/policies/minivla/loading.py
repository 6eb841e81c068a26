"""Loading: folders of this library, and (through `stanford_checkpoint`) those Stanford published."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from wmrl_gym.policies.causal_lm_loading import add_lora
from wmrl_gym.policies.minivla.action_scale import ActionScale
from wmrl_gym.policies.minivla.action_tokens import ActionCodec, BinnedActions
from wmrl_gym.policies.minivla.action_vq import ActionVQ, VQActions
from wmrl_gym.policies.minivla.images import CROP_AREA
from wmrl_gym.policies.minivla.model import MiniVLAConfig, MiniVLAModel
from wmrl_gym.policies.minivla.policy import MiniVLAPolicy
from wmrl_gym.policies.minivla.saving import MODEL_TYPE
from wmrl_gym.policies.minivla.weights import load_weights


def load_minivla(
    path: str | Path,
    *,
    statistics_key: str | None = None,
    vq_path: str | Path | None = None,
    actions_per_decision: int | None = None,
    tokenizer_path: str | Path | None = None,
    cameras: Sequence[str] | None = None,
    center_crop: bool | None = None,
    train_vision: bool = False,
    lora_rank: int | None = None,
    lora_alpha: int | None = None,
    device: torch.device | str = "cpu",
    dtype: str = "float32",
    compute_dtype: str | None = None,
    batch_size: int | None = None,
    feature_cache_bytes: int = 2**30,
    local_files_only: bool = False,
) -> MiniVLAPolicy:
    """Load a policy from a folder.

    Args:
        path: a folder that `save_pretrained` wrote; or a run folder of Stanford-ILIAD/openvla-mini (config.json,
            dataset_statistics.json, checkpoints/*.pt, of which the last is taken); or one of its checkpoints' files.
        statistics_key: the data set whose action statistics undo the normalisation; None if there is only one.
        vq_path: folder of the quantiser, for a Stanford checkpoint whose actions are codes.
        actions_per_decision: actions in a chunk, n, for actions written in bins; None for the checkpoint's own, which
            is 1 for Stanford's. Another number than it was trained on wants a cold start.
        tokenizer_path: folder or hub name of the language model's tokenizer, for a Stanford checkpoint; None for
            the hub name the checkpoint's language model has.
        cameras: which pictures the model sees; None for the checkpoint's own.
        center_crop: whether the middle nine tenths of a picture are cut out; None for what the checkpoint says.
        train_vision: whether the vision backbones learn, too.
        lora_rank: train low-rank adapters of the language model (and the projector) instead of all its weights;
            needs the extra `wmrl-gym[lora]`.
        lora_alpha: scale of the adapters; None for twice the rank.
        device: where the model is moved to.
        dtype: of the weights, a torch dtype's name. Weights that learn want "float32": small steps vanish in bfloat16.
        compute_dtype: type that matrix products are computed in, "bfloat16" on a GPU; None for the weights' own.
        batch_size: most decisions made at the same time; None for all.
        feature_cache_bytes: see `MiniVLAPolicy`.
        local_files_only: never reach for the network.

    Raises:
        FileNotFoundError: if the folder holds neither layout.
        ValueError: if it does not fit the model, or if its actions are codes for chunks of another length.
    """
    folder = Path(path)
    config_file = (folder.parent.parent if folder.suffix == ".pt" else folder) / "config.json"
    if not config_file.is_file():
        raise FileNotFoundError(
            f"no MiniVLA in {folder}: {config_file} is missing\n"
            "  Give a folder written by `save_pretrained`, or a run folder of openvla-mini (config.json, "
            "dataset_statistics.json, checkpoints/*.pt)."
        )
    settings = json.loads(config_file.read_text())
    if "vla" in settings:
        from wmrl_gym.policies.minivla.stanford_checkpoint import read_stanford_checkpoint

        parts = read_stanford_checkpoint(
            folder,
            settings,
            statistics_key=statistics_key,
            vq_path=vq_path,
            tokenizer_path=tokenizer_path,
            local_files_only=local_files_only,
        )
    else:
        parts = _read_folder(folder, settings, statistics_key)
    if actions_per_decision is not None:
        parts["codec"] = _with_chunk(parts["codec"], actions_per_decision, folder)
    model = parts.pop("model").to(getattr(torch, dtype))
    if lora_rank is not None:
        model.language = add_lora(model.language, lora_rank, lora_alpha)
    model.compute_dtype = None if compute_dtype is None else getattr(torch, compute_dtype)
    if cameras is not None:
        parts["cameras"] = tuple(cameras)
    if center_crop is not None:
        parts["crop_area"] = CROP_AREA if center_crop else None
    return MiniVLAPolicy(
        model,
        **parts,
        train_vision=train_vision,
        device=device,
        batch_size=batch_size,
        feature_cache_bytes=feature_cache_bytes,
    )


def _read_folder(folder: Path, settings: dict[str, Any], statistics_key: str | None) -> dict[str, Any]:
    from safetensors.torch import load_file
    from transformers import AutoTokenizer, PretrainedConfig

    if settings.get("model_type") != MODEL_TYPE:
        raise ValueError(
            f"{folder / 'config.json'} is of model type {settings.get('model_type')!r}, not {MODEL_TYPE!r}\n"
            "  OpenVLA's Hugging Face checkpoints are other models; MiniVLA's are run folders with checkpoints/*.pt."
        )
    model = MiniVLAModel(MiniVLAConfig(**settings["model"]))
    load_weights(model, load_file(folder / "model.safetensors"), folder / "model.safetensors")
    # As it was saved: the config.json beside it is of a kind of model that transformers does not know, and warns of.
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, config=PretrainedConfig())
    statistics = json.loads((folder / "dataset_statistics.json").read_text())
    codec: ActionCodec
    tokens_end = settings["actions"].get("tokens_end", len(tokenizer))
    if settings["actions"]["kind"] == "codes":
        codec = VQActions(tokens_end, ActionVQ.load(folder / "vq"))
    else:
        codec = BinnedActions(tokens_end, settings["actions"]["actions_per_decision"])
    return {
        "model": model,
        "tokenizer": tokenizer,
        "codec": codec,
        "scale": ActionScale.from_statistics(statistics, statistics_key),
        "cameras": tuple(settings["cameras"]),
        "crop_area": settings["crop_area"],
    }


def _with_chunk(codec: ActionCodec, actions_per_decision: int, source: Path) -> ActionCodec:
    if isinstance(codec, BinnedActions):
        return BinnedActions(codec.tokens_end, actions_per_decision)
    if codec.actions_per_decision != actions_per_decision:
        raise ValueError(
            f"the policy in {source} writes chunks of {codec.actions_per_decision} actions as codes, and "
            f"actions_per_decision is {actions_per_decision}: its quantiser knows no other length, leave it null"
        )
    return codec
