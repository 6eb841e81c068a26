"""Any text environment as a data set and a scorer of single answers: an episode of one action."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import gymnasium as gym

from wmrl_gym.core import Outcome, Submission
from wmrl_gym.proxy.episode import expensive_env

COLUMN = "wmrl_reset"
"""How the episode of a row begins: seed and options of `reset`, as JSON."""


class OneTurn:
    """Hands a completion to an environment as the only action of an episode.

    Args:
        env: an `ExpensiveRewardEnv` whose observations and actions are text, and whose episodes end after one action.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        self.env = expensive_env(env)

    def rows(
        self, options: Iterable[Mapping[str, Any] | None] = (None,), *, seed: int = 0, chat: bool = True
    ) -> list[dict[str, Any]]:
        """Rows of a data set for TRL: the first observation of an episode, and how to begin it again.

        Args:
            options: options of `reset`, one mapping per row.
            seed: of `reset`.
            chat: give prompts as a conversation, which TRL puts through the tokenizer's chat template; False as text.

        Raises:
            TypeError: if an observation is no text.
        """
        rows = []
        for given in options:
            observation, _ = self.env.reset(seed=seed, options=None if given is None else dict(given))
            if not isinstance(observation, str):
                raise TypeError(f"the environment shows a {type(observation).__name__}, and TRL's prompts are text")
            prompt = [{"role": "user", "content": observation}] if chat else observation
            rows.append({"prompt": prompt, COLUMN: json.dumps({"seed": seed, "options": given})})
        return rows

    def __call__(self, prompt: Any, completion: Any, row: Mapping[str, Any]) -> Submission | Outcome:
        """What has to be scored, or the outcome where the environment scores by itself.

        Raises:
            KeyError: if the row was not made by `rows`.
            ValueError: if the environment neither asks for a score nor gives one.
        """
        if COLUMN not in row:
            raise KeyError(f"the data set has no column {COLUMN!r}: make its rows with OneTurn.rows")
        self.env.reset(**json.loads(row[COLUMN]))
        submission = self.env.submit(completion_text(completion))
        if submission is not None:
            return submission
        _, _, terminated, truncated, info = self.env.advance(None)
        outcome = info.get("outcome")
        if outcome is not None:
            return outcome  # type: ignore[no-any-return]
        if terminated or truncated:
            return Outcome(None, "unknown", "the episode ended without a score", source="environment")
        raise ValueError(
            f"{type(self.env).__name__} goes on after one action: make it with episodes of one turn, or play them with "
            "TRLRollout"
        )

    def execute(self, submission: Submission) -> Outcome:
        """The environment's own execution."""
        return self.env.execute(submission)


def completion_text(completion: Any) -> str:
    """The text of what TRL calls a completion: itself, or that of a conversation's last message."""
    if isinstance(completion, str):
        return completion
    content = completion[-1].get("content") if completion else None
    if isinstance(content, list):
        return "".join(str(block.get("text", "")) for block in content)
    return content or ""
