"""The nano agent's tokenizer: a byte-level BPE whose tokens are as long as a line of code, but never swallow a name.

Long tokens make generation cheap. Names of columns stand apart, and are cut in the same way in the overview and in
quotes in a script, so that copying a name is copying tokens. To that end the chat template writes the words of an
observation separated by tabs, which scripts do not contain.
"""

from __future__ import annotations

from collections.abc import Iterable

END, USER, AGENT = "<|end|>", "<|user|>", "<|agent|>"

CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    "{%- if message['role'] == 'user' -%}<|user|>{{ message['content'] | replace(' ', '\\t') }}"
    "{%- elif message['role'] == 'assistant' -%}<|agent|>{{ message['content'] }}<|end|>"
    "{%- endif -%}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}<|agent|>{%- endif -%}"
)

_NAME = r"""(?<=[\t"'])[A-Za-z0-9_]+(?=[\t\n"']|$)"""


def train_tokenizer(conversations: Iterable[Iterable[tuple[str, str]]], vocabulary: int = 2048):  # type: ignore[no-untyped-def]
    """Learn the merges from conversations of (observation, answer).

    Returns:
        A `transformers.PreTrainedTokenizerFast` with the chat template.
    """
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split("\n", "merged_with_previous"),
            pre_tokenizers.Split(Regex(_NAME), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[END, USER, AGENT],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    texts = (part for turns in conversations for seen, said in turns for part in (seen.replace(" ", "\t"), said))
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=END,
        pad_token=END,
        additional_special_tokens=[USER, AGENT],
        chat_template=CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
        padding_side="left",
        model_max_length=1024,
    )
