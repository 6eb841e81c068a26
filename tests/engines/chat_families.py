"""Chat templates as the well-known families of models have them, over a tokenizer of bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

CHATML = (
    "{%- for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{%- endif %}"
)
# Thinks unless told not to, and leaves the thoughts of earlier turns out.
HYBRID = (
    "{%- for m in messages %}{%- set content = m.content %}"
    "{%- if m.role == 'assistant' %}{%- set content = content.split('</think>')[-1].lstrip('\n') %}{%- endif %}"
    "{%- if m.role == 'assistant' and loop.last %}{%- set content = '<think>\n\n</think>\n\n' + content %}{%- endif %}"
    "{{ '<|im_start|>' + m.role + '\n' + content + '<|im_end|>\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}"
    "{%- if enable_thinking is defined and enable_thinking is false %}{{ '<think>\n\n</think>\n\n' }}{%- endif %}"
    "{%- endif %}"
)
THINKING = HYBRID.replace(
    "{%- if enable_thinking is defined and enable_thinking is false %}{{ '<think>\n\n</think>\n\n' }}{%- endif %}",
    "{{ '<think>\n' }}",
)
HEADERS = (
    "{{ '<|begin_of_text|>' }}{%- for m in messages %}"
    "{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\n\n' + m.content | trim + '<|eot_id|>' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{%- endif %}"
)
_ALTERNATING = (
    "{%- for m in messages %}{%- if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{%- endif %}"
    "{%- if m.role == 'user' and not m.content | trim %}{{ raise_exception('Empty message') }}{%- endif %}"
)
TURNS = (
    "{{ '<bos>' }}{%- if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{%- endif %}"
    + _ALTERNATING
    + "{%- set role = 'model' if m.role == 'assistant' else m.role %}"
    "{{ '<start_of_turn>' + role + '\n' + m.content | trim + '<end_of_turn>\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{%- endif %}"
)
# The system prompt goes with the last message, so that later turns read otherwise than they were asked.
INSTRUCTIONS = (
    "{{ '<s>' }}{%- if messages[0].role == 'system' %}{%- set system = messages[0].content %}"
    "{%- set messages = messages[1:] %}{%- endif %}"
    + _ALTERNATING
    + "{%- if m.role == 'user' %}{%- set said = system + '\n\n' + m.content if loop.last and system else m.content %}"
    "{{ '[INST] ' + said + ' [/INST]' }}{%- else %}{{ ' ' + m.content + '</s>' }}{%- endif %}{%- endfor %}"
)
# A system's message is dropped without a word; the answer is followed by words and by no token of its own.
WORDS = (
    "{%- for m in messages %}{%- if m.role == 'user' %}{{ 'USER: ' + m.content + '\n' }}"
    "{%- elif m.role == 'assistant' %}{{ 'ASSISTANT: ' + m.content + '\n' }}{%- endif %}{%- endfor %}"
    "{%- if add_generation_prompt %}{{ 'ASSISTANT:' }}{%- endif %}"
)
# Special tokens for thoughts, and an end of turn that is an added token without being called special.
BRACKETS = (
    "{%- for m in messages %}{{ '<|' + m.role + '|>' + m.content + '<|done|>' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{ '<|assistant|>[THINK]' }}{%- endif %}"
)

IM = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
THINK = ("<think>", "</think>")
FAMILIES: dict[str, tuple[str, Sequence[str], Sequence[str], str, str]] = {
    "chatml": (CHATML, IM, (), "<|im_end|>", "<|im_end|>"),
    "hybrid": (HYBRID, IM, THINK, "<|endoftext|>", "<|im_end|>"),
    "thinking": (THINKING, IM, THINK, "<|im_end|>", "<|im_end|>"),
    "headers": (
        HEADERS,
        ("<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"),
        (),
        "<|end_of_text|>",
        "<|eot_id|>",
    ),
    "turns": (TURNS, ("<eos>", "<bos>", "<start_of_turn>", "<end_of_turn>"), (), "<eos>", "<end_of_turn>"),
    "instructions": (INSTRUCTIONS, ("<s>", "</s>", "[INST]", "[/INST]"), (), "</s>", "</s>"),
    "words": (WORDS, ("<s>", "</s>"), (), "</s>", "</s>"),
    "brackets": (BRACKETS, ("<|pad|>", "[THINK]", "[/THINK]"), ("<|done|>",), "<|pad|>", "<|done|>"),
}
"""Template, special tokens, added tokens that are not special, the tokenizer's end, the end of a turn."""


def byte_tokenizer(template: str | None, special: Sequence[str], added: Sequence[str], eos: str | None) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    raw = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(alphabet)}, merges=[]))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    raw.add_special_tokens(list(special))
    raw.add_tokens(list(added))
    settings = {} if eos is None else {"eos_token": eos}
    return PreTrainedTokenizerFast(tokenizer_object=raw, chat_template=template, **settings)


def family(name: str) -> Any:
    template, special, added, eos, _ = FAMILIES[name]
    return byte_tokenizer(template, special, added, eos)
