"""Finds out what is right for a language model, by trying it.

Architectures differ in what they bear: padding on the left, a cache whose rows are repeated, an attention mask of our
own. Nothing is concluded from a model's name. Every shortcut is compared, on a few tokens, with plain forward passes
over single rows, and is not taken where it gives anything else.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from wmrl_gym.engines.architecture import HEADS, Architecture, Head, last_hidden
from wmrl_gym.engines.decoding import Method, decode
from wmrl_gym.engines.packing import PackedSequence
from wmrl_gym.engines.preallocated_cache import base_model
from wmrl_gym.engines.shared_prefix import LEAST_SHARED
from wmrl_gym.engines.token_log_probs import Row, row_features
from wmrl_gym.engines.traits import attends_to_everything, bears_left_padding

logger = logging.getLogger(__name__)

TOLERANCE = {torch.float32: 2e-3, torch.float64: 2e-3}
"""Largest error of logits, relative to their spread, that passes as rounding."""
COARSE_TOLERANCE = 0.1
"""Likewise in half precision."""


class UnsupportedArchitecture(ValueError):
    """A model that cannot be run correctly here."""


@torch.no_grad()
def examine(model: Any, device: torch.device | str = "cpu") -> Architecture:
    """Find out what is right for a model.

    Args:
        model: a causal language model in evaluation mode, or a PEFT model around one.
        device: where it lives.

    Raises:
        UnsupportedArchitecture: if it is wrapped by a distributed trainer, or if not even rows of equal length can be
            generated as its own forward pass says.
    """
    refuse_wrappers(model)
    trial = _Trial(model, device)
    head = trial.head()
    whole = attends_to_everything(model)
    decoding: Method
    if whole and trial.decodes("shared"):
        decoding = "shared"
    elif bears_left_padding(model) and trial.decodes("padded"):
        decoding = "padded"
    elif trial.decodes("even") or trial.coarse:
        decoding = "even"
    else:
        raise UnsupportedArchitecture(
            f"{trial.name} cannot act here: tokens it generates do not follow the probabilities of its own forward "
            f"pass{trial.problem}\n  use another model, or another version of transformers."
        )
    plain = Architecture(decoding, False, trial.pads_on_the_right(), head, trial.vocabulary)
    branching = replace(plain, branches=True)
    found = branching if whole and trial.branches(branching) else plain
    logger.info("%s: %s", trial.name, found)
    if found.decoding != "shared" or found.head is None:
        apart = "" if found.head is not None else "; logits of whole answers are held at once"
        logger.warning("%s: generates the slower way, %s prompts%s", trial.name, found.decoding, apart)
    return found


def refuse_wrappers(model: Any) -> None:
    """Refuse a model that a distributed trainer has wrapped: its parts cannot be called one by one.

    Raises:
        UnsupportedArchitecture: if it is one.
    """
    name = type(model).__name__
    wrapped = name in ("DistributedDataParallel", "FullyShardedDataParallel", "DataParallel")
    sharded = any(type(parameter.data).__name__ == "DTensor" for parameter in model.parameters())
    if wrapped or sharded or any("FSDP" in base.__name__ for base in type(model).__mro__):
        raise UnsupportedArchitecture(
            f"the model is wrapped for several processes ({name}), which this policy does not drive\n"
            "  give it the model itself (wrapped.module); to train on several GPUs, use a trainer made for that."
        )


class _Trial:
    """A few rows, what plain forward passes say of them, and whether a shortcut says the same."""

    def __init__(self, model: Any, device: torch.device | str) -> None:
        self.model, self.device = model, device
        inner = base_model(model)
        self.name = type(inner).__name__
        self.vocabulary = int(inner.get_output_embeddings().weight.shape[0])
        self.tolerance = TOLERANCE.get(inner.dtype, COARSE_TOLERANCE)
        if torch.is_autocast_enabled(torch.device(device).type):
            self.tolerance = COARSE_TOLERANCE
        self.coarse = self.tolerance == COARSE_TOLERANCE
        self.problem = ""
        common = self._tokens(LEAST_SHARED + 5, 0)
        self.prompts = [
            np.concatenate([common, self._tokens(6, 40)]),
            np.concatenate([common, self._tokens(1, 60)]),
            self._tokens(2, 80),  # shorter than the kernel of a convolution, into which padding could leak
            np.concatenate([common, self._tokens(6, 90)]),
        ]
        self.answers = [self._tokens(count, 100 + 10 * i) for i, count in enumerate((4, 5, 1, 2))]
        self.rows = [np.concatenate(pair) for pair in zip(self.prompts, self.answers, strict=True)]
        self.truth = [self._plain(row) for row in self.rows]

    def _tokens(self, count: int, start: int) -> NDArray[np.int64]:
        size = base_model(self.model).get_input_embeddings().weight.shape[0]
        # From the middle of the vocabulary: control tokens stand at its ends.
        return np.asarray([size // 4 + (13 * (start + i)) % max(1, size // 2) for i in range(count)], np.int64)

    def _plain(self, row: NDArray[np.int64]) -> torch.Tensor:
        return self._logits({"input_ids": self._tensor([row])})[0]

    def _logits(self, arguments: Mapping[str, Any]) -> torch.Tensor:
        logits: torch.Tensor = self.model(**arguments, use_cache=False).logits
        return logits

    def _tensor(self, rows: Sequence[NDArray[np.int64]]) -> torch.Tensor:
        return torch.from_numpy(np.stack(rows)).to(self.device)

    def _same(self, found: torch.Tensor, expected: torch.Tensor) -> bool:
        """Whether logits agree at most positions: a coarse router may send a token or two to another expert."""
        if found.shape != expected.shape:
            return False
        difference = (found.float() - expected.float()).square().mean(-1).sqrt()
        spread = expected.float().std(-1).clamp(min=1e-12)
        errors = difference / spread
        return bool((errors.median() if self.coarse else errors.max()) <= self.tolerance)

    def head(self) -> Head | None:
        for head in HEADS:
            try:
                hidden = last_hidden(self.model, {"input_ids": self._tensor(self.rows[:1])})
                if self._same(head(self.model, hidden)[0], self.truth[0]):
                    return head
            except (AttributeError, TypeError):  # the model has no such setting, or no backbone by that name
                continue
        return None

    def decodes(self, method: Method) -> bool:
        teacher = _Teacher(self.answers)
        try:
            decode(
                self.model,
                self.prompts,
                teacher,
                limits=[5] * len(self.prompts),
                method=method,
                pad_id=0,
                device=self.device,
            )
        except Exception as error:
            self.problem = f" ({type(error).__name__}: {error})"
            return False
        return all(
            len(seen) == len(answer) and self._same(torch.stack(seen), truth[len(prompt) - 1 : -1])
            for seen, answer, prompt, truth in zip(teacher.seen, self.answers, self.prompts, self.truth, strict=True)
        )

    def pads_on_the_right(self) -> bool:
        width = max(len(row) for row in self.rows)
        padded = self._tensor([np.pad(row, (0, width - len(row))) for row in self.rows])
        try:
            found = self._logits({"input_ids": padded})
        except Exception:
            return False
        return all(self._same(found[i, : len(truth)], truth) for i, truth in enumerate(self.truth))

    def branches(self, architecture: Architecture) -> bool:
        """Whether rows that branch behind what they share say what each says alone."""
        members = (0, 1, 3)
        length = LEAST_SHARED + 5
        row = Row(self.prompts[0][:length], [PackedSequence(self.rows[i], length, (i,)) for i in members])
        try:
            features = row_features(self.model, [row], architecture, 0, self.device)[0]
            found = architecture.logits(self.model, features)
        except Exception:
            return False
        ends = [*row.starts[1:], row.width]
        return all(
            self._same(found[start:end], self.truth[i][length:-1])
            for i, start, end in zip(members, row.starts, ends, strict=True)
        )


class _Teacher:
    """A `decoding.TokenChooser` that gives the tokens it was told to, and keeps the logits it was shown."""

    def __init__(self, answers: Sequence[NDArray[np.int64]]) -> None:
        self.answers = answers
        self.seen: list[list[torch.Tensor]] = [[] for _ in answers]

    def __call__(self, logits: torch.Tensor, rows: NDArray[np.int64]) -> tuple[torch.Tensor, NDArray[np.bool_]]:
        chosen = np.zeros(len(rows), np.int64)
        for i, row in enumerate(rows.tolist()):
            if len(self.seen[row]) < len(self.answers[row]):
                chosen[i] = self.answers[row][len(self.seen[row])]
                self.seen[row].append(logits[i].clone())
        goes_on = np.asarray([len(self.seen[row]) < len(self.answers[row]) for row in rows.tolist()])
        return torch.from_numpy(chosen).to(logits.device), goes_on
