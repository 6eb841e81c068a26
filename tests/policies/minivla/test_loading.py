"""Folders of this library, and run folders as Stanford-ILIAD/openvla-mini writes them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from wmrl_gym.policies.minivla import MiniVLAPolicy, tiny_minivla
from wmrl_gym.policies.minivla.action_scale import ActionScale
from wmrl_gym.policies.minivla.loading import load_minivla
from wmrl_gym.policies.minivla.stanford_checkpoint import language_settings
from wmrl_gym.policies.minivla.tiny import load_tiny_minivla, tiny_config, tiny_tokenizer

Make = Callable[..., list[Any]]
HEADS, WIDTH, SIDE = 16, 64, 42


def act(policy: MiniVLAPolicy, observations: list[Any]) -> list[Any]:
    count = len(observations)
    return policy.act(observations, histories=[[]] * count, seeds=[(i,) for i in range(count)])


def assert_same(one: MiniVLAPolicy, other: MiniVLAPolicy, observations: list[Any]) -> None:
    for a, b in zip(act(one, observations), act(other, observations), strict=True):
        np.testing.assert_array_equal(a.token_ids, b.token_ids)
        np.testing.assert_allclose(a.log_probs, b.log_probs, atol=2e-5)
        np.testing.assert_array_equal(a.action, b.action)


def test_a_saved_policy_acts_the_same(make_observations: Make, tmp_path: Path) -> None:
    scale = ActionScale(np.full(7, -0.5), np.full(7, 0.75), np.array([True] * 6 + [False]))
    cameras = ("agentview", "robot0_eye_in_hand")
    policy = tiny_minivla(
        3, actions_per_decision=2, image_size=28, width=64, layers=2, scale=scale, cameras=cameras, crop_area=None
    )
    policy.save_pretrained(tmp_path)
    loaded = load_minivla(tmp_path)
    assert (loaded.cameras, loaded.crop_area, loaded.train_vision) == (cameras, None, False)
    assert_same(policy, loaded, make_observations(3, cameras=cameras))
    assert "language.lm_head.weight" not in load_names(tmp_path)


@pytest.mark.slow
def test_loading_says_nothing(tmp_path: Path) -> None:
    tiny_minivla(image_size=28, width=64, layers=1).save_pretrained(tmp_path)
    script = f"from wmrl_gym.policies.minivla import load_minivla; load_minivla({str(tmp_path)!r})"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert (run.stdout, run.stderr) == ("", "")


def load_names(folder: Path) -> set[str]:
    from safetensors import safe_open

    with safe_open(folder / "model.safetensors", "pt") as file:
        return set(file.keys())


def test_a_tiny_policy_is_new_or_from_a_folder(make_observations: Make, tmp_path: Path) -> None:
    new = load_tiny_minivla(seed=5, actions_per_decision=2)
    assert_same(new, load_tiny_minivla(seed=5, actions_per_decision=2), make_observations(2))
    new.save_pretrained(tmp_path)
    stored = load_tiny_minivla(tmp_path, seed=6, actions_per_decision=2)
    assert stored.train_vision
    assert_same(new, stored, make_observations(2))
    with pytest.raises(ValueError, match="chunks of 2"):
        load_tiny_minivla(tmp_path, actions_per_decision=8)


def test_adapters_change_nothing_at_first_learn_alone_and_are_merged(make_observations: Make, tmp_path: Path) -> None:
    tiny_minivla(image_size=28, width=64, layers=2).save_pretrained(tmp_path / "base")
    plain = load_minivla(tmp_path / "base")
    policy = load_minivla(tmp_path / "base", lora_rank=4)
    observations = make_observations(3)
    assert_same(plain, policy, observations)
    names = set(policy.state_dict())
    assert all("lora_" in name or name.startswith("projector.") for name in names)
    assert any("lora_B" in name for name in names)
    optimizer = torch.optim.SGD(policy.parameters(), lr=0.5)
    policy.log_probs(act(policy, observations))[0].sum().backward()
    optimizer.step()
    policy.log_probs(act(policy, observations))[0].sum().backward()  # now through adapters that are not zero
    optimizer.step()
    policy.save_pretrained(tmp_path / "merged")
    assert not any("lora" in name for name in load_names(tmp_path / "merged"))
    decisions = act(policy, observations)
    merged = load_minivla(tmp_path / "merged").log_probs(decisions)[0]
    torch.testing.assert_close(policy.log_probs(decisions)[0], merged, atol=1e-4, rtol=0)
    assert not torch.allclose(plain.log_probs(decisions)[0], merged, atol=1e-2)
    state = {name: values.clone() for name, values in policy.state_dict().items()}
    fresh = load_minivla(tmp_path / "base", lora_rank=4)
    fresh.load_state_dict(state)
    torch.testing.assert_close(policy.log_probs(decisions)[0], fresh.log_probs(decisions)[0], atol=2e-5, rtol=0)


@pytest.mark.parametrize("types", [{"compute_dtype": "bfloat16"}, {"dtype": "bfloat16"}])
def test_half_precision_acts_and_learns_nearly_the_same(
    make_observations: Make, tmp_path: Path, types: dict[str, str]
) -> None:
    tiny_minivla(image_size=28, width=64, layers=2).save_pretrained(tmp_path)
    plain, half = load_minivla(tmp_path), load_minivla(tmp_path, **types)  # type: ignore[arg-type]
    decisions = act(half, make_observations(3))
    log_probs = half.log_probs(decisions)[0]
    np.testing.assert_allclose(log_probs.detach(), np.stack([d.log_probs for d in decisions]), atol=0.02)
    difference = (log_probs - plain.log_probs(decisions)[0]).abs().max().item()
    assert 0 < difference < 0.05
    log_probs.sum().backward()
    weights = list(half.parameters())
    assert {weight.dtype for weight in weights} == {torch.bfloat16 if "dtype" in types else torch.float32}
    assert all(weight.grad is not None and bool(weight.grad.isfinite().all()) for weight in weights)


def language_weights(vocabulary: int) -> dict[str, torch.Tensor]:
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(1)
    settings = {**tiny_config(vocabulary, width=WIDTH, layers=2).language}
    weights = Qwen2ForCausalLM(Qwen2Config(**settings)).state_dict()
    return {f"llm.{name}": values.clone() for name, values in weights.items()}


def write_stanford_run(folder: Path, **changed: Any) -> dict[str, Any]:
    """A run folder with timm's names, vision weights as timm made them, and everything else small."""
    stored = np.load(Path(__file__).parent / "data" / "timm_features.npz")
    vision = {}
    for name in stored.files:
        part, _, rest = name.partition(".")
        if rest:
            vision[f"{part}_featurizer.{rest}"] = torch.from_numpy(stored[name].astype(np.float32))
    torch.manual_seed(2)
    sizes = [(4 * 64, 64), (WIDTH, 4 * 64), (WIDTH, WIDTH)]
    projector = {}
    for index, (outputs, inputs) in zip((0, 2, 4), sizes, strict=True):
        projector[f"projector.{index}.weight"] = torch.randn(outputs, inputs) * inputs**-0.5
        projector[f"projector.{index}.bias"] = torch.randn(outputs) * 0.1
    tokenizer = tiny_tokenizer(action_tokens=False)
    tokenizer.save_pretrained(folder / "tokenizer")
    vocabulary = -(-(len(tokenizer) + 256) // 64) * 64
    model = {
        "vision_backbone": vision,
        "projector": projector,
        "llm_backbone": language_weights(vocabulary),
    } | changed.pop("model", {})
    vla = {
        "base_vlm": "prism-qwen25-extra-dinosiglip-224px+0_5b",
        "action_tokenizer": "extra_action_tokenizer",
        "image_sequence_len": 1,
        "use_wrist_image": False,
    } | changed.pop("vla", {})
    statistics = {"libero_90": {"action": {"q01": [-0.5] * 7, "q99": [0.5] * 7, "mask": [True] * 6 + [False]}}}
    (folder / "checkpoints").mkdir()
    (folder / "config.json").write_text(json.dumps({"vla": vla, "image_aug": True, **changed}))
    (folder / "dataset_statistics.json").write_text(json.dumps(statistics))
    older = {**model, "projector": {name: torch.zeros_like(values) for name, values in projector.items()}}
    torch.save({"model": older}, folder / "checkpoints" / "step-000500-epoch-00-loss=9.0000.pt")
    torch.save({"model": model}, folder / "checkpoints" / "step-122500-epoch-55-loss=0.0743.pt")
    return {"features": torch.from_numpy(stored["features"]), "image": stored["image"], "model": model}


def load_run(folder: Path, **settings: Any) -> MiniVLAPolicy:
    return load_minivla(folder, tokenizer_path=folder / "tokenizer", **settings)


def test_a_stanford_run_is_loaded_with_all_its_conventions(tmp_path: Path) -> None:
    written = write_stanford_run(tmp_path)
    policy = load_run(tmp_path)
    assert policy.crop_area == 0.9
    assert policy.codec.first_token + 256 == len(policy.tokenizer)
    assert policy.tokenizer.convert_ids_to_tokens(policy.codec.first_token) == "<|extra_0|>"
    assert policy.scale.high.tolist() == [0.5] * 7
    assert not policy.train_vision
    policy.crop_area = None  # timm's features are of the whole picture
    observation = {"agentview_image": written["image"], "instruction": "close it"}
    torch.testing.assert_close(policy.features([observation])[0], written["features"], atol=5e-5, rtol=0)
    decision = act(policy, [observation])[0]
    assert decision.action.shape == (1, 7)
    assert np.abs(decision.action[:, :6]).max() <= 0.5


@torch.no_grad()
def test_the_image_stands_behind_the_first_token(tmp_path: Path) -> None:
    """The first token's distribution, put together by hand as Prismatic does it."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    written = write_stanford_run(tmp_path)
    policy = load_run(tmp_path, center_crop=False)
    observation = {"agentview_image": written["image"], "instruction": "close it"}
    decision = act(policy, [observation])[0]
    weights = written["model"]
    settings = tiny_config(weights["llm_backbone"]["llm.lm_head.weight"].shape[0], width=WIDTH, layers=2).language
    rope = {"rope_type": "default", "rope_theta": 1e6}
    model = Qwen2ForCausalLM(Qwen2Config(**settings, rope_theta=1e6, rope_parameters=rope)).eval()
    model.load_state_dict({name.removeprefix("llm."): values for name, values in weights["llm_backbone"].items()})
    patches = written["features"]
    for index in (0, 2, 4):
        weight, bias = (weights["projector"][f"projector.{index}.{kind}"] for kind in ("weight", "bias"))
        patches = patches @ weight.T + bias
        if index < 4:
            patches = torch.nn.functional.gelu(patches)
    words = model.get_input_embeddings()(torch.from_numpy(decision.prompt_ids))
    sequence = torch.cat([words[:1], patches, words[1:]])[None]
    logits = model(inputs_embeds=sequence).logits[0, -1]
    end = len(policy.tokenizer)
    by_hand = torch.log_softmax(logits[end - 256 : end], 0)[decision.token_ids[0] - (end - 256)]
    assert by_hand.item() == pytest.approx(float(decision.log_probs[0]), abs=1e-4)


def test_one_checkpoint_s_file_can_be_named(tmp_path: Path) -> None:
    write_stanford_run(tmp_path)
    last = load_run(tmp_path)
    older = load_minivla(
        tmp_path / "checkpoints" / "step-000500-epoch-00-loss=9.0000.pt", tokenizer_path=tmp_path / "tokenizer"
    )
    assert float(older.model.projector[0].weight.detach().abs().sum()) == 0
    assert float(last.model.projector[0].weight.detach().abs().sum()) > 0


def test_a_stanford_run_with_wrist_pictures_and_without_augmentation(tmp_path: Path) -> None:
    write_stanford_run(tmp_path, vla={"use_wrist_image": True, "image_sequence_len": 2}, image_aug=False)
    policy = load_run(tmp_path)
    assert policy.cameras == ("agentview", "robot0_eye_in_hand")
    assert policy.crop_area is None
    assert load_run(tmp_path, center_crop=True).crop_area == 0.9


def test_a_run_trained_from_a_folder_of_the_base_model(tmp_path: Path) -> None:
    write_stanford_run(tmp_path, vla={"base_vlm": "/data/runs/prism-qwen25-extra-dinosiglip-224px-0_5b"})
    assert load_run(tmp_path).codec.token_count == 256


def test_without_extra_tokens_bins_are_the_end_of_the_base_vocabulary(tmp_path: Path) -> None:
    tokenizer = tiny_tokenizer(action_tokens=False)
    rows = -(-len(tokenizer) // 64) * 64
    write_stanford_run(
        tmp_path,
        vla={"base_vlm": "prism-qwen25-dinosiglip-224px+0_5b", "action_tokenizer": "action_tokenizer"},
        model={"llm_backbone": language_weights(rows)},
    )
    # Qwen's vocab_size does not count the special tokens, and its length does.
    tokenizer.add_tokens(["<|tool|>"], special_tokens=True)
    tokenizer.save_pretrained(tmp_path / "tokenizer")
    policy = load_run(tmp_path)
    assert policy.codec.first_token == tokenizer.vocab_size - 256 == len(tokenizer) - 1 - 256
    policy.save_pretrained(tmp_path / "saved")
    assert load_minivla(tmp_path / "saved").codec.first_token == policy.codec.first_token


def test_a_run_of_single_actions_is_loaded_to_learn_chunks(tmp_path: Path) -> None:
    written = write_stanford_run(tmp_path)
    policy = load_run(tmp_path, actions_per_decision=4)
    observation = {"agentview_image": written["image"], "instruction": "close it"}
    assert act(policy, [observation])[0].action.shape == (4, 7)
    assert policy.codec.first_token == load_run(tmp_path).codec.first_token
    policy.save_pretrained(tmp_path / "saved")
    assert load_minivla(tmp_path / "saved").codec.actions_per_decision == 4


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"vla": {"base_vlm": "prism-dinosiglip-224px+7b"}}, "base model is 'prism-dinosiglip"),
        ({"vla": {"image_sequence_len": 2}}, "history of pictures"),
        ({"vla": {"action_tokenizer": "libero_vq_extra_action_tokenizer"}}, "vq_path"),
    ],
)
def test_what_cannot_be_loaded_is_said(tmp_path: Path, changed: dict[str, Any], message: str) -> None:
    write_stanford_run(tmp_path, **changed)
    with pytest.raises(ValueError, match=message):
        load_run(tmp_path)


def test_broken_checkpoints_are_told(tmp_path: Path) -> None:
    written = write_stanford_run(tmp_path)
    last = tmp_path / "checkpoints" / "step-122500-epoch-55-loss=0.0743.pt"
    model = written["model"]
    torch.save({"model": {name: model[name] for name in ("projector", "llm_backbone")}}, last)
    with pytest.raises(ValueError, match=r"no weights of \['vision_backbone'\]"):
        load_run(tmp_path)
    torch.save({"model": {**model, "projector": {**model["projector"], "projector.9.weight": torch.zeros(1)}}}, last)
    with pytest.raises(ValueError, match=r"projector.9.weight: the file has \(1,\), the model None"):
        load_run(tmp_path)
    torch.save({"model": {**model, "llm_backbone": language_weights(64)}}, last)
    with pytest.raises(ValueError, match="tokenizer_path"):
        load_run(tmp_path)


def test_folders_of_something_else_are_told(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no MiniVLA in"):
        load_minivla(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "openvla"}))
    with pytest.raises(ValueError, match="'openvla'"):
        load_minivla(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"vla": {"base_vlm": "prism-qwen25-extra-dinosiglip-224px+0_5b"}}))
    with pytest.raises(FileNotFoundError, match="no checkpoint"):
        load_minivla(tmp_path)


def test_sizes_of_the_real_language_model_are_read_off_its_weights() -> None:
    """Qwen2.5-0.5B's published configuration; nothing is allocated."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    published = {
        "vocab_size": 151936,
        "hidden_size": 896,
        "intermediate_size": 4864,
        "num_hidden_layers": 24,
        "num_attention_heads": 14,
        "num_key_value_heads": 2,
        "tie_word_embeddings": True,
    }
    with torch.device("meta"):
        model = Qwen2ForCausalLM(Qwen2Config(**published))
    assert sum(parameter.numel() for parameter in model.parameters()) == 494_032_768
    settings = language_settings(model.state_dict())
    assert {name: settings[name] for name in published} == published
    config = Qwen2Config(**settings)
    assert (getattr(config, "rope_parameters", None) or {"rope_theta": config.rope_theta})["rope_theta"] == 1e6
