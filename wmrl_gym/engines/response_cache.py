"""Remembers answers on disk, so that a question that was asked before costs nothing."""

from __future__ import annotations

import dataclasses
import json
import os
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from wmrl_gym.core import fingerprint
from wmrl_gym.engines.engine import Answer, Engine, Prompt, Sampling

_FORMAT = 1


class CachedEngine:
    """An engine that asks another one only what is not on disk yet. Implements `engines.engine.Engine`.

    An answer is addressed by the content of its prompt, the schema, the sampling settings and the model's name, and is
    one file, written whole or not at all: any number of processes may share the directory, and be killed. Answers that
    are errors are never kept. A file that cannot be read counts as absent.

    The counts of tokens in a remembered answer are those of its making; its seconds are 0.

    Args:
        engine: who is asked.
        directory: where the answers are kept; made if absent.
        revision: anything that tells apart models that share a name, for example weights that were changed in place.
        write_every: answers asked for between two writings; what a kill can lose.
    """

    def __init__(self, engine: Engine, directory: str | Path, *, revision: str = "", write_every: int = 256) -> None:
        if write_every < 1:
            raise ValueError(f"write_every is {write_every}: give at least 1")
        self.engine = engine
        self.directory = Path(directory)
        self.revision = revision
        self.write_every = write_every
        self._can_write = True

    @property
    def model(self) -> str:
        """Name of the model behind."""
        return self.engine.model

    def generate(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[Answer]:
        """One answer per prompt, in order; of equal prompts one is asked."""
        keys = [self._key(prompt, sampling) for prompt in prompts]
        known: dict[str, Answer] = {}
        for key in dict.fromkeys(keys):
            remembered = self._read(key)
            if remembered is not None:
                known[key] = remembered
        missing: dict[str, Prompt] = {k: p for k, p in zip(keys, prompts, strict=True) if k not in known}
        fresh = dict.fromkeys(missing, True)
        for start in range(0, len(missing), self.write_every):
            part = list(missing.items())[start : start + self.write_every]
            answers = self.engine.generate([prompt for _, prompt in part], sampling)
            if len(answers) != len(part):
                raise RuntimeError(f"{self.model} gave {len(answers)} answers to {len(part)} prompts")
            for (key, _), answer in zip(part, answers, strict=True):
                known[key] = answer
                if answer.text is not None and answer.error is None:
                    self._write(key, answer)
        result = []
        for key in keys:
            # The first asker pays for a fresh answer; those that asked the same beside it had it for nothing.
            result.append(known[key] if fresh.pop(key, False) else _remembered(known[key]))
        return result

    def close(self) -> None:
        """Close the engine behind; the answers stay."""
        self.engine.close()

    def _key(self, prompt: Prompt, sampling: Sampling) -> str:
        # Written out, because the order of a schema's properties matters and a fingerprint of a mapping ignores it.
        schema = json.dumps(prompt.schema, default=dict) if prompt.schema is not None else None
        return fingerprint((_FORMAT, self.model, self.revision, prompt.messages, schema, sampling))

    def _path(self, key: str) -> Path:
        return self.directory / key[:2] / f"{key}.json"

    def _read(self, key: str) -> Answer | None:
        try:
            stored: Any = json.loads(self._path(key).read_text(encoding="utf-8"))
            answer = Answer(**stored)
        except (OSError, ValueError, TypeError):
            return None
        return _remembered(answer) if isinstance(answer.text, str) and answer.error is None else None

    def _write(self, key: str, answer: Answer) -> None:
        path = self._path(key)
        temporary = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(
                "w", encoding="utf-8", dir=path.parent, prefix=".", suffix=".part", delete=False
            ) as file:
                temporary = file.name
                json.dump(dataclasses.asdict(answer), file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except OSError as error:
            if temporary is not None:
                Path(temporary).unlink(missing_ok=True)
            if self._can_write:
                warnings.warn(f"answers cannot be kept in {self.directory}: {error}", RuntimeWarning, stacklevel=3)
            self._can_write = False


def _remembered(answer: Answer) -> Answer:
    if answer.text is None:
        return answer
    return dataclasses.replace(answer, from_cache=True, seconds=0.0)
