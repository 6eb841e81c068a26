"""Shortens a text to a number of tokens: head and tail are kept, and a line says what is missing between them."""

from __future__ import annotations

from typing import Any


def leave_out_middle(tokenizer: Any, text: str, limit: int) -> str:
    """A text of at most `limit` tokens, the line that says what was left out included.

    A limit shorter than that line keeps one token on each side of it.

    Args:
        tokenizer: counts; of its fast ones the text is cut where they say, of others it is decoded in part.
        text: what to shorten; given back as it is if it is short enough.
        limit: most tokens.
    """
    pieces = _Pieces(tokenizer, text)
    count = len(pieces)
    if count <= limit:
        return text
    keep = limit
    for _ in range(8):  # the seams may take a token more or less
        kept = max(2, min(keep, count - 1))
        head = (kept + 1) // 2
        tail = kept - head
        shorter = f"{pieces.head(head)}\n[... {count - kept} tokens left out ...]\n{pieces.tail(tail)}"
        excess = len(_Pieces(tokenizer, shorter)) - limit
        if excess <= 0 or kept == 2:
            break
        keep = kept - excess
    return shorter


class _Pieces:
    """The tokens of a text, and the text up to or from one of them."""

    def __init__(self, tokenizer: Any, text: str) -> None:
        self.tokenizer = tokenizer
        self.text = text
        fast = bool(getattr(tokenizer, "is_fast", False))
        # Not verbose, because a text longer than the model's context is no news here.
        encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=fast, verbose=False)
        self.ids = list(encoded["input_ids"])
        self.offsets = list(encoded["offset_mapping"]) if fast else None

    def __len__(self) -> int:
        return len(self.ids)

    def head(self, count: int) -> str:
        """The first tokens as text."""
        return self._decode(self.ids[:count]) if self.offsets is None else self.text[: self.offsets[count - 1][1]]

    def tail(self, count: int) -> str:
        """The last tokens as text."""
        return self._decode(self.ids[-count:]) if self.offsets is None else self.text[self.offsets[-count][0] :]

    def _decode(self, ids: list[int]) -> str:
        return str(self.tokenizer.decode(ids, clean_up_tokenization_spaces=False))
