"""The planted circuit copies before any training, and a random model does not."""

from __future__ import annotations

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from wmrl_gym.policies.nano_induction import plant_induction


def repetition_loss(planted: bool) -> tuple[float, float, float]:
    """Cross-entropy on a repeated random sequence, and the attention of both heads where it should be."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=2048,
        hidden_size=192,
        intermediate_size=512,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        initializer_range=192**-0.5,
        tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 500_000.0},
        attn_implementation="eager",
    )
    model = LlamaForCausalLM(config).eval()
    if planted:
        plant_induction(model)
    ids = torch.randint(3, 2048, (4, 50)).repeat(1, 2)
    with torch.no_grad():
        output = model(input_ids=ids, output_attentions=True)
    loss = torch.nn.functional.cross_entropy(output.logits[:, 50:-1].flatten(0, 1), ids[:, 51:].flatten())
    back = output.attentions[0][:, 0].diagonal(-1, dim1=1, dim2=2).mean()
    match = output.attentions[1][:, 0, 50:99, 1:50].diagonal(0, dim1=1, dim2=2).mean()
    return float(loss), float(back), float(match)


def test_planted_heads_look_back_and_match_at_once() -> None:
    loss, back, match = repetition_loss(planted=True)
    random_loss, random_back, random_match = repetition_loss(planted=False)
    assert back > 0.7 and match > 0.3
    assert random_back < 0.2 and random_match < 0.1
    assert loss < random_loss - 1
