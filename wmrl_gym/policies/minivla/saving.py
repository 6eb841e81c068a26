"""Writing a MiniVLA to a folder that `load_minivla` reads."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from wmrl_gym.policies.minivla.action_scale import ActionScale
from wmrl_gym.policies.minivla.action_tokens import ActionCodec
from wmrl_gym.policies.minivla.action_vq import VQActions
from wmrl_gym.policies.minivla.model import MiniVLAModel
from wmrl_gym.policies.minivla.timm_weights import current_name

MODEL_TYPE = "minivla"


def write_minivla(
    directory: str | Path,
    *,
    model: MiniVLAModel,
    tokenizer: Any,
    codec: ActionCodec,
    scale: ActionScale,
    cameras: Sequence[str],
    crop_area: float | None,
) -> None:
    """Write weights, tokenizer and settings; adapters are merged into the language model.

    The folder holds config.json, model.safetensors, dataset_statistics.json, the tokenizer's files and, if actions are
    written in codes, the quantiser under vq/.
    """
    from safetensors.torch import save_file

    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    if hasattr(model.language, "merge_and_unload"):
        model = copy.deepcopy(model)
        model.language = model.language.merge_and_unload()
    settings = {
        "model_type": MODEL_TYPE,
        "model": model.config.to_dict(),
        "actions": {
            "kind": "codes" if isinstance(codec, VQActions) else "bins",
            "actions_per_decision": codec.actions_per_decision,
            # Not always the tokenizer's length: without extra tokens, actions are the end of the base vocabulary.
            "tokens_end": codec.first_token + codec.token_count,
        },
        "cameras": list(cameras),
        "crop_area": crop_area,
    }
    (folder / "config.json").write_text(json.dumps(settings, indent=2) + "\n")
    statistics = {"actions": {"action": scale.to_statistics()}}
    (folder / "dataset_statistics.json").write_text(json.dumps(statistics, indent=2) + "\n")
    tokenizer.save_pretrained(folder)
    tied = model.causal_lm.config.tie_word_embeddings
    weights = {
        current_name(name): values.contiguous()
        for name, values in model.state_dict().items()
        if not (tied and name == "language.lm_head.weight")
    }
    save_file(weights, folder / "model.safetensors")
    if isinstance(codec, VQActions):
        codec.quantiser.save(folder / "vq")
